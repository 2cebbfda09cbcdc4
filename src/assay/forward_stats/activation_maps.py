"""Grey images of what convolutions return: their most varied channels, reduced to a few hundred pixels each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import nn
from torch.nn import functional as F

from assay.document.activations import ActivationMap
from assay.document.provenance import Counted

BY_AREAS = Counted("means over areas of the first sample's outputs in one pass, each channel from its own min to max")

MAX_MODULES = 32
CHANNELS = 8
SIDE = 24
"""At most this many modules, channels per module, and pixels per side: 147 KB for a whole model."""

_CONVOLUTIONS = (nn.Conv2d, nn.ConvTranspose2d)


class _Images(NamedTuple):
    """The images of one output, on its device."""

    module: nn.Module
    shape: tuple[int, ...]
    channels: torch.Tensor
    finite: torch.Tensor
    """For each of `channels`, whether all its values are finite."""
    low: torch.Tensor
    high: torch.Tensor
    pixels: torch.Tensor


class MapLog:
    """Keeps small images of the first output of each convolution; nothing waits for a device before `rows`."""

    def __init__(self) -> None:
        self._images: dict[int, _Images] = {}

    def read(self, module: nn.Module, output: torch.Tensor) -> None:
        """Keep images of an output, unless it is not that of a convolution or the module was called before."""
        if not isinstance(module, _CONVOLUTIONS) or id(module) in self._images:
            return
        if not _is_image(output):
            return
        # The recorder and the user's own modes must not see the ops that draw the images.
        with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
            try:
                self._images[id(module)] = _drawn(module, output.detach())
            except RuntimeError:  # no memory is left for them; the model's pass must not fail because of images
                return

    def rows(self, indices: Mapping[int, int]) -> list[ActivationMap]:
        """The images of modules spread evenly over the pass; `indices` maps the ids of modules to their indices."""
        known = [each for at, each in self._images.items() if at in indices]
        rows = [_row(indices[id(each.module)], each) for each in _spread(known)]
        return [row for row in rows if row.channels]


def _is_image(output: torch.Tensor) -> bool:
    """Whether it is a batch of images with values that can be read now and later."""
    if output.dim() != 4 or not output.numel() or output.is_meta:
        return False
    if torch._C._functorch.is_functorch_wrapped_tensor(output):  # it cannot be read once vmap has returned
        return False
    return not (output.is_cuda and torch.cuda.is_current_stream_capturing())


def _drawn(module: nn.Module, output: torch.Tensor) -> _Images:
    sample = output[0] if output.dtype in (torch.float32, torch.float64) else output[0].float()
    lowest, highest = sample.flatten(1).aminmax(dim=1)
    finite = lowest.isfinite() & highest.isfinite()
    largest = torch.finfo(sample.dtype).max
    spread = sample.std((1, 2), correction=0).nan_to_num(nan=largest, posinf=largest)  # huge values overflow
    channels = torch.where(finite, spread, -1.0).sort(descending=True, stable=True).indices[:CHANNELS]
    wide = torch.float32 if sample.device.type == "mps" else torch.float64
    images = F.adaptive_avg_pool2d(sample[channels].to(wide), _reduced(*sample.shape[1:]))
    low, high = images.amin((1, 2), keepdim=True), images.amax((1, 2), keepdim=True)
    shares = ((images - low) / (high - low)).nan_to_num(nan=0.0)  # a channel of one value is black
    pixels = (255 * shares).round().to(torch.uint8)
    return _Images(module, tuple(output.shape), channels, finite[channels], low.flatten(), high.flatten(), pixels)


def _reduced(height: int, width: int) -> tuple[int, int]:
    """The height and width of an image whose longer side has at most `SIDE` pixels, with nearly the same ratio."""
    scale = min(1.0, SIDE / max(height, width))
    return max(1, round(height * scale)), max(1, round(width * scale))


def _spread(images: list[_Images]) -> list[_Images]:
    """At most `MAX_MODULES` of them at equal distances, the first and the last included."""
    if len(images) <= MAX_MODULES:
        return images
    return [images[round(at * (len(images) - 1) / (MAX_MODULES - 1))] for at in range(MAX_MODULES)]


def _row(index: int, images: _Images) -> ActivationMap:
    finite = images.finite.cpu()
    channels, low, high = (each.cpu()[finite].tolist() for each in (images.channels, images.low, images.high))
    pixels = images.pixels.cpu()[finite]
    return ActivationMap(
        module=index,
        shape=images.shape,
        channels=tuple(channels),
        width=pixels.shape[2],
        height=pixels.shape[1],
        low=tuple(low),
        high=tuple(high),
        pixels=pixels.numpy().tobytes(),
    )
