"""Rules about the gradients of a backward pass: NaN, lost scale, and parameters that receive none."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from assay.document.activations import GradientValues
from assay.document.provenance import Counted, Figure
from assay.findings.catalogue import rule
from assay.findings.depth import change_text, strongest_trend, trend_evidence
from assay.findings.facts import ModelFacts
from assay.findings.naming import fold_names, joined_names
from assay.findings.needs import FLOW, GRADIENTS
from assay.findings.rule import RuleMatch
from assay.findings.rules.activations import activations, unless_made_up
from assay.messages import plural

BY_BACKWARD = Counted("all values of the gradients of one backward pass")


@rule(
    "A201",
    "error",
    "NaN or infinite gradients",
    advice="Look at the ops after the named layer: the gradients of sqrt, norm and division are not finite at zero, "
    "and torch.where passes on NaN from the branch it does not take. torch.autograd.set_detect_anomaly(True) names "
    "the op. In float16, use loss scaling.",
    needs=(GRADIENTS,),
)
def nonfinite_gradients(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Parameters with gradients that are not finite, unless the forward pass already was not."""
    rows = activations(facts).gradients
    bad = [row for row in rows if row.nan or row.inf]
    if not bad or activations(facts).first_nan is not None:
        return
    what = "NaN" if any(row.nan for row in bad) else "infinite"
    latest = facts.document.tensors[bad[-1].tensor].names[0]
    title = f"{what} gradients in {len(bad)} of {plural(len(rows), 'parameter')}, from {latest} backwards"
    yield RuleMatch(title, _counts(bad, rows), _owners(facts, bad), _names(facts, bad))


@rule(
    "A202",
    "warning",
    "gradients that grow or shrink by a large factor from layer to layer",
    advice="Add residual connections or normalisation, or initialise the weights for the activation in use: layers "
    "with tiny gradients hardly learn, and very large ones make training unstable. Clipping gradients only hides it.",
    needs=(GRADIENTS,),
)
def lost_gradients(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Repeated weights whose gradients change their root mean square steadily by a factor of at least 1000."""
    tensors = facts.document.tensors
    trend = strongest_trend(
        (row.tensor, tensors[row.tensor].names[0], row.norm / math.sqrt(row.count))
        for row in activations(facts).gradients
        if row.norm is not None and row.count and len(tensors[row.tensor].type.shape) > 1
    )
    if trend is None:
        return
    names = [tensors[index].names[0] for index in trend.members]
    title = f"gradients {change_text(trend)} from the first to the last of {plural(len(names), 'layer')}"
    rows = [row for row in activations(facts).gradients if row.tensor in trend.members]
    yield RuleMatch(
        f"{title}: {joined_names(fold_names(names))}",
        trend_evidence(trend, BY_BACKWARD),
        _owners(facts, rows),
        names,
        severity=unless_made_up(facts, "warning"),
    )


@rule(
    "A203",
    "warning",
    "trainable parameters that are used but receive no gradient",
    advice="Look for detach(), no_grad(), .data, argmax or rounding between these parameters and the outputs, or "
    "freeze them with requires_grad_(False). Codebooks that are updated without gradients are fine.",
    needs=(GRADIENTS, FLOW),
)
def without_gradient(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Trainable parameters that ops read and that have no gradient after the backward pass, or one that is zero."""
    rows = [row for row in activations(facts).gradients if _is_used(facts, row)]
    none, zero = [row for row in rows if not row.received], [row for row in rows if row.zeros == 1.0]
    if none:
        title = f"{plural(len(none), 'trainable parameter')} used in the pass without a gradient"
        yield RuleMatch(
            f"{title}: {_joined(facts, none)}", _counts(none, rows), _owners(facts, none), _names(facts, none)
        )
    elif zero:
        title = f"gradients of {plural(len(zero), 'trainable parameter')} are exactly zero"
        yield RuleMatch(
            f"{title}: {_joined(facts, zero)}",
            _counts(zero, rows),
            _owners(facts, zero),
            _names(facts, zero),
            "Check for dead ReLUs and for factors that are zero. Before training, zero-initialised layers (the "
            "second matrix of LoRA, the last norm of a residual branch) stop the gradients of what comes before.",
            severity="note",
        )


def _is_used(facts: ModelFacts, row: GradientValues) -> bool:
    storage = facts.tensor_storages.get(row.tensor)
    return storage is not None and storage in facts.flow.readers


def _counts(affected: Sequence[GradientValues], rows: Sequence[GradientValues]) -> dict[str, Figure]:
    numbers = {"parameters_affected": len(affected), "trainable_parameters": len(rows)}
    return {name: Figure(value, BY_BACKWARD) for name, value in numbers.items()}


def _names(facts: ModelFacts, rows: Sequence[GradientValues]) -> list[str]:
    return [facts.document.tensors[row.tensor].names[0] for row in rows]


def _joined(facts: ModelFacts, rows: Sequence[GradientValues]) -> str:
    return joined_names(fold_names(_names(facts, rows)))


def _owners(facts: ModelFacts, rows: Sequence[GradientValues]) -> list[int]:
    """The modules that hold the parameters, in model order."""
    chosen = {row.tensor for row in rows}
    modules = facts.document.modules
    return [index for index, module in enumerate(modules) if chosen & set(module.tensors.values())]
