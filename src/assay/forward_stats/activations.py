"""The values of one pass as rows of a document: outputs merged per module and op, and where NaN and Inf began."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch
from msgspec.structs import replace
from torch import nn

from assay.analysis.parameters import tensor_storages
from assay.document.activations import (
    FROM_CONSTANTS,
    FROM_INFINITIES,
    FROM_INPUTS,
    FROM_OP,
    FROM_WEIGHTS,
    Activations,
    NonfiniteSource,
    OutputValues,
)
from assay.document.document import Document
from assay.document.provenance import Counted
from assay.document.rows import Op, OpKind
from assay.forward_stats.activation_maps import BY_AREAS, MapLog
from assay.forward_stats.on_device import Pending
from assay.forward_stats.value_log import OpReading, Stats, TensorReading, ValueLog
from assay.forward_stats.values import ValueStats
from assay.recorder import higher_order, inventory
from assay.recorder.intercept import observing
from assay.recorder.watch import Pass, PassSettings, record_pass

BY_VALUES = Counted("all values of the outputs in one pass")
_SOURCES = {"parameter": FROM_WEIGHTS, "buffer": FROM_WEIGHTS, "input": FROM_INPUTS}
_BODIES = frozenset(f"higher_order.{name}" for name in higher_order.BODY_OPERATORS)
"""Higher-order operators without work of their own; the ops of their bodies are read instead."""


def record_values(
    model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], setting: PassSettings, *, maps: bool = False
) -> Activations:
    """Statistics of all outputs in one pass, which leaves the model as it was; `maps` adds images of convolutions."""
    log, recorded = _run(model, args, kwargs, setting, maps)
    if recorded.error is not None and not setting.autograd:  # some models differentiate inside forward
        again, repeated = _run(model, args, kwargs, setting._replace(autograd=True), maps)
        log, recorded = (again, repeated) if repeated.error is None else (log, recorded)
    ops = [_ReadOp(recorded.kinds[op.kind], op, recorded) for op in recorded.ops]
    read = [op for op in ops if op.kind.target not in _BODIES]
    pairs = list(zip(read, log.ops, strict=False))
    indices = {id(module): index for index, module in enumerate(inventory.members(model).modules)}
    root = [each for call in log.calls if indices.get(id(call.module)) == 0 for each in call.outputs]
    spoiled = any(_share(each.nan) or _share(each.inf) for each in root)
    inf_at = next((place for place, (op, reading) in enumerate(pairs) if _makes_inf(op, reading)), None)
    return Activations(
        modules=_merged(
            (indices[id(each.module)], "", each.outputs[:1]) for each in log.calls if id(each.module) in indices
        ),
        ops=_merged((op.module, op.name, reading.outputs) for op, reading in pairs),
        first_nan=_first_nan(pairs, spoiled, inf_at),
        first_inf=None if inf_at is None else _inf_source(*pairs[inf_at], spoiled),
        failure="" if recorded.failure is None else recorded.failure.error,
        maps=[] if log.maps is None else log.maps.rows(indices),
        columns={"modules": BY_VALUES, "ops": BY_VALUES, **({"maps": BY_AREAS} if maps else {})},
    )


class _ReadOp(NamedTuple):
    """An op of the recorded pass."""

    kind: OpKind
    op: Op
    recorded: Pass

    @property
    def module(self) -> int:
        return self.recorded.calls[self.op.call].module if self.op.call >= 0 else 0

    @property
    def name(self) -> str:
        """The name without the overload: `aten.relu`."""
        return self.kind.target.rpartition(".")[0]


_Pairs = Sequence[tuple[_ReadOp, OpReading]]


def _run(
    model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], setting: PassSettings, maps: bool
) -> tuple[ValueLog, Pass]:
    log = ValueLog(MapLog() if maps else None)
    with observing(log.observer):
        recorded = record_pass(model, inventory.members(model), args, kwargs, setting, log.call)
    log.fetch()
    return log, recorded


def _merged(readings: Iterable[tuple[int, str, Sequence[TensorReading]]]) -> list[OutputValues]:
    """One row per module and op with floating-point outputs, in the order of their first execution."""
    groups: dict[tuple[int, str], list[TensorReading]] = {}
    for module, op, outputs in readings:
        if outputs:
            groups.setdefault((module, op), []).extend(each for each in outputs if each.numel)
    return [_row(module, op, group) for (module, op), group in groups.items() if group]


def _row(module: int, op: str, readings: list[TensorReading]) -> OutputValues:
    count = sum(each.numel for each in readings)
    values = [_got(each.values) for each in readings]
    alive = _alive_channels(readings)
    return OutputValues(
        module=module,
        op=op,
        executions=len(readings),
        count=count,
        dtype=str(readings[0].dtype).removeprefix("torch."),
        min=_finite(min, [each.min for each in values]),
        max=_finite(max, [each.max for each in values]),
        mean=_weighted([(each.numel, value.mean) for each, value in zip(readings, values, strict=True)]),
        rms=_rms(readings, values),
        nan=sum(_number(each.nan, each.numel) for each in readings),
        inf=sum(_number(each.inf, each.numel) for each in readings),
        zeros=_weighted([(each.numel, _share(each.zeros)) for each in readings]),
        at_ends=_weighted([(each.numel, _share(each.at_ends)) for each in readings]),
        channels=None if alive is None else alive.numel(),
        dead_channels=None if alive is None else int((~alive).sum()),
    )


def _got(stats: Stats) -> ValueStats:
    return stats.get() if isinstance(stats, Pending) else stats


def _share(stats: Stats | None) -> float | None:
    """The mean of booleans; None if they were not read."""
    mean = None if stats is None else _got(stats).mean
    return float(mean) if isinstance(mean, (int, float)) else None


def _number(stats: Stats | None, count: int) -> int:
    return round((_share(stats) or 0.0) * count)


def _finite(choose: Any, values: list[Any]) -> float | None:
    """The smallest or largest of the values; None if one is unknown or not finite."""
    if any(not isinstance(each, (int, float)) or not math.isfinite(each) for each in values):
        return None
    return float(choose(values))


def _weighted(pairs: list[tuple[int, Any]]) -> float | None:
    """The mean of values with these weights; None if one is unknown or not finite."""
    if any(not isinstance(value, (int, float)) or not math.isfinite(value) for _, value in pairs):
        return None
    return float(sum(count * value for count, value in pairs) / sum(count for count, _ in pairs))


def _rms(readings: list[TensorReading], values: list[ValueStats]) -> float | None:
    squares = [(each.numel, _mean_square(value, each.numel)) for each, value in zip(readings, values, strict=True)]
    mean = _weighted(squares)
    return None if mean is None else math.sqrt(mean)


def _mean_square(values: ValueStats, count: int) -> float | None:
    if not isinstance(values.mean, (int, float)):
        return None
    variance = 0.0 if values.std is None else values.std**2 * (count - 1) / count
    return float(values.mean**2 + variance)


def _alive_channels(readings: list[TensorReading]) -> torch.Tensor | None:
    """For each channel, whether any execution had a value other than zero; None if their numbers differ."""
    alive = [each.alive.cpu() for each in readings if each.alive is not None]
    if len(alive) < len(readings) or len({each.numel() for each in alive}) != 1:
        return None
    return torch.stack(alive).any(dim=0)


def _first_nan(pairs: _Pairs, reached: bool, inf_at: int | None) -> NonfiniteSource | None:
    """The first op whose output has NaN that no earlier op returned; `inf_at` is where the first infinity is made."""
    for at, (op, reading) in enumerate(pairs):
        if reading.by_request or not any(_share(each.nan) for each in reading.outputs):
            continue
        bad = _places(reading, "nan")
        if "activation" in _roles(op, bad):
            continue
        if not bad and (weights := _infinite_weights(op, reading)):
            return _source(op, weights, reached)
        found = _source(op, bad, reached)
        of_infinities = not bad and inf_at is not None and inf_at < at and _places(reading, "inf")
        return replace(found, source=FROM_INFINITIES) if of_infinities else found
    return None


def _places(reading: OpReading, what: str) -> list[int]:
    """The positions of the inputs that have NaN (`nan`) or infinities (`inf`)."""
    inputs = reading.inputs or ()
    return [place for place, each in enumerate(inputs) if each is not None and getattr(_got(each), what)]


def _roles(op: _ReadOp, places: list[int]) -> set[str]:
    return {op.kind.inputs[place].role for place in places if place < len(op.kind.inputs)}


def _infinite_weights(op: _ReadOp, reading: OpReading) -> list[int]:
    """The positions of parameters with infinities; buffers are left out because many are masks."""
    return [place for place in _places(reading, "inf") if _roles(op, [place]) == {"parameter"}]


def _source(op: _ReadOp, bad: list[int], reached: bool) -> NonfiniteSource:
    sources = [_SOURCES.get(role, FROM_CONSTANTS) for role in sorted(_roles(op, bad))]
    source = FROM_OP if not bad else FROM_WEIGHTS if FROM_WEIGHTS in sources else sources[0]
    read = {op.op.reads[place] for place in bad}
    owners = tensor_storages(Document(tensors=op.recorded.tensors, storages=op.recorded.storages))
    tensors = tuple(index for index, storage in owners.items() if storage in read)
    return NonfiniteSource(op.module, op.name, source, tensors, reached_output=reached)


def _makes_inf(op: _ReadOp, reading: OpReading) -> bool:
    """Whether an op made an infinity of finite activations, unless it was asked to."""
    if reading.by_request or not reading.inputs or not any(_share(each.inf) for each in reading.outputs):
        return False
    return not _places(reading, "nan") and _places(reading, "inf") == _infinite_weights(op, reading)


def _inf_source(op: _ReadOp, reading: OpReading, reached: bool) -> NonfiniteSource:
    positive = any(_got(each.values).max == math.inf for each in reading.outputs)
    return replace(_source(op, _infinite_weights(op, reading), reached), positive=positive)
