"""The summary of a model: the module tree with shapes, parameters, FLOPs and memory, and totals below it."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from assay import units
from assay.analysis.cost.totals import add_up
from assay.analysis.memory import memory_of
from assay.analysis.outline import OutlineRow, outline
from assay.analysis.parameters import Parameters, parameters
from assay.display import Displayed
from assay.document.document import Document, Failure
from assay.document.provenance import Figure
from assay.document.rows import TensorType
from assay.document.tree import path_text as shown_path
from assay.messages import plural
from assay.views.layout import Style
from assay.views.partial import marked_total
from assay.views.tables import Column, Table
from assay.views.text.amounts import Amounts, amounts, if_recorded
from assay.views.text.facts import facts_table
from assay.views.text.partial_report import marked
from assay.views.text.report import Parts, Report, as_text
from assay.views.text.summary_columns import (
    COLUMNS,
    DATA_DEFAULT,
    DEFAULT,
    SummaryColumn,
    Wholes,
    parse_columns,
)
from assay.views.text.totals import captured_line, coverage_line, modules_run_facts, parameters_line, range_facts
from assay.views.text.trees import TREE_KEEPS, branches

_MAX_TIED = 3
"""Tied parameters named below the tree; JSON lists all of them."""


class Summary(Displayed):
    """The module tree of a model with shapes, parameters, FLOPs and memory, and totals below it.

    `print` it, display it in a notebook, or read its `rows`.

    Args:
        document: The recorded model.
        full: Show one row per module; otherwise runs of equal siblings are one row.
        depth: The deepest level of modules to show; None shows all.
        exact: Write all digits instead of three.
        columns: The columns to show, such as `["input", "output", "params", "macs"]`; None shows the default ones.
    """

    def __init__(
        self,
        document: Document,
        *,
        full: bool = False,
        depth: int | None = None,
        exact: bool = False,
        columns: str | Iterable[str] | None = None,
    ) -> None:
        self.document = document
        self.cost = document.cost if document.cost is not None else add_up(document)
        self._amounts = amounts(exact)
        self._chosen = None if columns is None else parse_columns(columns)
        self._wholes = Wholes(self.cost.forward.flops, parameters(document).count, document.recorded)
        self._full, self._depth = full, depth
        self.rows: list[OutlineRow] = self._outline(gaps=True)
        """One entry per row of the tree, parents first."""

    def _outline(self, *, gaps: bool) -> list[OutlineRow]:
        lines = outline(self.document, self.cost, runs=not self._full, gaps=gaps)
        return [line for line in lines if self._depth is None or line.depth <= self._depth]

    @property
    def data_rows(self) -> list[OutlineRow]:
        """The rows for data formats, where a run is a number of siblings after the first."""
        return self._outline(gaps=False) if any(line.gaps for line in self.rows) else self.rows

    @property
    def partial(self) -> bool:
        """Whether the forward pass stopped midway, so that the totals cover only the ops before."""
        return self.document.partial

    def __str__(self) -> str:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        return as_text(self.report(), Style(width))

    __repr__ = __str__

    def tree(self) -> tuple[list[str], list[tuple[int, list[str]]]]:
        """The headings of the tree, and the depth and the cells of each row."""
        columns = self._columns()
        failure = self.document.run.failure
        rows = [
            (line.depth, [column.text(_TreeRow(line, failure=failure)) for column in columns]) for line in self.rows
        ]
        return [column.title for column in columns], rows

    def report(self, *, flat: bool = False) -> Report:
        """The tree and the totals as a report; CSV and JSON lines have one row per module, with exact values.

        Args:
            flat: Name modules by their whole path instead of drawing a tree, for rows that are sorted or selected.

        Returns:
            A `Report` whose `data` is the table of `rows` with full module paths.
        """
        trunks = [None] * len(self.rows) if flat else branches([line.depth for line in self.rows])
        failure = self.document.run.failure
        rows = [_TreeRow(line, trunk, failure) for line, trunk in zip(self.rows, trunks, strict=True)]
        tree = Table(self._columns(), rows)
        parts: Parts = [f"{self.name}: summary", *([tree] if rows else []), facts_table(self.facts())]
        return marked(Report(parts, Table(_data_columns(self._chosen, self._wholes), self.data_rows)), self.document)

    def _columns(self) -> list[Column[_TreeRow]]:
        return _tree_columns(self._chosen, self._wholes, self._amounts)

    @property
    def name(self) -> str:
        """The class of the model, or the name it was opened by."""
        return self.document.model_class or self.document.origin.name or "model"

    def facts(self) -> list[tuple[str, str]]:
        """The totals below the tree.

        Returns:
            Pairs of a name and its value as text.
        """
        document = self.document
        counted = parameters(document)
        forward = self.cost.forward
        count, size = self._amounts.count, self._amounts.size
        flops = f"{count(forward.flops)} ({count(forward.macs if forward.known else None)} MACs)"
        written = f"{size(if_recorded(forward.written, forward))} written"
        return [
            ("parameters", parameters_line(counted, self._amounts)),
            *(
                ("", f"{dtype}: {count(sums.elements)}, {size(sums.bytes)}")
                for dtype, sums in counted.by_dtype.items()
            ),
            *_tied(counted),
            (self._total("FLOPs"), flops if document.recorded else units.UNKNOWN),
            *range_facts(self.cost, self._amounts),
            (self._total("activations"), written if document.recorded else units.UNKNOWN),
            *self._memory(),
            *self._ends(),
            (self._total("coverage"), coverage_line(self.cost)),
            *modules_run_facts(document),
            ("convention", self.cost.convention),
            ("captured", captured_line(document)),
        ]

    def _total(self, label: str) -> str:
        return marked_total(label, partial=self.partial)

    def _memory(self) -> list[tuple[str, str]]:
        """The memory inference needs; nothing if the recording has no tensor lifetimes."""
        memory = memory_of(self.document)
        needed = memory.inference
        if needed is None:
            return []
        size, moving = self._size(needed.total), self._size(needed.moving)
        what = "activations and constants" if memory.has_large_constants else "activations"
        return [
            (
                self._total("memory"),
                f"{size} for inference: parameters, buffers, inputs and {moving} of {what} at the peak",
            )
        ]

    def _size(self, figure: Figure) -> str:
        return self._amounts.size(None if figure.value is None else int(figure.value))

    def _ends(self) -> list[tuple[str, str]]:
        inputs = [(each.name, each.type) for each in self.document.run.inputs]
        outermost = next((call for call in self.document.calls if call.parent is None), None)
        outputs = [("", type) for type in (outermost.outputs if outermost else ())]
        ends = (("inputs", inputs), ("outputs", outputs))
        return [(name, ", ".join(_typed(*each) for each in types)) for name, types in ends if types]


def _times(count: int) -> str:
    return f" ×{count}" if count > 1 else ""


class _TreeRow(NamedTuple):
    line: OutlineRow
    trunk: str | None = ""
    """The branches before the name; None shows the whole path."""
    failure: Failure | None = None
    """Where the pass stopped; None if it completed."""

    @property
    def name(self) -> str:
        if self.trunk is None:
            above, dot, _ = self.line.path.rpartition(".")
            return f"{above}{dot}{self.line.name}{_times(self.line.modules)}"
        return f"{self.trunk}{self.line.name}{_times(self.line.run)}"

    @property
    def class_text(self) -> str:
        if self.line.same_as is not None:
            return f"{self.line.class_name} (same as {self.line.same_as})"
        return ", ".join([self.line.class_name, *_notes(self.line, self.failure)])


def _tree_columns(chosen: Sequence[str] | None, wholes: Wholes, formats: Amounts) -> list[Column[_TreeRow]]:
    """The layer, its class, and the chosen columns; empty for a module that already has a row further up."""

    def column(shown: SummaryColumn) -> Column[_TreeRow]:
        return Column(
            shown.title,
            lambda row: "" if row.line.same_as is not None else shown.shown(row.line, wholes, formats),
            "left" if shown.kind == "text" else "right",
            shrinks=shown.kind == "text",
            drops=shown.drops and chosen is None,
            order=lambda row: None if row.line.same_as is not None else shown.of(row.line, wholes),
        )

    return [
        Column("layer", lambda row: row.name, shrinks=True, cuts="middle", keeps=TREE_KEEPS),
        Column("class", lambda row: row.class_text, shrinks=True),
        *(column(COLUMNS[name]) for name in chosen or DEFAULT),
    ]


def _data_columns(chosen: Sequence[str] | None, wholes: Wholes) -> list[Column[OutlineRow]]:
    def own(title: str, of: Callable[[OutlineRow], Any]) -> Column[OutlineRow]:
        """A column that is empty for a module that already has a row further up."""
        return Column(title, lambda line: None if line.same_as is not None else of(line))

    def column(shown: SummaryColumn) -> Column[OutlineRow]:
        return own(shown.data_name, lambda line: shown.of(line, wholes))

    return [
        Column("path", lambda line: shown_path(line.path)),
        Column("class", lambda line: line.class_name),
        Column("depth", lambda line: line.depth),
        Column("run", lambda line: line.run),
        Column("modules", lambda line: line.modules),
        *(column(COLUMNS[name]) for name in chosen or DATA_DEFAULT),
        Column("same as", lambda line: line.same_as),
        own("tied", lambda line: ", ".join(f"{tie.name} = {tie.other}" for tie in line.ties) or None),
    ]


def _notes(line: OutlineRow, failure: Failure | None) -> list[str]:
    """Notes on a row's modules: repeated calls, ties, creation during forward, ops without a formula, failure."""
    notes = [f"{tie.name} tied to {tie.other}" for tie in line.ties]
    if line.calls > line.modules:
        notes.insert(0, f"×{units.exact(line.calls // line.modules)} calls")
    if line.created_in_forward:
        notes.append("created in forward")
    if line.differs:
        notes.append(f"differs: {line.differs}")
    elif line.mode:
        notes.append(f"in {line.mode} mode")
    # Without a complete pass, a module without recorded ops is marked unknown, although no op lacks a formula.
    if line.totals.unknown_ops and line.totals.ops:
        notes.append(plural(line.totals.unknown_ops, "unknown op"))
    if failure is not None and shown_path(line.path) == failure.module:
        notes.append("failed")
    return notes


def _tied(counted: Parameters) -> list[tuple[str, str]]:
    """The names of tied parameters, shortened."""
    facts = [("tied", " = ".join(names)) for names in counted.tied[:_MAX_TIED]]
    more = len(counted.tied) - _MAX_TIED
    return [*facts, ("", f"and {units.exact(more)} more")] if more > 0 else facts


def _typed(name: str, type: TensorType) -> str:
    text = f"{units.shape(type.shape)} {type.dtype}"
    return f"{name} {text}" if name else text
