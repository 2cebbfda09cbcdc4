"""Times and kernels of kinds of op, from clocked passes."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from assay.api.profile.op_times import RecordedOps, kernels_of
from assay.document.rows import Op, OpKind
from assay.recorder.watch import Pass
from assay.timing.rounds import TimedPass

KINDS = [OpKind(name, name, {}, (), ()) for name in ("mm", "lstm", "view")]


def timed(kernels: tuple[int | None, ...]) -> TimedPass:
    """Two passes of mm, lstm and mm."""
    ops = [Op(0, -1), Op(1, -1), Op(0, -1)]
    shown = Pass("real", [], [], [], KINDS, ops, [], (), None, None, None)
    return TimedPass(shown, [[1000, 6000, 3000]] * 2, [10000, 10000], kernels)


def test_kernels_are_added_up_by_kind():
    rows = RecordedOps(timed((1, 130, 2))).kinds(KINDS)
    assert [row and (row.count, row.total_s, row.kernels) for row in rows] == [
        (2, pytest.approx(4e-6), 3),
        (1, pytest.approx(6e-6), 130),
        None,
    ]
    assert kernels_of(rows) == 133


def test_the_number_of_kernels_is_unknown_on_a_cpu():
    rows = RecordedOps(timed(())).kinds(KINDS)
    assert rows[0].kernels is None
    assert kernels_of(rows) is None
