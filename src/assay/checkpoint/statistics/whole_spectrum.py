"""The whole spectrum of a matrix with few rows or columns, from the eigenvalues of its Gram matrix."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from sys import float_info

import numpy as np
from numpy.typing import NDArray

from assay.checkpoint.statistics.effective_rank import exact_rank
from assay.document.weights import Spectral

MAX_SIDE = 128
"""Up to this side, it is as fast as the iteration."""


def whole_spectrum(blocks: Callable[[], Iterable[NDArray[np.floating]]], rows: int, cols: int) -> Spectral | None:
    """All singular values; None if the matrix is zero. One with more columns than rows is read at once."""
    if rows < cols:
        matrix = np.concatenate(list(blocks()))
        gram = np.einsum("ij,kj->ik", matrix, matrix)
    else:
        gram = np.zeros((cols, cols))
        for block in blocks():
            gram += np.einsum("ij,ik->jk", block, block)
    energy = float(np.trace(gram))
    if not energy:
        return None
    shares = np.maximum(np.linalg.eigvalsh(gram / energy)[::-1], 0.0)
    rounding = (rows + cols) * float_info.epsilon
    root, scale = math.sqrt(shares[0]), math.sqrt(energy)
    effective = exact_rank(shares)
    return Spectral(
        norm=scale * root,
        norm_error=scale * (math.sqrt(shares[0] + rounding) - root),
        stable_rank=1.0 / float(shares[0]),
        effective_rank_least=effective.least,
        effective_rank_most=effective.most,
        singular_values=tuple(float(value) for value in scale * np.sqrt(shares)),
    )
