"""The preview of a result: its brief, and the tables that a notebook shows below it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from assay.document.document import Document
from assay.findings.brief import Brief
from assay.findings.engine import CheckResult
from assay.views.html.compact import Part
from assay.views.html.subject import Subject
from assay.views.tables import Table
from assay.views.text.report import Picture

MakeParts = Callable[[], Sequence[Part]]


def _none() -> Sequence[Part]:
    return ()


@dataclass(frozen=True)
class Preview:
    """What a result shows of itself."""

    subject: Subject
    """The brief, and the data behind its figures."""
    parts: MakeParts = _none
    """Titles and tables, made only for notebooks."""

    @property
    def brief(self) -> Brief:
        """The brief; if there is nothing to report on, only a name."""
        return self.subject.brief or Brief((self.subject.document.origin.name or "nothing recorded",))


def preview(brief: Brief, parts: MakeParts = _none, document: Document | None = None) -> Preview:
    """The preview of a result that is not a model; `document` holds it, if that adds to its figures."""
    return Preview(Subject(document or Document(), CheckResult([], [], ()), brief), parts)


def parts_of_report(parts: Iterable[str | Table | Picture], titles: Sequence[str] = ()) -> list[Part]:
    """The titles and tables of a report, without its pictures; with `titles`, only the tables under these."""
    kept: list[Part] = []
    title = ""
    for part in parts:
        title = part if isinstance(part, str) else title
        if not isinstance(part, Picture) and (not titles or title in titles):
            kept.append(part)
    return kept


def with_all_columns(table: Table) -> Table:
    """The table with all its columns, also those that a narrow terminal hides."""
    return replace(table, columns=[replace(column, drops=0) for column in table.columns])
