"""Passes that run at two distinct speeds."""

from __future__ import annotations

import pytest

from assay.timing.modes import two_modes


def test_two_speeds_are_told_apart():
    fast, slow = two_modes([7.2, 14.4, 7.3, 7.1, 14.6, 7.2, 14.3, 7.2])
    assert (fast, slow) == ([7.1, 7.2, 7.2, 7.2, 7.3], [14.3, 14.4, 14.6])


@pytest.mark.parametrize(
    "samples",
    [
        [7.0 + 0.5 * step for step in range(20)],  # a continuous spread
        [7.0] * 19 + [14.0],  # a single outlier
        [7.0] * 10 + [7.5] * 10,  # too close
        [7.0, 14.0],
        [],
    ],
)
def test_one_speed_is_not_divided(samples):
    assert two_modes(samples) is None
