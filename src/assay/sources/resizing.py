"""Inputs of other sizes: which dimensions are the batch, the length, the height, and the inputs with them changed.

Values repeat, so ids stay valid. A dimension that cannot be told for sure is refused with the inputs' shapes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from assay import units
from assay.errors import UsageError
from assay.messages import brief
from assay.sources.inference.layers import learned_positions
from assay.sources.inputs import Inputs
from assay.sources.needs import is_tensor, need
from assay.sources.opened import Opened

_FOLLOWERS = ("decoder_input_ids", "decoder_attention_mask", "decoder_inputs_embeds", "decoder_position_ids")
"""A decoder's own inputs, whose length follows `seq` even where it came with another."""
_MASKS = ("mask", "bias")
"""Parts of names of inputs that may have the length in several dimensions."""


@dataclass(frozen=True)
class Leaf:
    """A tensor among the inputs."""

    name: str
    shape: tuple[int, ...]
    integer: bool


@dataclass(frozen=True)
class Axis:
    """A dimension that can be varied: its size now and where among the tensors it is found."""

    name: str
    size: int
    places: tuple[tuple[int, int], ...]
    """Which tensor, in the order of `leaves`, and which of its dimensions."""
    text: tuple[str, ...]
    """The places in words: `dim 1 of input_ids`."""


def axes(inputs: Inputs, names: Sequence[str]) -> dict[str, Axis]:
    """The axes of these names, in their order."""
    found = leaves(inputs)
    if not names or len(set(names)) < len(names):
        raise UsageError(
            f"to vary, name each of {', '.join(_FINDERS)} at most once, got {', '.join(names) or 'none'}"
        )
    result: dict[str, Axis] = {}
    for name in names:
        if name not in _FINDERS:
            raise UsageError(f"cannot vary {brief(name)!r}: say {', '.join(_FINDERS)}; {_shapes(found)}")
        places = sorted(set(_FINDERS[name](found)))
        if not places:
            raise UsageError(f"the inputs have no {name} to vary: {_shapes(found)}")
        leaf, dim = places[0]
        text = tuple(f"dim {dim} of {found[leaf].name}" for leaf, dim in places)
        result[name] = Axis(name, found[leaf].shape[dim], tuple(places), text)
    _apart(result, found)
    return result


def resized(inputs: Inputs, *, base: Mapping[str, Axis] | None = None, **sizes: int | None) -> Inputs:
    """The inputs with these sizes: `resized(inputs, batch=8, seq=64)`; `base` holds the axes where known."""
    wanted = {name: size for name, size in sizes.items() if size is not None}
    known = base if base is not None else axes(inputs, list(wanted))
    pytree = need("torch").utils._pytree
    values, structure = pytree.tree_flatten((inputs.args, inputs.kwargs))
    tensors = [index for index, value in enumerate(values) if is_tensor(value)]
    for name, size in wanted.items():
        for leaf, dim in known[name].places:
            values[tensors[leaf]] = _stretched(values[tensors[leaf]], dim, size)
    args, kwargs = pytree.tree_unflatten(values, structure)
    return replace(inputs, args=args, kwargs=kwargs)


def leaves(inputs: Inputs) -> list[Leaf]:
    """The tensors among the inputs, arguments first."""
    flatten = need("torch").utils._pytree.tree_flatten_with_path
    named = [(f"args[{index}]", value) for index, value in enumerate(inputs.args)] + list(inputs.kwargs.items())
    found: list[Leaf] = []
    for name, value in named:
        for path, tensor in flatten(value)[0]:
            if is_tensor(tensor):
                label = name + "".join(str(key) for key in path)
                integer = not (tensor.is_floating_point() or tensor.is_complex())
                found.append(Leaf(label, tuple(tensor.shape), integer))
    return found


def position_limit(opened: Opened) -> int | None:
    """The longest sequence that the model says it takes, None where it does not say."""
    config: Any = opened.model.config
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    said = getattr(text, "max_position_embeddings", None)
    limits = [each for each in (said, learned_positions(opened.module)) if isinstance(each, int) and each > 0]
    limit = min(limits)
    return None if limit == sys.maxsize else limit


def _stretched(tensor: Any, dim: int, size: int) -> Any:
    """The tensor with another size of one dimension, its values repeated or cut."""
    torch = need("torch")
    index = torch.arange(size) % tensor.shape[dim]
    return tensor.index_select(dim, index.to(tensor.device))


def _batch(found: list[Leaf]) -> Iterator[tuple[int, int]]:
    """Dimension 0 of the first tensor, and of all others where it is as large."""
    first = next((leaf for leaf in found if leaf.shape), None)
    for index, leaf in enumerate(found):
        if first is not None and leaf.shape and leaf.shape[0] == first.shape[0] and leaf.shape[0] > 0:
            yield index, 0


def _seq(found: list[Leaf]) -> Iterator[tuple[int, int]]:
    """Dimension 1 of the token ids, or of the first sequence, and what has the same length elsewhere."""
    ids = (index for index, leaf in enumerate(found) if leaf.integer and len(leaf.shape) == 2)
    sequences = (index for index, leaf in enumerate(found) if len(leaf.shape) in (2, 3))
    first = next(ids, next(sequences, None))
    if first is None:
        return
    length = found[first].shape[1]
    for index, leaf in enumerate(found):
        if leaf.shape == found[first].shape or leaf.name in _FOLLOWERS:
            yield index, 1
        else:
            yield from ((index, dim) for dim in _lengths(leaf, length, found[first], found))


def _lengths(leaf: Leaf, length: int, first: Leaf, found: list[Leaf]) -> list[int]:
    """The dimensions of a tensor that are the length of another."""
    batched = bool(leaf.shape) and leaf.shape[0] == first.shape[0]
    dims = [dim for dim, size in enumerate(leaf.shape) if size == length and not (dim == 0 and batched)]
    if len(dims) < 2 or any(part in leaf.name for part in _MASKS) or leaf.integer:
        # A size of 1 is everywhere: only a dimension 1 behind the same batch is taken for a length then.
        return dims if length > 1 else [dim for dim in dims if dim == 1 and batched]
    raise UsageError(
        f"seq is ambiguous in {leaf.name}, {length} being the size of several dimensions: {_shapes(found)}"
    )


def _side(dim: int) -> Callable[[list[Leaf]], Iterator[tuple[int, int]]]:
    """Height or width: a dimension, from the end, of the first image, and of all that end in the same two sizes."""

    def find(found: list[Leaf]) -> Iterator[tuple[int, int]]:
        image = next((leaf for leaf in found if len(leaf.shape) >= 4), None)
        for index, leaf in enumerate(found):
            if image is not None and len(leaf.shape) >= 3 and leaf.shape[-2:] == image.shape[-2:]:
                yield index, len(leaf.shape) + dim

    return find


def _frames(found: list[Leaf]) -> Iterator[tuple[int, int]]:
    """The time of a video (the dimension beside the channels), of features of sound, or of a waveform."""
    for index, leaf in enumerate(found):
        if leaf.integer or len(leaf.shape) not in _TIME:
            continue
        if len(leaf.shape) == 5:
            times = [dim for dim in (1, 2) if leaf.shape[3 - dim] in (1, 3, 4)]
            if len(times) != 1:
                raise UsageError(f"frames are ambiguous in {leaf.name}, where are its channels? {_shapes(found)}")
            yield index, times[0]
        else:
            yield index, _TIME[len(leaf.shape)]
        return


_TIME = {2: 1, 3: 2, 5: -1}
"""The dimension of time by how many there are; a video's depends on where its channels are."""

_FINDERS: dict[str, Callable[[list[Leaf]], Iterator[tuple[int, int]]]] = {
    "batch": _batch,
    "seq": _seq,
    "height": _side(-2),
    "width": _side(-1),
    "frames": _frames,
}


def _apart(found: Mapping[str, Axis], tensors: list[Leaf]) -> None:
    """Refuse two names for one dimension."""
    owner: dict[tuple[int, int], str] = {}
    for name, axis in found.items():
        for place in axis.places:
            if place in owner:
                raise UsageError(f"{owner[place]} and {name} are the same dimension: vary one; {_shapes(tensors)}")
            owner[place] = name


def _shapes(found: list[Leaf]) -> str:
    """The inputs' shapes in one line."""
    shown = [f"{leaf.name} {units.shape(leaf.shape)}" for leaf in found]
    return brief(f"the inputs are {', '.join(shown)}" if shown else "there is no tensor among the inputs")
