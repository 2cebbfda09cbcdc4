"""The values of a tensor as a picture: how many lie in each interval."""

from __future__ import annotations

from itertools import accumulate
from math import isfinite

from assay import units
from assay.document.weights import Histogram
from assay.views.canvas import Canvas, Scale, sampled
from assay.views.layout import Style
from assay.views.text.report import Picture

_HEIGHT = 8
_MOST = 0.9
"""The share of the values that the caption locates."""


def histogram_picture(name: str, histogram: Histogram) -> Picture:
    """The histogram under the interval that holds most values."""
    return Picture(f"Histogram: {name}{_conclusion(histogram)}", lambda style: _draw(style, histogram))


def _draw(style: Style, histogram: Histogram) -> list[str]:
    most = max(histogram.counts, default=0)
    ticks = [(0.0, units.ratio(histogram.low)), (1.0, units.ratio(histogram.high))]
    if histogram.low < 0 < histogram.high and isfinite(histogram.high - histogram.low):
        ticks.append((-histogram.low / (histogram.high - histogram.low), "0"))
    heights = dict.fromkeys((0, most))
    y_axis = Scale(0, most or 1, [(value, units.exact(value)) for value in heights])
    canvas = Canvas(style, _HEIGHT, Scale(0, 1, ticks), y_axis)
    canvas.area(sampled(histogram.counts, 2 * canvas.columns))
    return canvas.lines()


def _conclusion(histogram: Histogram) -> str:
    """`, at least 90 % of the values from -0.05 to 0.05`; the ends are those of bins."""
    total, bins = sum(histogram.counts), len(histogram.counts)
    if not total or histogram.low == histogram.high:
        return ""
    outside = (1 - _MOST) / 2 * total
    sums = list(accumulate(histogram.counts))
    first = next(at for at, below in enumerate(sums) if below > outside)
    last = next(at for at, below in enumerate(sums) if below >= total - outside)
    low, high = (_edge(histogram, at / bins) for at in (first, last + 1))
    return f", at least {_MOST * 100:.0f} % of the values from {units.ratio(low)} to {units.ratio(high)}"


def _edge(histogram: Histogram, share: float) -> float:
    return histogram.low * (1 - share) + histogram.high * share
