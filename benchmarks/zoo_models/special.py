"""Models with unusual data or state: quantized, nested, exported, state in plain objects, mixed modes."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.ao import quantization
from torch.ao.quantization import quantize_fx

from zoo_models.registry import Inputs, Shelf

shelf = Shelf()
entries = shelf.entries

_IMAGE = (torch.linspace(-1, 1, 2 * 3 * 16 * 16).reshape(2, 3, 16, 16),)
_ROWS = (torch.linspace(-1, 1, 32).reshape(4, 8),)
_SEQUENCE = torch.linspace(-1, 1, 3 * 6 * 16).reshape(3, 6, 16)
_PADDING = torch.arange(6)[None] >= torch.tensor([6, 4, 2])[:, None]


def _convolutions() -> nn.Sequential:
    body = (nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return nn.Sequential(*body, nn.Linear(8, 4))


@shelf("quantized")
def int8_static() -> tuple[nn.Module, Inputs]:
    model = nn.Sequential(quantization.QuantStub(), *_convolutions(), quantization.DeQuantStub()).eval()
    model = quantization.fuse_modules(model, [["1", "2", "3"]])
    model.qconfig = quantization.get_default_qconfig("x86")
    prepared = quantization.prepare(model)
    prepared(*_IMAGE)
    return quantization.convert(prepared), _IMAGE


@shelf("quantized")
def int8_static_graph() -> tuple[nn.Module, Inputs]:
    mapping = quantization.get_default_qconfig_mapping("x86")
    prepared = quantize_fx.prepare_fx(_convolutions().eval(), mapping, _IMAGE)
    prepared(*_IMAGE)
    return quantize_fx.convert_fx(prepared), _IMAGE


@shelf("quantized")
def int8_dynamic() -> tuple[nn.Module, Inputs]:
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).eval()
    return quantization.quantize_dynamic(model, {nn.Linear}), _ROWS


@shelf("quantized")
def int8_dynamic_lstm() -> tuple[nn.Module, Inputs]:
    return quantization.quantize_dynamic(nn.LSTM(16, 8, batch_first=True).eval(), {nn.LSTM}), (_SEQUENCE,)


class _WeightOnly(nn.Module):
    """A Linear layer with int8 weights that are scaled back before each product."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("weight", torch.arange(-32, 32, dtype=torch.int8).reshape(8, 8))
        self.register_buffer("scale", torch.full((8, 1), 0.01))

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(x, self.weight.to(x.dtype) * self.scale)


@shelf("quantized")
def int8_weight_only() -> tuple[nn.Module, Inputs]:
    return nn.Sequential(_WeightOnly(), nn.GELU(), _WeightOnly()), _ROWS


class _Padded(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)

    def forward(self, x: Tensor, padding: Tensor) -> Tensor:
        return self.encoder(x, src_key_padding_mask=padding)


@shelf("nested tensor")
def padding_mask() -> tuple[nn.Module, Inputs]:
    return _Padded().eval(), (_SEQUENCE, _PADDING)


class _Nested(nn.Module):
    """Builds a nested tensor of the rows that are not padding, and applies a function to it."""

    def __init__(self, layout: torch.layout, apply: Callable[[nn.Linear, Tensor], Tensor]) -> None:
        super().__init__()
        self.layer, self.layout, self.apply_to = nn.Linear(16, 16), layout, apply

    def forward(self, x: Tensor) -> Tensor:
        parts = [row[:length] for row, length in zip(x, (6, 4, 2), strict=True)]
        nested = torch.nested.as_nested_tensor(parts, layout=self.layout)
        return torch.nested.to_padded_tensor(self.apply_to(self.layer, nested), 0.0)


def _attend(layer: nn.Linear, x: Tensor) -> Tensor:
    heads = [layer(x).unflatten(-1, (2, 8)).transpose(1, 2) for _ in range(3)]
    return nn.functional.scaled_dot_product_attention(*heads).transpose(1, 2).flatten(-2)


@shelf("nested tensor")
def nested_strided() -> tuple[nn.Module, Inputs]:
    return _Nested(torch.strided, lambda layer, x: layer(x).relu()), (_SEQUENCE,)


@shelf("nested tensor")
def nested_jagged() -> tuple[nn.Module, Inputs]:
    return _Nested(torch.jagged, lambda layer, x: layer(x).relu()), (_SEQUENCE,)


@shelf("nested tensor")
def nested_attention() -> tuple[nn.Module, Inputs]:
    return _Nested(torch.jagged, _attend), (_SEQUENCE,)


@dataclass
class _KeyValueCache:
    """Tensors and counters that every call changes, outside of any module."""

    length: int = 0
    keys: list[Tensor] = field(default_factory=list)
    recent: deque[int] = field(default_factory=lambda: deque(maxlen=2))
    calls: Any = field(default_factory=itertools.count)

    def update(self, keys: Tensor) -> Tensor:
        self.length += keys.shape[1]
        self.keys.append(keys)
        self.recent.append(next(self.calls))
        return torch.cat(self.keys, 1) * self.length


class _Cached(nn.Module):
    calls = 0

    def __init__(self) -> None:
        super().__init__()
        self.project, self.cache = nn.Linear(16, 16), _KeyValueCache()

    def forward(self, x: Tensor) -> Tensor:
        type(self).calls += 1
        return self.cache.update(self.project(x))


@shelf("stateful object")
def key_value_cache() -> tuple[nn.Module, Inputs]:
    return _Cached(), (_SEQUENCE,)


class _Learner(nn.Module):
    """Steps an optimizer inside forward, as test-time training does."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.optimizer = torch.optim.Adam(self.layer.parameters())

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            self.layer.weight.grad = torch.ones_like(self.layer.weight)
            self.optimizer.step()
        return self.layer(x)


@shelf("stateful object")
def inner_optimizer() -> tuple[nn.Module, Inputs]:
    return _Learner(), _ROWS


def _counting(layer: nn.Module) -> nn.Module:
    """`layer` with a forward that is a closure over a counter."""
    calls, forward = [0], layer.forward

    def counted(x: Tensor) -> Tensor:
        calls[0] += 1
        return forward(x) * calls[0]

    layer.forward = counted
    return layer


@shelf("stateful object")
def closure_counter() -> tuple[nn.Module, Inputs]:
    return nn.Sequential(_counting(nn.Linear(8, 8)), nn.ReLU()), _ROWS


@shelf("exported")
def exported_convolutions() -> tuple[nn.Module, Inputs]:
    return torch.export.export(_convolutions().eval(), _IMAGE).module(), _IMAGE


@shelf("exported")
def exported_encoder() -> tuple[nn.Module, Inputs]:
    encoder = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).eval()
    return torch.export.export(encoder, (_SEQUENCE,)).module(), (_SEQUENCE,)


@shelf("mode-mixed")
def layer_left_in_train_mode() -> tuple[nn.Module, Inputs]:
    model = nn.Sequential(_convolutions(), nn.Dropout(0.5)).eval()
    model[0][1].train()
    return model, _IMAGE


@shelf("mode-mixed")
def frozen_batch_norm() -> tuple[nn.Module, Inputs]:
    model = nn.Sequential(_convolutions(), nn.Dropout(0.5)).train()
    model[0][1].eval()
    return model, _IMAGE


@torch.library.custom_op(
    "assay_zoo::nms", mutates_args=(), schema="(Tensor boxes, Tensor scores, float threshold) -> Tensor"
)
def _suppress(boxes: Tensor, scores: Tensor, threshold: float) -> Tensor:
    """Non-maximum suppression as detection libraries register it: a kernel for data, none for meta tensors."""
    order, kept = scores.argsort(descending=True).tolist(), []
    while order:
        best, rest = boxes[order[0]], boxes[order[1:]]
        kept.append(order[0])
        overlap = (torch.minimum(best[2:], rest[:, 2:]) - torch.maximum(best[:2], rest[:, :2])).clamp(min=0).prod(-1)
        order = [index for index, area in zip(order[1:], overlap.tolist(), strict=True) if area < threshold]
    return torch.tensor(kept, dtype=torch.int64)


class _Detector(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Conv2d(3, 5, 4, 4)
        self.head = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        rows = self.body(x).flatten(2)[0].t()
        boxes = torch.cat([rows[:, :2], rows[:, :2] + rows[:, 2:4].abs()], -1)
        return self.head(boxes[torch.ops.assay_zoo.nms(boxes, rows[:, 4], 0.1)])


@shelf("detection")
def suppression_kernel() -> tuple[nn.Module, Inputs]:
    return _Detector(), _IMAGE
