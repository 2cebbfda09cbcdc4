"""Formatting of counts, bytes, times and shapes for all views.

None means unknown and is printed as a dash, never as zero.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

UNKNOWN = "–"

_DECIMAL = ("", "k", "M", "G", "T", "P", "E", "Z")
_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_TIME = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))

_NEXT = 0.9995
"""From this share of the next unit on, three digits round up to it: 999.96 ms is written 1 s, not 1,000 ms."""

_LONGEST = 999_999.5
"""From here on, a number without a prefix is written with an exponent: 4.36e+30."""

_SMALL = ((1e6, "M"), (1e3, "k"), (1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"), (1e-12, "p"))


def count(value: float | None, unit: str = "") -> str:
    """A count with a decimal prefix: `count(35_928_000) == "35.9 M"`."""
    if value is None:
        return UNKNOWN
    return _scaled(float(value), 1000.0, _DECIMAL, unit)


def size(value: float | None) -> str:
    """Bytes with a binary prefix: `size(1536) == "1.5 KiB"`."""
    if value is None:
        return UNKNOWN
    return _scaled(float(value), 1024.0, _BINARY, "")


def exact(value: int | None) -> str:
    """An integer with all its digits and thousands separators: `exact(1234567) == "1,234,567"`."""
    return UNKNOWN if value is None else f"{value:,}"


def seconds(value: float | None) -> str:
    """A time in seconds, written in s, ms, µs or ns: `seconds(0.00125) == "1.25 ms"`."""
    if value is None:
        return UNKNOWN
    for scale, unit in _TIME:
        if abs(value) >= scale * _NEXT:
            return f"{_three(value / scale)} {unit}"
    return "0 s" if value == 0 else f"{value / 1e-9:.2g} ns"


def joules(value: float | None) -> str:
    """An energy in joules, written with an SI prefix: `joules(0.00125) == "1.25 mJ"`."""
    return _small(value, "J")


def watts(value: float | None) -> str:
    """A power in watts, written with an SI prefix: `watts(125) == "125 W"`."""
    return _small(value, "W")


def share(part: float | None, whole: float | None) -> str:
    """`part` as a percentage of `whole`: `share(1, 8) == "12.5 %"`; unknown if either is unknown or `whole` is 0."""
    if part is None or whole is None:
        return UNKNOWN
    return f"{100.0 * part / whole:.1f} %" if whole else UNKNOWN


def floored_percent(part: float) -> str:
    """A share of 1 as a percentage rounded down, so that it reads 100 % only if `part` is exactly 1."""
    return "100 %" if part == 1 else f"{math.floor(1000 * part) / 10:.1f} %"


def ratio(value: float | None) -> str:
    """A ratio with three significant digits."""
    return UNKNOWN if value is None else _three(value)


def shape(dims: Iterable[int | str]) -> str:
    """A shape as text, as in the JSON files: `shape((1, 3, 224, 224)) == "1x3x224x224"`; `"scalar"` if empty."""
    return "x".join(str(dim) for dim in dims) or "scalar"


def shapes(several: Iterable[Iterable[int | str]]) -> str:
    """Several shapes on one line: `1x3x224x224, 64x3x7x7`."""
    return ", ".join(shape(dims) for dims in several)


def op(name: str | None) -> str:
    """The name of an op as people write it: `op("torch.nn.functional.linear") == "F.linear"`."""
    if name is None:
        return UNKNOWN
    for prefix, short in (("torch.nn.functional.", "F."), ("torch.ops.", "")):
        if name.startswith(prefix):
            return short + name.removeprefix(prefix)
    return name


def _small(value: float | None, unit: str) -> str:
    """A value with an SI prefix from pico to mega."""
    if value is None:
        return UNKNOWN
    for scale, prefix in _SMALL:
        if abs(value) >= scale * _NEXT:
            return f"{_three(value / scale)} {prefix}{unit}"
    return f"0 {unit}" if value == 0 else f"{value:.2g} {unit}"


def _scaled(value: float, step: float, names: tuple[str, ...], unit: str) -> str:
    power = 0
    while power < len(names) - 1 and abs(value) >= step * _NEXT:
        value /= step
        power += 1
    text = f"{value:.0f}" if power == 0 and value == int(value) else _three(value)
    return f"{text} {names[power]}{unit}".rstrip()


def _three(value: float) -> str:
    """Three significant digits; values from 100 up to a million are rounded to whole numbers, without an exponent."""
    if value == 0:
        return "0"
    if 100 <= abs(value) < _LONGEST:
        return f"{value:,.0f}"
    return f"{value:.3g}"
