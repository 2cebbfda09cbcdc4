"""The formats of a report, each made from the same subject."""

from __future__ import annotations

from pathlib import Path

from assay.analysis.architecture import architecture
from assay.document.document import Document
from assay.errors import UsageError
from assay.findings.analyzed import Analysis
from assay.trace.read.across import trace_sets
from assay.views.html.build import build_page
from assay.views.html.render import render
from assay.views.html.subject import Subject
from assay.views.json.files import encode
from assay.views.json.report import report_file
from assay.views.layout import Style
from assay.views.text.analysis import analysis_report, common_sections
from assay.views.text.brief import brief_parts
from assay.views.text.comparison import comparison_report
from assay.views.text.report import Report, as_markdown, as_text
from assay.views.text.traces import sets_report, trace_report

HTML, MARKDOWN, TEXT, JSON = FORMATS = ("html", "md", "txt", "json")
_SUFFIXES = {".html": HTML, ".htm": HTML, ".md": MARKDOWN, ".markdown": MARKDOWN, ".txt": TEXT, ".json": JSON}
MAX_COMMENT = 65_000
"""Characters: GitHub refuses comments of more than 65,536."""
_WIDTH = 120


def format_of(name: str | None, path: Path | None) -> str:
    """The format called `name`; without one, that of the file's name, and HTML by default."""
    suffix = path.suffix.lower() if path is not None else ""
    if name is None and suffix and suffix not in _SUFFIXES:
        raise UsageError(f"unknown ending {suffix!r} of {path}: choose from {', '.join(_SUFFIXES)}, or pass a format")
    if name is None:
        return _SUFFIXES.get(suffix, HTML)
    if name not in FORMATS:
        raise UsageError(f"unknown format {name!r}: choose from {', '.join(FORMATS)}")
    return name


def encoded(subject: Subject, format: str, *, view: str = "", live: str = "", style: Style = Style(_WIDTH)) -> bytes:  # noqa: B008  it is frozen
    """The report in a format.

    Args:
        subject: What it is about.
        format: One of `FORMATS`.
        view: The view that a page shows first.
        live: The address that a page asks for changes.
        style: How text is laid out.
    """
    if format == HTML:
        data = build_page(subject)
        return render(data.page, data.sections, data.page.title, view=view, live=live).encode()
    if format == TEXT:
        return as_text(_report(subject), style).encode()
    return (_markdown(subject) if format == MARKDOWN else _json(subject)).encode()


def _markdown(subject: Subject) -> str:
    """The report as Markdown that fits into a comment: parts at the end are left out if it does not."""
    report = _report(subject)
    texts = [as_markdown(Report([part], report.data)) for part in report.parts]
    kept: list[str] = []
    length = 0
    for text in texts:
        length += len(text) + 1
        if length > MAX_COMMENT:
            kept.append(f"{len(texts) - len(kept)} more parts do not fit into a comment: see the HTML report.\n")
            break
        kept.append(text)
    return "\n".join(kept)


def _json(subject: Subject) -> str:
    checked = subject.checked
    file = report_file(
        subject.document, subject.brief, checked.findings, checked.skipped, subject.missing, subject.comparison
    )
    return encode(file).decode()


def _report(subject: Subject) -> Report:
    """The report as text parts: the answer, what differs if it was compared, then the rest."""
    report = _traces_report(subject.document) if subject.document.traces else _model_report(subject)
    if subject.comparison is None:
        return report
    compared = comparison_report(subject.comparison, full=subject.full).parts
    answer = len(brief_parts(subject.brief)) if subject.brief is not None else 0
    return Report([*report.parts[:answer], *compared, *report.parts[answer:]], report.data)


def _model_report(subject: Subject) -> Report:
    document = subject.document
    analysis = Analysis(document, "", architecture(document), subject.checked, subject.memory, subject.missing)
    common = common_sections(analysis, verbose=True)
    return analysis_report(analysis, common, subject.rows, subject.device, full=subject.full, source=subject.source)


def _traces_report(document: Document) -> Report:
    if len(document.traces) == 1:
        return trace_report(document.traces[0])
    return sets_report(trace_sets(document.traces), document.traces)
