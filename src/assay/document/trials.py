"""Trials as rows: a change that was applied to a copy of the model, and what it did to outputs, time and memory."""

from __future__ import annotations

from msgspec import Struct

from assay.document.machine import NOT_MEASURED
from assay.document.provenance import Figure

FASTER, SLOWER, SAME, INCONCLUSIVE = "faster", "slower", "no difference", "inconclusive"
DIFFERENT, FAILED, SKIPPED, UNTRIED = "different outputs", "failed", "not applicable", "not tried"
VERDICTS = (FASTER, SLOWER, SAME, INCONCLUSIVE, DIFFERENT, FAILED, SKIPPED, UNTRIED)
"""`different outputs`: they differ by more than the change is allowed to, whatever the time. `failed`: the change or
the changed model raised, crashed, ran out of memory or did not end. `not applicable`: there was nothing to change.
`not tried`: no time was left."""

EXACT, ROUNDING, LOSSY = "exact", "rounding", "lossy"
"""What a change may do to outputs: nothing, round differently in the same dtype, or lose precision on purpose."""


class OutputError(Struct, frozen=True, omit_defaults=True):
    """How the outputs of the changed model differ from those of the original, over all floating-point outputs."""

    max_abs: float
    """The largest absolute difference."""
    max_rel: float
    """The largest absolute difference, relative to the largest absolute value of the original output."""
    cosine: float | None = None
    """The smallest cosine similarity of two outputs; null if an output is all zeros."""
    sqnr_db: float | None = None
    """The smallest signal-to-noise ratio of an output in decibels; null if an output is exact."""
    top1: float | None = None
    """The share of rows whose largest element is at the same place; null if no output has rows of at least two."""
    tensors: int = 0
    """Number of output tensors that were compared."""
    identical: bool = False
    """Whether all outputs are equal bit for bit."""


class TrialResult(Struct, frozen=True, omit_defaults=True):
    """One change, or a stack of changes, tried on a copy of the model in another process.

    Attributes:
        changes: The names of the changes, in the order in which they were applied: `("channels_last",)`.
        codes: The rules whose advice the changes follow.
        against: The changes of the model it was compared with, called the original below; empty for the original.
        verdict: One of `VERDICTS`.
        detail: Why it failed or does not apply, or what limits the verdict; empty if there is nothing to say.
        effect: What the changes may do to outputs: `exact`, `rounding` or `lossy`.
        speedup: Time of the original divided by that of the changed model, per item; the range is its interval.
        null: The same for the original against itself in the same rounds: the noise of this machine.
        rounds: Number of rounds; in each, both models ran once in random order.
        before: Seconds per pass of the original.
        after: Seconds per pass of the changed model.
        clock: What was compared: `time`, or `processor` (CPU time) on a busy machine.
        outputs: How outputs differ; null if they were not compared.
        memory_before: Peak bytes of a pass of the original, with weights.
        memory_after: Peak bytes of a pass of the changed model, with weights.
        energy_before: Joules per pass of the original.
        energy_after: Joules per pass of the changed model.
        prepare: Seconds that applying the change and the first pass took, such as compiling.
        training: Whether a training step was measured instead of a forward pass.
        items: Items per pass of the changed model divided by those of the original; 1 unless the batch changes.
    """

    changes: tuple[str, ...]
    codes: tuple[str, ...] = ()
    against: tuple[str, ...] = ()
    verdict: str = SKIPPED
    detail: str = ""
    effect: str = EXACT
    speedup: Figure = NOT_MEASURED
    null: Figure = NOT_MEASURED
    rounds: int = 0
    before: Figure = NOT_MEASURED
    after: Figure = NOT_MEASURED
    clock: str = ""
    outputs: OutputError | None = None
    memory_before: Figure = NOT_MEASURED
    memory_after: Figure = NOT_MEASURED
    energy_before: Figure = NOT_MEASURED
    energy_after: Figure = NOT_MEASURED
    prepare: Figure = NOT_MEASURED
    training: bool = False
    items: float = 1.0

    @property
    def name(self) -> str:
        """The names of the changes on one line: `channels_last + bfloat16`."""
        return " + ".join(self.changes)
