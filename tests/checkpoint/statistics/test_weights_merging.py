"""Chunk size and the order and grouping of merges do not change the statistics; tensors of any shape."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from weight_tensors import decoded, encoded, measured

from assay.checkpoint.statistics import counted, partials, wide
from assay.checkpoint.statistics.chunks import Weight, plan
from assay.checkpoint.statistics.engine import EngineOptions, run
from assay.checkpoint.statistics.gathering import fetch
from assay.checkpoint.statistics.partials import merge, merge_refined
from assay.checkpoint.statistics.passes import ChunkLayout, first_pass, refining_pass
from assay.checkpoint.statistics.search import advance

DTYPES = ["bfloat16", "float16", "float8_e4m3fn", "float32", "float64", "int8", "int16", "int32", "int64"]


def split(weight, raw, chunk_bytes):
    planned = plan(0, weight, chunk_bytes)
    layout = ChunkLayout.of(planned)
    read = lambda chunk: raw[chunk.offset : chunk.offset + chunk.bytes]  # noqa: E731
    return planned, layout, [(chunk, fetch(chunk, read)) for chunk in planned.chunks]


def merged(parts, join, order):
    """Partials merged in random order and random groups."""
    shuffled = list(parts)
    order.shuffle(shuffled)
    while len(shuffled) > 1:
        size = order.randint(2, len(shuffled))
        shuffled = [join(shuffled[:size]), *shuffled[size:]]
        order.shuffle(shuffled)
    return join(shuffled)


def analysed(weight, raw, chunk_bytes, order):
    planned, layout, chunks = split(weight, raw, chunk_bytes)
    join = lambda parts: merge(parts, layout.distinct)  # noqa: E731
    partial = merged([first_pass(chunk, layout, data) for chunk, data in chunks], join, order)
    table = counted.table_of(planned, partial)
    if table is not None:
        return counted.statistics(planned, partial, table, 30.0)
    search, refined = wide.begin_search(planned, partial), None
    while search is not None and not search.done:
        request = wide.next_request(partial, search)
        parts = [refining_pass(chunk, layout, request, data) for chunk, data in chunks]
        refined = merged(parts, merge_refined, order)
        search = advance(search, refined)
    return wide.statistics(planned, partial, search, refined, 30.0)


@settings(max_examples=40)
@given(
    dtype=st.sampled_from(DTYPES),
    rows=st.integers(1, 40),
    cols=st.integers(1, 400),
    chunk_bytes=st.integers(1, 40_000),
    odd=st.booleans(),
    dense=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_any_chunk_size_and_order(dtype, rows, cols, chunk_bytes, odd, dense, seed):
    generator = np.random.default_rng(seed)
    numbers = generator.standard_t(2, (rows, cols))
    if odd:
        numbers.flat[:: max(1, numbers.size // 5)] = np.inf
    raw = encoded(np.nan_to_num(numbers * 30) if "int" in dtype else numbers, dtype)
    weight = Weight(("w",), dtype, (rows, cols), "file", 0, len(raw))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("assay.checkpoint.statistics.chunks.TILE_ELEMENTS", 256)
        expected = measured(raw, dtype, (rows, cols))
        if dense:
            patch.setattr(partials, "DENSE_FROM", 0)
        assert analysed(weight, raw, chunk_bytes, random.Random(seed)) == expected
        assert measured(raw, dtype, (rows, cols), chunk_bytes=chunk_bytes) == expected


@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "float64", "int64", "bool"])
@pytest.mark.parametrize(
    "shape", [(), (1,), (7,), (300_001,), (1, 5), (3, 1), (4, 3, 3, 3), (2, 40, 130), (3, 2_000_000)]
)
def test_any_shape(dtype, shape):
    numbers = np.resize(np.random.default_rng(2).standard_normal(9973), shape)
    raw = encoded(numbers * 9 if dtype != "bool" else numbers > 0, dtype)
    if numbers.size > 1_000_000 and dtype not in ("bfloat16",):
        pytest.skip("one dtype is enough for rows of millions of elements")
    row = measured(raw, dtype, shape, chunk_bytes=100_000)
    x = decoded(raw, dtype)
    assert (row.problem, row.count) == ("", x.size)
    assert (row.min, row.max) == (x.min(), x.max())
    assert row.mean == pytest.approx(x.mean(), rel=1e-11, abs=1e-13)
    if len(shape) == 3 and dtype != "int64":
        assert row.rows.count == 80


@pytest.mark.parametrize("shape", [(0,), (0, 5), (5, 0), (2, 0, 3)])
@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "int8"])
def test_empty(dtype, shape):
    row = measured(b"", dtype, shape)
    assert (row.count, row.problem, row.mean, row.quantiles) == (0, "", None, ())


@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "complex64"])
@pytest.mark.parametrize("axes", [(1, 0, 2), (2, 1, 0), (0, 2, 1)])
def test_strided_views_have_the_statistics_of_their_copies(dtype, axes):
    storage = np.arange(6 * 50 * 70, dtype=np.float64).reshape(6, 50, 70) % 251 - 100
    whole = np.frombuffer(encoded(storage, dtype), {"bfloat16": "<u2", "float32": "<f4", "complex64": "<f4"}[dtype])
    if dtype == "complex64":
        whole = np.repeat(whole, 2).view("<c8")
    view = whole.reshape(storage.shape)[1:, ::2, 3:].transpose(axes)
    strides = tuple(stride // whole.itemsize for stride in view.strides)
    start = 50 * 70 + 3
    raw = whole.tobytes()
    weight = Weight(("w",), dtype, view.shape, "file", 0, len(raw), strides, start)
    copied = np.ascontiguousarray(view).tobytes()
    actual = next(
        iter(run([weight], lambda c: raw[c.offset : c.offset + c.bytes], EngineOptions(1, chunk_bytes=20_000)))
    )[1]
    expected = measured(copied, dtype, view.shape)
    assert actual.content == expected.content
    assert (actual.quantiles, actual.rows, actual.columns) == (expected.quantiles, expected.rows, expected.columns)


def test_an_expanded_view_is_analysed_once():
    raw = np.arange(4, dtype="<f4").tobytes()
    weight = Weight(("w",), "float32", (10**6, 10**6, 4), "file", 0, 16, (0, 0, 1))
    row = next(iter(run([weight], lambda chunk: raw[chunk.offset : chunk.offset + chunk.bytes])))[1]
    assert (row.max, row.mean, row.l1, row.zeros) == (3.0, 1.5, 6e12, 10**12)
    assert row.histogram.counts[0] == row.histogram.counts[-1] == 10**12
    assert row.note == "expanded view: every stored value counts 1,000,000,000,000 times"
