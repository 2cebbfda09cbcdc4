"""The page of a subject: all its views, and the data that they decode on demand."""

from __future__ import annotations

from typing import Any

from assay.document.document import Document
from assay.version import __version__
from assay.views.html.compare import compare_view
from assay.views.html.energy import energy_view
from assay.views.html.findings import findings_view
from assay.views.html.graph import PageGraph, graph
from assay.views.html.memory import memory_view
from assay.views.html.modules import SECTION as MODULES
from assay.views.html.modules import known_metrics, map_caption, map_view, module_table, modules_view
from assay.views.html.ops import (
    EXECUTIONS,
    KINDS,
    executions_table,
    kinds_table,
    lists_executions,
    ops_view,
)
from assay.views.html.overview import page_brief
from assay.views.html.page import (
    VERSION,
    AnyBlock,
    GraphBlock,
    MapBlock,
    OverviewBlock,
    Page,
    PageData,
    PageTable,
    PageView,
    SectionRef,
)
from assay.views.html.provenance import provenance_view
from assay.views.html.rates import roofline_view
from assay.views.html.subject import Subject
from assay.views.html.time import SPANS, pass_spans, time_view
from assay.views.html.traces import traces_view
from assay.views.html.uniques import uniques_view
from assay.views.html.values import GRADIENTS, OUTPUTS, gradient_table, output_table, values_view
from assay.views.html.weights import DETAILS, tensor_details, tensor_table, weights_view
from assay.views.html.weights import SECTION as TENSORS
from assay.views.partial import marked_title
from assay.views.tables import printable

GRAPH = "graph"


def build_page(subject: Subject) -> PageData:
    """The page of a document."""
    table = module_table(subject)
    flow = graph(subject.document, subject.cost) if subject.document.ops else None
    views = [
        _overview(subject, table),
        *compare_view(subject),
        findings_view(subject),
        modules_view(subject, table),
        map_view(subject, table),
        _graph_view(subject, flow),
        ops_view(subject),
        roofline_view(subject),
        time_view(subject),
        memory_view(subject),
        values_view(subject),
        weights_view(subject),
        energy_view(subject),
        traces_view(subject),
        uniques_view(subject),
        provenance_view(subject),
    ]
    document = subject.document
    page = Page(
        version=VERSION,
        title=printable(_title(subject)),
        subtitle=subtitle(document),
        partial=_partial(document),
        brief=page_brief(subject),
        views=views,
        assay=__version__,
    )
    return PageData(page, _sections(subject, table, flow))


def _overview(subject: Subject, table: PageTable | None) -> PageView:
    blocks: list[AnyBlock] = [OverviewBlock()]
    if table is not None:
        metrics = known_metrics(table)
        caption = map_caption(table, metrics)
        blocks.append(
            MapBlock(title="Where it goes", caption=caption, table=SectionRef(MODULES), metrics=metrics, small=True)
        )
    return PageView("overview", "Overview", blocks)


def _graph_view(subject: Subject, flow: PageGraph | None) -> PageView:
    if flow is None:
        return PageView(
            GRAPH, "Graph", [], f"The data flow needs a recorded pass. Run `assay analyze {subject.model}`."
        )
    return PageView(GRAPH, "Graph", [GraphBlock(section=GRAPH)])


def _sections(subject: Subject, table: PageTable | None, flow: PageGraph | None) -> dict[str, Any]:
    """The data of all views that are too large for the page itself."""
    document, sections = subject.document, dict[str, Any]()
    if table is not None:
        sections[MODULES] = table
    if flow is not None:
        sections[GRAPH] = flow
    if document.ops:
        sections[KINDS] = kinds_table(subject)
    if lists_executions(subject):
        sections[EXECUTIONS] = executions_table(subject)
    if document.profile is not None and any(seconds is not None for seconds in document.profile.ops):
        sections[SPANS] = pass_spans(document)
    if document.weights is not None and document.weights.tensors:
        sections[TENSORS] = tensor_table(document.weights, full=subject.full)
        sections[DETAILS] = tensor_details(document.weights, full=subject.full)
    if document.activations is not None and document.activations.modules:
        sections[OUTPUTS] = output_table(document, document.activations)
        sections[GRADIENTS] = gradient_table(document, document.activations)
    return sections


def _title(subject: Subject) -> str:
    return subject.brief.identity[0] if subject.brief is not None else subject.document.origin.name or "Report"


def subtitle(document: Document) -> str:
    """`2026-11-18 15:57 · cpu (AMD EPYC) · torch 2.13.0`."""
    machine, run = document.machine, document.run
    when = run.timestamp.replace("T", " ")[:16]
    device = machine.processor if machine.device in ("", "none") else f"{machine.device} ({machine.processor})"
    mode = "" if run.mode in ("real", "none", "") else f"run on {run.mode} tensors"
    return " · ".join(filter(None, (when, device, machine.torch and f"torch {machine.torch}", mode)))


def _partial(document: Document) -> str:
    mark = marked_title("", document)
    return printable(f"{mark}: {document.failure.error}" if document.failure is not None else mark)
