"""Findings as rows: a fact worth knowing or acting on, with its evidence and what it is worth."""

from __future__ import annotations

from msgspec import Struct, field

from assay.display import Displayed
from assay.document.plans import TensorPlan
from assay.document.provenance import Figure

SEVERITIES = ("error", "warning", "advice", "note")
"""Most severe first: wrong results, likely problems, possible gains, facts worth knowing."""

TIME, MEMORY, BYTES, ENERGY = "time", "memory", "bytes", "energy"
QUANTITIES = (TIME, MEMORY, BYTES, ENERGY)
"""What a gain can be of: time of a pass, peak memory of a pass, bytes of stored weights, energy of a pass."""


class Gain(Struct, frozen=True, omit_defaults=True):
    """What following the advice of a finding saves at most; negative if it costs more than it saves."""

    of: str
    """`time`, `memory`, `bytes` or `energy`."""
    amount: Figure
    """Seconds per pass, bytes of peak memory, stored bytes, or joules per pass."""
    share: Figure
    """The same as a share of the pass, of its peak memory, of all stored weights, or of the energy of the pass."""


class Finding(Displayed, Struct, frozen=True, omit_defaults=True):
    """One finding of one rule about a model.

    Attributes:
        code: The rule's code, which never changes its meaning: `W101`.
        severity: `error`, `warning`, `advice` or `note`.
        title: The fact in one line, with its names and numbers.
        advice: What to do about it, starting with a verb.
        modules: The affected modules, as indices into `Document.modules`.
        tensors: Names of the affected tensors.
        evidence: The values behind the finding; the unit is part of the name: `saved_bytes`.
        gain: What following the advice saves at most; null if it is not about saving anything.
        verified: The result of trying the advice, in one line; empty if it was not tried. `Document.trials` has more.
        plan: What the advice means for each tensor; empty if it is the same for all.
    """

    code: str
    severity: str
    title: str
    advice: str
    modules: tuple[int, ...] = ()
    tensors: tuple[str, ...] = ()
    evidence: dict[str, Figure] = field(default_factory=dict)
    gain: Gain | None = None
    verified: str = ""
    plan: tuple[TensorPlan, ...] = ()
