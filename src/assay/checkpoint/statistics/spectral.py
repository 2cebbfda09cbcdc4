"""The spectrum of a tensor from its bytes: the largest singular values by Lanczos on AᵀA, with an error bound.

Rows are read in blocks; small matrices are decoded once, large ones again at every step.
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
"""Yields the matrix's rows in blocks; called once a step."""
Doubles = NDArray[np.float64]

MOST_STEPS = 64
TOLERANCE = 1e-4
"""The relative error of the largest singular value at which the steps stop."""
CHUNK_BYTES = 1 << 20
"""Chunks become doubles, several times over, so they are smaller than those of the statistics."""
KEPT_ELEMENTS = 4 << 20
"""Of small matrices, in all that are under way at once."""


def with_spectrum(weight: Weight, row: TensorStatistics, read: Read, at_once: int = 1) -> TensorStatistics:
    """The row with its spectrum, where it is a matrix of real numbers; so many may be under way at once."""
    planned = plan(0, weight, CHUNK_BYTES)
    if (
        not planned.by_rows
        or not planned.dtype.real
        or planned.dtype.parts > 1
        or min(planned.rows, planned.cols) < 2
    ):
        return row
    try:
        return replace(row, spectral=spectral(_blocks(planned, read, KEPT_ELEMENTS // at_once), planned.cols))
    except FAILURES as error:
        return replace(row, note=f"no spectrum: {error}")


def _blocks(planned: ChunkPlan, read: Read, most_kept: int) -> Blocks:
    def decoded() -> Iterator[Doubles]:
        return (_decoded(chunk, read) for chunk in planned.chunks)

    if planned.rows * planned.cols > most_kept:
        return decoded
    kept = list(decoded())
    return lambda: iter(kept)


def _decoded(chunk: Chunk, read: Read) -> Doubles:
    data, dtype = fetch(chunk, read), DTYPES[chunk.dtype]
    counted = dtype.family == COUNTED
    numbers = values(dtype.name)[data.view(f"<u{dtype.bytes}")] if counted else data.view(dtype.numpy)
    return np.asarray(numbers, dtype=np.float64).reshape(chunk.rows, chunk.cols)


def spectral(
    blocks: Blocks, cols: int, tolerance: float = TOLERANCE, most_steps: int = MOST_STEPS, seed: int = 0
) -> Spectral | None:
    """Spectral norm with its bound, ranks and leading singular values; None for an empty or zero matrix."""
    start = np.random.default_rng(seed).standard_normal(cols)
    basis = [start / np.linalg.norm(start)] if cols else []
    diagonal: list[float] = []
    beside: list[float] = []
    energy, rows = 0.0, 0
    values, bounds = np.zeros(0), np.zeros(0)
    for step in range(min(most_steps, cols)):
        product, energy, rows = _apply(blocks, basis[-1])
        if not energy:
            return None
        diagonal.append(float(basis[-1] @ product))
        rest, beta = _orthogonal(product, basis)
        values, bounds = _ritz(diagonal, beside, beta)
        if bounds[0] <= tolerance * values[0] or beta <= 1e-14 * values[0] or step + 1 == min(most_steps, cols):
            break
        beside.append(beta)
        basis.append(rest / beta)
    return _summary(values, bounds, energy, min(rows, cols), len(diagonal)) if diagonal else None


def _apply(blocks: Blocks, vector: Doubles) -> tuple[Doubles, float, int]:
    """AᵀA·v, the sum of squares and the number of rows; what is not finite counts as zero."""
    product, energy, rows = np.zeros_like(vector), 0.0, 0
    for block in blocks():
        part = np.nan_to_num(np.asarray(block, dtype=np.float64), nan=0.0, posinf=0.0, neginf=0.0)
        product += part.T @ (part @ vector)
        energy += float(np.einsum("ij,ij->", part, part))
        rows += part.shape[0]
    return product, energy, rows


def _orthogonal(product: Doubles, basis: list[Doubles]) -> tuple[Doubles, float]:
    """What of a product is new to the basis; taken twice, since once leaves rounding behind."""
    known = np.stack(basis)
    rest = product - known.T @ (known @ product)
    rest -= known.T @ (known @ rest)
    return rest, float(np.linalg.norm(rest))


def _ritz(diagonal: list[float], beside: list[float], beta: float) -> tuple[Doubles, Doubles]:
    """Eigenvalue estimates of AᵀA, largest first, and how far from each a true one can be."""
    matrix = np.diag(diagonal) + np.diag(beside, 1) + np.diag(beside, -1)
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
    """exp of the entropy of σ²/Σσ²; what the leading values leave is spread evenly over the other directions."""
    shares = leading[leading > 0] / energy
    rest, others = max(0.0, 1.0 - float(shares.sum())), rank - leading.size
    entropy = float(-(shares * np.log(shares)).sum())
    if rest > 1e-12 and others > 0:
        entropy -= rest * math.log(rest / others)
    return math.exp(entropy)
