"""What the weights could be stored in: fewer bits, fewer numbers, fewer copies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from assay import units
from assay.document.provenance import Counted, Figure, Modelled
from assay.document.weights import Outlier, Rounding, TensorStatistics, WeightsReport
from assay.findings.facts import ModelFacts
from assay.findings.naming import folded, listed
from assay.findings.rule import RuleMatch
from assay.findings.stored import BY_BYTES, in_tensors, is_floating, matrices, names, rows, total, weights_rule

LEAST_BYTES = 1 << 16
"""Savings below this are not worth a line."""
SAME_SIZE = 1024
"""Smaller tensors are often equal by chance: all ones, all zeros."""
CHANNEL_GAIN_DB = 10.0
ENOUGH_DB = 30.0
SAFE_DB = 35.0
QUANTIZED_LEAST = 4096
QUANTIZED_WORTH = 16 << 20
"""Saved bytes below this do not pay for a further dependency."""
CODED_LEAST = 1 << 20
"""Numbers that a tensor needs for its patterns to be many more than a coder's table has."""
SPARSE_SHARE = 0.7
PATTERN_KEPT = 0.999999
COMPRESSIBLE = 0.75
HALVED_SHARE = 0.9
FAR = 12.0
FEW_VALUES = 4
ODD_FACTOR = 2.0
_WORTH = ("std", "max", "min")
_SCALE_BYTES = 2


@weights_rule(
    "W201",
    "advice",
    "tensors with equal content that are not tied",
    advice="Tie them (assign one parameter to both places) where they are meant to stay equal, or save one of them "
    "alone; equal by accident may mean that a layer was loaded twice.",
)
def duplicates(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Groups of tensors with the same bytes, those of a single value left out."""
    weights = facts.document.weights
    assert weights is not None
    groups = [[weights.tensors[place] for place in group] for group in weights.duplicates]
    groups = [group for group in groups if group[0].bytes >= SAME_SIZE and group[0].min != group[0].max]
    saved = sum(row.bytes for group in groups for row in group[1:])
    if saved >= LEAST_BYTES:
        shown = [" = ".join(names(group)[:2]) for group in groups]
        yield RuleMatch(
            f"{units.size(saved)} are copies of other tensors: {listed(folded(shown))}",
            {"bytes_saved": Figure(saved, BY_BYTES), "groups": Figure(len(groups), BY_BYTES)},
            tensors=[row.names[0] for group in groups for row in group],
        )


@weights_rule(
    "W202",
    "advice",
    "float32 weights that bfloat16 holds exactly",
    advice="Save them as bfloat16: not one bit of the numbers is lost, for they were bfloat16 before, and the file "
    "and its loading time are halved.",
)
def widened(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Tensors of float32 that rounding to bfloat16 leaves as they are; those of few values say nothing."""
    wide = [row for row in rows(facts) if row.dtype == "float32" and not _has_few_values(row)]
    exact = [row for row in wide if (found := _rounding(row, "bfloat16", "none")) is not None and found.exact]
    size, whole = total(exact, lambda row: row.bytes), total(wide, lambda row: row.bytes)
    if size >= LEAST_BYTES and size >= HALVED_SHARE * whole:
        title = f"{units.size(size)} of float32 are exactly bfloat16 numbers ({len(exact)} of {len(wide)} tensors)"
        yield in_tensors(exact, title, bytes=size, bytes_saved=size // 2)


def _has_few_values(row: TensorStatistics) -> bool:
    return row.distinct is not None and row.distinct <= FEW_VALUES


def _rounding(row: TensorStatistics, format: str, scope: str) -> Rounding | None:
    return next((each for each in row.roundings if (each.format, each.scope) == (format, scope)), None)


@weights_rule(
    "W203",
    "advice",
    "matrices that int8 holds well with a scale for each row and badly with one for all",
    advice="Quantize these with a scale for each output channel (or group): a few rows with large weights set the "
    "scale of the whole tensor otherwise, and the rest is rounded away.",
)
def outlier_channels(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Matrices whose ratio of signal to noise gains much from a scale a row."""
    found: list[TensorStatistics] = []
    worst = gain = 0.0
    for row in matrices(facts):
        one, each = (_rounding(row, "int8", scope) for scope in ("tensor", "channel"))
        if row.count < QUANTIZED_LEAST or one is None or each is None or one.sqnr_db is None or each.sqnr_db is None:
            continue
        if one.sqnr_db < ENOUGH_DB <= each.sqnr_db and each.sqnr_db - one.sqnr_db >= CHANNEL_GAIN_DB:
            worst = one.sqnr_db if not found else min(worst, one.sqnr_db)
            gain = max(gain, each.sqnr_db - one.sqnr_db)
            found.append(row)
    if found:
        title = (
            f"{len(found)} matrices keep as little as {worst:.1f} dB in int8 with one scale, up to {gain:.1f} dB "
            f"more with a scale a row"
        )
        yield in_tensors(found, title, worst_sqnr_db=worst, largest_gain_db=gain)


@weights_rule(
    "W204",
    "advice",
    "matrices that int8 with a scale for each row holds with little noise",
    advice="Weight-only int8 quantization (torchao int8_weight_only, or a GGUF Q8_0) takes about this much; noise of "
    "weights is not accuracy, so compare the quantized model's outputs on your data.",
)
def quantizable(facts: ModelFacts) -> Iterator[RuleMatch]:
    """All large matrices together, where each keeps a high ratio of signal to noise."""
    large = [row for row in matrices(facts) if row.count >= QUANTIZED_LEAST]
    noise = [_rounding(row, "int8", "channel") for row in large]
    if not large or any(each is None or (not each.exact and (each.sqnr_db or 0) < SAFE_DB) for each in noise):
        return
    now = total(large, lambda row: row.bytes)
    then = sum(row.count + _SCALE_BYTES * (row.rows.count if row.rows is not None else row.shape[0]) for row in large)
    known = [each.sqnr_db for each in noise if each is not None and each.sqnr_db is not None]
    if now - then < QUANTIZED_WORTH or not known:
        return
    yield RuleMatch(
        f"int8 with a scale a row keeps at least {min(known):.1f} dB in all {len(large)} large matrices: "
        f"{units.size(now)} become {units.size(then)}",
        {
            "worst_sqnr_db": Figure(min(known), BY_BYTES),
            "bytes": Figure(now, BY_BYTES),
            "int8_bytes": Figure(then, Counted("a byte a weight and a 16-bit scale a row")),
        },
        tensors=names(large),
    )


@weights_rule(
    "W205",
    "advice",
    "matrices that are 2:4 sparse already",
    advice="torch.sparse.to_sparse_semi_structured stores them in about half the bytes and uses the sparse matrix "
    "units of recent GPUs, with the same result.",
)
def semi_structured(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Matrices where keeping the two largest of any four along a row loses nothing."""
    found = [row for row in matrices(facts) if _zero_share(row) >= 0.5 and row.n_of_m.get("2:4", 0.0) >= PATTERN_KEPT]
    if found:
        size = total(found, lambda row: row.bytes)
        title = f"{len(found)} matrices ({units.size(size)}) have at most two of any four weights"
        yield in_tensors(
            found,
            title,
            bytes=size,
            least_share_of_zeros=min(map(_zero_share, found)),
            least_energy_kept=min(row.n_of_m["2:4"] for row in found),
        )


def _zero_share(row: TensorStatistics) -> float:
    return (row.zeros or 0) / row.count if row.count else 0.0


@weights_rule(
    "W206",
    "note",
    "matrices that are mostly zeros without a pattern",
    advice="Stored sparse (CSR, or a zero mask and the rest) they take a fraction; dense kernels gain nothing from "
    "scattered zeros, so for speed prune to 2:4 or to whole rows.",
)
def scattered_zeros(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Matrices with many zeros that are not in a 2:4 pattern."""
    found = [
        row
        for row in matrices(facts)
        if SPARSE_SHARE <= _zero_share(row) < 1 and row.n_of_m.get("2:4", 0.0) < PATTERN_KEPT
        if not _has_few_values(row)
    ]
    if found:
        zeros, count = total(found, lambda row: row.zeros), total(found, lambda row: row.count)
        title = f"{units.share(zeros, count)} of the weights in {len(found)} matrices are zero"
        yield in_tensors(found, title, zeros=zeros, weights=count)


@weights_rule(
    "W207",
    "note",
    "weights that a lossless coder would shrink",
    advice="An entropy coder (as DFloat11 or ZipNN use) stores them in about this much without changing a number: "
    "worth it for storage and transfer.",
)
def compressible(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Floating tensors whose patterns carry fewer bits than they take."""
    known = [
        row for row in rows(facts) if is_floating(row) and row.entropy_bytes is not None and row.count >= CODED_LEAST
    ]
    size, coded = total(known, lambda row: row.bytes), total(known, lambda row: row.entropy_bytes)
    if size - coded < LEAST_BYTES or coded > COMPRESSIBLE * size:
        return
    bits = 8 * size / max(total(known, lambda row: row.count), 1)
    how = Modelled("order-0 entropy of the bit patterns", ("a coder that reaches it, without its tables",))
    yield RuleMatch(
        f"{units.size(size)} of weights carry {units.size(coded)} of information, "
        f"{units.ratio(bits * coded / size)} of {units.ratio(bits)} bits a weight",
        {"bytes": Figure(size, BY_BYTES), "entropy_bytes": Figure(coded, how)},
    )


@weights_rule(
    "W208",
    "note",
    "a tensor that is unlike its siblings in other layers",
    advice="Look at these layers before quantizing or pruning all of them alike; an odd one out may also be a layer "
    "that was not trained, or loaded wrongly.",
)
def odd_siblings(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Tensors far from the median of their family in spread, extremes or tails."""
    weights = facts.document.weights
    assert weights is not None
    far = [each for each in weights.outliers if each.figure in _WORTH and each.deviations >= FAR]
    far = [each for each in far if is_floating(weights.tensors[each.tensor]) and _is_odd(weights, each)]
    if not far:
        return
    first = far[0]
    found: Sequence[TensorStatistics] = [weights.tensors[place] for place in dict.fromkeys(e.tensor for e in far)]
    yield RuleMatch(
        f"{len(found)} tensors are far from their siblings, {found[0].names[0]} most: {first.figure} "
        f"{first.value:.4g} where {first.typical:.4g} is typical",
        {
            "tensors": Figure(len(found), BY_BYTES),
            "largest_deviation": Figure(first.deviations, BY_BYTES),
            "value": Figure(first.value, BY_BYTES),
            "typical": Figure(first.typical, BY_BYTES),
        },
        tensors=names(found),
    )


def _is_odd(weights: WeightsReport, outlier: Outlier) -> bool:
    """Whether it differs by a factor, among siblings of which most have its shape: sizes set the spread too."""
    family = next(each for each in weights.families if each.name == outlier.family)
    shape = weights.tensors[outlier.tensor].shape
    alike = sum(weights.tensors[place].shape == shape for place in family.tensors)
    large, small = max(abs(outlier.value), abs(outlier.typical)), min(abs(outlier.value), abs(outlier.typical))
    return 2 * alike > len(family.tensors) and large >= ODD_FACTOR * small
