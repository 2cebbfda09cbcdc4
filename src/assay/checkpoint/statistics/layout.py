"""The fields of the records that the kernel and its reference return; kernel.h has the same order."""

from __future__ import annotations

from assay.document.weights import PRUNE_SHARES as PRUNE_SHARES

GROUP = 128
"""Consecutive elements of a row that share a scale in group quantization."""
BITS = (2, 3, 4, 5, 6, 7, 8)
"""Integer widths whose per-tensor error is computed; b bits have 2^(b-1)-1 levels per sign."""
DISTINCT_LIMIT = 4096
SORTED_ELEMENTS = 1 << 14
"""Distinct values of wide formats are counted up to this limit, or in tensors of at most this many elements."""

ROW_FIELDS = (
    "energy",
    "int8_row",
    "int4_row",
    "int8_group",
    "int4_group",
    "kept_1_4",
    "kept_2_4",
    "kept_4_8",
    "norm_min",
    "norm_max",
    "norm_sum",
    "dead_rows",
)
MOMENT_FIELDS = ("finite", "mean", "m2", "m3", "m4", "l1", "min", "max", "zeros", "infinite")
WIDE_FIELDS = ROW_FIELDS + MOMENT_FIELDS
ERROR_FIELDS = (
    *(f"int{bits}" for bits in BITS),
    "float8_e4m3fn",
    "float8_e5m2",
    "bfloat16",
    "bfloat16_overflows",
    *(f"above_{share}" for share in PRUNE_SHARES),
)
CAST_FIELDS = ERROR_FIELDS[: -len(PRUNE_SHARES)]
"""The rounding errors among `ERROR_FIELDS`, without the energies of the pruning curve. Values that round to infinity
in bfloat16 are counted, and not part of its error."""
NEAR_ZERO = 1e-3
"""A value is near zero if its magnitude is at most this share of the root mean square."""
BINS = 64
TABLE_FIELDS = ("nan", "inf", "distinct", "denormals", "coded_bits", "entropy_bits", "low", "high")
"""The first fields of the record of a table of values; `SUM_FIELDS`, quantiles, bins, the energies that pruning keeps
and `CAST_FIELDS` follow."""
COLUMN_FIELDS = ("min", "max", "mean", "std", "dead")
"""The fields of the norms of columns, after those of the rows."""
SUM_FIELDS = ("n", "mean", "m2", "m3", "m4", "l1", "energy", "zeros", "near_zeros", "near_zero_below", "peak")
"""The first fields of a summary."""
