"""Recorded calls as plain data."""

from __future__ import annotations

from typing import Any

from assay.document.inspection import ForwardCall, ForwardTensor, TensorFacts
from assay.forward_stats.call_list import calls_of
from assay.forward_stats.results import ForwardStats, TensorStats
from assay.recorder.inventory import dtype_name
from assay.sources.holders import named_modules


class FirstBadModules:
    """The path of the module that produced the first NaN or infinity of each pass, determined on demand."""

    def __init__(self, model: object) -> None:
        self._model = model
        self._paths: dict[int, str] = {}
        self._newest = -1

    def of(self, call: ForwardStats) -> str | None:
        """The path for the pass that `call` belongs to; None if all values in it were finite."""
        if call.index > self._newest:
            self._update()
        return self._paths.get(call.pass_index)

    def _update(self) -> None:
        """Search all recorded calls for the first bad module of each pass."""
        calls = [call for _, module in named_modules(self._model) for call in calls_of(module)]
        calls.sort(key=lambda call: call.index)
        self._newest = calls[-1].index if calls else -1
        self._paths.clear()
        for call in calls:
            if call.pass_index not in self._paths and (call.produced_nan or call.produced_inf):
                self._paths[call.pass_index] = call.module_path


def as_row(call: ForwardStats, first_bad: str | None) -> ForwardCall:
    """The call as plain data; `first_bad` is the module that produced the pass's first NaN or infinity."""
    return ForwardCall(
        time_s=call.time_s,
        self_s=call.self_time_s,
        inputs=tuple(map(_tensor, call.inputs)),
        outputs=tuple(map(_tensor, call.outputs)),
        nan=call.nan,
        inf=call.inf,
        first_bad=first_bad,
        outermost=not call.recursive,
    )


def _tensor(tensor: TensorStats) -> ForwardTensor:
    facts = TensorFacts(
        tensor.shape,
        dtype_name(tensor.dtype),
        str(tensor.device),
        tensor.memory_bytes,
        tensor.requires_grad,
        tensor.has_grad,
    )
    values = tensor.values
    low, high, mean = (_real(number) for number in (values.min, values.max, values.mean))
    return ForwardTensor(tensor.path, facts, low, high, mean, values.std, values.nan, values.inf)


def _real(number: Any) -> float | None:
    """The number as a float; None if it is unknown or complex."""
    return None if number is None or isinstance(number, complex) else float(number)
