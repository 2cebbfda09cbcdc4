"""Figures as text."""

from __future__ import annotations

import pytest

from assay.document.provenance import Counted, Figure, Measured, Modelled, Unknown
from assay.views.text.figures import how, shown


def _plain(value: float | None) -> str:
    return "–" if value is None else f"{value:g}"


@pytest.mark.parametrize(
    ("figure", "text"),
    [
        (Figure(8.0, Modelled("a model", (), 0.1, (0.75, 1.5))), "approx. 8 (6 to 12)"),
        (Figure(8.0, Modelled("rated power", (), 1.0)), "approx. 8 (4 to 16)"),
        (Figure(8.0, Modelled("a model")), "8"),
        (Figure(8.0, Measured("a clock", 3, 0.5)), "8 ± 0.5"),
        (Figure(8.0, Counted("ops")), "8"),
        (Figure(None, Unknown("no sensor")), "–"),
    ],
)
def test_a_value_is_shown_with_its_range(figure, text):
    assert shown(figure, _plain) == text


def test_how_a_figure_was_obtained():
    assert how(Figure(1.0, Measured("a clock", 3))) == "measured: a clock, 3 repeats"
    assert how(Figure(1.0, Modelled("a model", interval=(0.5, 2.0)))) == "modelled: a model"
    assert how(Figure(None, Unknown("no sensor"))) == "unknown: no sensor"
