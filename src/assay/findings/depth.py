"""Values through the depth of a model: whether they grow or shrink from one repeated layer to the next."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Sequence

from msgspec import Struct

from assay.document.provenance import Counted, Figure

MIN_LAYERS = 8
"""Fewer layers show no trend."""
MIN_FACTOR = 1e3
"""Growth of trained residual streams stays below this factor."""
STEADY = 0.75
"""The least share of steps in the same direction."""

_NUMBER = re.compile(r"\d+")


class Trend(Struct, frozen=True):
    """A value that grows or shrinks through repeated layers."""

    members: tuple[int, ...]
    """The layers, first to last."""
    factor: float
    """The last value divided by the first."""
    first: float
    last: float


def strongest_trend(layers: Iterable[tuple[int, str, float]]) -> Trend | None:
    """The largest trend over layers whose names differ only in numbers, outermost first; None if there is none.

    `layers` are (index, name, value), first to last; values that are zero are left out.
    """
    families: dict[str, list[tuple[int, float]]] = {}
    for index, name, value in layers:
        if value > 0:
            families.setdefault(_NUMBER.sub("#", name), []).append((index, value))
    trends = {name: trend for name, each in families.items() if (trend := _trend(each)) is not None}
    chosen = min(trends, key=lambda name: (name.count("."), -abs(math.log(trends[name].factor))), default=None)
    return None if chosen is None else trends[chosen]


def _trend(family: Sequence[tuple[int, float]]) -> Trend | None:
    if len(family) < MIN_LAYERS:
        return None
    logs = [math.log(value) for _, value in family]
    steps = [after - before for before, after in itertools.pairwise(logs)]
    change = logs[-1] - logs[0]
    agreeing = sum(step * change > 0 for step in steps) / len(steps)
    if abs(change) < math.log(MIN_FACTOR) or agreeing < STEADY:
        return None
    members = tuple(index for index, _ in family)
    return Trend(members, math.exp(change), family[0][1], family[-1][1])


def change_text(trend: Trend) -> str:
    """`grow 1,200×` or `shrink 1,200×`."""
    factor = max(trend.factor, 1 / trend.factor)
    text = f"{factor:,.0f}" if factor < 1e6 else f"{factor:.1e}"
    return f"{'grow' if trend.factor > 1 else 'shrink'} {text}×"


def trend_evidence(trend: Trend, how: Counted) -> dict[str, Figure]:
    """The first and last value of a trend, and the number of layers."""
    numbers = {"layers": len(trend.members), "first_rms": trend.first, "last_rms": trend.last}
    return {name: Figure(value, how) for name, value in numbers.items()}
