"""An exported program of the changed model, verified by loading it and comparing its outputs."""

from __future__ import annotations

import copy
import io
import warnings
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import nn

from assay.errors import UsageError
from assay.messages import error_line
from assay.trials.change import NotApplicable
from assay.trials.runnable import Runnable
from assay.trials.script_parts import one_pass, relative_error
from assay.trials.stack import parse_spec

_TOLERANCE = 1e-3
_SUGGESTION = "write a script instead, for example -o out.py"


class ExportedChanges(NamedTuple):
    """A changed model as the bytes of an exported program."""

    data: bytes
    applied: tuple[str, ...]
    """The changes that are part of it."""
    left_out: tuple[str, ...]
    """The changes that concern how a model runs, which a program cannot contain."""


def model_changes(
    runnable: Runnable, specs: Sequence[str], *, same_inputs: bool = False
) -> tuple[Runnable, tuple[str, ...], tuple[str, ...]]:
    """The changed model, the changes that altered the model itself, and those that only alter how it runs.

    With `same_inputs`, changes after which the model must be called in another way count among the latter.
    """
    original, applied = runnable, []
    for text in specs:
        spec = parse_spec(text)
        before = Runnable(*copy.deepcopy((runnable.model, runnable.args, runnable.kwargs)))
        try:
            after = spec.apply(before)
        except NotApplicable as error:
            raise UsageError(f"{text} does not apply: {error}") from error
        runs_otherwise = spec.change.isolated or after.contexts or after.items != 1
        if runs_otherwise or not isinstance(after.model, nn.Module):
            continue
        if not same_inputs or (after.compare is None and _accepts(after.model, original)):
            runnable = after
            applied.append(text)
    return runnable, tuple(applied), tuple(text for text in specs if text not in applied)


def _accepts(model: nn.Module, original: Runnable) -> bool:
    """Whether the model can be called with the inputs of the original."""
    try:
        one_pass(Runnable(model, *copy.deepcopy((original.args, original.kwargs))), False)
    except (RuntimeError, TypeError, ValueError):
        return False
    return True


def exported_changes(runnable: Runnable, specs: Sequence[str]) -> ExportedChanges:
    """The program of the model with those of these changes that it can contain; `runnable` is left as it is."""
    changed, applied, left_out = model_changes(runnable, specs)
    if not applied:
        raise UsageError(f"{', '.join(left_out)} cannot be part of an exported program: {_SUGGESTION}")
    try:
        with torch.no_grad():
            program = torch.export.export(changed.model, changed.args, changed.kwargs)
    except Exception as error:  # torch raises many kinds of errors for code that it cannot export
        raise UsageError(f"the changed model cannot be exported ({error_line(error)}): {_SUGGESTION}") from error
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # about weights with channels last, which load as they were
        torch.export.save(program, buffer)
    _verify(changed, buffer)
    return ExportedChanges(buffer.getvalue(), applied, left_out)


def _verify(changed: Runnable, buffer: io.BytesIO) -> None:
    """Raise if the program gives other outputs once it is loaded."""
    buffer.seek(0)
    loaded = torch.export.load(buffer).module()
    expected = one_pass(changed, False)
    actual = one_pass(Runnable(loaded, changed.args, changed.kwargs), False)
    error, precision = relative_error(expected, actual)
    if not error <= max(_TOLERANCE, 8 * precision):
        raise UsageError(f"the exported program gives other outputs (relative error {error:.2g}): {_SUGGESTION}")
