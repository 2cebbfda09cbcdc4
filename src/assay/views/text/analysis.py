"""The report of `assay analyze`, in sections; the last one lists what is unknown and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import NamedTuple

from assay import units
from assay.analysis.achieved import Achieved
from assay.analysis.architecture import Architecture, Evidence
from assay.analysis.devices import Device
from assay.analysis.memory import Memory
from assay.analysis.parameters import parameters
from assay.document import tree
from assay.document.document import Document
from assay.document.findings import Finding
from assay.document.machine import NOT_MEASURED
from assay.document.provenance import Figure
from assay.findings.analyzed import Analysis
from assay.findings.brief_any import checked_brief
from assay.findings.engine import CheckResult
from assay.messages import plural
from assay.views.gains import short_gain
from assay.views.partial import marked_total
from assay.views.tables import Column, Table
from assay.views.text import memory as memory_views
from assay.views.text import profile as profile_views
from assay.views.text.amounts import amounts
from assay.views.text.analysis_assessments import assessment_section
from assay.views.text.analysis_weights import parameter_section
from assay.views.text.brief import brief_parts
from assay.views.text.cost import CostOptions, cost_table
from assay.views.text.facts import facts_table, notes_table, reasons_table
from assay.views.text.figures import shown as figure_text
from assay.views.text.findings import NAMING, finding_parts, findings_report, summary_line
from assay.views.text.partial_report import marked
from assay.views.text.profile_memory import comparison_parts
from assay.views.text.profile_modules import where_parts
from assay.views.text.report import Parts, Report, section
from assay.views.text.totals import modules_run_facts, totals_tables

LINES = 10
"""Rows per table on the screen; the text file contains all rows."""
_LAYERS = (Column("layers", itemgetter(0)), Column("count", itemgetter(1), "right", units.exact))
_CODE_OPS = (Column("op", itemgetter(0), shrinks=True), Column("call sites", itemgetter(1), "right", units.exact))
_EVIDENCE: tuple[Column[Evidence], ...] = (
    Column("family", lambda one: one.speaks_for),
    Column("evidence", lambda one: one.what, shrinks=True),
    Column("value", lambda one: one.figure.value, "right", units.ratio),
)


class CommonSections(NamedTuple):
    """The sections that the screen and the text file share."""

    summary: Table
    architecture: Parts
    memory: Parts
    missing: Parts
    finding_totals: str
    """The number of findings by severity, and of rules checked and skipped."""


def common_sections(analysis: Analysis, *, verbose: bool = False) -> CommonSections:
    """The key figures, the architecture, the memory, and what is unknown; `verbose` as in `summary_line`."""
    partial = analysis.document.partial
    finding_totals = marked_total(summary_line(analysis.checked, verbose=verbose), partial=partial)
    return CommonSections(
        summary_table(analysis, finding_totals),
        architecture_section(analysis.document, analysis.architecture),
        memory_section(analysis.document, analysis.memory),
        missing_section(analysis.missing),
        finding_totals,
    )


def analysis_report(
    analysis: Analysis,
    common: CommonSections,
    rows: Sequence[Achieved] = (),
    device: Device | None = None,
    *,
    full: bool = False,
    source: str = "",
) -> Report:
    """The report for the screen: the answer, where the time goes, and the findings; `full` adds all other sections.

    Args:
        analysis: What was determined.
        common: The sections shared with the text file.
        rows: The timed kinds of op.
        device: The limits they are compared with.
        full: Whether to show all sections, with long lists shortened.
        source: The model as named on the command line.
    """
    document = analysis.document
    parts: Parts = [
        *answer_section(analysis, common, rows, device, source),
        *_where_section(document),
        *_brief_recommendations(document, analysis.checked.findings, common.finding_totals, full=full),
    ]
    if full:
        parts += [
            "SUMMARY",
            common.summary,
            *common.architecture,
            *parameter_section(document, LINES),
            *computation_section(document, LINES),
            *assessment_section(document, LINES),
            *code_section(analysis.code),
            *common.memory,
            *performance_section(document, rows, LINES, device, full=True),
            *energy_section(document, LINES),
            *system_section(document, full=False),
        ]
    elif not document.recorded:
        parts += [*parameter_section(document, LINES), *code_section(analysis.code)]
    return marked(Report(parts, common.summary), document)


def answer_section(
    analysis: Analysis,
    common: CommonSections,
    rows: Sequence[Achieved] = (),
    device: Device | None = None,
    source: str = "",
) -> Parts:
    """The brief of the model or checkpoint; of any other file, the key figures and what is unknown."""
    document, findings = analysis.document, analysis.checked.findings
    brief = checked_brief(document, findings, rows=rows, missing=analysis.missing, device=device, source=source)
    if brief is None:
        return ["SUMMARY", common.summary, *common.missing]
    return [*brief_parts(brief), *([] if document.modules else common.missing)]


def _where_section(document: Document) -> Parts:
    """The modules that take most of the time, or without times the types of op with most FLOPs."""
    if document.timing is not None:
        return where_parts(document)
    if document.cost is None or not document.ops:
        return []
    return ["Where the FLOPs go", cost_table(document, document.cost, "category", CostOptions())]


def summary_table(analysis: Analysis, finding_totals: str) -> Table:
    """The key figures, one per row; unknown ones are a dash."""
    document, memory = analysis.document, analysis.memory
    profile = document.profile
    flops = document.cost.forward.flops if document.cost is not None and document.ops else None
    peak = memory.inference.total.value if memory is not None and memory.inference is not None else None

    def per_pass(label: str) -> str:
        return marked_total(label, partial=document.partial)

    facts = [
        ("model", document.model_class or document.origin.name or "model"),
        ("source", f"{document.origin.location} ({document.origin.kind})"),
        ("architecture", analysis.architecture.label),
        ("modules", units.exact(len(document.modules)) if document.modules else units.UNKNOWN),
        *modules_run_facts(document),
        _numbers(document),
        (per_pass("ops per pass"), units.exact(len(document.ops)) if document.ops else units.UNKNOWN),
        (per_pass("FLOPs per pass"), units.count(flops)),
        (per_pass("peak memory"), units.size(peak)),
        ("time per pass", figure_text(profile.whole if profile is not None else NOT_MEASURED, units.seconds)),
        ("energy per pass", figure_text(_energy(document), units.joules)),
        ("findings", finding_totals),
    ]
    return facts_table(facts)


def architecture_section(document: Document, architecture: Architecture) -> Parts:
    """The architecture family with its evidence, and the layers by category."""
    if not document.modules:
        return []
    depth = max(tree.depths(document.modules))
    classes = len({module.class_path for module in document.modules})
    facts = [
        ("classification", architecture.label),
        ("modules", f"{units.exact(len(document.modules))} of {plural(classes, 'class')}, depth {depth}"),
    ]
    layers = Table(_LAYERS, list(architecture.layers.items()))
    filled = [table for table in (layers, Table(_EVIDENCE, architecture.evidence)) if table.rows]
    return ["ARCHITECTURE", facts_table(facts), *filled]


def computation_section(document: Document, top: int | None = None) -> Parts:
    """The cost of one pass: totals, by type of op, and the most expensive kinds of op."""
    if document.cost is None or not document.ops:
        return []
    return [
        "COMPUTATION",
        *totals_tables(document, document.cost, amounts(exact=False)),
        "By type of op",
        cost_table(document, document.cost, "category", CostOptions()),
        "Most expensive kinds of op",
        cost_table(document, document.cost, "kind", CostOptions(top=top or len(document.kinds))),
    ]


def code_section(code: Sequence[tuple[str, str, str]], top: int | None = LINES) -> Parts:
    """The ops in TorchScript code that was read but not run, with their number of call sites."""
    if not code:
        return []
    counts = Counter(op for _, op, _ in code)
    functions = len({function for function, _, _ in code})
    title = (
        f"OPS IN THE CODE (read, not run): {plural(len(code), 'call site')} in {plural(functions, 'function')}; "
        "execution counts unknown"
    )
    rows = counts.most_common(top)
    remaining = counts.total() - sum(sites for _, sites in rows)
    rest = [(f"({len(counts) - len(rows)} more)", remaining)] if remaining else []
    return [title, Table(_CODE_OPS, rows, rest)]


def memory_section(document: Document, memory: Memory | None) -> Parts:
    """The memory the model needs for inference and training, measured peaks, and memory over time."""
    if memory is None:
        return []
    return [
        "MEMORY",
        memory_views.sizes_table(memory),
        *comparison_parts(document, memory),
        *memory_views.timelines(memory, document),
    ]


def performance_section(
    document: Document, rows: Sequence[Achieved], top: int, device: Device | None = None, *, full: bool
) -> Parts:
    """Measured times of the pass, its modules (with repeated blocks folded unless `full`) and its ops."""
    if document.profile is None or document.timing is None:
        return []
    title, *tables = profile_views.time_parts(document, rows, top, device, full=full)
    return [f"PERFORMANCE: {title}", *tables, *section("Notes", notes_table(document.profile.notes))]


def energy_section(document: Document, top: int) -> Parts:
    """Energy per pass and per kind of op, measured or modelled."""
    return _in_capitals(profile_views.energy_parts(document, top))


def system_section(document: Document, *, full: bool) -> Parts:
    """Load, clocks and temperatures of the machine during the run."""
    return _in_capitals(profile_views.system_parts(document, full=full))


def recommendation_section(document: Document, checked: CheckResult) -> Parts:
    """All findings in full."""
    return ["FINDINGS AND RECOMMENDATIONS", *findings_report(document, checked, verbose=True).parts]


def missing_section(missing: Mapping[str, str]) -> Parts:
    """What is unknown and why, one row per reason."""
    reasons: dict[str, list[str]] = {}
    for name, why in missing.items():
        reasons.setdefault(why, []).append(name)
    rows = [(", ".join(names), why) for why, names in reasons.items()]
    return section("UNKNOWN", reasons_table(rows, bare=True))


def _brief_recommendations(
    document: Document, findings: Sequence[Finding], totals: str, *, full: bool = False
) -> Parts:
    """One row per finding, or a block if `full`, and a line of totals."""
    if full:
        return ["FINDINGS AND RECOMMENDATIONS", *finding_parts(document, findings), notes_table([totals], "line")]
    gain = Column[Finding]("gain", lambda one: short_gain(one.gain), "right", show=lambda text: text or "")
    more = f"; {len(findings) - LINES} more in the text file" if len(findings) > LINES else ""
    hint = "; details: --full, or assay rule CODE" if findings else ""
    return [
        *section("Findings", Table((*NAMING, gain), findings[:LINES])),
        notes_table([f"{totals}{more}{hint}"], "line"),
    ]


def _in_capitals(parts: Parts) -> Parts:
    """The parts with the title in capitals, except what is in parentheses: `ENERGY (modelled: no sensor)`."""
    if not parts:
        return []
    name, parenthesis, rest = str(parts[0]).partition("(")
    return [f"{name.upper()}{parenthesis}{rest}", *parts[1:]]


def _numbers(document: Document) -> tuple[str, str]:
    """The number of parameters; of all values of a checkpoint that does not state which tensors are parameters."""
    counted = parameters(document)
    if counted.count is None and counted.stored is not None:
        return "values stored", units.count(counted.stored.elements)
    return "parameters", units.count(counted.count)


def _energy(document: Document) -> Figure:
    energy = document.profile.energy if document.profile is not None else None
    return NOT_MEASURED if energy is None else energy.whole
