"""The report of a whole analysis, in sections; what could not be known has a section of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import NamedTuple

from assay import units
from assay.analysis.achieved import Achieved
from assay.analysis.architecture import Architecture, Evidence
from assay.analysis.memory import Memory
from assay.analysis.parameters import parameters
from assay.document import tree
from assay.document.document import Document
from assay.document.machine import NOT_MEASURED
from assay.document.provenance import Figure
from assay.findings.analyzed import Analysis
from assay.findings.engine import CheckResult
from assay.views.tables import Column, Table
from assay.views.text import memory as memory_views
from assay.views.text import profile as profile_views
from assay.views.text.amounts import amounts
from assay.views.text.analysis_weights import parameter_section
from assay.views.text.cost import CostOptions, cost_table
from assay.views.text.facts import facts_table, notes_table, reasons_table
from assay.views.text.figures import shown as figure_text
from assay.views.text.findings import NAMING, finding_parts, findings_report, summary_line
from assay.views.text.report import Parts, Report, section
from assay.views.text.totals import totals_tables

LINES = 10
"""Of each table on the screen; the text file has all of them."""
_BLOCKS = 4
"""Findings that are shown whole on the screen; the others have a line each."""


_LAYERS = (Column("layers", itemgetter(0)), Column("count", itemgetter(1), "right", units.exact))
_WRITTEN = (Column("operation", itemgetter(0), shrinks=True), Column("places", itemgetter(1), "right", units.exact))
_EVIDENCE: tuple[Column[Evidence], ...] = (
    Column("speaks for", lambda one: one.speaks_for),
    Column("what", lambda one: one.what, shrinks=True),
    Column("figure", lambda one: one.figure.value, "right", units.ratio),
)


class CommonSections(NamedTuple):
    """The sections that are the same on the screen and in the file, built once."""

    summary: Table
    architecture: Parts
    memory: Parts
    missing: Parts


def common_sections(found: Analysis) -> CommonSections:
    """The key figures, what sort of model it is, its memory, and what could not be known."""
    return CommonSections(
        summary_table(found),
        architecture_section(found.document, found.architecture),
        memory_section(found.memory),
        missing_section(found.missing),
    )


def analysis_report(found: Analysis, common: CommonSections, rows: Sequence[Achieved] = ()) -> Report:
    """One section per question, with long lists cut; `rows` are the timed operations."""
    document = found.document
    parts: Parts = [
        "SUMMARY",
        common.summary,
        *common.architecture,
        *parameter_section(document, LINES),
        *computation_section(document, LINES),
        *code_section(found.code),
        *common.memory,
        *performance_section(document, rows, LINES),
        *energy_section(document, LINES),
        *system_section(document, full=False),
        *_brief_recommendations(document, found.checked),
        *common.missing,
    ]
    return Report(parts, common.summary)


def summary_table(found: Analysis) -> Table:
    """The key figures, a line each; what is not known is a dash."""
    document, memory = found.document, found.memory
    profile = document.profile
    flops = document.cost.forward.flops if document.cost is not None and document.ops else None
    peak = memory.inference.total.value if memory is not None and memory.inference is not None else None
    facts = [
        ("model", document.model_class or document.origin.name or "model"),
        ("from", f"{document.origin.location} ({document.origin.kind})"),
        ("architecture", found.architecture.label),
        ("modules", units.exact(len(document.modules)) if document.modules else units.UNKNOWN),
        ("parameters", units.count(_numbers(document))),
        ("operations of a pass", units.exact(len(document.ops)) if document.ops else units.UNKNOWN),
        ("FLOPs of a pass", units.count(flops)),
        ("memory of a pass", units.size(peak)),
        ("time of a pass", figure_text(profile.whole if profile is not None else NOT_MEASURED, units.seconds)),
        ("energy of a pass", figure_text(_energy(document), units.joules)),
        ("findings", summary_line(found.checked)),
    ]
    return facts_table(facts)


def architecture_section(document: Document, found: Architecture) -> Parts:
    """What sort of model it is, and of what layers."""
    if not document.modules:
        return []
    depth = max(tree.depths(document.modules))
    classes = len({module.class_path for module in document.modules})
    facts = [
        ("classification", found.label),
        ("modules", f"{units.exact(len(document.modules))} of {classes} classes, {depth} deep"),
    ]
    layers = Table(_LAYERS, list(found.layers.items()))
    filled = [table for table in (layers, Table(_EVIDENCE, found.evidence)) if table.rows]
    return ["ARCHITECTURE", facts_table(facts), *filled]


def computation_section(document: Document, top: int | None = None) -> Parts:
    """What a pass costs, and where."""
    if document.cost is None or not document.ops:
        return []
    return [
        "COMPUTATION",
        *totals_tables(document, document.cost, amounts(exact=False)),
        "By type of operation",
        cost_table(document, document.cost, "category", CostOptions()),
        "Heaviest kinds of operation",
        cost_table(document, document.cost, "kind", CostOptions(top=top or len(document.kinds))),
    ]


def code_section(code: Sequence[tuple[str, str, str]], top: int | None = LINES) -> Parts:
    """The operations that stand in code that was read and not run."""
    if not code:
        return []
    counts = Counter(operation for _, operation, _ in code)
    functions = len({function for function, _, _ in code})
    title = (
        f"OPERATIONS IN THE CODE, read and not run: {units.exact(len(code))} places in {functions} functions; "
        "how often each runs is not known"
    )
    rows = counts.most_common(top)
    left = counts.total() - sum(times for _, times in rows)
    rest = [(f"({len(counts) - len(rows)} others)", left)] if left else []
    return [title, Table(_WRITTEN, rows, rest)]


def memory_section(memory: Memory | None) -> Parts:
    """What the model needs in memory."""
    return [] if memory is None else ["MEMORY", memory_views.figures(memory)]


def performance_section(document: Document, rows: Sequence[Achieved], top: int) -> Parts:
    """Measured times."""
    if document.profile is None or document.timing is None:
        return []
    title, *tables = profile_views.time_parts(document, rows, top)
    return [f"PERFORMANCE: {title}", *tables, *section("Notes", notes_table(document.profile.notes))]


def energy_section(document: Document, top: int) -> Parts:
    """What energy it takes, measured or modelled."""
    return _in_capitals(profile_views.energy_parts(document, top))


def system_section(document: Document, *, full: bool) -> Parts:
    """The machine while it ran."""
    return _in_capitals(profile_views.system_parts(document, full=full))


def recommendation_section(document: Document, checked: CheckResult) -> Parts:
    """What to know or do, whole."""
    return ["FINDINGS AND RECOMMENDATIONS", *findings_report(document, checked).parts]


def missing_section(missing: Mapping[str, str]) -> Parts:
    """What could not be known; what has the same reason on one line."""
    reasons: dict[str, list[str]] = {}
    for what, why in missing.items():
        reasons.setdefault(why, []).append(what)
    rows = [(", ".join(names), why) for why, names in reasons.items()]
    return section("NOT KNOWN", reasons_table(rows, bare=True))


def _brief_recommendations(document: Document, checked: CheckResult) -> Parts:
    """The worst findings whole, a line for each of some others, and how many there are."""
    found = checked.findings
    parts: Parts = ["FINDINGS AND RECOMMENDATIONS", *finding_parts(document, found[:_BLOCKS])]
    others = found[_BLOCKS : _BLOCKS + LINES]
    if others:
        parts.append(Table(NAMING, others, bare=True))
    left = len(found) - _BLOCKS - len(others)
    more = f"; {left} more in the text file" if left > 0 else ""
    return [*parts, notes_table([f"{summary_line(checked)}{more}"], "line")]


def _in_capitals(parts: Parts) -> Parts:
    """The parts, their title written as that of a section."""
    if not parts:
        return []
    name, comma, rest = str(parts[0]).partition(",")
    return [f"{name.upper()}{comma}{rest}", *parts[1:]]


def _numbers(document: Document) -> int | None:
    """The model's parameters; where nothing says what is one, all numbers of its checkpoint."""
    if document.tensors:
        return parameters(document).count
    return sum(one.count for one in document.weights.tensors) if document.weights is not None else None


def _energy(document: Document) -> Figure:
    energy = document.profile.energy if document.profile is not None else None
    return NOT_MEASURED if energy is None else energy.whole
