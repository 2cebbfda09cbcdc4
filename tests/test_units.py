"""How figures are written, against parsing them back."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay import units

DECIMAL = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18, "Z": 1e21}
BINARY = {name: 1024.0**power for power, name in enumerate(("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"))}
TIME = {"s": 1.0, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9}
SMALL = {"MJ": 1e6, "kJ": 1e3, "J": 1.0, "mJ": 1e-3, "µJ": 1e-6, "nJ": 1e-9, "pJ": 1e-12}


def parsed(text: str, scales: dict[str, float]) -> tuple[float, float]:
    """The number before the unit, and the unit's scale."""
    number, _, unit = text.partition(" ")
    return float(number.replace(",", "")), scales[unit]


@pytest.mark.parametrize(
    ("write", "scales", "least", "most", "largest"),
    [
        (units.count, DECIMAL, 1.0, 1e23, 999),
        (units.size, BINARY, 1.0, 2.0**69, 1023),
        (units.seconds, TIME, 1e-9, 900.0, 999),
        (units.joules, SMALL, 1e-12, 9e8, 999),
    ],
    ids=["count", "size", "seconds", "joules"],
)
@given(data=st.data())
def test_three_digits_survive_and_the_number_is_below_the_next_unit(write, scales, least, most, largest, data):
    power = data.draw(st.floats(math.log(least), math.log(most)))
    near = data.draw(st.sampled_from([1.0, 0.9994, 0.9996, 0.99999, 1.0001]))
    value = min(max(math.exp(power), least), most)
    step = max((scale for scale in scales.values() if scale <= value), default=1.0)
    for figure in (value, max(step * near, least)):
        number, scale = parsed(write(figure), scales)
        assert number * scale == pytest.approx(figure, rel=0.0051)
        assert number <= largest
        assert number >= 1 or scale == min(scales.values()) or figure < scale


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (units.count(0), "0"), (units.count(999), "999"), (units.count(999_499), "999 k"),
        (units.count(999_500), "1 M"), (units.count(-1500), "-1.5 k"),
        (units.size(1023), "1023 B"), (units.size(1024), "1 KiB"), (units.size(1024**2 - 1), "1 MiB"),
        (units.seconds(0), "0 s"), (units.seconds(0.9996), "1 s"), (units.seconds(0.000_999_9), "1 ms"),
        (units.seconds(3e-10), "0.3 ns"), (units.seconds(59.96), "60 s"),
        (units.joules(0.999_96), "1 J"), (units.watts(999.96), "1 kW"), (units.joules(0), "0 J"),
        (units.ratio(999_999.4), "999,999"), (units.ratio(999_999.6), "1e+06"), (units.ratio(1e12), "1e+12"),
        (units.ratio(-3.5234e30), "-3.52e+30"), (units.ratio(12345.6), "12,346"), (units.ratio(5e200), "5e+200"),
        (units.share(1, 8), "12.5 %"), (units.share(0, 8), "0.0 %"), (units.share(1, 0), units.UNKNOWN),
    ],
)  # fmt: skip
def test_figures_at_the_edges_of_units(text, expected):
    assert text == expected


@pytest.mark.parametrize("write", [units.count, units.size, units.exact, units.seconds, units.joules, units.watts])
def test_unknown_is_a_dash_and_never_zero(write):
    assert write(None) == units.UNKNOWN
    assert write(0) != units.UNKNOWN


@given(st.integers(-(10**30), 10**30))
def test_exact_integers_keep_every_digit(value):
    assert int(units.exact(value).replace(",", "")) == value


def test_ops_are_written_as_people_write_them():
    names = {"torch.nn.functional.linear": "F.linear", "torch.add": "torch.add", "torch.ops.aten.view": "aten.view"}
    assert {name: units.op(name) for name in names} == names
    assert units.op(None) == units.UNKNOWN
