"""Memory that ops allocate and free again inside themselves. To add a formula, add one entry to `_FORMULAS`.

A formula returns the bytes beyond the op's outputs, as torch requests them on a CPU. Where none is known, the op is
listed by name instead of counting as zero.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import prod

from msgspec import Struct

from assay.document.dtypes import nbytes
from assay.document.rows import Op, OpKind, Storage

WORKSPACE = "workspace"
"""The role of storages that stand for workspaces."""

_BIDIRECTIONAL = "bidirectional"
_PAD = 4
"""Elements that oneDNN adds to each of the four gates of a row."""


class Workspaces(Struct, frozen=True):
    """The workspaces of one pass."""

    storages: tuple[Storage, ...] = ()
    """One storage per workspace whose size is modelled, with its lifetime."""
    formulas: tuple[str, ...] = ()
    """The formulas that were used, one sentence each."""
    unknown: tuple[str, ...] = ()
    """Names of the ops whose workspace is unknown."""


class _Formula(Struct, frozen=True):
    bytes: Callable[[OpKind], int | None]
    """Bytes beyond the outputs; None if unknown."""
    text: str


class _Recurrent(Struct, frozen=True):
    """The sizes of a recurrent op: `steps × batch` rows of `inputs` values, `hidden` units and `outputs` values."""

    rows: int
    batch: int
    inputs: int
    hidden: int
    outputs: int
    layers: int
    directions: int
    dtype: str
    copied: bool
    """Whether the input is transposed, and therefore copied, first."""


def workspaces(kinds: Sequence[OpKind], ops: Sequence[Op], device: str) -> Workspaces:
    """The workspaces of a pass on `device`; of a pass on shapes alone, whose device is unknown, none is modelled."""
    on_cpu = device.startswith("cpu")
    storages = list(_saved(kinds, ops)) if on_cpu else []
    formulas = {_SAVED_TEXT: None} if storages else {}
    unknown: dict[str, None] = {}
    sizes = [_size(kind) if on_cpu else None for kind in kinds]
    for index, op in enumerate(ops):
        kind, size = kinds[op.kind], sizes[op.kind]
        if size:
            storages.append(Storage(size, index, index + 1, WORKSPACE))
            formulas[f"{kind.name}: {_FORMULAS[_base(kind)].text}"] = None
        elif size is None and _has_workspace(kind):
            unknown[kind.name] = None
    return Workspaces(tuple(storages), tuple(formulas), tuple(unknown))


def workspace_bytes(storages: Iterable[Storage]) -> int:
    """Total bytes of the workspaces among `storages`."""
    return sum(storage.bytes for storage in storages if storage.role == WORKSPACE)


def _base(kind: OpKind) -> str:
    """`aten.lstm` of `aten.lstm.input`."""
    return kind.target.rpartition(".")[0]


def _size(kind: OpKind) -> int | None:
    formula = _FORMULAS.get(_base(kind))
    return None if formula is None else formula.bytes(kind)


def _has_workspace(kind: OpKind) -> bool:
    """Whether a library or a fused op is known to allocate memory inside itself, of a size that is not known here."""
    base = _base(kind)
    if base == "aten.scaled_dot_product_attention":
        return bool(kind.attributes.get("dropout_p"))  # no fused kernel for the CPU drops values out
    return base in _FORMULAS or base in _UNKNOWN


def _recurrent(kind: OpKind) -> _Recurrent | None:
    """The sizes of an op on whole sequences; None for packed sequences and unusual arguments."""
    named = {operand.name: operand.type for operand in kind.inputs}
    sequence, weights = named.get("input"), named.get("params[0]")
    if sequence is None or weights is None or len(sequence.shape) != 3 or not prod(sequence.shape):
        return None
    batch_first = bool(kind.attributes.get("batch_first"))
    directions = 2 if kind.attributes.get(_BIDIRECTIONAL) else 1
    rows = sequence.shape[0] * sequence.shape[1]
    return _Recurrent(
        rows=rows,
        batch=sequence.shape[0 if batch_first else 1],
        inputs=sequence.shape[2],
        hidden=weights.shape[0] // _GATES[_base(kind)],
        outputs=prod(kind.outputs[0].type.shape) // (rows * directions),
        layers=int(kind.attributes.get("num_layers") or 1),
        directions=directions,
        dtype=sequence.dtype,
        copied=batch_first and 1 not in sequence.shape[:2],
    )


def _step_by_step(kind: OpKind) -> int | None:
    """Bytes inside torch's own loop over steps."""
    sizes = _recurrent(kind)
    return None if sizes is None else nbytes(_loop_elements(sizes, _GATES[_base(kind)]), sizes.dtype)


def _loop_elements(sizes: _Recurrent, gates: int) -> int:
    """Elements beyond the output: gates, outputs of the steps and their stacked copy, of the largest layer."""
    projected, output = gates * sizes.hidden, sizes.outputs
    peaks = []
    for layer in range(sizes.layers):
        copied = sizes.inputs if sizes.copied and layer == 0 else 0
        if sizes.directions == 1:
            inside = max(copied + projected, projected + 2 * output)
        else:
            inside = max(2 * projected + 2 * output, projected + 6 * output)
        peaks.append(inside + (sizes.directions * output if layer else 0))
    return sizes.rows * (max(peaks) - sizes.directions * output)


def _lstm(kind: OpKind) -> int | None:
    """Bytes inside an LSTM: in oneDNN if it is float32 without projection, otherwise in torch's own loop."""
    sizes = _recurrent(kind)
    if sizes is None or sizes.dtype not in ("float32", "float64"):
        return None
    if sizes.dtype == "float64" or sizes.outputs != sizes.hidden:
        return nbytes(_loop_elements(sizes, _GATES[_base(kind)]), sizes.dtype)
    output = sizes.rows * sizes.hidden
    peaks = []
    for layer in range(sizes.layers):
        width = sizes.directions * sizes.hidden if layer else sizes.inputs
        held = sizes.directions - 1
        if layer:  # outputs per direction outlive their concatenation, which is the next layer's input
            held = 1 if sizes.directions == 1 else 2 * sizes.directions
        peaks.append((held + 1) * output + _layer_elements(sizes.rows, width, sizes.hidden))
    copied = sizes.rows * sizes.inputs if sizes.copied else 0
    return nbytes(max(copied + max(peaks) - sizes.directions * output, 0), sizes.dtype)


def _layer_elements(rows: int, inputs: int, hidden: int, copies: int = 1) -> int:
    """Elements that oneDNN requests for one layer and direction: gates, wide inputs, and reordered weights."""
    gates = 4 * (hidden + _PAD) * rows
    return gates + (rows * inputs if inputs > hidden else 0) + copies * 4 * hidden * (inputs + hidden)


def _layer(copies: int) -> Callable[[OpKind], int | None]:
    """A formula for one layer of a training step with that many copies of its weights."""

    def size(kind: OpKind) -> int | None:
        steps, batch, inputs, hidden = _layer_sizes(kind)
        return nbytes(_layer_elements(steps * batch, inputs, hidden, copies), kind.inputs[0].type.dtype)

    return size


def _layer_sizes(kind: OpKind) -> tuple[int, int, int, int]:
    """Steps, batch, inputs and hidden units of `aten.mkldnn_rnn_layer` or its backward."""
    steps, batch, inputs = kind.inputs[0].type.shape
    return steps, batch, inputs, kind.inputs[2].type.shape[-1]


def _saved(kinds: Sequence[OpKind], ops: Sequence[Op]) -> Iterator[Storage]:
    """What oneDNN keeps of each layer for the backward pass; a pass with data has recorded it as an output."""
    last = [index for index, op in enumerate(ops) if _base(kinds[op.kind]) == _LAYER_BACKWARD]
    for index, op in enumerate(ops):
        kind = kinds[op.kind]
        if _base(kind) != _LAYER or not kind.attributes.get("train") or 0 not in kind.outputs[-1].type.shape:
            continue
        steps, batch, inputs, hidden = _layer_sizes(kind)
        elements = (steps + 1) * batch * (9 * hidden + 6 * max(inputs, hidden))
        yield Storage(nbytes(elements, kind.inputs[0].type.dtype), index, last.pop() + 1 if last else None, WORKSPACE)


_LAYER, _LAYER_BACKWARD = "aten.mkldnn_rnn_layer", "aten.mkldnn_rnn_layer_backward"
_GATES = {"aten.lstm": 4, "aten.gru": 3, "aten.rnn_tanh": 1, "aten.rnn_relu": 1}
_LOOP_TEXT = "gates, outputs and stacked outputs of all steps of a layer, (gates + 2) × steps × batch × hidden"
_ONEDNN_TEXT = "oneDNN's gates, 4 × steps × batch × hidden, and reordered weights"
_SAVED_TEXT = "oneDNN's state for the backward pass, (steps + 1) × batch × (9 × hidden + 6 × max(inputs, hidden))"
_FORMULAS = {
    "aten.lstm": _Formula(_lstm, f"{_ONEDNN_TEXT}; with projection or in float64 {_LOOP_TEXT}"),
    **{name: _Formula(_step_by_step, _LOOP_TEXT) for name in ("aten.gru", "aten.rnn_tanh", "aten.rnn_relu")},
    _LAYER: _Formula(_layer(1), _ONEDNN_TEXT),
    _LAYER_BACKWARD: _Formula(_layer(2), f"{_ONEDNN_TEXT}, twice"),
}
_UNKNOWN = frozenset(
    f"aten.{name}"
    for name in (
        *("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"),
        *("convolution", "_convolution", "convolution_backward", "convolution_overrideable", "cudnn_convolution"),
        *("mkldnn_convolution", "_cudnn_rnn", "_cudnn_rnn_backward", "miopen_rnn", "quantized_lstm", "quantized_gru"),
        *("_transformer_encoder_layer_fwd", "_native_multi_head_attention"),
    )
)
"""Ops for which a library chooses the algorithm at run time, or which hide many ops in one."""
