"""The summary of a model: its tree with shapes, parameters, work and memory, and the totals below it."""

from __future__ import annotations

import shutil
import sys
from typing import Any

from assay import units
from assay.analysis.cost.totals import add_up
from assay.analysis.memory import memory_of
from assay.analysis.outline import Line, outline
from assay.analysis.parameters import Parameters, parameters
from assay.document.document import Document
from assay.document.provenance import Figure
from assay.document.rows import TensorType
from assay.document.tree import shown as shown_path
from assay.views import html_tree
from assay.views.tables import Column, Table, printable
from assay.views.text.amounts import Amounts, amounts, part_of, percent
from assay.views.text.report import Report, as_text
from assay.views.text.totals import Fact, captured_line, coverage_line, facts_table, parameters_line
from assay.views.text.trees import TREE_KEEPS, branches

NOT_CALLED = "not called"
_NAMED = 3
"""Tied parameters that the footer names; the JSON has all of them."""

_DATA_COLUMNS = (
    "path", "class", "depth", "run", "modules", "calls", "output shapes", "parameters", "own parameters",
    "trainable", "flops", "macs", "activation bytes", "share", "same as", "tied",
)  # fmt: skip


class Summary:
    """A model at a glance. `print` it, show it in a notebook, or take its `rows`."""

    def __init__(
        self, document: Document, *, full: bool = False, depth: int | None = None, exact: bool = False
    ) -> None:
        self.document = document
        self.cost = document.cost if document.cost is not None else add_up(document)
        self._amounts = amounts(exact)
        lines = outline(document, self.cost, runs=not full)
        self.rows: list[Line] = [line for line in lines if depth is None or line.depth <= depth]
        """One a shown line of the tree, parents first."""

    def __str__(self) -> str:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        return as_text(self.report(), width=width)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        columns = _tree_columns(self._amounts)
        whole = self.cost.forward.flops
        rows = [
            (line.depth, [printable(column.show(value)) for column, value in
                          zip(columns, _tree_row(line, "", whole), strict=True)])
            for line in self.rows
        ]  # fmt: skip
        return html_tree.tree_table(
            title=printable(self.document.model_class or "model"),
            headings=[column.title for column in columns],
            rows=rows,
            facts=[(name, printable(value)) for name, value in self.facts()],
        )

    def report(self) -> Report:
        """The tree and the totals; its data have one row a line, with full paths and exact figures."""
        title = f"{self.document.model_class or 'model'}: summary"
        return Report([title, self._tree(), facts_table(self.facts())], self._data())

    def facts(self) -> list[Fact]:
        """The totals below the tree."""
        held = parameters(self.document)
        forward = self.cost.forward
        return [
            ("parameters", parameters_line(held, self._amounts)),
            *(("", f"{dtype}: {self._held(part.elements, part.bytes)}") for dtype, part in held.by_dtype.items()),
            *_tied(held),
            ("FLOPs", f"{self._amounts.count(forward.flops)} ({self._amounts.count(forward.macs)} MACs)"),
            ("activations", f"{self._amounts.size(forward.written)} written"),
            *self._memory(),
            *self._ends(),
            ("coverage", coverage_line(self.cost)),
            ("convention", self.cost.convention),
            ("captured", captured_line(self.document)),
        ]

    def _memory(self) -> list[Fact]:
        """What inference needs, where the capture saw memory come and go."""
        needed = memory_of(self.document).inference
        if needed is None:
            return []
        size, moving = self._size(needed.total), self._size(needed.moving)
        return [
            ("memory", f"{size} for inference: parameters, buffers, inputs and {moving} of activations at the peak")
        ]

    def _size(self, figure: Figure) -> str:
        return self._amounts.size(None if figure.value is None else int(figure.value))

    def _held(self, elements: int | None, size: int) -> str:
        return f"{self._amounts.count(elements)}, {self._amounts.size(size)}"

    def _ends(self) -> list[Fact]:
        inputs = [(each.name, each.type) for each in self.document.run.inputs]
        outermost = next((call for call in self.document.calls if call.parent is None), None)
        outputs = [("", type) for type in (outermost.outputs if outermost else ())]
        ends = (("inputs", inputs), ("outputs", outputs))
        return [(name, ", ".join(_typed(*each) for each in types)) for name, types in ends if types]

    def _tree(self) -> Table:
        whole = self.cost.forward
        trunks = branches([line.depth for line in self.rows])
        rows = [_tree_row(line, trunk, whole.flops) for line, trunk in zip(self.rows, trunks, strict=True)]
        return Table(_tree_columns(self._amounts), rows)

    def _data(self) -> Table:
        whole = self.cost.forward.flops
        return Table([Column(title) for title in _DATA_COLUMNS], [_data_row(line, whole) for line in self.rows])


def _tree_columns(written: Amounts) -> list[Column]:
    def shown(value: int | str | None) -> str:
        return value if isinstance(value, str) else written.count(value)

    def sized(value: int | str) -> str:
        return value if isinstance(value, str) else written.size(value)

    return [
        Column("layer", shrinks=True, cuts=True, keeps=TREE_KEEPS),
        Column("class", shrinks=True),
        Column("output", shrinks=True),
        Column("params", "right", shown),
        Column("FLOPs", "right", shown),
        Column("activations", "right", sized, drops=True),
        Column("share", "right", drops=True),
        Column("trainable", "right", shown, drops=True),
        Column("own params", "right", shown, drops=True),
    ]


def _tree_row(line: Line, trunk: str, whole: int | None) -> list[Any]:
    name = f"{trunk}{line.name} ×{line.run}" if line.run > 1 else f"{trunk}{line.name}"
    if line.same_as is not None:
        return [name, f"{line.class_name} (same as {line.same_as})", *[""] * 7]
    return [
        name,
        ", ".join([line.class_name, *_notes(line)]),
        _output(line),
        line.parameters,
        line.totals.flops,
        line.totals.written,
        percent(part_of(line.totals.flops, whole)),
        line.trainable,
        line.own_parameters,
    ]


def _notes(line: Line) -> list[str]:
    """What is special about a line's modules."""
    notes = [f"{tie.name} tied to {tie.other}" for tie in line.ties]
    if line.calls > line.modules:
        notes.insert(0, f"×{units.exact(line.calls // line.modules)} calls")
    if line.created_in_forward:
        notes.append("made in forward")
    if line.totals.unknown_ops:
        notes.append(f"{units.exact(line.totals.unknown_ops)} ops unknown")
    return notes


def _output(line: Line) -> str:
    if not line.calls:
        return NOT_CALLED
    shapes = ", ".join(line.output_shapes) or units.UNKNOWN
    return f"{shapes}, …" if line.varies else shapes


def _data_row(line: Line, whole: int | None) -> list[Any]:
    sums = line.totals
    if line.same_as is not None:
        known = [shown_path(line.path), line.class_name, line.depth, line.run, line.modules]
        return [*known, *[None] * (len(_DATA_COLUMNS) - len(known) - 2), line.same_as, None]
    return [
        shown_path(line.path),
        line.class_name,
        line.depth,
        line.run,
        line.modules,
        line.calls,
        ", ".join(line.output_shapes) or None,
        line.parameters,
        line.own_parameters,
        line.trainable,
        sums.flops,
        sums.macs if sums.known else None,
        sums.written,
        part_of(sums.flops, whole),
        None,
        ", ".join(f"{tie.name} = {tie.other}" for tie in line.ties) or None,
    ]


def _tied(held: Parameters) -> list[Fact]:
    """The tied parameters by name."""
    facts = [("tied", " = ".join(names)) for names in held.tied[:_NAMED]]
    more = len(held.tied) - _NAMED
    return [*facts, ("", f"and {units.exact(more)} more")] if more > 0 else facts


def _typed(name: str, type: TensorType) -> str:
    text = f"{units.shape(type.shape)} {type.dtype}"
    return f"{name} {text}" if name else text
