"""Findings as rows: a fact worth knowing or acting on, with its evidence."""

from __future__ import annotations

from msgspec import Struct, field

from assay.document.provenance import Figure

SEVERITIES = ("error", "warning", "advice", "note")
"""Most severe first: wrong results, likely problems, possible gains, facts worth knowing."""


class Finding(Struct, frozen=True, omit_defaults=True):
    """One finding of one rule about a model."""

    code: str
    """The rule's code, which never changes its meaning: `W101`."""
    severity: str
    """`error`, `warning`, `advice` or `note`."""
    title: str
    """The fact in one line, with its names and numbers."""
    advice: str
    """What to do about it, starting with a verb."""
    modules: tuple[int, ...] = ()
    """The affected modules, as indices into `Document.modules`."""
    tensors: tuple[str, ...] = ()
    """Names of the affected tensors."""
    evidence: dict[str, Figure] = field(default_factory=dict)
    """The values behind the finding; the unit is part of the name: `saved_bytes`."""
    verified: str = ""
    """How the advice was tested and with what result; empty if it was not tested."""
