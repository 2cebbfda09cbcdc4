"""Rules about storing the weights in less space: fewer bits, sparsity, no duplicates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from assay import units
from assay.document.provenance import Counted, Figure, Modelled
from assay.document.weights import Outlier, TensorStatistics, WeightsReport
from assay.findings.facts import ModelFacts
from assay.findings.gains import bytes_gain
from assay.findings.naming import fold_names, joined_names
from assay.findings.rule import RuleMatch
from assay.findings.stored import (
    BY_BYTES,
    MIN_ZERO_SHARE,
    in_tensors,
    is_constant,
    is_floating,
    is_semi_structured,
    matrices,
    names,
    outlier_row_gain,
    rounding_of,
    row_count,
    rows,
    saving,
    stored_bytes,
    total,
    weights_rule,
    zero_share,
)  # fmt: skip
from assay.findings.weight_plans import is_dominated
from assay.messages import plural

MIN_BYTES = 1 << 16
"""Savings below this many bytes are not reported."""
MIN_DUPLICATE_BYTES = 1024
"""Bytes; smaller tensors are often equal by coincidence: all ones, all zeros."""
SAFE_DB = 35.0
MIN_QUANTIZED_ELEMENTS = 4096
MIN_QUANTIZED_SAVING = 16 << 20
"""Savings below this many bytes do not justify another dependency."""
MIN_CODED_ELEMENTS = 1 << 20
"""Elements; in smaller tensors the table of an entropy coder is not negligible."""
MAX_CODED_SHARE = 0.75
MIN_EXACT_SHARE = 0.9
MIN_DEVIATIONS = 12.0
FEW_VALUES = 4
MIN_FACTOR = 2.0
_COMPARED = ("std", "max", "min")
_SCALE_BYTES = 2


@weights_rule(
    "W201",
    "advice",
    "tensors with identical content that are not tied",
    advice="Tie them (assign one parameter to both attributes) if they are meant to stay equal, or save only one of "
    "them. If they should differ, check whether a layer was loaded twice.",
)
def duplicates(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Groups of tensors with identical bytes, except tensors that hold a single value."""
    weights = facts.document.weights
    assert weights is not None
    own = set(names(facts.stored))
    found = ([weights.tensors[index] for index in group] for group in weights.duplicates)
    groups = [[row for row in group if row.names[0] in own] for group in found]
    groups = [group for group in groups if len(group) > 1 and group[0].bytes >= MIN_DUPLICATE_BYTES]
    groups = [group for group in groups if group[0].min != group[0].max]
    saved = sum(row.bytes for group in groups for row in group[1:])
    if saved >= MIN_BYTES:
        pairs = [" = ".join(names(group)[:2]) for group in groups]
        yield RuleMatch(
            f"{units.size(saved)} of weights are duplicates of other tensors: {joined_names(fold_names(pairs))}",
            {"bytes_saved": Figure(saved, BY_BYTES), "groups": Figure(len(groups), BY_BYTES)},
            tensors=[row.names[0] for group in groups for row in group],
            gain=saving(facts, saved),
        )


@weights_rule(
    "W202",
    "advice",
    "float32 weights that bfloat16 represents exactly",
    advice="Save them as bfloat16: file size and loading time are halved, and nothing is lost because every value is "
    "a bfloat16 number already.",
)
def exact_in_bfloat16(facts: ModelFacts) -> Iterator[RuleMatch]:
    """float32 tensors that are exact in bfloat16; tensors with few distinct values are ignored."""
    wide = [row for row in rows(facts) if row.dtype == "float32" and not _has_few_values(row)]
    exact = [row for row in wide if (rounding := rounding_of(row, "bfloat16", "none")) is not None and rounding.exact]
    size, whole = total(exact, lambda row: row.bytes), total(wide, lambda row: row.bytes)
    if size >= MIN_BYTES and size >= MIN_EXACT_SHARE * whole:
        title = f"{units.size(size)} of float32 weights are exact in bfloat16 ({len(exact)} of {len(wide)} tensors)"
        yield in_tensors(exact, title, gain=saving(facts, size // 2), bytes=size, bytes_saved=size // 2)


def _has_few_values(row: TensorStatistics) -> bool:
    return row.distinct is not None and row.distinct <= FEW_VALUES


@weights_rule(
    "W203",
    "advice",
    "matrices that per-row int8 represents well and per-tensor int8 does not",
    advice="Quantize these matrices with one scale per output channel (or group): with a single scale, a few rows "
    "with large weights set it for the whole tensor and the rest is rounded away.",
)
def outlier_channels(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Matrices whose signal-to-noise ratio in int8 rises strongly with one scale per row."""
    large = [row for row in matrices(facts) if row.count >= MIN_QUANTIZED_ELEMENTS]
    gains = [(row, gain) for row in large if (gain := outlier_row_gain(row)) is not None]
    if gains:
        affected, gain = [row for row, _ in gains], max(gain for _, gain in gains)
        roundings = [rounding_of(row, "int8", "tensor") for row in affected]
        worst = min(each.sqnr_db for each in roundings if each is not None and each.sqnr_db is not None)
        title = (
            f"per-tensor int8 keeps as little as {worst:.1f} dB in {plural(len(affected), 'matrix', 'matrices')}, "
            f"per-row int8 up to {gain:.1f} dB more"
        )
        yield in_tensors(affected, title, worst_sqnr_db=worst, largest_gain_db=gain)


@weights_rule(
    "W204",
    "advice",
    "matrices that per-row int8 represents with little noise",
    advice="Use weight-only int8 quantization (torchao's Int8WeightOnlyConfig, or GGUF Q8_0) for linear layers, and "
    "static int8 quantization (torchao's prepare_pt2e) for convolutions, to get about this size. Low weight noise "
    "does not guarantee accuracy: compare the quantized model's outputs on your data.",
)
def quantizable(facts: ModelFacts) -> Iterator[RuleMatch]:
    """All large matrices, if per-row int8 keeps a high signal-to-noise ratio in every one of them."""
    large = [row for row in matrices(facts) if row.count >= MIN_QUANTIZED_ELEMENTS and not is_constant(row)]
    roundings = [rounding_of(row, "int8", "channel") for row in large]
    if not large or any(map(is_dominated, large)):
        return
    if any(each is None or (not each.exact and (each.sqnr_db or 0) < SAFE_DB) for each in roundings):
        return
    now = total(large, lambda row: row.bytes)
    then = sum(row.count + _SCALE_BYTES * row_count(row) for row in large)
    sqnrs = [each.sqnr_db for each in roundings if each is not None and each.sqnr_db is not None]
    if now - then < MIN_QUANTIZED_SAVING or not sqnrs:
        return
    yield RuleMatch(
        f"per-row int8 keeps at least {min(sqnrs):.1f} dB and shrinks "
        f"{plural(len(large), 'large matrix', 'large matrices')} from {units.size(now)} to {units.size(then)}",
        {
            "worst_sqnr_db": Figure(min(sqnrs), BY_BYTES),
            "bytes": Figure(now, BY_BYTES),
            "int8_bytes": Figure(then, Counted("one byte per weight and one 16-bit scale per row")),
        },
        tensors=names(large),
        gain=saving(facts, now - then),
    )


@weights_rule(
    "W205",
    "advice",
    "matrices that are already 2:4 sparse",
    advice="Convert them with torch.sparse.to_sparse_semi_structured: they take about half the bytes and use the "
    "sparse tensor cores of recent GPUs, with the same result.",
)
def semi_structured(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Matrices that lose nothing if only the two largest of every four weights along a row are kept."""
    affected = [row for row in matrices(facts) if is_semi_structured(row)]
    if affected:
        size = total(affected, lambda row: row.bytes)
        title = f"{units.size(size)} of weights are 2:4 sparse, in {plural(len(affected), 'matrix', 'matrices')}"
        yield in_tensors(
            affected,
            title,
            gain=saving(facts, size / 2 - total(affected, lambda row: row.count) / 8),  # two bits per kept weight
            bytes=size,
            least_share_of_zeros=min(map(zero_share, affected)),
            least_energy_kept=min(row.n_of_m["2:4"] for row in affected),
        )


@weights_rule(
    "W206",
    "note",
    "matrices that are mostly zeros, but not 2:4 sparse",
    advice="Store them in a sparse format (CSR, or a bitmask and the non-zero values) to save space. Dense kernels "
    "do not run faster on scattered zeros: for speed, prune to 2:4 or prune whole rows.",
)
def scattered_zeros(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Matrices with many zeros that do not follow a 2:4 pattern."""
    affected = [
        row
        for row in matrices(facts)
        if MIN_ZERO_SHARE <= zero_share(row) < 1 and not is_semi_structured(row) and not _has_few_values(row)
    ]
    if affected:
        zeros, count = total(affected, lambda row: row.zeros), total(affected, lambda row: row.count)
        title = (
            f"{units.share(zeros, count)} of the weights in {plural(len(affected), 'matrix', 'matrices')} are zero"
        )
        saved = sum((row.zeros or 0) * row.bytes // row.count - row.count // 8 for row in affected)  # with a bit mask
        yield in_tensors(affected, title, gain=saving(facts, saved), zeros=zeros, weights=count)


@weights_rule(
    "W207",
    "note",
    "weights that lossless compression would shrink",
    advice="Compress them with an entropy coder (as DFloat11 and ZipNN do) for storage and transfer: it reaches "
    "about this size without changing any value.",
)
def compressible(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Large floating-point tensors whose bit patterns have much less entropy than the bits they occupy."""
    large = [
        row
        for row in rows(facts)
        if is_floating(row) and row.entropy_bytes is not None and row.count >= MIN_CODED_ELEMENTS
    ]
    size, coded = total(large, lambda row: row.bytes), total(large, lambda row: row.entropy_bytes)
    if size - coded < MIN_BYTES or coded > MAX_CODED_SHARE * size:
        return
    bits = 8 * size / max(total(large, lambda row: row.count), 1)
    how = Modelled("order-0 entropy of the bit patterns", ("an ideal coder, without its tables",))
    yield RuleMatch(
        f"{units.size(size)} of weights carry {units.size(coded)} of information "
        f"({units.ratio(bits * coded / size)} of {units.ratio(bits)} bits per weight)",
        {"bytes": Figure(size, BY_BYTES), "entropy_bytes": Figure(coded, how)},
        gain=bytes_gain(size - coded, stored_bytes(facts), how),
    )


@weights_rule(
    "W208",
    "note",
    "tensors that differ strongly from the same tensor in other layers",
    advice="Inspect these layers before you quantize or prune all layers alike. An outlier may also be a layer that "
    "was not trained or was loaded incorrectly.",
)
def outlier_tensors(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Tensors whose std, min or max is far from the median of their family."""
    weights = facts.document.weights
    assert weights is not None
    far = [each for each in weights.outliers if each.figure in _COMPARED and each.deviations >= MIN_DEVIATIONS]
    far = [each for each in far if is_floating(weights.tensors[each.tensor]) and _differs_strongly(weights, each)]
    if not far:
        return
    first = far[0]
    affected: Sequence[TensorStatistics] = [weights.tensors[index] for index in dict.fromkeys(e.tensor for e in far)]
    yield RuleMatch(
        f"{plural(len(affected), 'outlier')} among the same tensors of other layers; the furthest is "
        f"{affected[0].names[0]}: {first.figure} {first.value:.4g}, median {first.typical:.4g}",
        {
            "tensors": Figure(len(affected), BY_BYTES),
            "largest_deviation": Figure(first.deviations, BY_BYTES),
            "value": Figure(first.value, BY_BYTES),
            "typical": Figure(first.typical, BY_BYTES),
        },
        tensors=names(affected),
    )


def _differs_strongly(weights: WeightsReport, outlier: Outlier) -> bool:
    """Whether it differs by a large factor from a family of mostly the same shape; shape affects the spread too."""
    family = next(each for each in weights.families if each.name == outlier.family)
    shape = weights.tensors[outlier.tensor].shape
    alike = sum(weights.tensors[index].shape == shape for index in family.tensors)
    large, small = max(abs(outlier.value), abs(outlier.typical)), min(abs(outlier.value), abs(outlier.typical))
    return 2 * alike > len(family.tensors) and large >= MIN_FACTOR * small
