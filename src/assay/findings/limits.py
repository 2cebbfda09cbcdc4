"""The limits of a budget: parsed from the tables of a TOML file or from Python arguments, with human units."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from fnmatch import fnmatchcase
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from assay.document.findings import SEVERITIES
from assay.errors import UsageError
from assay.findings.catalogue import rules
from assay.findings.engine import DEFECT
from assay.findings.quantities import BYTES, COUNT, QUANTITIES
from assay.messages import name_suggestion, one_line

LATENCY, NO, STRICT, MODELS = "latency", "no", "strict", "models"
KEYS = (*QUANTITIES, LATENCY, NO, STRICT)
"""The keys that a table of limits may have."""

_DECIMAL = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "p": 10**15}
_BINARY = {f"{prefix}ib": 1 << 10 * power for power, prefix in enumerate("kmgtp", 1)}
_UNITS = {
    COUNT: {**_DECIMAL, "b": 10**9},
    BYTES: {"": 1} | {f"{prefix}b": scale for prefix, scale in _DECIMAL.items()} | _BINARY,
}
"""The scale of each unit, in lower case, by the unit of the quantity; a count of `7B` is seven billion."""
_EXAMPLES = {COUNT: '25_000_000 or "25M"', BYTES: '"512 MiB" or 536_870_912'}
_AMOUNT = re.compile(r"([0-9][0-9_]*(?:\.[0-9]+)?)\s*([a-z]*)", re.IGNORECASE)
_SEVERITY_NAMES = {**{severity: severity for severity in SEVERITIES}, "suggestion": "advice"}


class LatencyLimit(Struct, frozen=True):
    """A limit of the time of a pass, relative to that in a saved document."""

    reference: str
    """The path of the document, relative to the file with the limit."""
    ratio: float
    """The largest time, as a multiple of the reference."""


class Limits(Struct, frozen=True):
    """The limits that apply to one model."""

    amounts: dict[str, float] = field(default_factory=dict)
    """The largest value of each quantity, by its key in `QUANTITIES`."""
    latency: LatencyLimit | None = None
    no: tuple[str, ...] = ()
    """Codes and severities of which no finding may occur."""
    strict: bool = False
    """Whether an unknown value fails."""

    @property
    def empty(self) -> bool:
        """Whether nothing is limited."""
        return not (self.amounts or self.latency or self.no)

    @property
    def needs_rules(self) -> bool:
        """Whether the findings are needed."""
        return bool(self.no) or any(QUANTITIES[name].by_rules for name in self.amounts)

    def split_training(self) -> tuple[Limits, Limits]:
        """The limits that need a training step, and all others."""
        training = {name: limit for name, limit in self.amounts.items() if QUANTITIES[name].training}
        others = {name: limit for name, limit in self.amounts.items() if name not in training}
        return Limits(training), replace(self, amounts=others)


def limits_for(table: Mapping[str, Any], names: Iterable[str], where: str) -> Limits:
    """The limits of the model with these `names`: those of the table itself, then of its matching `models` tables.

    Every table is checked, also one that does not match; `where` begins error messages.
    """
    patterns = _table(table.get(MODELS, {}), f"{where}: {MODELS}")
    known = list(names)
    merged = {_key(key): value for key, value in table.items() if key != MODELS}
    parse_limits(merged, where)
    for pattern, inner in patterns.items():
        place = f'{where}: {MODELS}."{pattern}"'
        parse_limits(_table(inner, place), place)
        if any(fnmatchcase(name, pattern) for name in known):
            merged |= {_key(key): value for key, value in inner.items()}
    return parse_limits(merged, where)


def parse_limits(table: Mapping[str, Any], where: str) -> Limits:
    """The limits in one table; a UsageError names `where`, the key and what was expected."""
    values = {_key(key): value for key, value in table.items()}
    for key in values:
        if key not in KEYS:
            hint = name_suggestion(key, KEYS, listing=False)
            raise UsageError(f"{where}: unknown key {key!r} ({hint}); accepted: {', '.join(KEYS)}")
    return Limits(
        {key: _amount(where, key, value) for key, value in values.items() if key in QUANTITIES},
        _latency(where, values[LATENCY]) if LATENCY in values else None,
        _forbidden(where, values.get(NO, [])),
        _flag(where, values.get(STRICT, False)),
    )


def _key(name: str) -> str:
    return name.replace("_", "-")


def _table(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise UsageError(f"{where} must be a table of limits, got {_quoted(value)}")
    return value


def _amount(where: str, key: str, value: Any) -> float:
    """A number, or a text with a unit: `25M`, `8.2G`, `512 MiB`."""
    unit = QUANTITIES[key].unit
    number = value if isinstance(value, (int, float)) and not isinstance(value, bool) else -1
    if 0 <= number < math.inf:
        return number
    match = _AMOUNT.fullmatch(value.strip()) if isinstance(value, str) else None
    scale = _UNITS[unit].get(match[2].lower()) if match else None
    if match is None or scale is None:
        raise UsageError(f"{where}: {key} must be a number such as {_EXAMPLES[unit]}, got {_quoted(value)}")
    exact = Decimal(match[1].replace("_", "")) * scale
    return int(exact) if exact == int(exact) else float(exact)


def _latency(where: str, value: Any) -> LatencyLimit:
    if isinstance(value, LatencyLimit):
        return value
    reference, ratio = (value.get("reference"), value.get("ratio")) if isinstance(value, Mapping) else (None, None)
    is_ratio = isinstance(ratio, (int, float)) and not isinstance(ratio, bool) and 0 < ratio < math.inf
    if not isinstance(value, Mapping) or set(value) != {"reference", "ratio"} or not is_ratio or not reference:
        example = '{reference = "ref.assay.json", ratio = 1.1}'
        raise UsageError(f"{where}: {LATENCY} must be a table such as {example}, got {_quoted(value)}")
    return LatencyLimit(str(reference), float(ratio or 0))


def _forbidden(where: str, value: Any) -> tuple[str, ...]:
    """Codes in upper case, and severities."""
    words = [value] if isinstance(value, str) else value
    if not isinstance(words, (list, tuple)) or not all(isinstance(word, str) for word in words):
        raise UsageError(f'{where}: {NO} must be a list such as ["W101", "error"], got {_quoted(value)}')
    return tuple(dict.fromkeys(_code_or_severity(where, word.strip()) for word in words))


def _code_or_severity(where: str, word: str) -> str:
    severity = _SEVERITY_NAMES.get(word.lower())
    if severity is None and word.upper() not in {DEFECT, *(rule.code for rule in rules())}:
        names = ", ".join(name for name in _SEVERITY_NAMES if name != "advice")
        raise UsageError(f"{where}: {NO} has {_quoted(word)}: expected a rule code such as W101, or {names}")
    return severity or word.upper()


def _flag(where: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise UsageError(f"{where}: {STRICT} must be true or false, got {_quoted(value)}")
    return value


def _quoted(value: Any) -> str:
    return one_line(repr(value), 80)
