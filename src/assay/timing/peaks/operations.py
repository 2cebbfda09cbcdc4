"""Typical ops of models, with their FLOPs and bytes, to be replayed while their energy is measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch
from torch.nn import functional as F

from assay.timing.peaks.arithmetic import product
from assay.timing.peaks.bursts import TimedDevice, Workload


@dataclass(frozen=True)
class Operation:
    """An op to run, its FLOPs by precision (`pointwise` is separate), and the bytes it reads and writes."""

    name: str
    run: Workload
    bytes: float
    flops: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class _Sizes:
    """Sizes of the ops on one kind of device, large enough that the launch overhead is negligible."""

    matrix: int
    image: tuple[int, int, int]
    """Batch, channels, side."""
    attention: tuple[int, int, int, int]
    """Batch, heads, sequence length, head width."""
    elements: int
    rows: int
    """Rows (of `_ROW` elements) of a layer's input that fits in a cache and does not fill the device."""
    dtypes: dict[str, torch.dtype]


_SIZES = {
    "cpu": _Sizes(1024, (4, 64, 56), (2, 8, 512, 64), 1 << 24, 128, {"fp32": torch.float32, "bf16": torch.bfloat16}),
    "cuda": _Sizes(4096, (64, 256, 56), (16, 16, 2048, 64), 1 << 28, 4096, {"bf16": torch.bfloat16}),
}
_PRODUCTS = {"cpu": ("fp32", "bf16"), "cuda": ("fp32", "tf32", "bf16", "fp16")}
_WIDTH = {"fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2}
_ROW = 1024
"""Elements per row, and the width of normalisation."""
_WIDER = 4
"""Expansion factor of a feed-forward block."""
_TAPS = 9
_SCORE = 6
"""Pointwise FLOPs per attention score: scaling and softmax."""


def operations(where: TimedDevice) -> Iterator[Operation]:
    """Matrix products in each precision at two sizes, convolution, attention, memory-bound ops and typical layers."""
    sizes = _SIZES[where.device.type]
    for name in _PRODUCTS[where.device.type]:
        for size in (sizes.matrix, sizes.matrix // 2):
            yield _product(where, name, size)
    for name, dtype in sizes.dtypes.items():
        yield _convolution(where, sizes, name, dtype)
        yield _attention(where, sizes, name, dtype)
        yield from _moving(where, sizes, name, dtype)
        yield from _layers(where, sizes, name, dtype)
    if where.cuda:
        # cuDNN runs float32 convolutions in tf32 unless that is switched off.
        yield _convolution(where, sizes, "tf32", torch.float32)


def _product(where: TimedDevice, name: str, size: int) -> Operation:
    moved = 3 * size * size * _WIDTH[name]
    return Operation(f"mm {size} {name}", product(where, name, size), moved, {name: 2.0 * size**3})


def _convolution(where: TimedDevice, sizes: _Sizes, name: str, dtype: torch.dtype) -> Operation:
    batch, channels, side = sizes.image
    image = where.normal(batch, channels, side, side, dtype=dtype)
    kernel = where.normal(channels, channels, 3, 3, dtype=dtype)
    flops = 2.0 * image.numel() * channels * _TAPS
    moved = (2 * image.numel() + kernel.numel()) * image.element_size()
    return Operation(f"conv3x3 {name}", lambda: F.conv2d(image, kernel, padding=1), moved, {name: flops})


def _attention(where: TimedDevice, sizes: _Sizes, name: str, dtype: torch.dtype) -> Operation:
    batch, heads, length, width = sizes.attention
    query, key, value = (where.normal(batch, heads, length, width, dtype=dtype) for _ in range(3))
    pairs = length * (length + 1) / 2
    return Operation(
        f"attention {name}",
        lambda: F.scaled_dot_product_attention(query, key, value, is_causal=True),
        4 * query.numel() * query.element_size(),
        {name: 4.0 * batch * heads * pairs * width, **_pointwise(_SCORE * batch * heads * length * length)},
    )


def _moving(where: TimedDevice, sizes: _Sizes, name: str, dtype: torch.dtype) -> Iterator[Operation]:
    rows = where.normal(sizes.elements // _ROW, _ROW, dtype=dtype)
    into = torch.empty_like(rows)
    weight = where.normal(_ROW, dtype=dtype)
    table = where.normal(1 << 15, _ROW, dtype=dtype)
    picked = torch.randint(0, 1 << 15, (rows.shape[0],), generator=where.generator(), device=where.device)
    kinds: dict[str, tuple[Callable[[], object], int]] = {
        "layer_norm": (lambda: F.layer_norm(rows, (_ROW,), weight, weight), 8),
        "softmax": (lambda: torch.softmax(rows, -1), 5),
        "gelu": (lambda: F.gelu(rows), 5),
        "add": (lambda: torch.add(rows, rows, out=into), 1),
        "copy": (lambda: into.copy_(rows), 0),
        "embedding": (lambda: F.embedding(picked, table), 0),
    }
    for kind, (run, each) in kinds.items():
        yield _elementwise(f"{kind} {name}", run, rows, each)


def _layers(where: TimedDevice, sizes: _Sizes, name: str, dtype: torch.dtype) -> Iterator[Operation]:
    """The most frequent ops of a model: products and pointwise ops too small to reach a device's limits."""
    x = where.normal(sizes.rows, _ROW, dtype=dtype)
    wide = where.normal(sizes.rows, _WIDER * _ROW, dtype=dtype)
    weight = where.normal(_ROW, dtype=dtype)
    for features in (_ROW, _WIDER * _ROW):
        matrix = where.normal(features, _ROW, dtype=dtype)
        flops = 2.0 * sizes.rows * features * _ROW
        moved = (x.numel() + matrix.numel() + sizes.rows * features) * x.element_size()
        yield Operation(
            f"linear {sizes.rows}x{_ROW}x{features} {name}",
            lambda matrix=matrix: F.linear(x, matrix),  # type: ignore[misc]
            moved,
            {name: flops},
        )
    yield _elementwise(f"small layer_norm {name}", lambda: F.layer_norm(x, (_ROW,), weight, weight), x, 8)
    yield _elementwise(f"small gelu {name}", lambda: F.gelu(wide), wide, 5)


def _elementwise(name: str, run: Workload, over: torch.Tensor, flops_each: int) -> Operation:
    """An op that reads every element of `over` and writes as many."""
    return Operation(name, run, 2 * over.numel() * over.element_size(), _pointwise(flops_each * over.numel()))


def _pointwise(flops: float) -> dict[str, float]:
    return {"pointwise": float(flops)} if flops else {}
