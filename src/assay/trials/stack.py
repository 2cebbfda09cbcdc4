"""Stacks of changes: written as `threads=2`, applied one after another, in an order that works."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from assay.document.trials import EXACT, LOSSY, ROUNDING
from assay.errors import UsageError
from assay.trials.change import Change, NotApplicable, named
from assay.trials.plan import StackTrial
from assay.trials.runnable import Runnable

_EFFECTS = (EXACT, ROUNDING, LOSSY)


class _NoValue:
    """Stands for a change that is written without a value."""


class ChangeSpec(NamedTuple):
    """A change with the value it is applied with, if any."""

    change: Change
    value: Any = _NoValue

    @property
    def has_value(self) -> bool:
        """Whether it was written with a value."""
        return self.value is not _NoValue

    def apply(self, runnable: Runnable) -> Runnable:
        """The changed runnable."""
        if self.has_value:
            return self.change.apply(runnable, self.value)
        if self.change.options is not None and not list(self.change.options(runnable)):
            raise NotApplicable("there is no value to try")
        return self.change.apply(runnable)


def parse_spec(text: str) -> ChangeSpec:
    """The change that `text` names, as `channels_last` or `threads=2`; a UsageError if it is unknown."""
    name, equals, value = text.partition("=")
    change = named(name)
    if not equals:
        return ChangeSpec(change)
    if change.options is None:
        raise UsageError(f"{name} takes no value: write {name} instead of {text}")
    number = int(value) if value.strip().isdecimal() else 0
    if number < 1:
        raise UsageError(f"{name} takes a whole number of at least 1, got {value!r}: for example {name}=2")
    return ChangeSpec(change, number)


def change_name(text: str) -> str:
    """The name of a change without its value."""
    return text.partition("=")[0]


def apply_stack(runnable: Runnable, specs: Sequence[str]) -> Runnable:
    """`runnable` with these changes applied one after another."""
    for text in specs:
        runnable = parse_spec(text).apply(runnable)
    return runnable


def stack_effect(specs: Sequence[str]) -> str:
    """What the changes together may do to outputs."""
    return max((parse_spec(text).change.effect for text in specs), key=_EFFECTS.index, default=EXACT)


def stack_codes(specs: Sequence[str]) -> tuple[str, ...]:
    """The rules whose advice the changes follow, each once."""
    return tuple(dict.fromkeys(code for text in specs for code in parse_spec(text).change.codes))


def is_isolated(specs: Sequence[str]) -> bool:
    """Whether one of the changes needs a process of its own."""
    return any(parse_spec(text).change.isolated for text in specs)


def expanded(trial: StackTrial, runnable: Runnable) -> Iterator[StackTrial]:
    """The trial once per value of its changes that take one and were written without."""
    for changes in itertools.product(*(_with_values(text, runnable) for text in trial.changes)):
        yield StackTrial(changes, trial.against)


def _with_values(text: str, runnable: Runnable) -> list[str]:
    spec = parse_spec(text)
    if spec.has_value or spec.change.options is None:
        return [text]
    try:
        return [f"{text}={value}" for value in spec.change.options(runnable)] or [text]
    except NotApplicable:
        return [text]  # applying it gives the reason
