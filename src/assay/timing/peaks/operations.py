"""Typical ops and small models of all kinds of bottleneck, replayed while their energy is measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from assay.timing.peaks.bursts import TimedDevice

Inputs = tuple[torch.Tensor, ...]
Build = Callable[[int], tuple[nn.Module, Inputs]]
"""Builds a module and its inputs for the device with this index in `_DEVICES`."""

_BF16, _FP16, _FP32 = torch.bfloat16, torch.float16, torch.float32
_DEVICES = ("cuda", "cpu")
_CPU_DTYPES = (_FP32, _BF16)
_ROW = 1024
"""Elements per row of ops on rows."""
_HEAD = 64
"""Width of an attention head."""
_CHAIN = 20
"""Number of small ops in a row, which a GPU finishes faster than they can be launched."""


@dataclass(frozen=True)
class Operation:
    """An op, or a few, to be replayed: a module and its inputs."""

    name: str
    module: nn.Module
    inputs: Inputs
    tf32: bool = False
    """Whether float32 products must run in tf32."""


@dataclass(frozen=True)
class _Kind:
    name: str
    dtype: torch.dtype
    build: Build
    tf32: bool = False


class _Call(nn.Module):  # type: ignore[misc]
    """A module that calls one function."""

    def __init__(self, function: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        """The function's result."""
        return self.function(*inputs)


class _Block(nn.Module):  # type: ignore[misc]
    """Attention and a feed-forward network, each after a norm."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.project, self.join = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The residual stream with both added."""
        batch, length, width = x.shape
        parts = self.project(self.before(x)).view(batch, length, 3, width // _HEAD, _HEAD).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(parts[0], parts[1], parts[2], is_causal=True)
        x = x + self.join(seen.transpose(1, 2).reshape(batch, length, width))
        return x + self.narrow(F.gelu(self.widen(self.between(x))))


class _CellLoop(nn.Module):  # type: ignore[misc]
    """An LSTM cell in a loop."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(width, width)

    def forward(self, steps: torch.Tensor) -> torch.Tensor:
        """The last state."""
        state = steps[0], steps[0]
        for step in steps:
            state = self.cell(step, state)
        return state[0]


def operations(where: TimedDevice) -> Iterator[Operation]:
    """Products, convolutions, attention, recurrent layers, memory-bound ops, chains of tiny ops, small models."""
    index = _DEVICES.index(where.device.type)
    for kind in _KINDS:
        if where.cuda or (kind.dtype in _CPU_DTYPES and not kind.tf32):
            # The generator's state is the user's: it is restored.
            with torch.random.fork_rng([where.device] if where.cuda else []), where.device:
                torch.manual_seed(0)
                module, inputs = kind.build(index)
            placed = tuple(one.to(kind.dtype) if one.is_floating_point() else one for one in inputs)
            yield Operation(kind.name, module.to(kind.dtype).eval(), placed, kind.tf32)


def _of(function: Callable[..., Any], *shapes: tuple[int, ...]) -> tuple[nn.Module, Inputs]:
    """`function` of normally distributed tensors; zeros would draw less power."""
    return _Call(function), tuple(torch.randn(shape) for shape in shapes)


def _mm(*sizes: int) -> Build:
    """A product of square matrices: its size on a GPU and on a CPU."""
    return lambda device: _of(torch.mm, *[(sizes[device], sizes[device])] * 2)


def _linear(rows: int) -> Build:
    """A linear layer of few rows, as when a decoder generates a token: weights are read for little work."""
    return lambda device: _of(F.linear, (rows, 4096), ((16384, 4096)[device], 4096))


def _conv(batch: int, channels: int, side: int, kernel: int, groups: int = 1) -> Build:
    def build(device: int) -> tuple[nn.Module, Inputs]:
        return _of(
            lambda x, weight: F.conv2d(x, weight, padding=kernel // 2, groups=groups),
            ((batch, max(1, batch // 16))[device], channels, side, side),
            (channels, channels // groups, kernel, kernel),
        )

    return build


def _attention(batch: int, heads: int, queries: int, keys: int, *, causal: bool = False) -> Build:
    def build(device: int) -> tuple[nn.Module, Inputs]:
        shape = ((batch, max(1, batch // 16))[device], heads)
        return _of(
            lambda query, key, value: F.scaled_dot_product_attention(query, key, value, is_causal=causal),
            (*shape, queries, _HEAD),
            *[(*shape, keys, _HEAD)] * 2,
        )

    return build


def _rows(function: Callable[..., Any], rows: int, width: int = _ROW, inputs: int = 1) -> Build:
    return lambda device: _of(function, *[((rows, max(64, rows // 16))[device], width)] * inputs)


def _images(function: Callable[..., Any], batch: int, channels: int, side: int) -> Build:
    return lambda device: _of(function, ((batch, max(1, batch // 16))[device], channels, side, side))


def _recurrent(layer: type[nn.RNNBase], width: int, batch: int) -> Build:
    def build(device: int) -> tuple[nn.Module, Inputs]:
        return layer(width, width, batch_first=True), (torch.randn((batch, 4)[device], 64, width),)

    return build


def _embedding(device: int) -> tuple[nn.Module, Inputs]:
    words = 1 << 15
    return _Call(F.embedding), (
        torch.randint(0, words, ((1 << 18, 1 << 14)[device],)),
        torch.randn(words, _ROW),
    )


def _index_add(device: int) -> tuple[nn.Module, Inputs]:
    nodes, edges = ((1 << 16, 1 << 19), (1 << 12, 1 << 15))[device]
    return _Call(lambda into, at, x: into.index_add(0, at, x)), (
        torch.randn(nodes, 128),
        torch.randint(0, nodes, (edges,)),
        torch.randn(edges, 128),
    )


def _chain(function: Callable[[torch.Tensor], torch.Tensor], width: int) -> Build:
    def repeated(x: torch.Tensor) -> torch.Tensor:
        for _ in range(_CHAIN):
            x = function(x)
        return x

    return lambda _: _of(repeated, (width, width))


def _blocks(batch: int, length: int, width: int) -> Build:
    """A decoder without embeddings."""

    def build(device: int) -> tuple[nn.Module, Inputs]:
        blocks = nn.Sequential(*(_Block(width) for _ in range((12, 2)[device])))
        return blocks, (torch.randn((batch, 1)[device], length, width),)

    return build


def _convolutions(device: int) -> tuple[nn.Module, Inputs]:
    """Convolutions with norms, activations and pooling."""
    layers: list[nn.Module] = []
    for inside, outside in ((64, 128), (128, 256), (256, 512)):
        for width in (inside, outside):
            layers += [nn.Conv2d(width, outside, 3, padding=1), nn.BatchNorm2d(outside), nn.ReLU()]
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers), (torch.randn((32, 1)[device], 64, 112, 112),)


def _cells(device: int) -> tuple[nn.Module, Inputs]:
    return _CellLoop(512), (torch.randn((48, 8)[device], 64, 512),)


def _norm(x: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(x, x.shape[-1:])


def _batch_norm(x: torch.Tensor) -> torch.Tensor:
    return F.batch_norm(x, x[0, :, 0, 0].float(), x[0, :, 0, 1].float().abs())


def _gated(x: torch.Tensor) -> torch.Tensor:
    return F.silu(x[:, : x.shape[1] // 2]) * x[:, x.shape[1] // 2 :]


_KINDS = (
    _Kind("large product bf16", _BF16, _mm(8192, 1024)),
    _Kind("product bf16", _BF16, _mm(2048, 512)),
    _Kind("small product bf16", _BF16, _mm(1024, 256)),
    _Kind("tiny product bf16", _BF16, _mm(512, 128)),
    _Kind("product fp16", _FP16, _mm(4096, 512)),
    _Kind("product tf32", _FP32, _mm(4096, 512), tf32=True),
    _Kind("product fp32", _FP32, _mm(4096, 1024)),
    _Kind("small product fp32", _FP32, _mm(1024, 512)),
    _Kind("batched small products bf16", _BF16, lambda device: _of(torch.bmm, *[((4096, 256)[device], 64, 64)] * 2)),
    _Kind("linear, 1 row, bf16", _BF16, _linear(1)),
    _Kind("linear, 16 rows, bf16", _BF16, _linear(16)),
    _Kind("conv3x3 bf16", _BF16, _conv(64, 256, 56, 3)),
    _Kind("conv3x3 fp32", _FP32, _conv(32, 128, 56, 3)),
    _Kind("conv1x1 bf16", _BF16, _conv(64, 512, 28, 1)),
    _Kind("small conv1x1 fp16", _FP16, _conv(8, 512, 14, 1)),
    _Kind("depthwise 7x7 bf16", _BF16, _conv(32, 384, 56, 7, 384)),
    _Kind("long causal attention bf16", _BF16, _attention(4, 16, 4096, 4096, causal=True)),
    _Kind("short attention fp16", _FP16, _attention(64, 12, 128, 128)),
    _Kind("attention fp32", _FP32, _attention(8, 12, 512, 512)),
    _Kind("attention of one query bf16", _BF16, _attention(16, 32, 1, 4096)),
    _Kind("LSTM layer bf16", _BF16, _recurrent(nn.LSTM, 1024, 64)),
    _Kind("GRU layer fp32", _FP32, _recurrent(nn.GRU, 512, 32)),
    _Kind("layer_norm bf16", _BF16, _rows(_norm, 1 << 18)),
    _Kind("small layer_norm bf16", _BF16, _rows(_norm, 4096)),
    _Kind("batch_norm bf16", _BF16, _images(_batch_norm, 64, 256, 56)),
    _Kind("group_norm bf16", _BF16, _images(lambda x: F.group_norm(x, 32), 32, 320, 64)),
    _Kind("softmax bf16", _BF16, _rows(lambda x: torch.softmax(x, -1), 1 << 18)),
    _Kind("gelu fp16", _FP16, _rows(F.gelu, 1 << 18)),
    _Kind("silu of halves bf16", _BF16, _rows(_gated, 1 << 15, 8 * _ROW)),
    _Kind("add fp32", _FP32, _rows(torch.add, 1 << 17, inputs=2)),
    _Kind("sum of rows fp32", _FP32, _rows(lambda x: x.sum(-1), 1 << 17)),
    _Kind("copy bf16", _BF16, _rows(torch.clone, 1 << 18)),
    _Kind("transposed copy bf16", _BF16, _rows(lambda x: x.t().contiguous(), 1 << 14, 8 * _ROW)),
    _Kind("embedding bf16", _BF16, _embedding),
    _Kind("index_add fp32", _FP32, _index_add),
    _Kind("20 tiny adds fp32", _FP32, _chain(lambda x: x + 1, 64)),
    _Kind("20 small blocks bf16", _BF16, _chain(lambda x: F.gelu(F.linear(_norm(x), x)), 256)),
    _Kind("decoder bf16", _BF16, _blocks(16, 512, 768)),
    _Kind("decoder of few tokens bf16", _BF16, _blocks(1, 64, 1024)),
    _Kind("convolutional network bf16", _BF16, _convolutions),
    _Kind("loop of LSTM cells fp32", _FP32, _cells),
)
