"""Numbers in the weights that are wrong, or soon will be."""

from __future__ import annotations

from collections.abc import Iterator

from assay import units
from assay.document.provenance import Figure
from assay.document.weights import TensorStatistics
from assay.findings.facts import ModelFacts
from assay.findings.naming import folded, listed
from assay.findings.rule import RuleMatch
from assay.findings.stored import BY_BYTES, in_tensors, is_floating, matrices, rows, total, weights_rule
from assay.messages import plural

HALF_LIMIT = 65504.0
"""The largest number of float16."""
HALF_NEAR = 0.5
DENORMAL_SHARE = 0.01
TINY_VARIANCE = 1e-10


@weights_rule(
    "W101",
    "error",
    "NaN in the weights",
    advice="Every output that depends on them is NaN. Go back to a checkpoint from before; then look for a learning "
    "rate too high, a division by zero or float16 without loss scaling.",
)
def not_numbers(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Tensors with NaN."""
    found = [row for row in rows(facts) if row.nan]
    if found:
        count = total(found, lambda row: row.nan)
        title = f"{units.exact(count)} weights in {plural(len(found), 'tensor')} are NaN"
        yield in_tensors(found, title, nan=count, tensors=len(found))


@weights_rule(
    "W102",
    "error",
    "infinities in the weights",
    advice="They spread as NaN as soon as they are subtracted or multiplied by zero. Go back to a checkpoint from "
    "before, and keep values in range where weights are converted to float16.",
)
def infinities(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Tensors with infinities among other numbers; a mask of zeros and infinities is meant so."""
    found = [row for row in rows(facts) if row.inf and (row.zeros or 0) + row.inf < row.count]
    if found:
        count = total(found, lambda row: row.inf)
        title = f"{units.exact(count)} weights in {plural(len(found), 'tensor')} are infinite"
        yield in_tensors(found, title, infinite=count, tensors=len(found))


@weights_rule(
    "W103",
    "warning",
    "weights that float16 cannot hold, or hardly",
    advice="Keep these tensors in bfloat16 or float32: in float16 they are or become infinite.",
)
def half_overflow(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Wider tensors beyond the range of float16, and those of float16 near its end; masks of two values are none."""
    found = [row for row in rows(facts) if is_floating(row) and _largest(row) >= _limit(row) and not _is_mask(row)]
    if found:
        largest = max(map(_largest, found))
        title = (
            f"magnitudes up to {largest:.4g} in {plural(len(found), 'tensor')}, where float16 ends at {HALF_LIMIT:g}"
        )
        yield in_tensors(found, title, largest_magnitude=largest, tensors=len(found))


def _largest(row: TensorStatistics) -> float:
    return max(abs(row.min or 0.0), abs(row.max or 0.0))


def _limit(row: TensorStatistics) -> float:
    return HALF_NEAR * HALF_LIMIT if row.dtype == "float16" else HALF_LIMIT + 1


def _is_mask(row: TensorStatistics) -> bool:
    return row.distinct is not None and row.distinct <= 2


@weights_rule(
    "W104",
    "warning",
    "matrices that are all one value",
    advice="A matrix of zeros passes nothing on, one of any other single value treats all inputs alike: check that "
    "it was loaded and trained. Layers that begin at zero (LoRA's second matrix) do before training.",
)
def constant(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Matrices with equal least and largest numbers."""
    found = [row for row in matrices(facts) if row.min is not None and row.min == row.max and not row.nan]
    if found:
        size = total(found, lambda row: row.bytes)
        values = sorted({row.min for row in found if row.min is not None})
        title = f"{len(found)} matrices ({units.size(size)}) hold {', '.join(f'{v:g}' for v in values[:3])} alone"
        yield in_tensors(found, title, tensors=len(found), bytes=size)


@weights_rule(
    "W105",
    "warning",
    "rows or columns of matrices that are all zero",
    advice="Units that always give or take zero can be cut out for good (structured pruning), which changes nothing "
    "but the size; if nobody pruned them, they died in training.",
)
def dead_units(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Matrices with some dead rows or columns; a single dead row of a tall one is a table's padding."""
    found = [row for row in matrices(facts) if sum(_dead(row)) and row.min != row.max]
    if found:
        dead_rows, dead_columns = (sum(each) for each in zip(*map(_dead, found), strict=True))
        title = f"{plural(dead_rows, 'row')} and {plural(dead_columns, 'column')} all zero"
        yield in_tensors(found, title, dead_rows=dead_rows, dead_columns=dead_columns)


def _dead(row: TensorStatistics) -> tuple[int, int]:
    dead_rows = row.rows.dead if row.rows is not None else 0
    is_table = len(row.shape) == 2 and row.shape[0] > row.shape[1]
    return 0 if is_table and dead_rows == 1 else dead_rows, row.columns.dead if row.columns is not None else 0


@weights_rule(
    "W106",
    "advice",
    "many denormal numbers",
    advice="They have lost most of their digits and are slow on many processors: set them to zero, or store the "
    "tensor scaled up or in a dtype with a wider range.",
)
def denormals(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Tensors where one number in a hundred is denormal."""
    found = [r for r in rows(facts) if is_floating(r) and r.count and (r.denormals or 0) >= DENORMAL_SHARE * r.count]
    if found:
        count, whole = total(found, lambda row: row.denormals), total(found, lambda row: row.count)
        title = f"{units.share(count, whole)} of the numbers in {plural(len(found), 'tensor')} are denormal"
        yield in_tensors(found, title, denormals=count, share=count / whole)


@weights_rule(
    "W107",
    "warning",
    "batch normalisation whose statistics were never updated",
    advice="In evaluation mode it normalises with mean 0 and variance 1, whatever comes in: load trained statistics, "
    "or let some batches through in training mode. A model that was just made is like this.",
)
def untrained_norm(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Counters of batches that are zero beside means of zero and variances of one."""
    by_name = {name: row for row in rows(facts) for name in row.names}
    found = []
    for name, row in by_name.items():
        stem, _, last = name.rpartition(".")
        if last != "num_batches_tracked" or row.max != 0 or row.min != 0:
            continue
        mean, variance = (by_name.get(f"{stem}.{each}" if stem else each) for each in ("running_mean", "running_var"))
        untouched = mean is not None and mean.min == mean.max == 0
        if untouched and variance is not None and variance.min == variance.max == 1:
            found.append(name)
    if found:
        yield RuleMatch(
            f"{plural(len(found), 'batch normalisation')} without a batch seen: {listed(folded(found))}",
            {"batch_norms": Figure(len(found), BY_BYTES)},
            tensors=found,
        )


@weights_rule(
    "W108",
    "warning",
    "batch normalisation with a variance of nearly zero or below",
    advice="Those channels were constant in training; the slightest change is blown up by one over the root of eps. "
    "Cut the channels out, or raise eps. A negative variance is a damaged checkpoint.",
)
def vanished_variance(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Running variances whose least value is next to nothing."""
    found = [
        row
        for row in rows(facts)
        if any(name.rpartition(".")[2] == "running_var" for name in row.names)
        and row.min is not None
        and row.min < TINY_VARIANCE
    ]
    if found:
        least = min(row.min for row in found if row.min is not None)
        title = f"running variances as small as {least:.3g} in {plural(len(found), 'batch normalisation')}"
        yield in_tensors(found, title, least_variance=least, batch_norms=len(found))
