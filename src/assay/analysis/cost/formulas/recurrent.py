"""Recurrent layers. MACs = steps × elements of every weight matrix; gates and states are pointwise."""

from __future__ import annotations

from assay.analysis.cost.categories import RECURRENT
from assay.analysis.cost.reading import attribute, first, items, numel, operand, result, rows
from assay.analysis.cost.registry import register
from assay.analysis.cost.work import Work, contraction
from assay.document.rows import OpKind, TensorType

PER_UNIT = {4: 30, 3: 22, 1: 4}
"""Pointwise ops per hidden unit and step, by the number of gates of the cell (LSTM 4, GRU 3, plain 1):
three additions per gate, its sigmoid (4) or tanh (1), and the update of the state."""

_GATES = {"lstm": 4, "gru": 3, "rnn": 1}
_GATES_BY_MODE = {0: 1, 1: 1, 2: 4, 3: 3}
"""Number of gates by the `mode` argument of fused kernels."""


def _gates(kind: OpKind) -> int:
    return next(gates for word, gates in _GATES.items() if word in kind.target)


def _layer(steps: int, weights: list[TensorType], gates: int) -> Work:
    """One MAC per step and matrix element; gate matrices come in pairs of equal height, unlike a projection."""
    matrices = [one for one in weights if len(one.shape) == 2]
    tall = [one for one in matrices if one.shape[0] == matrices[0].shape[0]]
    units = len(tall) // 2 * (matrices[0].shape[0] // gates)
    macs = steps * sum(numel(one) for one in matrices)
    return contraction(macs, matrices[0].dtype, pointwise=steps * units * PER_UNIT[gates])


@register("lstm gru rnn_tanh rnn_relu _lstm_mps", category=RECURRENT)
def layers(kind: OpKind) -> Work:
    """All layers and directions; packed sequences count their actual steps."""
    return _layer(rows(operand(kind, "input", "data")), items(kind, "params"), _gates(kind))


@register("_cudnn_rnn miopen_rnn", category=RECURRENT)
def fused_layers(kind: OpKind) -> Work:
    """All layers and directions in one fused kernel."""
    gates = _GATES_BY_MODE[int(kind.attributes["mode"])]
    return _layer(rows(operand(kind, "input")), items(kind, "weight"), gates)


@register("_cudnn_rnn_backward miopen_rnn_backward lstm_mps_backward", category=RECURRENT)
def fused_layers_backward(kind: OpKind) -> Work:
    """Twice the work of the forward op, for the gradients of input and weights."""
    weights = items(kind, "weight") or items(kind, "params")
    return _twice(_layer(rows(operand(kind, "input")), weights, _mode(kind)))


@register("mkldnn_rnn_layer", category=RECURRENT)
def one_layer(kind: OpKind) -> Work:
    """One layer in one direction."""
    weights = [one.type for one in kind.inputs if one.name.startswith("weight")]
    return _layer(rows(operand(kind, "input")), weights, _mode(kind))


@register("mkldnn_rnn_layer_backward", category=RECURRENT)
def one_layer_backward(kind: OpKind) -> Work:
    """Twice the work of the forward op."""
    return _twice(one_layer(kind))


def _mode(kind: OpKind) -> int:
    return _GATES_BY_MODE[int(attribute(kind, "mode", 2))]


def _twice(work: Work) -> Work:
    return work + work


@register(
    "lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell quantized_lstm_cell quantized_gru_cell quantized_rnn_relu_cell "
    "quantized_rnn_tanh_cell",
    category=RECURRENT,
)
def cell(kind: OpKind) -> Work:
    """One step of one cell."""
    weights = [operand(kind, "w_ih"), operand(kind, "w_hh")]
    return _layer(rows(operand(kind, "input")), weights, _gates(kind))


@register("_thnn_fused_lstm_cell _thnn_fused_gru_cell", category=RECURRENT)
def cell_gates(kind: OpKind) -> Work:
    """Only the pointwise ops of the gates; their matrix products are separate ops."""
    gates = _gates(kind)
    return Work(pointwise=numel(operand(kind, "input_gates")) // gates * PER_UNIT[gates])


@register(
    "_thnn_fused_lstm_cell_backward _thnn_fused_lstm_cell_backward_impl _thnn_fused_gru_cell_backward "
    "_thnn_differentiable_lstm_cell_backward _thnn_differentiable_gru_cell_backward",
    category=RECURRENT,
)
def cell_gates_backward(kind: OpKind) -> Work:
    """Twice the pointwise ops of the forward op."""
    gates = _gates(kind)
    units = operand(kind, "grad_hy", "grad_cy", "cx", "hx")
    return Work(pointwise=2 * numel(units) * PER_UNIT[gates])


@register("quantized_lstm quantized_gru", category=RECURRENT)
def packed_layers(kind: OpKind) -> Work:
    """Layers with packed weights, whose sizes are inferred from the input, the result and the attributes."""
    sequence = operand(kind, "input", "data")
    gates, directions = _gates(kind), 2 if kind.attributes.get("bidirectional") else 1
    hidden = result(kind).shape[-1] // directions
    widths = [sequence.shape[-1]] + [hidden * directions] * (int(kind.attributes["num_layers"]) - 1)
    units = hidden * directions
    macs = rows(sequence) * sum(gates * units * (width + hidden) for width in widths)
    return Work(macs, rows(sequence) * units * len(widths) * PER_UNIT[gates])


@register(
    "quantized::quantized_lstm_cell_dynamic quantized::quantized_gru_cell_dynamic "
    "quantized::quantized_rnn_relu_cell_dynamic quantized::quantized_rnn_tanh_cell_dynamic",
    category=RECURRENT,
)
def packed_cell(kind: OpKind) -> Work:
    """One step of a cell with packed weights."""
    gates, hidden, steps = _gates(kind), result(kind).shape[-1], rows(first(kind))
    macs = steps * gates * hidden * (first(kind).shape[-1] + hidden)
    return Work(macs, steps * hidden * PER_UNIT[gates])
