"""Rules about weights with invalid or risky values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from assay import units
from assay.document.provenance import Figure
from assay.document.weights import TensorStatistics
from assay.findings.facts import ModelFacts
from assay.findings.naming import fold_names, joined_names
from assay.findings.rule import RuleMatch
from assay.findings.stored import (
    BY_BYTES,
    dead_unit_bytes,
    dead_units,
    in_tensors,
    is_constant,
    is_floating,
    matrices,
    rows,
    saving,
    total,
    weights_rule,
)  # fmt: skip
from assay.messages import plural

FLOAT16_MAX = 65504.0
"""The largest finite float16 value."""
NEAR_MAX_SHARE = 0.5
DENORMAL_SHARE = 0.01
MIN_BYTES = 1024
"""Dead units that take fewer bytes are not worth a warning."""
TINY_VARIANCE = 1e-10
_LORA_SECOND = ("lora_b", "lora_up", "lora_embedding_b")
"""Parts of the names of LoRA's second matrices, which are zero until they are trained."""


@weights_rule(
    "W101",
    "error",
    "NaN in the weights",
    advice="Go back to an earlier checkpoint: every output that depends on these weights is NaN. Then look for a "
    "learning rate that is too high, a division by zero, or float16 without loss scaling.",
)
def nan_weights(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Tensors that contain NaN."""
    affected = [row for row in rows(facts) if row.nan]
    if affected:
        count = total(affected, lambda row: row.nan)
        title = f"{plural(count, 'NaN value')} in {plural(len(affected), 'tensor')}"
        yield in_tensors(affected, title, nan=count, tensors=len(affected))


@weights_rule(
    "W102",
    "error",
    "infinite values in the weights",
    advice="Go back to an earlier checkpoint: infinities become NaN when they are subtracted or multiplied by zero. "
    "If the weights were converted to float16, keep their values in its range.",
)
def infinities(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Tensors with infinite and other values; a mask of only zeros and infinities is intended."""
    affected = [row for row in rows(facts) if row.inf and (row.zeros or 0) + row.inf < row.count]
    if affected:
        count = total(affected, lambda row: row.inf)
        title = f"{plural(count, 'infinite value')} in {plural(len(affected), 'tensor')}"
        yield in_tensors(affected, title, infinite=count, tensors=len(affected))


@weights_rule(
    "W103",
    "warning",
    "weights that exceed the range of float16 or come close",
    advice="Keep these tensors in bfloat16 or float32: in float16 their values overflow or are close to overflowing.",
)
def float16_overflow(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Tensors outside the float16 range, and float16 tensors above half of it; two-valued masks are ignored."""
    affected = [
        row for row in rows(facts) if is_floating(row) and _largest(row) >= _float16_limit(row) and not _is_mask(row)
    ]
    if affected:
        largest = max(map(_largest, affected))
        title = (
            f"magnitudes up to {largest:.4g} in {plural(len(affected), 'tensor')} (float16 maximum: {FLOAT16_MAX:g})"
        )
        yield in_tensors(affected, title, largest_magnitude=largest, tensors=len(affected))


def _largest(row: TensorStatistics) -> float:
    return max(abs(row.min or 0.0), abs(row.max or 0.0))


def _float16_limit(row: TensorStatistics) -> float:
    return NEAR_MAX_SHARE * FLOAT16_MAX if row.dtype == "float16" else FLOAT16_MAX + 1


def _is_mask(row: TensorStatistics) -> bool:
    return row.distinct is not None and row.distinct <= 2


@weights_rule(
    "W104",
    "warning",
    "matrices whose values are all equal",
    advice="Check that these matrices were loaded and trained: a matrix of zeros passes nothing on, and any other "
    "constant treats all inputs alike. Before training, zero-initialised layers (LoRA's second matrix) are fine.",
)
def constant(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Matrices whose minimum equals their maximum; a note if all are second matrices of LoRA, which start at zero."""
    affected = [row for row in matrices(facts) if is_constant(row) and not row.nan]
    untrained = [row for row in affected if _is_second_of_lora(row)]
    severity = "note" if untrained == affected else ""
    affected = [row for row in affected if severity or row not in untrained]
    if affected:
        size = total(affected, lambda row: row.bytes)
        values = sorted({row.min for row in affected if row.min is not None})
        title = (
            f"{plural(len(affected), 'constant matrix', 'constant matrices')} ({units.size(size)}), filled with "
            f"{', '.join(f'{v:g}' for v in values[:3])}"
        )
        yield in_tensors(affected, title, severity=severity, tensors=len(affected), bytes=size)


def _is_second_of_lora(row: TensorStatistics) -> bool:
    return row.max == 0 and any(part in row.names[0].lower() for part in _LORA_SECOND)


@weights_rule(
    "W105",
    "warning",
    "matrix rows or columns that are all zero",
    advice="Remove these units (structured pruning): their weights are all zero, so only the size changes. If they "
    "were not pruned on purpose, they died during training.",
)
def all_zero_units(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Matrices with all-zero rows or columns; a single zero row in a tall matrix is an embedding's padding row."""
    affected = [row for row in matrices(facts) if sum(dead_units(row)) and not is_constant(row)]
    if affected:
        dead_rows, columns = (sum(each) for each in zip(*map(dead_units, affected), strict=True))
        counts = ((dead_rows, "all-zero row"), (columns, "all-zero column"))
        title = " and ".join(plural(count, noun) for count, noun in counts if count)
        size = sum(map(dead_unit_bytes, affected))
        gain, severity = saving(facts, size), "note" if size < MIN_BYTES else ""
        yield in_tensors(affected, title, gain=gain, severity=severity, dead_rows=dead_rows, dead_columns=columns)


@weights_rule(
    "W106",
    "advice",
    "many denormal values",
    advice="Set them to zero, or store the tensor scaled up or in a dtype with a wider range: denormals have lost "
    "most of their precision and are slow on many processors.",
)
def denormals(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Tensors in which at least 1 % of the values are denormal."""
    affected = [
        r for r in rows(facts) if is_floating(r) and r.count and (r.denormals or 0) >= DENORMAL_SHARE * r.count
    ]
    if affected:
        count, whole = total(affected, lambda row: row.denormals), total(affected, lambda row: row.count)
        title = f"{units.share(count, whole)} of the values in {plural(len(affected), 'tensor')} are denormal"
        yield in_tensors(affected, title, denormals=count, share=count / whole)


@weights_rule(
    "W107",
    "warning",
    "BatchNorm layers whose running statistics were never updated",
    advice="Load trained statistics, or run some batches in training mode: in evaluation mode these layers normalise "
    "with mean 0 and variance 1, whatever the input. This is normal for a model that was just built.",
)
def untrained_norm(facts: ModelFacts) -> Iterator[RuleMatch]:
    """BatchNorm layers with their initial statistics; a note if all layers of the model have them, as when new."""
    by_name = {name: row for row in rows(facts) for name in row.names}
    affected = []
    for name, row in by_name.items():
        stem, _, last = name.rpartition(".")
        if last != "num_batches_tracked" or row.max != 0 or row.min != 0:
            continue
        mean, variance = (by_name.get(f"{stem}.{each}" if stem else each) for each in ("running_mean", "running_var"))
        untouched = mean is not None and mean.min == mean.max == 0
        if untouched and variance is not None and variance.min == variance.max == 1:
            affected.append(name)
    if affected:
        verb = "was" if len(affected) == 1 else "were"
        counters = [name for name in by_name if name.rpartition(".")[2] == "num_batches_tracked"]
        is_fresh = len(affected) == len(counters) and all(_has_fresh_scale(by_name, name) for name in affected)
        noun = _norm_noun(facts, [name.rpartition(".")[0] for name in affected])
        yield RuleMatch(
            f"{plural(len(affected), noun)} {verb} never updated (num_batches_tracked = 0): "
            f"{joined_names(fold_names(name.removesuffix('.num_batches_tracked') for name in affected))}",
            {"batch_norms": Figure(len(affected), BY_BYTES)},
            tensors=affected,
            severity="note" if is_fresh else "",
        )


def _norm_noun(facts: ModelFacts, stems: Sequence[str]) -> str:
    """What these layers are called; InstanceNorm may have running statistics too, and only its class differs."""
    classes = {module.path: module.class_name for module in facts.document.modules}
    has_instance = any("InstanceNorm" in classes.get(stem, "") for stem in stems)
    return "normalisation layer" if has_instance else "BatchNorm layer"


def _has_fresh_scale(by_name: Mapping[str, TensorStatistics], counter: str) -> bool:
    """Whether the weight and bias of a BatchNorm layer, if it has them, are still as they were initialised."""
    stem = counter.removesuffix("num_batches_tracked")
    scales = [row for last in ("weight", "bias") if (row := by_name.get(stem + last)) is not None]
    return all(row.min == row.max for row in scales)


@weights_rule(
    "W108",
    "warning",
    "BatchNorm layers with a running variance near or below zero",
    advice="Remove these channels or raise eps: they were constant during training, and BatchNorm amplifies the "
    "slightest change by 1/sqrt(eps). A negative variance means that the checkpoint is damaged.",
)
def vanished_variance(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Running variances with a value near or below zero."""
    affected = [
        row
        for row in rows(facts)
        if any(name.rpartition(".")[2] == "running_var" for name in row.names)
        and row.min is not None
        and row.min < TINY_VARIANCE
    ]
    if affected:
        least = min(row.min for row in affected if row.min is not None)
        title = f"running variance as low as {least:.3g} in {plural(len(affected), 'BatchNorm layer')}"
        severity = "error" if least < 0 else ""
        yield in_tensors(affected, title, severity=severity, least_variance=least, batch_norms=len(affected))
