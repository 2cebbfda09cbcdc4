"""Statistics of a checkpoint's tensors: one row per tensor, and summaries over all tensors.

Statistics cover finite values; NaN and infinities are counted separately. Unknown values are None.
"""

from __future__ import annotations

from math import inf

from msgspec import Struct, field

from assay.display import Displayed
from assay.document.provenance import Provenance

QUANTILES = (0.0, 0.001, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 0.999, 1.0)
"""The probabilities of the quantiles, which are interpolated linearly."""
PRUNE_SHARES = (0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)
"""Shares of the weights, smallest first, that the magnitude-pruning curve sets to zero."""


class Histogram(Struct, frozen=True):
    """Bins of equal width from the smallest to the largest value; a single bin if they are equal."""

    low: float
    """The smallest value."""
    high: float
    """The largest value."""
    counts: tuple[int, ...]
    """Values per bin."""


class Norms(Struct, frozen=True, omit_defaults=True):
    """Statistics of the L2 norms of a matrix's rows or columns."""

    count: int
    """Number of rows or columns."""
    min: float
    """The smallest norm."""
    max: float
    """The largest norm."""
    mean: float
    """The mean norm."""
    std: float
    """The standard deviation of the norms."""
    dead: int = 0
    """Number of rows or columns that are all zero and could be pruned."""


class Pruned(Struct, frozen=True):
    """One point of the magnitude-pruning curve."""

    share: float
    """The share of the weights set to zero, smallest magnitudes first, from 0 to 1."""
    energy: float
    """The share of the sum of squares that is kept, from 0 to 1."""


class Rounding(Struct, frozen=True, omit_defaults=True):
    """The precision of the values in another number format."""

    format: str
    """`bfloat16`, `float8_e4m3fn`, `float8_e5m2` (both scaled to the largest value), `int8`, `int4`, …"""
    scope: str
    """The values that share a scale: `none`, `tensor`, `channel` (one row) or `group128` (128 along a row)."""
    sqnr_db: float | None = None
    """Signal-to-quantization-noise ratio in dB; null if nothing is lost, or if values overflow."""
    exact: bool = False
    """Whether nothing is lost, or less than float32 can resolve (120 dB)."""
    overflows: int = 0
    """Number of values that become infinite, because they are beyond the format's largest."""

    @property
    def level(self) -> float | None:
        """The ratio in dB: infinite if nothing is lost, minus infinite if values overflow."""
        return inf if self.exact else -inf if self.overflows else self.sqnr_db


class Spectral(Struct, frozen=True, omit_defaults=True):
    """The largest singular values of a tensor reshaped to a matrix; in a stack, of the matrix with the largest."""

    norm: float
    """The largest singular value."""
    norm_error: float
    """Bound on the distance between `norm` and a true singular value, from the residual; this is usually, but not
    provably, the largest."""
    stable_rank: float
    """The sum of squares divided by the square of the largest singular value; 0 for a matrix of zeros."""
    effective_rank_least: float
    """Lower bound of the effective rank, the exponential of the entropy of σ²/Σσ²: what is not in the converged
    singular values is in as few directions as possible, none larger than `norm`."""
    effective_rank_most: float
    """Upper bound of the effective rank: the rest is spread evenly. Equal to the lower one if all are known."""
    singular_values: tuple[float, ...] = ()
    """The converged singular values, largest first; all of them if the smaller side is at most 128."""
    steps: int = 0
    """Number of iterations; 0 if all singular values were computed at once."""


class TensorStatistics(Displayed, Struct, frozen=True, omit_defaults=True):
    """Statistics of one tensor; a statistic is null if the values were not read or it does not apply.

    Attributes:
        names: Its names, several if it is tied.
        dtype: The dtype's name: `bfloat16`.
        shape: The size of each dimension.
        bytes: Bytes of its elements.
        count: Number of elements.
        alignment: The largest power of two that divides its offset in the file.
        problem: Why there are no statistics; empty if there are.
        note: A remark about how it was read; may be empty.
        role: `parameter`, `buffer`, `attribute` (a module's tensor that is neither) or `constant` (of the code);
            empty if the file does not state it.
        nan: Number of NaN values.
        inf: Number of infinite values.
        zeros: Number of zeros.
        near_zeros: Number of values with a magnitude below `near_zero_below`.
        near_zero_below: The limit for near zeros: a thousandth of the root mean square.
        denormals: Number of denormal values.
        min: The smallest value.
        max: The largest value.
        mean: The mean.
        std: The population standard deviation.
        skewness: The skewness.
        kurtosis: The excess kurtosis: 0 for a normal distribution.
        l1: The sum of magnitudes.
        l2: The square root of the sum of squares.
        quantiles: The quantiles at `QUANTILES`.
        histogram: The histogram of the values.
        entropy_bits: Bits of entropy per weight, of the shares of `histogram`: 0 if all values fall in one of its 64
            bins, 6 if they fill them evenly, at most log2 of their number. The same for every dtype and size.
        entropy_bytes: Bytes that an ideal order-0 entropy coder needs, without its tables. It codes 8- and 16-bit
            values whole, and the 16-bit parts of wider ones separately.
        distinct: Number of distinct values; for 32- and 64-bit types null above 4,096, except in tensors of at most
            16,384 values.
        pruning: Points of the magnitude-pruning curve.
        n_of_m: The share of the sum of squares that `1:4`, `2:4` and `4:8` sparsity along the rows keeps.
        rows: Norms of the rows; null unless it is a matrix.
        columns: Norms of the columns; null unless it is a matrix.
        roundings: Its precision in other number formats.
        bits_needed: The fewest integer bits, with one scale per tensor, that keep `bits_for_db`; null if 8 bits do
            not.
        bits_for_db: The signal-to-noise ratio in dB that `bits_needed` refers to.
        spectral: The largest singular values; null if they were not computed.
        content: A digest of its bytes, equal for duplicates; empty if it was not computed.
    """

    names: tuple[str, ...]
    dtype: str
    shape: tuple[int, ...]
    bytes: int
    count: int
    alignment: int = 1
    problem: str = ""
    note: str = ""
    role: str = ""
    nan: int | None = None
    inf: int | None = None
    zeros: int | None = None
    near_zeros: int | None = None
    near_zero_below: float | None = None
    denormals: int | None = None
    min: float | None = None
    max: float | None = None
    mean: float | None = None
    std: float | None = None
    skewness: float | None = None
    kurtosis: float | None = None
    l1: float | None = None
    l2: float | None = None
    quantiles: tuple[float, ...] = ()
    histogram: Histogram | None = None
    entropy_bits: float | None = None
    entropy_bytes: int | None = None
    distinct: int | None = None
    pruning: tuple[Pruned, ...] = ()
    n_of_m: dict[str, float] = field(default_factory=dict)
    rows: Norms | None = None
    columns: Norms | None = None
    roundings: tuple[Rounding, ...] = ()
    bits_needed: int | None = None
    bits_for_db: float | None = None
    spectral: Spectral | None = None
    content: str = ""

    @property
    def numbers(self) -> int:
        """The real numbers that its statistics are of: two per complex element."""
        return 2 * self.count if self.dtype.startswith("complex") else self.count


class WeightTotals(Struct, frozen=True):
    """Totals over several tensors."""

    tensors: int
    """Number of tensors."""
    count: int
    """Number of elements."""
    bytes: int
    """Bytes of all elements."""


class Family(Struct, frozen=True, omit_defaults=True):
    """Tensors whose names differ only in their numbers."""

    name: str
    """The common name, with `#` for numbers: `layers.#.mlp.up_proj.weight`."""
    totals: WeightTotals
    """Totals over its tensors."""
    tensors: tuple[int, ...]
    """Indices into `WeightsReport.tensors`."""


class Outlier(Struct, frozen=True):
    """A tensor with a statistic that is far from the median of its family."""

    tensor: int
    """Index into `WeightsReport.tensors`."""
    family: str
    """The name of its family."""
    figure: str
    """The name of the statistic: `std`, `max`, …"""
    value: float
    """The tensor's value of the statistic."""
    typical: float
    """The family's median of the statistic."""
    deviations: float
    """The distance from the median, in robust standard deviations."""


class WeightsReport(Displayed, Struct, frozen=True, omit_defaults=True):
    """Statistics of a checkpoint's tensors, and summaries over all of them.

    Attributes:
        path: The file or directory that was read; empty for a live model.
        format: The checkpoint's format.
        kernel: The implementation that computed the statistics: `avx512`, `avx2`, `baseline` or `numpy`.
        tensors: One row per tensor.
        by_dtype: Totals per dtype.
        by_role: Totals per role of the tensors whose role is known; empty if the file states none.
        families: Tensors grouped by name without numbers.
        outliers: Tensors that are far from the rest of their family, furthest first.
        duplicates: Groups of indices into `tensors` with identical content.
        notes: Remarks about the analysis, one sentence each.
        failures: Files and tensors that could not be analysed, each with the reason.
        files_lost: The entries of `failures` that concern whole files.
        columns: How the numbers were obtained, by the name of the field; it covers everything below.
    """

    path: str = ""
    format: str = ""
    kernel: str = ""
    tensors: list[TensorStatistics] = field(default_factory=list)
    by_dtype: dict[str, WeightTotals] = field(default_factory=dict)
    by_role: dict[str, WeightTotals] = field(default_factory=dict)
    families: list[Family] = field(default_factory=list)
    outliers: list[Outlier] = field(default_factory=list)
    duplicates: list[tuple[int, ...]] = field(default_factory=list)
    notes: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    files_lost: tuple[str, ...] = ()
    columns: dict[str, Provenance] = field(default_factory=dict)

    @property
    def partial(self) -> bool:
        """Whether files are missing, so that totals cover only the tensors of the rest."""
        return bool(self.files_lost)
