"""The module tree as a page's table: one row per module, and one above each run of equal siblings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from assay.analysis.outline import GroupedRow, OutlineRow, grouped_outline
from assay.analysis.parameters import first_holders, sum_if_all_known
from assay.document import tree
from assay.document.cost import CostTotals
from assay.document.document import Document
from assay.document.provenance import Counted, Modelled, Provenance
from assay.views.html.columns import numbers, page_columns, texts, words
from assay.views.html.page import MapBlock, PageColumn, PageTable, PageView, SectionRef, TableBlock, Unit
from assay.views.html.subject import Subject
from assay.views.tables import percent

SECTION = "modules"
_COUNTED = Counted("parameters and buffers of each module; tied ones count once, where they come first")
METRICS = ("params", "weight_bytes", "activations", "flops", "time_s", "energy_j")
"""What areas of the map can stand for, if it is known."""
_FIRST = ("time_s", "flops", "params")
"""Which of them is shown first."""

_RARE = ("self_s", "share", "low_s", "high_s", "device_self_s", "gap_s")
"""Columns that a large tree leaves out."""

_TOTALS = ("total_s", "total_share", "device_total_s")
"""Times that include submodules."""

Rows = list[GroupedRow]


def module_table(subject: Subject) -> PageTable | None:
    """The tree with everything known about each module; None if there are no modules."""
    document = subject.document
    if not document.modules:
        return None
    rows = grouped_outline(document, subject.cost)
    columns = [*_names(document, rows), *_sizes(document, rows), *_costs(subject, rows), *_times(document, rows)]
    columns += [*_energies(subject, rows), *_shapes(rows), *_findings(subject, rows)]
    return PageTable(
        rows=len(rows),
        columns=page_columns(columns, len(rows), _RARE, full=subject.full),
        depth=[row.depth for row, *_ in rows],
        run=[row.run for row, *_ in rows],
        order=_order(rows),
    )


def _order(rows: Rows) -> list[int] | None:
    """The places of the rows in the tree without runs; None if they stand in that order."""
    alone = [place for row, _, place in rows if row.run == 1]
    return None if alone == sorted(alone) else [place for *_, place in rows]


def modules_view(subject: Subject, table: PageTable | None) -> PageView:
    """The tree."""
    if table is None:
        return PageView(
            "modules", "Modules", [], f"No modules are known: `assay analyze {subject.model}` needs code or a config."
        )
    return PageView(
        "modules", "Modules", [TableBlock(id="modules", caption=_caption(subject), table=SectionRef(SECTION))]
    )


def map_view(subject: Subject, table: PageTable | None) -> PageView:
    """The tree as areas."""
    if table is None:
        return PageView(
            "map", "Map", [], f"A map needs modules: run `assay analyze {subject.model}` on code or a config."
        )
    metrics = known_metrics(table)
    block = MapBlock(caption=map_caption(table, metrics), table=SectionRef(SECTION), metrics=metrics)
    return PageView("map", "Map", [block])


def map_caption(table: PageTable, metrics: Sequence[str]) -> str:
    """`layer3 has 28.1 % of the time`: the largest of the outermost modules, by the metric shown first."""
    columns = {column.key: column for column in table.columns}
    values, depth = columns[metrics[0]].numbers or [], table.depth or []
    inner = [row for row in range(table.rows) if depth[row] == 1 and values[row]]
    whole = values[0] if values else None
    if not inner or not whole:
        return ""
    largest = max(inner, key=lambda row: values[row] or 0)
    name = texts(columns["path"])[largest]
    return f"{name} has {percent((values[largest] or 0) / whole)} of the {columns[metrics[0]].title}."


def known_metrics(table: PageTable) -> list[str]:
    """The keys of the metrics that the table has, the one to show first at the beginning."""
    keys = {column.key for column in table.columns}
    first = next((key for key in _FIRST if key in keys), "")
    return sorted((key for key in METRICS if key in keys), key=lambda key: (key != first, METRICS.index(key)))


def _caption(subject: Subject) -> str:
    document = subject.document
    classes = len({module.class_path for module in document.modules})
    return f"{len(document.modules):,} modules of {classes:,} classes; equal siblings share a row."


def _names(document: Document, rows: Rows) -> list[PageColumn]:
    notes = [f"same as {row.same_as}" if row.same_as else row.differs for row, *_ in rows]
    return [
        words("name", "module", (row.name for row, *_ in rows)),
        words("differs", "note", notes, hidden=True),
        words("class", "class", (row.class_name for row, *_ in rows)),
        words("path", "path", (_path(row) for row, *_ in rows), hidden=True, link="module"),
    ]


def _path(row: OutlineRow) -> str:
    """The path of a module; of a run `layers.0–31`."""
    above, dot, _ = row.path.rpartition(".")
    return f"{above}{dot}{row.name}" if row.run > 1 else tree.path_text(row.path)


def _sizes(document: Document, rows: Rows) -> list[PageColumn]:
    own = [sum(document.tensors[index].bytes for index in indices) for indices in first_holders(document)]
    bytes_below = _subtree_sums(document, own)
    return [
        numbers("params", "parameters", (_own(row, row.parameters) for row, *_ in rows), "count", _COUNTED, bar=True),
        numbers(
            "trainable", "trainable", (_own(row, row.trainable) for row, *_ in rows), "count", _COUNTED, hidden=True
        ),
        numbers("weight_bytes", "weights", _summed(rows, bytes_below), "bytes", _COUNTED, hidden=True),
    ]


def _own(row: OutlineRow, value: int | None) -> int | None:
    """The value; unknown in a row that only refers to another."""
    return None if row.same_as else value


def _costs(subject: Subject, rows: Rows) -> list[PageColumn]:
    if not subject.document.recorded:
        return []
    how = subject.cost.columns.get("modules") or Counted(subject.cost.convention)

    def column(key: str, title: str, of: Callable[[CostTotals], int | None], unit: Unit, **more: Any) -> PageColumn:
        values = (of(row.totals) if row.totals.recorded and not row.same_as else None for row, *_ in rows)
        return numbers(key, title, values, unit, how, **more)

    return [
        column("flops", "FLOPs", lambda sums: sums.flops, "count", bar=True),
        column("macs", "MACs", lambda sums: sums.macs if sums.known else None, "count", hidden=True),
        column("bytes", "bytes moved", lambda sums: sums.bytes, "bytes", hidden=True),
        column("activations", "activations", lambda sums: sums.written, "bytes"),
        column("ops", "ops", lambda sums: sums.ops, "exact", hidden=True),
        numbers(
            "calls", "calls", (None if row.same_as else row.calls for row, *_ in rows), "exact", how, hidden=True
        ),
    ]


def _times(document: Document, rows: Rows) -> list[PageColumn]:
    timing = document.timing
    if timing is None:
        return []

    def column(key: str, title: str, field: str, unit: Unit = "seconds", **more: Any) -> PageColumn:
        values = [None if time is None else getattr(time, field) for time in timing.modules]
        values = _with_containers(document, values) if field in _TOTALS else values
        how = timing.columns.get(f"modules.{field}") or timing.columns.get("modules") or timing.whole.how
        return numbers(key, title, _summed(rows, values), unit, how, **more)

    return [
        column("time_s", "time", "total_s", bar=True),
        column("self_s", "self time", "self_s"),
        column("share", "share", "total_share", "share"),
        column("low_s", "time, low", "low_s", hidden=True),
        column("high_s", "time, high", "high_s", hidden=True),
        column("device_s", "device time", "device_total_s"),
        column("device_self_s", "device self time", "device_self_s", hidden=True),
        column("gap_s", "host minus device", "gap_s", hidden=True),
    ]


def _with_containers(document: Document, values: Sequence[float | None]) -> list[float | None]:
    """The values; of containers that are never called, such as a `ModuleList`, the sums of their children."""
    called = {call.module for call in document.calls}
    sums = list(values)
    for index, inner in reversed(list(enumerate(tree.children(document.modules)))):
        if index < len(sums) and index not in called and inner and sums[index] is None:
            sums[index] = sum_if_all_known(sums[child] if child < len(sums) else None for child in inner)
    return sums


def _energies(subject: Subject, rows: Rows) -> list[PageColumn]:
    """The energy of each module's ops; unknown if that of one of them is."""
    document = subject.document
    energy = document.profile.energy if document.profile is not None else None
    if energy is None or energy.whole.value is None or not any(energy.kinds):  # withheld if that of the pass is
        return []
    each = [None if kind is None else kind.each.value for kind in energy.kinds]
    own: list[float | None] = [0.0] * len(document.modules)
    for op in document.ops:
        value, module = each[op.kind] if op.kind < len(each) else None, document.module_of(op)
        before = own[module]
        own[module] = None if value is None or before is None else before + value
    how: Provenance = Modelled("sum of the energies of the ops in it")
    return [numbers("energy_j", "energy", _summed(rows, _subtree_sums(document, own)), "joules", how, hidden=True)]


def _shapes(rows: Rows) -> list[PageColumn]:
    def text(shapes: list[str], varies: bool) -> str | None:
        return f"{', '.join(shapes)}{' (varies)' if varies else ''}" if shapes else None

    return [
        words("input", "input", (text(row.input_shapes, row.inputs_vary) for row, *_ in rows), hidden=True),
        words("output", "output", (text(row.output_shapes, row.varies) for row, *_ in rows)),
        words("mode", "mode", (row.mode for row, *_ in rows), hidden=True),
        words("tied", "tied to", (", ".join(tie.other for tie in row.ties) for row, *_ in rows), hidden=True),
    ]


def _findings(subject: Subject, rows: Rows) -> list[PageColumn]:
    """The rules that name each module."""
    codes: dict[int, list[str]] = {}
    for finding in subject.checked.findings:
        for module in finding.modules:
            codes.setdefault(module, []).append(finding.code)
    texts = (
        ", ".join(dict.fromkeys(code for index in modules for code in codes.get(index, ()))) for _, modules, _ in rows
    )
    return [words("rules", "findings", texts)]


def _summed(rows: Rows, values: Sequence[float | None]) -> list[float | None]:
    """The value of each row: of its module, or the sum over the modules of a run; unknown if one is."""
    at_hand = len(values)
    return [
        sum_if_all_known(values[index] if index < at_hand else None for index in modules) if modules else None
        for _, modules, _ in rows
    ]


def _subtree_sums(document: Document, own: Sequence[float | None]) -> list[float | None]:
    """The sums over each module and those inside it; unknown if one is."""
    sums = list(own)
    for index in range(len(sums) - 1, -1, -1):
        parent, value = document.modules[index].parent, sums[index]
        if parent is not None:
            above = sums[parent]
            sums[parent] = None if above is None or value is None else above + value
    return sums
