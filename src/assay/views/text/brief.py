"""The brief at the top of a report: what it is, what limits it, what to do next, what is wrong, what is unknown."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from assay import units
from assay.document.document import Document
from assay.document.findings import Finding
from assay.document.provenance import Counted, Modelled
from assay.findings.brief import Brief, BriefFigure, NotKnown
from assay.messages import plural
from assay.views.gains import saving
from assay.views.partial import marked_title, marked_total
from assay.views.tables import Column, Table, percent
from assay.views.text.figures import method_name, shown
from assay.views.text.report import Report

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
_RED, _YELLOW, _GREEN, _DIM = "31", "33", "32", "2"
_SYMBOLS = {"error": "✗", "warning": "⚠"}
_CLAUSE = re.compile(r"[.:;,] | \(|\.$")
"""Where the first clause of a recommendation ends."""


class _Line(NamedTuple):
    """One line of a brief: its label, the answer, how the figure was obtained, and a second fact."""

    label: str
    answer: str
    method: str = ""
    detail: str = ""
    paint: str = ""
    """The colour of the label."""


_LINES: tuple[Column[_Line], ...] = (
    Column("name", lambda row: f"  {row.label}", paint=lambda row: _paint(row)),
    Column("answer", lambda row: row.answer, shrinks=True, keeps=8),
    Column("method", lambda row: row.method, paint=lambda row: _DIM),
    Column("detail", lambda row: row.detail, shrinks=True, drops=1),
)


def _paint(row: object) -> str:
    return row.paint if isinstance(row, _Line) else ""


def brief_parts(brief: Brief) -> list[str | Table]:
    """The brief as a title and up to three small tables."""
    parts: list[str | Table] = [" · ".join(brief.identity)]
    figures = [_Line(one.label, _answer(one, brief), method_name(one.figure), one.detail) for one in brief.figures]
    unknown = [_Line("Unknown", _unknown(one), paint=_YELLOW) for one in brief.unknown]
    parts += [_facts(figures)] if figures else []
    state = [*_next_step(brief), *_problems(brief), *unknown]
    if any(one.severity == "error" for one in brief.problems):  # a broken model is mended before it is made faster
        parts.append(_facts(_label_once(_problems(brief))))
        state = [*_next_step(brief), *unknown]
    parts += [_actions(brief)] if brief.actions else []
    return [*parts, _facts(_label_once(state))] if state else parts


def with_brief(brief: Brief, report: Report, document: Document | None = None) -> Report:
    """The report with the brief before it, whose title is marked if not the whole model ran."""
    title, *parts = brief_parts(brief)
    marked = marked_title(str(title), document) if document is not None else title
    return Report([marked, *parts, *report.parts], report.data)


def _facts(lines: list[_Line]) -> Table:
    filled = [column for column in _LINES if any(column.of(line) for line in lines)]
    return Table(filled, lines, bare=True)


def _answer(figure: BriefFigure, brief: Brief) -> str:
    return marked_total(f"{_value_text(figure)} {figure.text}".strip(), partial=brief.partial)


def _value_text(figure: BriefFigure) -> str:
    return _SAME_UNIT.sub(r"(\1–\3 \2)", shown(figure.figure, _SHOWS[figure.unit])).removeprefix("approx. ")


def value_and_range(figure: BriefFigure) -> tuple[str, str]:
    """`128 ms` and `124–135 ms` or `± 4 ms`; the range is empty if it is unknown."""
    value, _, ends = _value_text(figure).partition(" (")
    value, sign, deviation = value.partition(" ± ")
    return value, ends.removesuffix(")") or f"{sign}{deviation}".strip()


def _actions(brief: Brief) -> Table:
    """What to do next, one row per action."""
    columns = [
        Column[Finding]("", lambda one: f"  {brief.actions.index(one) + 1}"),
        Column[Finding]("Do next", lambda one: clause(one.advice), shrinks=True, keeps=12),
        Column[Finding]("rule", lambda one: one.code),
        Column[Finding]("gain, up to", lambda one: saving(one.gain), "right", paint=lambda row: _GREEN),
        Column[Finding]("confidence", confidence, shrinks=True),
    ]
    return Table(columns, brief.actions, ruled=False, fixed=True)


def _next_step(brief: Brief) -> list[_Line]:
    """How to try the actions or see their details, and how many more there are."""
    noun = "more suggestion" if brief.next_step else "suggestion"
    more = plural(brief.more_actions, noun) if brief.more_actions else ""
    text = "; ".join(filter(None, (brief.next_step, more)))
    label = "Try them" if brief.tries else "Details" if brief.next_step else "More"
    return [_Line(label, text)] if text else []


def clause(advice: str) -> str:
    """The first clause of a recommendation: `Use torch.compile`."""
    return _CLAUSE.split(advice, 1)[0]


def confidence(finding: Finding) -> str:
    """`tried: 1.43×` if it was tried, else how its gain is known."""
    if finding.verified:
        return f"tried: {finding.verified.split(',')[0]}"
    how = finding.gain.share.how if finding.gain is not None else None
    return "predicted" if isinstance(how, Modelled) else "counted" if isinstance(how, Counted) else "upper bound"


def _problems(brief: Brief) -> list[_Line]:
    """The problems, or what was examined and found to be fine; then the remarks, which are no problems."""
    lines = [f"{_SYMBOLS[one.severity]} {one.title} ({one.code})" for one in brief.problems]
    if brief.more_problems:
        lines.append(plural(brief.more_problems, "more problem"))
    if not lines and brief.clean:
        lines.append(f"none in {brief.clean}")
    label, paint = "Problem" if len(brief.problems) == 1 else "Problems", _RED if brief.problems else ""
    remarks = [_Line("Note", f"{one.title.partition(': ')[0]} ({one.code})") for one in brief.remarks]
    return [*(_Line(label, text, paint=paint) for text in lines), *remarks]


def _unknown(one: NotKnown) -> str:
    return f"{one.what} ({one.why})" if one.why else one.what


def _label_once(lines: list[_Line]) -> list[_Line]:
    """The lines with a repeated label only in its first line."""
    labels = [line.label for line in lines]
    return [line if at == labels.index(line.label) else line._replace(label="") for at, line in enumerate(lines)]
