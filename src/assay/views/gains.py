"""Gains of findings as text, for all views."""

from __future__ import annotations

from assay import units
from assay.document.document import Document
from assay.document.findings import BYTES, ENERGY, MEMORY, TIME, Gain
from assay.document.provenance import Measured, Modelled, Unknown
from assay.views.tables import percent

_METHODS = {Modelled: "modelled", Measured: "measured"}
_AMOUNTS = {TIME: units.seconds, MEMORY: units.size, BYTES: units.size, ENERGY: units.joules}
_WHOLES = {
    TIME: "of the time",
    MEMORY: "of the peak memory",
    BYTES: "of all weights",
    ENERGY: "of the energy",
}


def gain_text(gain: Gain, document: Document) -> str:
    """`up to 7.1 ms per pass (5.5 %), measured`; if the gain is unknown, the reason."""
    amount, share = gain.amount, gain.share
    if amount.value is None and share.value is None:
        return f"unknown: {amount.how.why}" if isinstance(amount.how, Unknown) else units.UNKNOWN
    method = _METHODS.get(type((amount if amount.value is not None else share).how), "counted")
    if amount.value is None:
        return f"up to {percent(share.value)} {_WHOLES[gain.of]}, {method}"
    part = "" if share.value is None else f" ({percent(share.value)} {_WHOLES[gain.of]})"
    return f"{_signed(gain, 'in this trace' if document.traces else 'per pass')}{part}, {method}"


def short_gain(gain: Gain | None) -> str | None:
    """`−5.5 % time`; None if there is no gain or it is unknown."""
    if gain is None or gain.share.value is None:
        return None
    sign = "−" if gain.share.value >= 0 else "+"
    return f"{sign}{percent(abs(gain.share.value))} {gain.of}"


def saving(gain: Gain | None) -> str:
    """`−9.1 ms, 7.0 %`; `−32.9 MiB, 74.8 % of bytes`; a dash if it is unknown."""
    if gain is None or gain.share.value is None:
        return units.UNKNOWN
    amount = f"−{_AMOUNTS[gain.of](gain.amount.value)}, " if gain.amount.value is not None else ""
    of = "" if gain.of == TIME else f" of {gain.of}"
    return f"{amount}{percent(gain.share.value)}{of}"


def _signed(gain: Gain, period: str) -> str:
    """`up to 7.1 ms per pass`; `costs 3 ms per pass` if it is negative."""
    value = gain.amount.value or 0
    if not value:
        return "next to nothing"
    unit = f" {period}" if gain.of in (TIME, ENERGY) else ""
    return f"{'up to' if value >= 0 else 'costs'} {_AMOUNTS[gain.of](abs(value))}{unit}"
