"""Statistics of a checkpoint's tensors: one row per tensor, and summaries over all tensors.

Statistics cover finite values; NaN and infinities are counted separately. Unknown values are None.
"""

from __future__ import annotations

from msgspec import Struct, field

QUANTILES = (0.0, 0.001, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 0.999, 1.0)
"""The probabilities of the quantiles, which are interpolated linearly."""


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
    """Signal-to-quantization-noise ratio in dB; null if nothing is lost."""
    exact: bool = False
    """Whether nothing is lost, or less than float32 can resolve (120 dB)."""


class Spectral(Struct, frozen=True, omit_defaults=True):
    """The largest singular values of a tensor reshaped to a matrix."""

    norm: float
    """The largest singular value."""
    norm_error: float
    """Bound on the distance between `norm` and a true singular value, from the residual."""
    stable_rank: float
    """The sum of squares divided by the square of the largest singular value."""
    effective_rank: float | None = None
    """Exponential of the spectrum's entropy, estimated by spreading the rest evenly; null if not computed."""
    singular_values: tuple[float, ...] = ()
    """The converged singular values, largest first."""
    steps: int = 0
    """Number of iterations."""


class TensorStatistics(Struct, frozen=True, omit_defaults=True):
    """Statistics of one tensor; a statistic is null if the values were not read or it does not apply."""

    names: tuple[str, ...]
    """Its names, several if it is tied."""
    dtype: str
    """The dtype's name: `bfloat16`."""
    shape: tuple[int, ...]
    """The size of each dimension."""
    bytes: int
    """Bytes of its elements."""
    count: int
    """Number of elements."""
    alignment: int = 1
    """The largest power of two that divides its offset in the file."""
    problem: str = ""
    """Why there are no statistics; empty if there are."""
    note: str = ""
    """A remark about how it was read; may be empty."""
    nan: int | None = None
    """Number of NaN values."""
    inf: int | None = None
    """Number of infinite values."""
    zeros: int | None = None
    """Number of zeros."""
    near_zeros: int | None = None
    """Number of values with a magnitude below `near_zero_below`."""
    near_zero_below: float | None = None
    """The limit for near zeros: a thousandth of the root mean square."""
    denormals: int | None = None
    """Number of denormal values."""
    min: float | None = None
    """The smallest value."""
    max: float | None = None
    """The largest value."""
    mean: float | None = None
    """The mean."""
    std: float | None = None
    """The population standard deviation."""
    skewness: float | None = None
    """The skewness."""
    kurtosis: float | None = None
    """The excess kurtosis: 0 for a normal distribution."""
    l1: float | None = None
    """The sum of magnitudes."""
    l2: float | None = None
    """The square root of the sum of squares."""
    quantiles: tuple[float, ...] = ()
    """The quantiles at `QUANTILES`."""
    histogram: Histogram | None = None
    """The histogram of the values."""
    entropy_bits: float | None = None
    """Bits of entropy per weight: of its bit patterns, for 32- and 64-bit types summed over their 16-bit parts."""
    entropy_bytes: int | None = None
    """Bytes that an ideal order-0 entropy coder needs."""
    distinct: int | None = None
    """Number of distinct values; null above 4,096 for 32- and 64-bit types."""
    pruning: tuple[Pruned, ...] = ()
    """Points of the magnitude-pruning curve."""
    n_of_m: dict[str, float] = field(default_factory=dict)
    """The share of the sum of squares that `1:4`, `2:4` and `4:8` sparsity along the rows keeps."""
    rows: Norms | None = None
    """Norms of the rows; null unless it is a matrix."""
    columns: Norms | None = None
    """Norms of the columns; null unless it is a matrix."""
    roundings: tuple[Rounding, ...] = ()
    """Its precision in other number formats."""
    bits_needed: int | None = None
    """The fewest integer bits, with one scale per tensor, that keep `bits_for_db`; null if 8 bits do not."""
    bits_for_db: float | None = None
    """The signal-to-noise ratio in dB that `bits_needed` refers to."""
    spectral: Spectral | None = None
    """The largest singular values; null if they were not computed."""
    content: str = ""
    """A digest of its bytes, equal for duplicates; empty if it was not computed."""


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


class WeightsReport(Struct, frozen=True, omit_defaults=True):
    """Statistics of a checkpoint's tensors, and summaries over all of them."""

    path: str = ""
    """The file or folder that was read; empty for a live model."""
    format: str = ""
    """The checkpoint's format."""
    kernel: str = ""
    """The implementation that computed the statistics: `avx512`, `avx2`, `baseline` or `numpy`."""
    tensors: list[TensorStatistics] = field(default_factory=list)
    """One row per tensor."""
    by_dtype: dict[str, WeightTotals] = field(default_factory=dict)
    """Totals per dtype."""
    families: list[Family] = field(default_factory=list)
    """Tensors grouped by name without numbers."""
    outliers: list[Outlier] = field(default_factory=list)
    """Tensors that are far from the rest of their family, furthest first."""
    duplicates: list[tuple[int, ...]] = field(default_factory=list)
    """Groups of indices into `tensors` with identical content."""
    notes: tuple[str, ...] = ()
    """Remarks about the analysis, one sentence each."""
    failures: tuple[str, ...] = ()
    """Files and tensors that could not be analysed, each with the reason."""
    files_lost: tuple[str, ...] = ()
    """The entries of `failures` that concern whole files."""
