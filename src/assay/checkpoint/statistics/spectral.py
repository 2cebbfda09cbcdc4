"""The spectrum of a matrix from its bytes: its largest singular values by Lanczos on AᵀA, with an error bound.

Rows are read in blocks. Small matrices are decoded once, large ones again at every step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from assay.checkpoint.statistics.chunks import Chunk, ChunkPlan, Weight, plan
from assay.checkpoint.statistics.dtypes import COUNTED, DTYPES, values
from assay.checkpoint.statistics.engine import FAILURES
from assay.checkpoint.statistics.gathering import Read, fetch
from assay.document.weights import Spectral, TensorStatistics

Blocks = Callable[[], Iterable[NDArray[np.floating]]]
"""Yields the rows of the matrix in blocks; called once per step."""
Doubles = NDArray[np.float64]

MAX_STEPS = 64
TOLERANCE = 1e-4
"""The iteration stops at this relative error of the largest squared singular value."""
CHUNK_BYTES = 1 << 20
"""Smaller than for the statistics, because chunks are converted to doubles and copied several times."""
KEPT_ELEMENTS = 4 << 20
"""Limit for the elements of small matrices kept in memory by all workers together."""


def with_spectrum(weight: Weight, row: TensorStatistics, read: Read, workers: int = 1) -> TensorStatistics:
    """The row with its spectrum, if it is a real matrix; `workers` is the number of concurrent callers."""
    planned = plan(0, weight, CHUNK_BYTES)
    if (
        not planned.by_rows
        or not planned.dtype.real
        or planned.dtype.parts > 1
        or min(planned.rows, planned.cols) < 2
    ):
        return row
    try:
        return replace(row, spectral=spectral(_blocks(planned, read, KEPT_ELEMENTS // workers), planned.cols))
    except FAILURES as error:
        return replace(row, note=f"spectrum not computed: {error}")


def _blocks(planned: ChunkPlan, read: Read, max_kept: int) -> Blocks:
    def decoded() -> Iterator[Doubles]:
        return (_decoded(chunk, read) for chunk in planned.chunks)

    if planned.rows * planned.cols > max_kept:
        return decoded
    kept = list(decoded())
    return lambda: iter(kept)


def _decoded(chunk: Chunk, read: Read) -> Doubles:
    data, dtype = fetch(chunk, read), DTYPES[chunk.dtype]
    counted = dtype.family == COUNTED
    numbers = values(dtype.name)[data.view(f"<u{dtype.bytes}")] if counted else data.view(dtype.numpy)
    return np.asarray(numbers, dtype=np.float64).reshape(chunk.rows, chunk.cols)


def spectral(
    blocks: Blocks, cols: int, tolerance: float = TOLERANCE, max_steps: int = MAX_STEPS, seed: int = 0
) -> Spectral | None:
    """The spectral norm with its error bound, ranks and leading singular values; None for an empty or zero matrix."""
    start = np.random.default_rng(seed).standard_normal(cols)
    basis = [start / np.linalg.norm(start)] if cols else []
    diagonal: list[float] = []
    off_diagonal: list[float] = []
    energy, rows = 0.0, 0
    values, bounds = np.zeros(0), np.zeros(0)
    for step in range(min(max_steps, cols)):
        product, energy, rows = _apply(blocks, basis[-1])
        if not energy:
            return None
        diagonal.append(float(basis[-1] @ product))
        rest, beta = _orthogonal(product, basis)
        values, bounds = _ritz(diagonal, off_diagonal, beta)
        if bounds[0] <= tolerance * values[0] or beta <= 1e-14 * values[0] or step + 1 == min(max_steps, cols):
            break
        off_diagonal.append(beta)
        basis.append(rest / beta)
    return _summary(values, bounds, energy, min(rows, cols), len(diagonal)) if diagonal else None


def _apply(blocks: Blocks, vector: Doubles) -> tuple[Doubles, float, int]:
    """AᵀA·v, the sum of squares of A and its number of rows; non-finite values count as zero."""
    product, energy, rows = np.zeros_like(vector), 0.0, 0
    for block in blocks():
        part = np.nan_to_num(np.asarray(block, dtype=np.float64), nan=0.0, posinf=0.0, neginf=0.0)
        product += part.T @ (part @ vector)
        energy += float(np.einsum("ij,ij->", part, part))
        rows += part.shape[0]
    return product, energy, rows


def _orthogonal(product: Doubles, basis: list[Doubles]) -> tuple[Doubles, float]:
    """The part of a product orthogonal to the basis, and its norm; projected twice because of rounding."""
    vectors = np.stack(basis)
    rest = product - vectors.T @ (vectors @ product)
    rest -= vectors.T @ (vectors @ rest)
    return rest, float(np.linalg.norm(rest))


def _ritz(diagonal: list[float], off_diagonal: list[float], beta: float) -> tuple[Doubles, Doubles]:
    """Eigenvalue estimates of AᵀA, largest first, and an error bound for each."""
    matrix = np.diag(diagonal) + np.diag(off_diagonal, 1) + np.diag(off_diagonal, -1)
    values, vectors = np.linalg.eigh(matrix)
    return np.maximum(values[::-1], 0.0), np.abs(beta * vectors[-1, ::-1])


def _summary(values: Doubles, bounds: Doubles, energy: float, rank: int, steps: int) -> Spectral:
    norm = math.sqrt(values[0])
    settled = bounds <= 1e-3 * np.maximum(values, 1e-300)
    leading = values[: int(np.argmin(settled)) if not settled.all() else values.size]
    return Spectral(
        norm=norm,
        norm_error=math.sqrt(values[0] + bounds[0]) - norm,
        stable_rank=energy / float(values[0]),
        effective_rank=_effective_rank(leading, energy, rank),
        singular_values=tuple(float(value) for value in np.sqrt(leading)),
        steps=steps,
    )


def _effective_rank(leading: Doubles, energy: float, rank: int) -> float:
    """exp of the entropy of σ²/Σσ²; energy outside the leading values is spread evenly over the other directions."""
    shares = leading[leading > 0] / energy
    rest, others = max(0.0, 1.0 - float(shares.sum())), rank - leading.size
    entropy = float(-(shares * np.log(shares)).sum())
    if rest > 1e-12 and others > 0:
        entropy -= rest * math.log(rest / others)
    return math.exp(entropy)
