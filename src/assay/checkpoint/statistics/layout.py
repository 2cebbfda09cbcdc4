"""The fields of the records that the kernel and its reference return; kernel.h has the same order."""

from __future__ import annotations

GROUP = 128
"""Consecutive elements of a row that share a scale in group quantization."""
BITS = (2, 3, 4, 5, 6, 7, 8)
"""Integer widths whose per-tensor error is computed; b bits have 2^(b-1)-1 levels per sign."""
PRUNE_SHARES = (0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)
"""Shares of the weights, smallest first, that the magnitude-pruning curve sets to zero."""
DISTINCT_LIMIT = 4096
"""Distinct values of wide formats are counted up to this limit; above it their number is unknown."""

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
    *(f"above_{share}" for share in PRUNE_SHARES),
)
CAST_FIELDS = ERROR_FIELDS[: -len(PRUNE_SHARES)]
"""The rounding errors among `ERROR_FIELDS`, without the energies of the pruning curve."""
SUM_FIELDS = ("n", "mean", "m2", "m3", "m4", "l1", "energy", "zeros", "near_zeros", "near_zero_below", "peak")
"""The first fields of a summary."""
