"""The row-wise pass in every build of the kernel, against the numpy reference; and that what is dead is dead."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from row_cases import NAMES

from assay.checkpoint.statistics import reference
from assay.checkpoint.statistics.dtypes import BFLOAT16, FLOAT32, FLOAT64, INT8
from assay.checkpoint.statistics.kernel import is_native, kernel
from assay.checkpoint.statistics.layout import ROW_FIELDS

KERNELS = [pytest.param(each, id=each.isa()) for each in dict.fromkeys((kernel, reference))]
DEAD, LOWEST, HIGHEST = (ROW_FIELDS.index(name) for name in ("dead_rows", "norm_min", "norm_max"))


@pytest.mark.skipif(not is_native(), reason="the native kernel is not built")
@pytest.mark.parametrize("isa", ["baseline", "avx2", "avx512"])
def test_every_kind_of_data_in_every_build(isa):
    environment = {**os.environ, "ASSAY_ISA": isa, "PYTHONPATH": os.pathsep.join(sys.path)}
    script = Path(__file__).with_name("row_cases.py")
    subprocess.run([sys.executable, script, *NAMES], env=environment, check=True)


@pytest.mark.parametrize("each", KERNELS)
def test_a_column_far_below_its_rows_is_not_dead(each):
    """Its squares underflow in single precision, while those of the rest of the row do not."""
    x = np.full((70, 256), 1e-11, dtype="<f4")
    x[:, ::2], x[:, 1] = 1e-23, 0
    sums = each.rows(x.view(np.uint8).reshape(-1), FLOAT32, 70, 256, 70, True)[2].sum(axis=0)
    np.testing.assert_allclose(np.sqrt(sums), np.sqrt(70) * x[0].astype(np.float64), rtol=1e-5)


@pytest.mark.parametrize("each", KERNELS)
def test_values_whose_squares_underflow_in_double_precision_are_not_dead(each):
    x = np.full((4, 300), 1e-170)
    x[1], x[:, 7] = 0, 0
    _, records, columns, _ = each.rows(x.view(np.uint8).reshape(-1), FLOAT64, 4, 300, 4, True)
    assert records[0, DEAD] == 1
    assert records[0, LOWEST] == 0
    np.testing.assert_allclose(records[0, HIGHEST], 1e-170 * np.sqrt(299), rtol=1e-12)
    assert np.flatnonzero(columns.sum(axis=0) == 0).tolist() == [7]


@pytest.mark.parametrize("each", KERNELS)
def test_norms_of_rows_whose_squares_overflow(each):
    x = np.full((2, 200), 1e200)
    records = each.rows(x.view(np.uint8).reshape(-1), FLOAT64, 2, 200, 2, False)[1]
    np.testing.assert_allclose(records[0, HIGHEST], 1e200 * np.sqrt(200), rtol=1e-12)


@pytest.mark.parametrize("each", KERNELS)
def test_rows_without_finite_values_are_dead(each):
    x = np.full((3, 130), np.nan, dtype="<f4")
    x[1], x[2, 129] = np.inf, 2.0
    data = (x.view("<u4") >> 16).astype("<u2").view(np.uint8).reshape(-1)
    _, records, columns, _ = each.rows(data, BFLOAT16, 3, 130, 3, True)
    assert (records[0, DEAD], records[0, HIGHEST]) == (2, 2)
    assert np.flatnonzero(columns.sum(axis=0)).tolist() == [129]


@pytest.mark.parametrize("each", KERNELS)
def test_rounding_errors_of_integers_are_not_summed(each):
    data = np.arange(-64, 64).astype(np.int8).view(np.uint8)
    record = each.rows(data, INT8, 1, 128, 1, False)[1][0]
    assert record[0] == sum(i * i for i in range(-64, 64))
    assert record[1:5].tolist() == [0, 0, 0, 0]


@pytest.mark.skipif(not is_native(), reason="the native kernel is not built")
@pytest.mark.parametrize("value", [0, 0x3C3C, 0x7FE5])
def test_counts_of_equal_neighbours(value):
    """Frequent patterns are counted in other places, and also if they are one of those."""
    data = np.full(30_000, value, dtype="<u2")
    data[::7], data[5] = np.arange(data[::7].size) & 0xFFFF, 0x7FE1
    for cols in (300, 1000, 30_000):
        (patterns, counts), *_ = kernel.rows(data.view(np.uint8), BFLOAT16, 30_000 // cols, cols, 3, False)
        expected = np.unique(data, return_counts=True)
        np.testing.assert_array_equal((patterns[0], counts[0]), expected)
