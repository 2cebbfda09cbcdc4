"""Findings as rows: a fact worth knowing or acting on, with its evidence."""

from __future__ import annotations

from msgspec import Struct, field

from assay.document.provenance import Figure

SEVERITIES = ("error", "warning", "advice", "note")
"""Most severe first: wrong results, likely problems, possible gains, facts worth knowing."""


class Finding(Struct, frozen=True, omit_defaults=True):
    """One finding of one rule about a model.

    Attributes:
        code: The rule's code, which never changes its meaning: `W101`.
        severity: `error`, `warning`, `advice` or `note`.
        title: The fact in one line, with its names and numbers.
        advice: What to do about it, starting with a verb.
        modules: The affected modules, as indices into `Document.modules`.
        tensors: Names of the affected tensors.
        evidence: The values behind the finding; the unit is part of the name: `saved_bytes`.
        verified: How the advice was tested and with what result; empty if it was not tested.
    """

    code: str
    severity: str
    title: str
    advice: str
    modules: tuple[int, ...] = ()
    tensors: tuple[str, ...] = ()
    evidence: dict[str, Figure] = field(default_factory=dict)
    verified: str = ""
