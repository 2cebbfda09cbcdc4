"""Rules about the values of outputs in a pass with data: NaN, infinities, saturation, dead units, lost scale."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from assay import units
from assay.document import tree
from assay.document.activations import (
    FROM_CONSTANTS,
    FROM_INFINITIES,
    FROM_INPUTS,
    FROM_OP,
    FROM_WEIGHTS,
    Activations,
    NonfiniteSource,
    OutputValues,
)
from assay.document.document import EXAMPLE, FUNCTION, GIVEN
from assay.document.op_names import public_name
from assay.document.provenance import Counted, Figure
from assay.findings.catalogue import rule
from assay.findings.depth import change_text, strongest_trend, trend_evidence
from assay.findings.facts import ModelFacts
from assay.findings.naming import fold_names, joined_names, module_names
from assay.findings.needs import ACTIVATIONS, FLOW
from assay.findings.rule import RuleMatch
from assay.messages import plural

BY_VALUES = Counted("all values of the outputs in one pass")
SATURATED, DEAD = 0.9, 0.95
"""Shares of values at the ends of a saturated activation, and of zeros in a dead one."""
MIN_VALUES = 256
"""Fewer values prove nothing about an activation."""
MIN_PER_CHANNEL = 16
"""Fewer values prove nothing about a channel: random ones are all negative about once in 2^16 channels."""
DEAD_CHANNELS = 0.05
"""The share of channels from which on dead ones are worth a finding."""
FLOAT16_MAX = 65504.0
NEAR_MAX = 0.5
"""The share of the largest float16 value from which on a value is close to overflowing."""
_PRODUCTS = ("linear", "conv", "mm", "matmul", "bmm", "addmm", "baddbmm", "einsum", "attention", "norm")
"""Parts of the names of ops whose outputs are values of the model, not masks with very large numbers."""


def activations(facts: ModelFacts) -> Activations:
    """The statistics of outputs, which the rule needs."""
    found = facts.document.activations
    assert found is not None
    return found


def unless_made_up(facts: ModelFacts, severity: str) -> str:
    """`severity` if the user gave the inputs; `note` if they were made up, because random values prove little."""
    return severity if facts.document.run.inputs_kind in (GIVEN, FUNCTION, EXAMPLE) else "note"


@rule(
    "A101",
    "error",
    "NaN in the outputs of a pass, and where it first appears",
    advice="Look at this op and its inputs: common causes are 0/0, the logarithm or root of a negative number, "
    "inf − inf, and a softmax over a row that is masked completely.",
    needs=(ACTIVATIONS,),
)
def first_nan(facts: ModelFacts) -> Iterator[RuleMatch]:
    """The first op whose output has NaN that none of its activations had."""
    found, infinity = activations(facts).first_nan, activations(facts).first_inf
    if found is None:
        return
    text, advice = _NAN_SOURCES[found.source]
    cause = "" if infinity is None else _place(facts, infinity)
    names = _tensor_names(facts, found)
    yield RuleMatch(
        f"NaN first appears in {_place(facts, found)}{text.format(cause)}{_listed(names)}",
        {"nan": _count(facts, found, "nan"), "modules_with_nan": _spread(facts, "nan")},
        (found.module,),
        names,
        advice.format(cause),
        severity="error" if found.reached_output else "warning",
    )


_LOAD_EARLIER = (
    "Load an earlier checkpoint: these weights contain NaN or infinities (see W101), and so does all that depends on "
    "them."
)
_NAN_SOURCES = {
    FROM_OP: (" (its inputs have none)", ""),
    FROM_INFINITIES: (
        ", after infinities from {}",
        "Look at {} first (see A102): NaN comes from its infinities, as in inf − inf, inf / inf or 0 · inf.",
    ),
    FROM_WEIGHTS: (
        " because it reads weights that are not finite",
        _LOAD_EARLIER,
    ),
    FROM_INPUTS: (
        " because the inputs have NaN",
        "Clean the inputs: they contain NaN before the model sees them.",
    ),
    FROM_CONSTANTS: (
        " because it reads a constant with NaN",
        "Look for a tensor with NaN that forward reads and that is neither a parameter nor a buffer.",
    ),
}


@rule(
    "A102",
    "error",
    "an op that makes infinities of finite numbers",
    advice="Look at this op and the size of its inputs: common causes are a division by zero, the logarithm of zero, "
    "exp of a large number, and sums that exceed the range of float16. Compute it in float32, or clamp its input.",
    needs=(ACTIVATIONS,),
)
def first_infinity(facts: ModelFacts) -> Iterator[RuleMatch]:
    """The first op with infinities in its output and only finite inputs; negative ones inside a model are masks."""
    found = activations(facts).first_inf
    if found is None or not (found.positive or found.reached_output):
        return
    names = _tensor_names(facts, found)
    why = f" because it reads weights with infinities{_listed(names)}" if names else " (its inputs are finite)"
    yield RuleMatch(
        f"infinities first appear in {_place(facts, found)}{why}",
        {"infinite": _count(facts, found, "inf"), "modules_with_infinities": _spread(facts, "inf")},
        (found.module,),
        names,
        _LOAD_EARLIER if names else "",
        severity="error" if found.reached_output else "warning",
    )


def _tensor_names(facts: ModelFacts, found: NonfiniteSource) -> list[str]:
    return [facts.document.tensors[index].names[0] for index in found.tensors]


def _listed(names: list[str]) -> str:
    """`: a, b`, or nothing without names."""
    return f": {joined_names(fold_names(names))}" if names else ""


def _place(facts: ModelFacts, found: NonfiniteSource) -> str:
    path = tree.path_text(facts.document.modules[found.module].path)
    return f"the output of {_op_name(found.op)} in {path}"


def _op_name(op: str) -> str:
    namespace, _, name = op.partition(".")
    return public_name(namespace, name)


def _count(facts: ModelFacts, found: NonfiniteSource, what: str) -> Figure:
    rows = [row for row in activations(facts).ops if (row.module, row.op) == (found.module, found.op)]
    return Figure(sum(getattr(row, what) for row in rows), BY_VALUES)


def _spread(facts: ModelFacts, what: str) -> Figure:
    """The number of modules whose outputs have such values."""
    return Figure(sum(1 for row in activations(facts).modules if getattr(row, what)), BY_VALUES)


@rule(
    "A103",
    "warning",
    "saturated activations: nearly all values at the flat ends of a sigmoid, tanh or softmax",
    advice="Normalise or scale down what goes into these activations, or lower the learning rate: at the ends, their "
    "gradients are almost zero, so the layers before them hardly learn. Gates that are meant to be fully open or "
    "closed are fine.",
    needs=(ACTIVATIONS, FLOW),
)
def saturated(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Activations with at least 90 % of their values at the ends, except those that the model returns."""
    rows = [
        row
        for row in activations(facts).ops
        if row.count >= MIN_VALUES and (row.at_ends or 0.0) >= SATURATED and _is_read(facts, row)
    ]
    if rows:
        worst = max(row.at_ends or 0.0 for row in rows)
        title = f"at least {100 * SATURATED:.0f} % of the outputs of {plural(len(rows), 'activation')} are saturated"
        evidence = {"saturated": Figure(len(rows), BY_VALUES), "share_at_ends": Figure(worst, BY_VALUES)}
        yield _in_rows(facts, rows, title, evidence)


def _is_read(facts: ModelFacts, row: OutputValues) -> bool:
    """Whether another op reads the output; a model may well return probabilities of almost 0 and 1."""
    ops = [op for op in facts.ops_of(row.op) if facts.module(op) == row.module]
    return any(storage in facts.flow.readers for op in ops for storage in facts.flow.op(op).writes)


@rule(
    "A104",
    "warning",
    "dead units: ReLU outputs that are almost all zero",
    advice="Check the biases and the learning rate that these layers were trained with, or use LeakyReLU or GELU: a "
    "unit that is always zero gets no gradient and cannot recover. If they stay dead on real data, prune them.",
    needs=(ACTIVATIONS,),
)
def dead_units(facts: ModelFacts) -> Iterator[RuleMatch]:
    """ReLU-like ops with at least 95 % zeros, and others with channels that are zero for the whole batch."""
    relus = [row for row in activations(facts).ops if row.zeros is not None and row.count >= MIN_VALUES]
    rows = [row for row in relus if (row.zeros or 0.0) >= DEAD]
    if rows:
        channels = sum(map(_dead_channels, rows))
        evidence = {"dead_layers": Figure(len(rows), BY_VALUES), "dead_channels": Figure(channels, BY_VALUES)}
        worst = max(rows, key=lambda row: row.zeros or 0.0)
        path = tree.path_text(facts.document.modules[worst.module].path)
        title = (
            f"{plural(len(rows), 'ReLU layer')} of {len(relus)} with at least {100 * DEAD:.0f} % zeros (up to "
            f"{units.share(worst.zeros or 0.0, 1.0)} in {path})"
        )
        yield _in_rows(facts, rows, title, {**evidence, "share_of_zeros": Figure(worst.zeros, BY_VALUES)})

    partly = [row for row in activations(facts).ops if row not in rows and _dead_share(row) >= DEAD_CHANNELS]
    if partly:
        yield _in_rows(facts, partly, *_channel_facts(facts, partly))


def _channel_facts(facts: ModelFacts, rows: Sequence[OutputValues]) -> tuple[str, dict[str, Figure]]:
    """The title and the evidence of dead channels in these rows."""
    dead, every = sum(map(_dead_channels, rows)), sum(row.channels or 0 for row in rows)
    worst = max(rows, key=_dead_share)
    path = tree.path_text(facts.document.modules[worst.module].path)
    title = (
        f"{dead} of {plural(every, 'channel')} of {plural(len(rows), 'ReLU layer')} are zero for the whole batch (up "
        f"to {units.share(_dead_share(worst), 1.0)} in {path})"
    )
    share = Figure(_dead_share(worst), BY_VALUES)
    return title, {"dead_channels": Figure(dead, BY_VALUES), "share_of_channels": share}


def _dead_channels(row: OutputValues) -> int:
    """The number of dead channels; 0 if there are too few values."""
    enough = row.channels is not None and row.count >= MIN_PER_CHANNEL * row.channels
    return row.dead_channels or 0 if enough else 0


def _dead_share(row: OutputValues) -> float:
    return _dead_channels(row) / row.channels if row.channels else 0.0


def _in_rows(facts: ModelFacts, rows: Sequence[OutputValues], title: str, evidence: dict[str, Figure]) -> RuleMatch:
    """A warning for the modules of `rows`, or a note if the inputs were made up."""
    modules = tuple(dict.fromkeys(row.module for row in rows))
    names = module_names(facts.document, modules)
    return RuleMatch(f"{title}: {names}", evidence, modules, severity=unless_made_up(facts, "warning"))


@rule(
    "A105",
    "warning",
    "outputs that grow or shrink by a large factor from layer to layer",
    advice="Add normalisation or residual connections, or scale the initial weights (Kaiming or Xavier "
    "initialisation for the activation in use): the last layers then see inputs of a usual size.",
    needs=(ACTIVATIONS,),
)
def lost_scale(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Repeated layers whose outputs change their root mean square steadily by a factor of at least 1000."""
    modules = facts.document.modules
    trend = strongest_trend(
        (row.module, f"{modules[row.module].class_name} {modules[row.module].path}", row.rms)
        for row in activations(facts).modules
        if row.rms is not None
    )
    if trend is not None:
        title = f"outputs {change_text(trend)} over {plural(len(trend.members), 'layer')}"
        names = module_names(facts.document, trend.members)
        severity = unless_made_up(facts, "warning")
        yield RuleMatch(f"{title}: {names}", trend_evidence(trend, BY_VALUES), trend.members, severity=severity)


@rule(
    "A106",
    "warning",
    "outputs that exceed the range of float16 or come close",
    advice="Run these layers in bfloat16 or float32: in float16 their values overflow or come close.",
    needs=(ACTIVATIONS,),
)
def near_overflow(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Matrix products, convolutions and norms with outputs near or above the largest float16 value."""
    rows = [row for row in activations(facts).ops if _magnitude(row) >= _limit(row) and _is_product(row)]
    if rows:
        largest = max(map(_magnitude, rows))
        in_float16 = any(row.dtype == "float16" for row in rows)
        where = "close to overflowing in float16" if in_float16 else "too large for float16"
        title = f"outputs up to {largest:.3g} are {where} ({FLOAT16_MAX:.0f})"
        match = _in_rows(
            facts, rows, title, {"ops": Figure(len(rows), BY_VALUES), "largest": Figure(largest, BY_VALUES)}
        )
        yield match if in_float16 else RuleMatch(match.title, match.evidence, match.modules, severity="note")


def _magnitude(row: OutputValues) -> float:
    return max(abs(row.min or 0.0), abs(row.max or 0.0))


def _limit(row: OutputValues) -> float:
    return NEAR_MAX * FLOAT16_MAX if row.dtype == "float16" else FLOAT16_MAX


def _is_product(row: OutputValues) -> bool:
    return any(part in row.op for part in _PRODUCTS)
