"""How the outputs of a changed model differ from those of the original, and whether they may."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from assay.document.trials import EXACT, LOSSY, ROUNDING, OutputError
from assay.messages import plural
from assay.recorder.inventory import dtype_name
from assay.trials.differences import Difference, difference
from assay.trials.leaves import Leaves

_FLOAT32_DB = 80.0
_OWN_DB = 6.0
"""A difference up to twice as large as that between two runs of the original is not one."""


STRUCTURE, FINITE, INTEGERS, PRECISION = "structure", "finite", "integers", "precision"


@dataclass(frozen=True)
class OutputCheck:
    """How outputs differ, and why they may not."""

    error: OutputError | None
    """None if the outputs have different structures."""
    broken: str = ""
    """What differs more than it may: `structure`, `finite` (NaN or infinity), `integers` or `precision`."""
    reason: str = ""
    """The same in words, or what differs although it may."""


def check_outputs(
    before: Leaves, after: Leaves, effect: str, *, coarsest: torch.dtype = torch.float32
) -> OutputCheck:
    """Whether `after` differs from `before` by more than a change with this effect may cause.

    An `exact` change keeps every value. A `rounding` change keeps 58 % of the digits of `coarsest`, the least precise
    dtype that the original computes in: 80 dB in float32, 35 dB in float16, 24 dB in bfloat16. Differences after a
    `lossy` change are only reported, unless NaN or infinity appear or the structure changes.
    """
    structure = _structure(before, after, same_dtypes=effect != LOSSY)
    if structure:
        return OutputCheck(None, STRUCTURE, structure)
    found = _differences(before, after)
    error = _error(before, after, found)
    integers = _integers(before, after)
    checks = (
        (FINITE, _not_finite(found, effect)),
        (INTEGERS if effect != LOSSY or _texts(before) != _texts(after) else "", integers),
        (PRECISION, _rounded(error, effect, coarsest)),
    )
    broken, reason = next(((kind, reason) for kind, reason in checks if reason), ("", ""))
    return OutputCheck(error, broken, reason)


def as_variable(found: OutputCheck, own: OutputCheck) -> bool:
    """Whether outputs differ no more than they do between two runs of the original."""
    if found.broken != own.broken or found.broken != PRECISION:
        return found.broken == own.broken
    assert found.error is not None
    assert own.error is not None
    differs, noise = found.error.sqnr_db, own.error.sqnr_db
    return noise is not None and (differs is None or differs >= noise - _OWN_DB)


def tolerance_db(coarsest: torch.dtype) -> float:
    """The smallest signal-to-noise ratio of a change that only rounds differently, in decibels."""
    return _FLOAT32_DB * math.log(torch.finfo(coarsest).eps) / math.log(torch.finfo(torch.float32).eps)


def _structure(before: Leaves, after: Leaves, *, same_dtypes: bool) -> str:
    """The first difference in structure, shape or, if asked for, dtype; empty if there is none."""
    missing = [_named(path) for path in before if path not in after]
    added = [_named(path) for path in after if path not in before]
    if missing or added:
        what, paths = ("lacks", missing) if missing else ("adds", added)
        return f"the changed model {what} {plural(len(paths), 'output')}, such as {paths[0]}"
    for path, old in before.items():
        new = after[path]
        if isinstance(old, torch.Tensor) != isinstance(new, torch.Tensor):
            return f"{_named(path)} is a {type(new).__name__} instead of a {type(old).__name__}"
        if not isinstance(old, torch.Tensor):
            continue
        if old.shape != new.shape:
            return f"{_named(path)} has shape {tuple(new.shape)} instead of {tuple(old.shape)}"
        if (same_dtypes or _inexact(old) != _inexact(new)) and old.dtype != new.dtype:
            return f"{_named(path)} is {dtype_name(new.dtype)} instead of {dtype_name(old.dtype)}"
    return ""


def _differences(before: Leaves, after: Leaves) -> dict[str, Difference]:
    return {path: difference(old, after[path]) for path, old in before.items() if _inexact(old)}


def _inexact(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor) and (leaf.is_floating_point() or leaf.is_complex())


def _integers(before: Leaves, after: Leaves) -> str:
    """The first integer, boolean or string output that differs; empty if there is none."""
    for path, old in before.items():
        new = after[path]
        if isinstance(old, torch.Tensor):
            if not _inexact(old) and not torch.equal(old, new):
                return f"{_named(path)} differs in {int((old != new).sum()):,} of {old.numel():,} elements"
        elif old != new:
            return f"{_named(path)} is {new!r} instead of {old!r}"
    return ""


def _texts(leaves: Leaves) -> dict[str, Any]:
    """The outputs that are neither tensors nor numbers."""
    return {path: leaf for path, leaf in leaves.items() if isinstance(leaf, (str, bytes, bool))}


def _not_finite(found: Mapping[str, Difference], effect: str) -> str:
    for path, each in found.items():
        if each.appeared:
            return f"{_named(path)} has {plural(each.appeared, 'element')} that became NaN or infinite"
        if each.vanished and effect != LOSSY:
            return f"{_named(path)} has {plural(each.vanished, 'element')} no longer NaN or infinite"
    return ""


def _rounded(error: OutputError, effect: str, coarsest: torch.dtype) -> str:
    if effect == EXACT and not error.identical:
        return f"outputs differ by up to {error.max_abs:.2g}; this change should not alter them at all"
    least = tolerance_db(coarsest)
    if effect == ROUNDING and error.sqnr_db is not None and error.sqnr_db < least:
        return f"outputs agree to {error.sqnr_db:.0f} dB; this change should keep {least:.0f} dB"
    return ""


def _error(before: Leaves, after: Leaves, found: Mapping[str, Difference]) -> OutputError:
    each = list(found.values())
    return OutputError(
        max_abs=max((one.max_abs for one in each), default=0.0),
        max_rel=max((one.max_rel for one in each), default=0.0),
        cosine=_least([one.cosine for one in each]),
        sqnr_db=min((one.sqnr_db for one in each if one.sqnr_db is not None), default=None),
        top1=next((one.top1 for one in each if one.top1 is not None), None),
        tensors=len(each),
        identical=all(one.equal for one in each) and not _integers(before, after),
    )


def _least(values: Sequence[float | None]) -> float | None:
    """The smallest value; None if one is unknown or there is none."""
    known = [value for value in values if value is not None]
    return min(known) if known and len(known) == len(values) else None


def _named(path: str) -> str:
    return repr(path) if path else "the output"
