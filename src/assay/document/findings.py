"""Findings as rows: something a person should know or do, with its evidence."""

from __future__ import annotations

from msgspec import Struct, field

from assay.document.provenance import Figure

SEVERITIES = ("error", "warning", "advice", "note")
"""From worst to mildest: wrong results, likely trouble, something to gain, good to know."""


class Finding(Struct, frozen=True, omit_defaults=True):
    """One finding of one rule."""

    code: str
    """Stable: `W101`."""
    severity: str
    """One of `SEVERITIES`."""
    title: str
    """One line, with the names and figures of this case."""
    advice: str
    """What to do about it."""
    modules: tuple[int, ...] = ()
    """Where, as indices into `Document.modules`."""
    tensors: tuple[str, ...] = ()
    """Names of the tensors it is about."""
    evidence: dict[str, Figure] = field(default_factory=dict)
    """The figures it rests on, by name with the unit in it."""
    verified: str = ""
    """How it was tried and what came out; empty where it was not."""
