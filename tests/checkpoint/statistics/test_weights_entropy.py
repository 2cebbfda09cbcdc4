"""Entropy: one definition for every dtype and size, the same in the kernel, the reference and any chunks."""

from __future__ import annotations

import math

import numpy as np
import pytest
from weight_tensors import decoded, encoded, measured

from assay.checkpoint.statistics import counted, partials, passes, reference, search
from assay.checkpoint.statistics.dtypes import DTYPES

SIZES = (1_000, 4_096, 9_408, 100_000, 1_000_000)
WIDE = [name for name, dtype in DTYPES.items() if dtype.family == "wide" and dtype.parts == 1]


def samples(kind, count):
    generator = np.random.default_rng(count)
    return generator.standard_normal(count) if kind == "normal" else generator.uniform(-1, 1, count)


def entropy_of(counts):
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * np.log2(shares)).sum())


def histogram_entropy(x):
    return entropy_of(np.histogram(x, np.linspace(x.min(), x.max(), 65))[0])


def coded_bytes(raw, dtype):
    """The bytes of an order-0 code of each 16-bit part of the values, or of the bytes of 8-bit types."""
    width = DTYPES[dtype].bytes
    parts = np.frombuffer(raw, f"<u{min(width, 2)}").reshape(-1, max(1, width // 2)).T
    return sum(entropy_of(np.unique(part, return_counts=True)[1]) * part.size for part in parts) / 8


@pytest.mark.parametrize("kind", ["normal", "uniform"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "bfloat16", "int8"])
@pytest.mark.parametrize("count", SIZES)
def test_entropy_of_one_distribution_at_every_size(dtype, kind, count):
    """No size is special: the figure is that of the histogram whether all distinct values are counted or not."""
    x = samples(kind, count)
    raw = encoded(x if DTYPES[dtype].real else np.rint(x / np.abs(x).max() * 127), dtype)
    row = measured(raw, dtype, (count,))
    assert row.entropy_bits == pytest.approx(histogram_entropy(decoded(raw, dtype)), rel=1e-12)
    assert row.entropy_bits <= min(6, math.log2(count))
    assert row.entropy_bytes == pytest.approx(coded_bytes(raw, dtype), abs=1)


def test_entropy_does_not_jump_between_sizes():
    """Of a uniform distribution it is 6 bits less the bias of a sample; of a normal one it falls with the range."""
    for dtype in ("float32", "float64"):
        uniform, normal = (
            [measured(encoded(samples(kind, count), dtype), dtype, (count,)).entropy_bits for count in SIZES]
            for kind in ("uniform", "normal")
        )
        for count, bits in zip(SIZES, uniform, strict=True):
            assert bits == pytest.approx(6 - 63 / (2 * count * math.log(2)), abs=30 / count)
        for count, bits in zip(SIZES, normal, strict=True):
            x = samples("normal", count)
            bins = 64 * x.std() / (x.max() - x.min())
            continuous = math.log2(math.sqrt(2 * math.pi * math.e) * bins)
            assert bits == pytest.approx(continuous - 40 / (2 * count * math.log(2)), abs=0.06)


@pytest.mark.parametrize("count", [1, 2, 5, 64])
def test_entropy_of_few_values_is_at_most_the_log_of_their_number(count):
    for dtype in ("float32", "bfloat16", "int64"):
        assert measured(encoded(np.arange(count), dtype), dtype, (count,)).entropy_bits == pytest.approx(
            math.log2(count)
        )


def test_entropy_covers_finite_values_only():
    x = np.array([1.0, 2.0, np.nan, np.inf, 1.0, 2.0])
    for dtype in ("float32", "bfloat16"):
        assert measured(encoded(x, dtype), dtype, (6,)).entropy_bits == 1.0
        assert measured(encoded(np.full(4, np.nan), dtype), dtype, (4,)).entropy_bits is None


@pytest.mark.parametrize("dtype", [*WIDE, "float16"])
@pytest.mark.parametrize("count", [4_096, 9_408, 60_000])
def test_chunks_and_kernels_give_the_same_bits(monkeypatch, dtype, count):
    raw = encoded(1000 * samples("normal", count), dtype)

    def both(**options):
        row = measured(raw, dtype, (count // 16, 16), **options)
        return row.entropy_bits, row.entropy_bytes

    whole = both()
    assert both(chunk_bytes=1 << 15) == whole
    for module in (counted, partials, passes, search):
        monkeypatch.setattr(module, "kernel", reference)
    assert both() == both(chunk_bytes=1 << 15) == whole
