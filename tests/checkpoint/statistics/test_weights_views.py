"""Views that repeat stored values: each is read once and counts as often as it occurs, and the work is bounded."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from weight_tensors import decoded, encoded, measured

from assay.checkpoint.statistics import chunks
from assay.checkpoint.statistics.budget import FREE_BYTES, MAX_TIMES, within_budget
from assay.checkpoint.statistics.chunks import Weight, overlaps, plan
from assay.checkpoint.statistics.engine import EngineOptions, run
from assay.checkpoint.statistics.gathering import WINDOW_BYTES
from assay.checkpoint.statistics.overlapping import multiplicities
from assay.document.weights import QUANTILES


def viewed(raw, dtype, shape, strides, offset=0):
    weight = Weight(("w",), dtype, shape, "file", 0, len(raw), strides, offset)
    read = lambda chunk: raw[chunk.offset : chunk.offset + chunk.bytes]  # noqa: E731
    return next(iter(run([weight], read, EngineOptions(1))))[1]


def gathered(raw, dtype, shape, strides, offset=0):
    """The elements of the view as float64, by numpy."""
    x = decoded(raw, dtype)
    return np.lib.stride_tricks.as_strided(x[offset:], shape, [8 * stride for stride in strides]).astype(np.float64)


DTYPES = ("float32", "float64", "bfloat16", "float16", "int8", "int32", "int64", "bool")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("shape", "strides", "offset"),
    [
        ((50, 50, 50), (1, 1, 1), 0),
        ((9, 9, 9), (1, 1, 1), 0),
        ((60, 30), (1, 2), 5),
        ((1000, 64), (1, 1), 7),
        ((7, 300, 5), (0, 1, 1), 3),
        ((50, 40), (0, 0), 0),
        ((1, 12, 9), (3, 0, 1), 2),
    ],
)
def test_repeated_values_count_as_often_as_they_occur(dtype, shape, strides, offset):
    values = np.random.default_rng(3).standard_normal(1500) * 20
    values[3:9] = 0
    raw = encoded(values > 0 if dtype == "bool" else values, dtype)
    row = viewed(raw, dtype, shape, strides, offset)
    x = gathered(raw, dtype, shape, strides, offset).ravel()
    assert (row.problem, row.count, row.nan or 0) == ("", x.size, 0)
    assert (row.min, row.max, row.zeros) == (x.min(), x.max(), np.count_nonzero(x == 0))
    near = 1e-3 * np.sqrt(np.mean(x * x))
    assert row.near_zeros == np.count_nonzero(np.abs(x) <= near)
    assert (row.mean, row.std) == (pytest.approx(x.mean(), abs=1e-12), pytest.approx(x.std()))
    assert (row.l1, row.l2) == (pytest.approx(np.abs(x).sum()), pytest.approx(np.linalg.norm(x)))
    assert row.quantiles[5] == pytest.approx(np.median(x))
    assert sum(row.histogram.counts) == x.size
    assert row.histogram.counts == tuple(np.histogram(x, len(row.histogram.counts))[0])
    if dtype.startswith(("float", "bfloat")) and x.any():
        kept = np.sort(x * x)[int(0.75 * x.size) :].sum() / (x * x).sum()
        assert row.pruning[3].energy == pytest.approx(kept, rel=1e-9)


def test_a_large_expanded_view_of_many_values():
    x = np.random.default_rng(5).standard_normal(200_000).astype("<f4")
    row = viewed(x.tobytes(), "float32", (3, 200_000), (0, 1))
    repeated = np.tile(x.astype(np.float64), 3)
    assert row.quantiles == pytest.approx(np.quantile(repeated, QUANTILES), rel=1e-12)
    assert row.histogram.counts == tuple(np.histogram(repeated, 64)[0])
    squares = np.sort(repeated**2)
    for point in row.pruning:
        assert point.energy == pytest.approx(
            squares[int(point.share * squares.size) :].sum() / squares.sum(), rel=1e-9
        )


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.integers(1, 6), st.integers(0, 7)), min_size=1, max_size=4))
def test_multiplicities_are_those_of_the_view(dimensions):
    shape, strides = tuple(zip(*dimensions, strict=True))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunks, "GATHERED_TIMES", 0)
        patch.setattr(chunks, "GATHERED_ELEMENTS", 0)
        planned = plan(0, Weight(("w",), "float32", shape, "file", 0, 1 << 20, strides))
    indices = sum(np.indices(shape)[axis] * stride for axis, stride in enumerate(strides)).ravel()
    expected = np.bincount(indices)
    if planned.overlapping:
        assert multiplicities(planned).tolist() == expected.tolist()
    else:
        assert expected.max() == planned.repeats
    moving = tuple(1 if stride == 0 else size for size, stride in dimensions)
    if not overlaps(moving, strides):
        assert set(expected.tolist()) <= {0, planned.repeats}


def test_what_cannot_be_counted_is_refused_in_a_line():
    spanned = chunks.OVERLAP_ELEMENTS + 1
    row = viewed(bytes(4 * spanned), "float32", (spanned - 9, 10), (1, 1))
    assert row.problem.startswith("overlapping view: its 10,485,680 elements are 1,048,577 stored ones, the limit")


def test_huge_sizes_of_empty_tensors_take_no_work():
    for shape in ((1 << 62, 0), (0, 1 << 62), (1 << 40, 0, 1 << 40)):
        row = viewed(b"", "float32", shape, None)
        assert (row.count, row.problem, row.mean) == (0, "", None)


def test_shifted_views_of_one_storage_are_bounded():
    size = 8 << 20
    shifted = [Weight((str(at),), "uint8", (size - at,), "file", at, size - at) for at in range(100)]
    kept = [weight for weight in within_budget(shifted) if not weight.problem]
    assert sum(weight.length for weight in kept) <= MAX_TIMES * size + FREE_BYTES
    assert len(kept) >= MAX_TIMES
    assert "overlap" in within_budget(shifted)[-1].problem
    apart = [Weight((str(at),), "uint8", (size,), "file", at * size, size) for at in range(100)]
    assert within_budget(apart) == apart


def test_groups_of_long_rows_begin_where_their_rows_do():
    """Rows too long for statistics per row: int4 with a scale per group of 128 is exact, and so is 2:4."""
    cols, generator = chunks.MAX_ROW_LENGTH + 75, np.random.default_rng(7)
    groups = -(-cols // 128)
    scales = np.exp2(generator.integers(-12, 3, (3, groups))).repeat(128, 1)[:, :cols]
    x = generator.integers(-7, 8, (3, cols)).astype("<f4")
    x[:, ::128] = 7
    row = measured((x * scales).astype("<f4").tobytes(), "float32", x.shape)
    (group,) = (each for each in row.roundings if (each.format, each.scope) == ("int4", "group128"))
    assert group.exact
    x[:, 1::4] = x[:, 3::4] = 0
    assert measured(x.tobytes(), "float32", x.shape).n_of_m["2:4"] == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("axes", [(1, 0), (0, 1)])
@pytest.mark.parametrize("width", [300, 20_000])
def test_no_view_is_read_in_pieces_as_large_as_its_storage(axes, width):
    x = np.random.default_rng(8).standard_normal((6_000_000 // width, width)).astype("<f4")
    raw, sizes = x.tobytes(), []

    def read(chunk):
        sizes.append(chunk.bytes)
        return raw[chunk.offset : chunk.offset + chunk.bytes]

    view = x[:, : width // 2].transpose(axes)
    weight = Weight(("w",), "float32", view.shape, "file", 0, len(raw), tuple(stride // 4 for stride in view.strides))
    row = next(iter(run([weight], read, EngineOptions(1))))[1]
    assert row.content == measured(np.ascontiguousarray(view).tobytes(), "float32", view.shape).content
    assert max(sizes) <= WINDOW_BYTES
    assert len(sizes) < 20_000
