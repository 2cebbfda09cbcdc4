"""The conditions of two runs that differ: they are listed first, because they make figures incomparable."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from assay import units
from assay.analysis.comparison.rows import OF_MACHINE, OF_PASS, ConditionChange
from assay.analysis.training_mode import mode_name
from assay.document.document import Document
from assay.document.tree import path_text


class _Condition(NamedTuple):
    name: str
    affects: str
    text: Callable[[Document], str | None]
    """The condition in words; None if it is unknown or does not apply."""


def condition_changes(before: Document, after: Document) -> list[ConditionChange]:
    """The conditions that are known on both sides and differ."""
    texts = ((each, each.text(before), each.text(after)) for each in _CONDITIONS)
    return [
        ConditionChange(each.name, one, two, each.affects)
        for each, one, two in texts
        if one is not None and two is not None and one != two
    ]


def same_inputs(before: Document, after: Document) -> bool:
    """Whether both passes ran with tensors of the same shapes and dtypes, as far as it is known."""
    one, two = _inputs(before), _inputs(after)
    return one is None or two is None or one == two


def _inputs(document: Document) -> str | None:
    if not document.recorded:
        return None
    tensors = ((each.name, each.type) for each in document.run.inputs)
    return ", ".join(f"{name} {units.shape(kind.shape)} {kind.dtype}" for name, kind in tensors) or "no tensors"


def _training(document: Document) -> str | None:
    if not document.recorded:
        return None
    return "the mode of each module" if document.run.as_is else mode_name(document.run.training)


def _dtype(document: Document) -> str | None:
    return document.run.dtype or "the model's own" if document.recorded else None


def _forward_pass(document: Document) -> str | None:
    if not document.recorded:
        return None
    failure = document.run.failure
    return "complete" if failure is None else f"stopped in {path_text(failure.module)}: {failure.error}"


def _precision(document: Document) -> str | None:
    return document.machine.matmul_precision or None


def _tf32(document: Document) -> str | None:
    allowed = document.machine.cudnn_tf32
    return None if allowed is None else "allowed" if allowed else "not allowed"


def _processors(document: Document) -> str | None:
    count = document.machine.processors
    return None if count is None else str(count)


def _threads(document: Document) -> str | None:
    threads = document.profile.threads if document.profile is not None else None
    return None if threads is None else str(threads)


def _other_load(document: Document) -> str | None:
    conditions = document.profile.conditions if document.profile is not None else None
    return None if conditions is None else conditions.busy or "none"


_CONDITIONS = (
    _Condition("inputs", OF_PASS, _inputs),
    _Condition("mode of the pass", OF_PASS, lambda document: document.run.mode),
    _Condition("training or evaluation", OF_PASS, _training),
    _Condition("dtype", OF_PASS, _dtype),
    _Condition("forward pass", OF_PASS, _forward_pass),
    _Condition("device", OF_MACHINE, lambda document: document.machine.device or None),
    _Condition("processor", OF_MACHINE, lambda document: document.machine.processor or None),
    _Condition("logical CPUs", OF_MACHINE, _processors),
    _Condition("threads", OF_MACHINE, _threads),
    _Condition("load by other processes", OF_MACHINE, _other_load),
    _Condition("precision of float32 products", OF_MACHINE, _precision),
    _Condition("TF32 in cuDNN", OF_MACHINE, _tf32),
    _Condition("torch", OF_MACHINE, lambda document: document.machine.torch or None),
    _Condition("Python", OF_MACHINE, lambda document: document.machine.python or None),
    _Condition("system", OF_MACHINE, lambda document: document.machine.system or None),
)
"""In the order in which they are listed."""
