"""The image or video size that a plain model was built for: in its attributes or settings, or from its positions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from assay.sources.inference.declared import read_attribute
from assay.sources.inference.layers import POSITIONS, class_names

_OWN = ("image_size", "img_size", "input_size", "image_resolution", "input_resolution", "sample_size")
"""Attributes of the model or its config with the size of its input."""
_PARTS = ("img_size", "image_size")
"""Attributes of a part, such as the patch embedding, with the size of the model's input."""
_SETTINGS = ("pretrained_cfg", "default_cfg")
"""Attributes in which image model libraries store the input size a model was trained with."""
_SPECIAL_POSITIONS = (1, 0, 2, 3, 4, 5, 8)
"""Positions besides those of the patches: class tokens and registers."""
_STEM_STRIDES = (1, 2, 4, 8)
"""Further reductions between the first convolution and the positions."""
_CHANNELS = (3, 1, 4)
"""Channels of an image, if a model takes its patches through a linear layer."""


class Size(Struct, frozen=True):
    """A possible size of the input."""

    dims: tuple[int, ...]
    """Height and width, with frames before them for a video."""
    source: str
    """Where it is from: `patch_embed.img_size`."""
    channels: int | None = None
    """If the size is only valid with so many channels."""


def input_sizes(module: Any) -> Iterator[Size]:
    """The possible sizes, most reliable first."""
    yield from _stated(module)
    stride = _first_stride(module)
    yield from _of_videos(module, stride)
    for name, tensor in module.named_parameters():
        if POSITIONS.search(name.removesuffix(".weight")):
            for grid in _grids(tuple(tensor.shape)):
                yield from _from_grid(module, grid, stride, f"the positions '{name}'")


def _stated(module: Any) -> Iterator[Size]:
    """Sizes in attributes of the model and its parts, in its config and in its settings."""
    for path, child in module.named_modules():
        for name in _PARTS if path else _OWN:
            yield from _sizes(read_attribute(child, name), f"{path}.{name}" if path else name)
    config = read_attribute(module, "config")
    for name in _OWN:
        yield from _sizes(_item(config, name), f"config.{name}")
    for settings in _SETTINGS:
        yield from _sizes(_item(read_attribute(module, settings), "input_size"), f"{settings}['input_size']")


def _item(holder: Any, name: str) -> Any:
    """The field of a dictionary or of an object."""
    return holder.get(name) if isinstance(holder, Mapping) else read_attribute(holder, name)


def _sizes(value: Any, source: str) -> Iterator[Size]:
    """The size that is a number, a pair, or channels, height and width."""
    if isinstance(value, int) and value > 1:
        yield Size((value, value), source)
    elif isinstance(value, (tuple, list)) and len(value) in (2, 3) and all(isinstance(side, int) for side in value):
        yield Size(tuple(value[-2:]), source, value[0] if len(value) == 3 else None)


def _first_stride(module: Any) -> tuple[int, ...]:
    """The strides of the first convolution over images or videos; empty if there is none."""
    for child in module.modules():
        if {"Conv2d", "Conv3d"} & set(class_names(child)):
            stride = read_attribute(child, "stride")
            return tuple(stride) if isinstance(stride, (tuple, list)) else ()
    return ()


def _of_videos(module: Any, stride: tuple[int, ...]) -> Iterator[Size]:
    """The size of a video whose frames and pixels are counted in patches by the encoding of their positions."""
    for path, child in module.named_modules():
        frames, sides = read_attribute(child, "temporal_size"), read_attribute(child, "spatial_size")
        if len(stride) == 3 and isinstance(frames, int) and isinstance(sides, (tuple, list)) and len(sides) == 2:
            dims = tuple(count * step for count, step in zip((frames, *sides), stride, strict=True))
            yield Size(dims, f"{path or type(child).__name__}.spatial_size")


def _grids(shape: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """The rows and columns of patches that a table of positions may have."""
    if len(shape) == 4:
        yield from ((shape[2], shape[3]), (shape[1], shape[2]))
    elif len(shape) in (2, 3):
        for special in _SPECIAL_POSITIONS:
            side = math.isqrt(max(shape[-2] - special, 0))
            if side > 1 and side * side == shape[-2] - special:
                yield side, side


def _from_grid(module: Any, grid: tuple[int, int], stride: tuple[int, ...], source: str) -> Iterator[Size]:
    """The sizes of an image that is cut into such a grid, by a convolution or before a linear layer."""
    if len(stride) == 2:
        for further in _STEM_STRIDES:
            yield Size((grid[0] * stride[0] * further, grid[1] * stride[1] * further), source)
    elif not stride:
        for channels in _CHANNELS:
            side = math.isqrt(_first_features(module) // channels)
            if side and side * side * channels == _first_features(module):
                yield Size((grid[0] * side, grid[1] * side), source, channels)


def _first_features(module: Any) -> int:
    """The features that the first linear layer takes; 0 if there is none."""
    linear = (child for child in module.modules() if "Linear" in class_names(child))
    features = read_attribute(next(linear, None), "in_features")
    return features if isinstance(features, int) else 0
