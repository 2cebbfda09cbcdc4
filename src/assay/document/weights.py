"""What is known about a checkpoint's tensors, as rows: one for each tensor, and what holds for all of them.

Figures are over finite values; NaN and infinities are counted apart. None is a figure nobody knows.
"""

from __future__ import annotations

from msgspec import Struct, field

QUANTILES = (0.0, 0.001, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 0.999, 1.0)
"""The shares at which quantiles are taken; between two values they are interpolated linearly."""


class Histogram(Struct, frozen=True):
    """Equal bins from the least to the largest value; one bin where they are the same."""

    low: float
    high: float
    counts: tuple[int, ...]


class Norms(Struct, frozen=True, omit_defaults=True):
    """The spread of the L2 norms of a matrix's rows or columns."""

    count: int
    min: float
    max: float
    mean: float
    std: float
    dead: int = 0
    """How many are all zero: they could be cut out whole."""


class Pruned(Struct, frozen=True):
    """One point of the magnitude-pruning curve."""

    share: float
    """Of the weights, the smallest ones, set to zero."""
    energy: float
    """The share of the sum of squares that is kept."""


class Rounding(Struct, frozen=True, omit_defaults=True):
    """How well a format holds the values."""

    format: str
    """`bfloat16`, `float8_e4m3fn`, `float8_e5m2` (both scaled to the largest value), `int8`, `int4`, …"""
    scope: str
    """What shares a scale: `none`, `tensor`, `channel` (a row) or `group128` (along a row)."""
    sqnr_db: float | None = None
    """Signal to quantization noise; None where nothing is lost."""
    exact: bool = False
    """Nothing is lost, or less than single precision shows (120 dB)."""


class Spectral(Struct, frozen=True, omit_defaults=True):
    """The largest singular values of a tensor taken as a matrix."""

    norm: float
    """The largest singular value."""
    norm_error: float
    """A true singular value lies within this of `norm`, by the residual: what is left to converge."""
    stable_rank: float
    """The sum of squares over the largest singular value squared."""
    effective_rank: float | None = None
    """The exponential of the spectrum's entropy, estimated from the leading values and the rest spread evenly."""
    singular_values: tuple[float, ...] = ()
    """Those that have converged, largest first."""
    steps: int = 0


class TensorStatistics(Struct, frozen=True, omit_defaults=True):
    """Everything known about one tensor."""

    names: tuple[str, ...]
    dtype: str
    shape: tuple[int, ...]
    bytes: int
    count: int
    alignment: int = 1
    """The largest power of two that divides its offset in the file."""
    problem: str = ""
    """Why there are no figures."""
    note: str = ""
    nan: int | None = None
    inf: int | None = None
    zeros: int | None = None
    near_zeros: int | None = None
    near_zero_below: float | None = None
    """What counts as near zero: one thousandth of the root mean square."""
    denormals: int | None = None
    min: float | None = None
    max: float | None = None
    mean: float | None = None
    std: float | None = None
    """Of the population."""
    skewness: float | None = None
    kurtosis: float | None = None
    """In excess of a normal distribution's."""
    l1: float | None = None
    l2: float | None = None
    quantiles: tuple[float, ...] = ()
    """At `QUANTILES`."""
    histogram: Histogram | None = None
    entropy_bits: float | None = None
    """Per weight: of the patterns, or for 32- and 64-bit types the sum over their 16-bit parts."""
    entropy_bytes: int | None = None
    """What an order-0 entropy coder reaches."""
    distinct: int | None = None
    """Distinct values; unknown beyond 4,096 for 32- and 64-bit types."""
    pruning: tuple[Pruned, ...] = ()
    n_of_m: dict[str, float] = field(default_factory=dict)
    """The share of the sum of squares that `1:4`, `2:4` and `4:8` sparsity along the rows keep."""
    rows: Norms | None = None
    columns: Norms | None = None
    roundings: tuple[Rounding, ...] = ()
    bits_needed: int | None = None
    """The fewest integer bits, one scale for the tensor, that keep `bits_for_db`; None where 8 do not."""
    bits_for_db: float | None = None
    spectral: Spectral | None = None
    content: str = ""
    """A digest of its bytes; equal for duplicates."""


class WeightTotals(Struct, frozen=True):
    """Tensors added up."""

    tensors: int
    count: int
    bytes: int


class Family(Struct, frozen=True, omit_defaults=True):
    """Tensors of one kind: their names are the same once numbers are folded."""

    name: str
    """`layers.#.mlp.up_proj.weight`"""
    totals: WeightTotals
    tensors: tuple[int, ...]
    """Rows in `WeightsReport.tensors`."""


class Outlier(Struct, frozen=True):
    """A tensor whose figure lies far from its family's."""

    tensor: int
    family: str
    figure: str
    value: float
    typical: float
    """The family's median."""
    deviations: float
    """How many robust standard deviations it is away."""


class WeightsReport(Struct, frozen=True, omit_defaults=True):
    """A checkpoint's tensors and what holds for all of them."""

    path: str = ""
    format: str = ""
    kernel: str = ""
    """What computed it: `avx512`, `avx2`, `baseline` or `numpy`."""
    tensors: list[TensorStatistics] = field(default_factory=list)
    by_dtype: dict[str, WeightTotals] = field(default_factory=dict)
    families: list[Family] = field(default_factory=list)
    outliers: list[Outlier] = field(default_factory=list)
    duplicates: list[tuple[int, ...]] = field(default_factory=list)
    """Rows in `tensors` with the same content."""
    notes: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    """What could not be analysed: files, then single tensors, each with the reason."""
    files_lost: tuple[str, ...] = ()
    """Those of `failures` that concern whole files."""
