"""Resizing inputs: find the dimensions that are batch, seq, height, width or frames, and change their sizes.

Existing values are repeated, so token ids stay valid. An ambiguous dimension raises an error that lists all shapes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from assay import units
from assay.errors import UsageError
from assay.messages import one_line
from assay.sources.inference.layers import learned_positions
from assay.sources.inputs import Inputs
from assay.sources.needs import is_tensor, need
from assay.sources.opened import Opened

_FOLLOWERS = ("decoder_input_ids", "decoder_attention_mask", "decoder_inputs_embeds", "decoder_position_ids")
"""A decoder's own inputs, whose length is set to `seq` even if it was different before."""
_PATCHES = (
    ("grid_thw", "hidden_states"),
    ("grid_thw", "pixel_values"),
    ("image_grid_thw", "pixel_values"),
    ("video_grid_thw", "pixel_values_videos"),
)
"""Inputs with one row per image, and those with the rows of all patches of all images."""
_LARGEST_VALUES = 1 << 26
"""Bytes of an integer tensor above which its values are given up if only shapes matter."""
_MASKS = ("mask", "bias")
"""Substrings of input names that may have the sequence length in several dimensions."""


@dataclass(frozen=True)
class Leaf:
    """A tensor among the inputs."""

    name: str
    shape: tuple[int, ...]
    integer: bool


@dataclass(frozen=True)
class Axis:
    """A dimension that can be varied: its current size and where it occurs in the inputs."""

    name: str
    size: int
    places: tuple[tuple[int, int], ...]
    """Pairs of (index of the tensor in `leaves`, dimension)."""
    text: tuple[str, ...]
    """The same as text: `dim 1 of input_ids`."""


def axes(inputs: Inputs, names: Sequence[str]) -> dict[str, Axis]:
    """The axis for each of `names`, in the same order; raises `UsageError` if the inputs do not have it."""
    tensors = leaves(inputs)
    if not names or len(set(names)) < len(names):
        raise UsageError(f"expected each of {', '.join(_FINDERS)} at most once, got {', '.join(names) or 'no name'}")
    result: dict[str, Axis] = {}
    for name in names:
        if name not in _FINDERS:
            raise UsageError(f"cannot vary {one_line(name)!r}: expected {', '.join(_FINDERS)}; {_shapes(tensors)}")
        places = sorted(set(_FINDERS[name](tensors)))
        if not places:
            raise UsageError(f"cannot vary {name}: no input {_NEEDED[name]} ({_each_shape(tensors)})")
        leaf, dim = places[0]
        text = tuple(f"dim {dim} of {tensors[leaf].name}" for leaf, dim in places)
        result[name] = Axis(name, tensors[leaf].shape[dim], tuple(places), text)
    _require_distinct(result, tensors)
    return result


def resized(inputs: Inputs, *, base: Mapping[str, Axis] | None = None, **sizes: int | None) -> Inputs:
    """The inputs with new sizes: `resized(inputs, batch=8, seq=64)`. A size of None leaves the axis unchanged.

    `base` is the result of `axes` for these inputs, if the caller has it already.
    """
    return _resized(inputs, base, sizes, lambda tensor, _: tensor)


def resized_shapes(inputs: Inputs, *, base: Mapping[str, Axis] | None = None, **sizes: int | None) -> Inputs:
    """Like `resized`, for a pass on shapes: resized tensors take no memory unless they are small and of integers."""
    return _resized(inputs, base, sizes, _without_data)


def _resized(
    inputs: Inputs,
    base: Mapping[str, Axis] | None,
    sizes: Mapping[str, int | None],
    prepare: Callable[[Any, float], Any],
) -> Inputs:
    """The inputs with new sizes; `prepare` is called with each tensor and the factor by which it grows."""
    new_sizes = {name: size for name, size in sizes.items() if size is not None}
    inputs_axes = base if base is not None else axes(inputs, list(new_sizes))
    pytree = need("torch").utils._pytree
    flat, structure = pytree.tree_flatten((inputs.args, inputs.kwargs))
    positions = [index for index, value in enumerate(flat) if is_tensor(value)]
    for name, size in new_sizes.items():
        kept = inputs.placeholders if name == "seq" else 0
        if size <= kept:
            raise UsageError(f"seq={size} is too short: the first {kept} tokens stand for images or sound")
        for leaf, dim in inputs_axes[name].places:
            tensor = flat[positions[leaf]]
            times = tensor.shape[dim] // inputs_axes[name].size if name == "batch" else 1
            prepared = prepare(tensor, size * times / tensor.shape[dim])
            flat[positions[leaf]] = _with_size(prepared, dim, size * times, kept)
    args, kwargs = pytree.tree_unflatten(flat, structure)
    return replace(inputs, args=args, kwargs=kwargs, flops=0)


def leaves(inputs: Inputs) -> list[Leaf]:
    """The tensors in the inputs, positional arguments first; raises `UsageError` for a nested tensor."""
    flatten = need("torch").utils._pytree.tree_flatten_with_path
    named = [(f"args[{index}]", value) for index, value in enumerate(inputs.args)] + list(inputs.kwargs.items())
    tensors: list[Leaf] = []
    for name, value in named:
        for path, tensor in flatten(value)[0]:
            if is_tensor(tensor):
                label = name + "".join(str(key) for key in path)
                if tensor.is_nested:
                    raise UsageError(f"cannot vary sizes: {label} is a nested tensor, which cannot be resized")
                integer = not (tensor.is_floating_point() or tensor.is_complex())
                tensors.append(Leaf(label, tuple(tensor.shape), integer))
    return tensors


def position_limit(opened: Opened) -> int | None:
    """The longest sequence that the model's config and learned positions allow; None if there is no limit."""
    config: Any = opened.model.config
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    configured = getattr(text, "max_position_embeddings", None)
    limits = [each for each in (configured, learned_positions(opened.module)) if isinstance(each, int) and each > 0]
    limit = min(limits)
    return None if limit == sys.maxsize else limit


def _without_data(tensor: Any, growth: float) -> Any:
    """The tensor on the meta device, unless it holds indices or masks that stay small when it grows by `growth`."""
    values = not (tensor.is_floating_point() or tensor.is_complex())
    if values and tensor.numel() * tensor.element_size() * growth <= _LARGEST_VALUES:
        return tensor
    return tensor.to("meta")


def _with_size(tensor: Any, dim: int, size: int, kept: int) -> Any:
    """The tensor with `size` elements along `dim`: cut off, or with those after the first `kept` repeated."""
    torch = need("torch")
    length = int(tensor.shape[dim])
    kept = kept if kept < length else 0
    index = torch.arange(size)
    index = torch.where(index < length, index, kept + (index - length) % (length - kept))
    try:
        return tensor.index_select(dim, index.to(tensor.device))
    except (RuntimeError, NotImplementedError) as error:
        layout = str(tensor.layout).removeprefix("torch.")
        raise UsageError(f"an input with layout {layout} cannot be resized: give strided inputs") from error


def _batch(tensors: list[Leaf]) -> Iterator[tuple[int, int]]:
    """Dimension 0 of the first tensor, and of every other tensor in which it has the same size or holds patches."""
    first = next((leaf for leaf in tensors if leaf.shape), None)
    names = {leaf.name for leaf in tensors}
    patched = {data for grid, data in _PATCHES if grid in names}
    for index, leaf in enumerate(tensors):
        same = first is not None and leaf.shape and leaf.shape[0] == first.shape[0]
        if leaf.shape and leaf.shape[0] > 0 and (same or leaf.name in patched):
            yield index, 0


def _seq(tensors: list[Leaf]) -> Iterator[tuple[int, int]]:
    """Dimension 1 of the token ids, else of the first sequence, and every other dimension of the same length."""
    ids = (index for index, leaf in enumerate(tensors) if leaf.integer and len(leaf.shape) == 2)
    sequences = (index for index, leaf in enumerate(tensors) if len(leaf.shape) in (2, 3))
    first = next(ids, next(sequences, None))
    if first is None:
        return
    length = tensors[first].shape[1]
    for index, leaf in enumerate(tensors):
        if leaf.shape == tensors[first].shape or leaf.name in _FOLLOWERS:
            yield index, 1
        else:
            yield from ((index, dim) for dim in _lengths(leaf, length, tensors[first], tensors))


def _lengths(leaf: Leaf, length: int, first: Leaf, tensors: list[Leaf]) -> list[int]:
    """The dimensions of `leaf` that are the sequence length of `first`."""
    batched = bool(leaf.shape) and leaf.shape[0] == first.shape[0]
    dims = [dim for dim, size in enumerate(leaf.shape) if size == length and not (dim == 0 and batched)]
    if len(dims) < 2 or any(part in leaf.name for part in _MASKS) or leaf.integer:
        # Many dimensions have size 1: for length 1, count only dimension 1 of tensors with the same batch.
        return dims if length > 1 else [dim for dim in dims if dim == 1 and batched]
    raise UsageError(
        f"seq is ambiguous: several dimensions of {leaf.name} have size {length}; give inputs with distinct sizes; "
        f"{_shapes(tensors)}"
    )


def _side(dim: int) -> Callable[[list[Leaf]], Iterator[tuple[int, int]]]:
    """A finder for height (-2) or width (-1): of the first image, and of tensors with the same last two sizes."""

    def find(tensors: list[Leaf]) -> Iterator[tuple[int, int]]:
        image = next((leaf for leaf in tensors if len(leaf.shape) >= 4), None)
        for index, leaf in enumerate(tensors):
            if image is not None and len(leaf.shape) >= 3 and leaf.shape[-2:] == image.shape[-2:]:
                yield index, len(leaf.shape) + dim

    return find


def _frames(tensors: list[Leaf]) -> Iterator[tuple[int, int]]:
    """The time dimension of a video (next to its channels), of audio features, or of a waveform."""
    for index, leaf in enumerate(tensors):
        if leaf.integer or len(leaf.shape) not in _TIME:
            continue
        if len(leaf.shape) == 5:
            times = [dim for dim in (1, 2) if leaf.shape[3 - dim] in (1, 3, 4)]
            if len(times) != 1:
                raise UsageError(
                    f"frames are ambiguous in {leaf.name}: expected 1, 3 or 4 channels in either dimension 1 or 2; "
                    f"{_shapes(tensors)}"
                )
            yield index, times[0]
        else:
            yield index, _TIME[len(leaf.shape)]
        return


_TIME = {2: 1, 3: 2, 5: -1}
"""The time dimension by number of dimensions; in a video it depends on the position of the channels."""

_FINDERS: dict[str, Callable[[list[Leaf]], Iterator[tuple[int, int]]]] = {
    "batch": _batch,
    "seq": _seq,
    "height": _side(-2),
    "width": _side(-1),
    "frames": _frames,
}

_NEEDED = {
    "batch": "has a first dimension",
    "seq": "is a sequence",
    "height": "is an image",
    "width": "is an image",
    "frames": "is a video or sound",
}
"""What an input must be or have for each size to vary, after the words "no input"."""


def _require_distinct(axes: Mapping[str, Axis], tensors: list[Leaf]) -> None:
    """Raise if two names refer to the same dimension."""
    owner: dict[tuple[int, int], str] = {}
    for name, axis in axes.items():
        for position in axis.places:
            if position in owner:
                raise UsageError(f"{owner[position]} and {name} are the same dimension: vary one; {_shapes(tensors)}")
            owner[position] = name


def _each_shape(tensors: list[Leaf]) -> str:
    """The shape of every input as text: `args[0] is 2x16, mask is 2x16`."""
    shapes = [f"{leaf.name} is {units.shape(leaf.shape) or 'a scalar'}" for leaf in tensors]
    return one_line(", ".join(shapes) or "the inputs contain no tensor")


def _shapes(tensors: list[Leaf]) -> str:
    """The inputs' shapes in one line, for an error message."""
    shapes = [f"{leaf.name} {units.shape(leaf.shape)}" for leaf in tensors]
    if not shapes:
        return "the inputs contain no tensor"
    verb = "inputs are" if len(shapes) > 1 else "input is"
    return one_line(f"the {verb} {', '.join(shapes)}")
