"""The brief at the top of a report: what it is, what limits it, what to do next, what is wrong, what is unknown."""

from __future__ import annotations

import re
from collections.abc import Callable

from assay import units
from assay.document.document import Document
from assay.document.findings import ENERGY, TIME, Finding, Gain
from assay.document.provenance import Modelled
from assay.findings.brief import Brief, BriefFigure, NotKnown
from assay.messages import plural
from assay.views.partial import marked_title, marked_total
from assay.views.tables import Column, Table, percent
from assay.views.text.figures import shown
from assay.views.text.report import Parts, Report

_SHOWS: dict[str, Callable[[float | None], str]] = {
    "seconds": units.seconds,
    "bytes": units.size,
    "joules": units.joules,
    "count": units.count,
    "share": percent,
    "ratio": units.ratio,
}
_SAME_UNIT = re.compile(r"\((\S+) (\S+) to (\S+) \2\)")
"""A range whose ends have the same unit, which is then written once."""
_RED, _YELLOW, _GREEN = "31", "33", "32"
_CLAUSE = re.compile(r"[.:;,] | \(|\.$")
"""Where the first clause of a recommendation ends."""


def brief_parts(brief: Brief) -> Parts:
    """The brief as a title and up to three small tables."""
    parts: Parts = [" · ".join(brief.identity)]
    rows = [(figure.label, _answer(figure, brief), figure.detail) for figure in brief.figures]
    if rows:
        parts.append(_facts(rows))
    if brief.actions:
        parts.append(_actions(brief))
    state = [*_next_step(brief), *_problems(brief), *(("Unknown", _unknown(one), "") for one in brief.unknown)]
    if state:
        parts.append(_facts(_label_once(state)))
    return parts


def with_brief(brief: Brief, report: Report, document: Document) -> Report:
    """The report with the brief before it, whose title is marked if not the whole model ran."""
    title, *parts = brief_parts(brief)
    return Report([marked_title(str(title), document), *parts, *report.parts], report.data)


def _facts(rows: list[tuple[str, str, str]]) -> Table:
    columns = [
        Column[tuple[str, str, str]]("name", lambda row: f"  {row[0]}", paint=_paint),
        Column[tuple[str, str, str]]("answer", lambda row: row[1], shrinks=True, keeps=40),
        Column[tuple[str, str, str]]("detail", lambda row: row[2], shrinks=True, drops=1),
    ]
    return Table(columns if any(row[2] for row in rows) else columns[:2], rows, bare=True)


def _paint(row: object) -> str:
    label = row[0] if isinstance(row, tuple) else ""
    return {"Problem": _RED, "Problems": _RED, "Unknown": _YELLOW}.get(label, "")


def _answer(figure: BriefFigure, brief: Brief) -> str:
    if figure.figure is None:
        return figure.text
    value = _SAME_UNIT.sub(r"(\1–\3 \2)", shown(figure.figure, _SHOWS[figure.unit])).removeprefix("approx. ")
    method = ", modelled" if isinstance(figure.figure.how, Modelled) else ""
    return marked_total(f"{value} {figure.text}{method}".strip(), partial=brief.partial)


def _actions(brief: Brief) -> Table:
    """What to do next, one row per action."""
    columns = [
        Column[Finding]("", lambda one: f"  {brief.actions.index(one) + 1}"),
        Column[Finding]("Do next", lambda one: _clause(one.advice), shrinks=True, keeps=12),
        Column[Finding]("rule", lambda one: one.code),
        Column[Finding]("gain", lambda one: _gain(one.gain), "right", paint=lambda row: _GREEN),
        Column[Finding]("confidence", _confidence, shrinks=True),
    ]
    return Table(columns, brief.actions, ruled=False)


def _next_step(brief: Brief) -> list[tuple[str, str, str]]:
    """How to try the actions, and how many more there are."""
    more = f"{plural(brief.more_actions, 'more suggestion')} below" if brief.more_actions else ""
    text = "; ".join(filter(None, (brief.next_step, more)))
    return [("Try them" if brief.next_step else "", text, "")] if text else []


def _clause(advice: str) -> str:
    """The first clause of a recommendation: `Use torch.compile`."""
    return _CLAUSE.split(advice, 1)[0]


def _gain(gain: Gain | None) -> str:
    """`−9.1 ms, 7.0 %`; memory and bytes alike."""
    if gain is None:
        return units.UNKNOWN
    show = {TIME: units.seconds, ENERGY: units.joules}.get(gain.of, units.size)
    parts = [f"−{show(gain.amount.value)}" if gain.amount.value is not None else "", percent(gain.share.value)]
    text = ", ".join(part for part in parts if part)
    return text if gain.of == TIME else f"{text} {gain.of}"


def _confidence(finding: Finding) -> str:
    """`measured 1.43×` if it was tried, else how its gain is known."""
    if finding.verified:
        return f"tried: {finding.verified.split(',')[0]}"
    return "predicted" if finding.gain is not None and isinstance(finding.gain.share.how, Modelled) else "at most"


def _problems(brief: Brief) -> list[tuple[str, str, str]]:
    label = "Problem" if len(brief.problems) == 1 else "Problems"
    if brief.problems:
        return [(label, text, "") for text in brief.problems]
    return [("Problems", brief.clean, "")] if brief.clean else []


def _unknown(one: NotKnown) -> str:
    return f"{one.what} ({one.why})" if one.why else one.what


def _label_once(rows: list[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """The rows with a repeated label only in its first row."""
    labels = [row[0] for row in rows]
    return [row if at == labels.index(row[0]) else ("", *row[1:]) for at, row in enumerate(rows)]
