"""Checking a document against the limits of a budget: one line per limit, each passed, exceeded or unknown."""

from __future__ import annotations

from msgspec import Struct

from assay.analysis.model_figures import pass_time
from assay.document.document import Document
from assay.document.findings import SEVERITIES
from assay.document.provenance import Figure, Measured, Unknown
from assay.findings.limits import Limits
from assay.findings.quantities import COUNT, QUANTITIES, BudgetAmount, BudgetFacts, occurrences

PASSED, EXCEEDED, UNKNOWN = "passed", "exceeded", "unknown"
RATIO = "ratio"


class BudgetLine(Struct, frozen=True, omit_defaults=True):
    """One limit, compared with the value of a model."""

    name: str
    """The key of the limit in a budget file; for a forbidden finding, `no W101`."""
    label: str
    """Its name in a table."""
    unit: str
    """`count`, `bytes` or `ratio`."""
    value: Figure
    """The value of the model."""
    limit: float
    """The largest value that passes."""
    verdict: str
    """`passed`, `exceeded` or `unknown`."""
    detail: str = ""
    """Why the verdict is unknown; empty otherwise."""


class BudgetReport(Struct, frozen=True):
    """The limits of a model, compared with its values."""

    lines: list[BudgetLine]
    """One per limit."""
    strict: bool = False
    """Whether an unknown value fails."""

    @property
    def failed(self) -> list[BudgetLine]:
        """The limits that were exceeded; if strict, also those that could not be checked."""
        verdicts = (EXCEEDED, UNKNOWN) if self.strict else (EXCEEDED,)
        return [line for line in self.lines if line.verdict in verdicts]


def budget_report(facts: BudgetFacts, limits: Limits, reference: Document | None = None) -> BudgetReport:
    """Compare a model with its limits; `reference` is the document that the limit of latency refers to."""
    lines = []
    for name, limit in limits.amounts.items():
        quantity = QUANTITIES[name]
        lines.append(_line(name, quantity.label, quantity.unit, quantity.amount(facts), limit))
    if limits.latency is not None:
        ratio = BudgetAmount(latency_ratio(facts.document, reference))
        lines.append(_line("latency", "time ÷ reference", RATIO, ratio, limits.latency.ratio))
    for word in limits.no:
        lines.append(_line(f"no {word}", _forbidden_label(word), COUNT, occurrences(facts, word), 0))
    return BudgetReport(lines, limits.strict)


def _line(name: str, label: str, unit: str, amount: BudgetAmount, limit: float) -> BudgetLine:
    value, how = amount.value.value, amount.value.how
    if value is None:
        why = how.why if isinstance(how, Unknown) else ""
        return BudgetLine(name, label, unit, amount.value, limit, UNKNOWN, why)
    low, high = how.range if isinstance(how, Measured) and how.range is not None else (value, value)
    if low > limit:
        return BudgetLine(name, label, unit, amount.value, limit, EXCEEDED)
    if high > limit:
        return BudgetLine(name, label, unit, amount.value, limit, UNKNOWN, "the limit is within the measured range")
    if amount.at_least:
        return BudgetLine(name, label, unit, amount.value, limit, UNKNOWN, f"a lower bound: {amount.at_least}")
    return BudgetLine(name, label, unit, amount.value, limit, PASSED)


def _forbidden_label(word: str) -> str:
    return f"findings of severity {'suggestion' if word == 'advice' else word}" if word in SEVERITIES else word


def latency_ratio(document: Document, reference: Document | None) -> Figure:
    """The time of a pass divided by that of `reference`, with its range; unknown if the two cannot be compared."""
    if reference is None:
        return Figure(None, Unknown("there is no reference"))
    times = [pass_time(document), pass_time(reference)]
    reasons = [time.how.why for time in times if isinstance(time.how, Unknown)]
    why = next(iter(reasons), "") or _incomparable(document, reference)
    if why or times[0].value is None or not times[1].value:
        return Figure(None, Unknown(why or "the reference has no time"))
    (low, high), (least, most) = (_range(time) for time in times)
    how = Measured("time of a pass ÷ that in the reference", _repeats(times[0]), range=(low / most, high / least))
    return Figure(times[0].value / times[1].value, how)


def _incomparable(document: Document, reference: Document) -> str:
    """Why the times of the two cannot be compared; empty if they can."""
    here, there = document.machine, reference.machine
    if not here.processor or not there.processor:
        return "the processor is not recorded: save the reference again"
    if (here.processor, here.device) != (there.processor, there.device):
        return f"the reference was measured on another machine ({there.processor}, {there.device})"
    if _conditions(document) != _conditions(reference):
        return "the reference was measured with other inputs, another dtype, mode or number of threads"
    return ""


def _conditions(document: Document) -> tuple[object, ...]:
    run, threads = document.run, document.profile.threads if document.profile is not None else None
    return tuple(each.type for each in run.inputs), run.dtype, run.training, threads


def _range(time: Figure) -> tuple[float, float]:
    """The range of a measured time; the value itself if it has none."""
    value = float(time.value or 0)
    ends = time.how.range if isinstance(time.how, Measured) else None
    return ends if ends is not None and ends[0] > 0 else (value, value)


def _repeats(time: Figure) -> int:
    return time.how.repeats if isinstance(time.how, Measured) else 1
