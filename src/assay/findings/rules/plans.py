"""Rules that plan the compression of each matrix: its bit width, and what can be pruned from it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from assay import units
from assay.document.plans import PrunedTensor
from assay.document.provenance import Counted, Figure, Modelled
from assay.findings.facts import ModelFacts
from assay.findings.gains import bytes_gain
from assay.findings.naming import fold_names, joined_names
from assay.findings.rule import RuleMatch
from assay.findings.stored import BY_BYTES, stored_bytes, weights_rule
from assay.findings.weight_plans import MIN_DB, MIN_ENERGY, MIN_PRUNED, pruning_plan, quantization_plan
from assay.messages import plural

MIN_SAVING = 1 << 18
"""A plan that saves fewer bytes is not worth its work."""
MIN_INT4 = 0.2
"""With a smaller share of bytes in int4, a plan saves hardly more than int8 for all matrices (W204)."""
BY_FORMATS = Counted("bits per weight of each chosen format, and one 16-bit scale per row or group")
BY_MASK = Modelled("a bit mask and the remaining weights", ("fine-tuning recovers the accuracy",))


@weights_rule(
    "W209",
    "advice",
    "a bit width for each matrix",
    advice="Quantize each matrix to its planned width (linear layers: torchao's quantize_ with a filter, or a mixed "
    "GGUF type; convolutions: static int8 with torchao's prepare_pt2e) and keep the named ones wider. Low noise in "
    "the weights does not guarantee accuracy: compare outputs on your data.",
)
def bit_widths(facts: ModelFacts) -> Iterator[RuleMatch]:
    """The narrowest format of each matrix that keeps 18 dB, if that is not int8 for all or nearly all bytes."""
    plan = quantization_plan(facts)
    now, then = sum(row.bytes for row in plan), sum(row.planned_bytes for row in plan)
    widths = Counter(row.width for row in plan)
    int4 = sum(row.bytes for row in plan if row.width == "int4")
    if now - then < MIN_SAVING or (set(widths) <= {"int4", "int8"} and int4 < MIN_INT4 * now):
        return
    counts = ", ".join(f"{count} {name}" for name, count in sorted(widths.items()))
    widest = max(widths)  # the names sort by width
    wide = fold_names(row.name for row in plan if row.width == widest)
    named = f"; {widest}: {joined_names(wide)}" if len(widths) > 1 else ""
    sqnrs = [row.sqnr_db for row in plan if row.sqnr_db is not None]
    yield RuleMatch(
        f"bit widths that keep at least {MIN_DB:g} dB shrink {plural(len(plan), 'matrix', 'matrices')} from "
        f"{units.size(now)} to {units.size(then)} ({counts}){named}",
        {
            **{f"{name}_tensors": Figure(count, BY_FORMATS) for name, count in widths.items()},
            "bytes": Figure(now, BY_BYTES),
            "planned_bytes": Figure(then, BY_FORMATS),
            **({"worst_sqnr_db": Figure(min(sqnrs), BY_BYTES)} if sqnrs else {}),
        },
        tensors=[row.name for row in plan],
        gain=bytes_gain(now - then, stored_bytes(facts), BY_FORMATS),
        plan=plan,
    )


@weights_rule(
    "W210",
    "note",
    "the share of each matrix that can be pruned",
    advice="Prune these matrices by magnitude up to the given share and fine-tune. Scattered zeros save space, not "
    "time: for speed, prune whole rows or to 2:4.",
)
def prunable(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Matrices that keep 95 % of their energy without half of their weights, unless these are zero already."""
    plan = [row for row in pruning_plan(facts) if row.share >= MIN_PRUNED and row.share > row.share_zero]
    now, then = sum(row.bytes for row in plan), sum(row.planned_bytes for row in plan)
    if now - then < MIN_SAVING:
        return
    share, zero = _mean(plan, lambda row: row.share), _mean(plan, lambda row: row.share_zero)
    named = joined_names(fold_names(row.name for row in plan))
    yield RuleMatch(
        f"at least {units.share(share, 1)} of the weights of {plural(len(plan), 'matrix', 'matrices')} can be pruned "
        f"while each keeps {units.share(MIN_ENERGY, 1)} of its energy: {named}",
        {
            "share_pruned": Figure(share, BY_BYTES),
            "share_zero": Figure(zero, BY_BYTES),
            "least_energy_kept": Figure(min(row.energy for row in plan), BY_BYTES),
            "bytes": Figure(now, BY_BYTES),
            "planned_bytes": Figure(then, BY_MASK),
        },
        tensors=[row.name for row in plan],
        gain=bytes_gain(now - then, stored_bytes(facts), BY_MASK),
        plan=plan,
    )


def _mean(plan: Sequence[PrunedTensor], share: Callable[[PrunedTensor], float]) -> float:
    """The mean share of the matrices, weighted by their elements."""
    return sum(share(row) * row.elements for row in plan) / sum(row.elements for row in plan)
