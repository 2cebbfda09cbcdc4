"""The data flow of a document as the page's graph view reads it: `Graph` in `web/src/payload.ts`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from assay.analysis import levels as analysis
from assay.analysis.cost.totals import per_call_total
from assay.analysis.parameters import sum_if_all_known
from assay.document.cost import Cost
from assay.document.document import Document
from assay.views.tables import printable

_EACH = 64
"""Modules with the same level have their own values if there are at most this many; otherwise the mean is given."""
_LISTED = 1000
"""Nodes of a level that are given; a level with more is one long list of ops."""

Values = list[float | None]


class NodeFigures(Struct, omit_defaults=True):
    """A value per node."""

    rows: list[Values]
    """One row per path of the level; a single row if they are all equal, or if it is their mean."""
    mean: bool = False


class PageNode(Struct, omit_defaults=True):
    """A node of a level; see `assay.analysis.levels.Node`."""

    kind: str
    name: str
    detail: str = ""
    shape: str = ""
    path: str | None = None
    """For a module, the path of the first: from the level's module on if it starts with a dot."""
    run: int = 1


class PageFlow(Struct, omit_defaults=True):
    """A tensor from one node to others; see `assay.analysis.levels.Flow`."""

    source: int
    targets: list[int]
    shape: str
    dtype: str
    bytes: int | None
    tensors: int = 1


class PageLevel(Struct, omit_defaults=True):
    """The data flow inside one module, or inside several that have the same."""

    paths: list[str]
    class_name: str
    nodes: list[PageNode]
    flows: list[PageFlow]
    calls: int = 1
    views: int = 0
    idle: list[str] = []
    more: int = 0
    """Nodes that are not given, because there are too many."""
    time_s: NodeFigures | None = None
    flops: NodeFigures | None = None


class PageGraph(Struct, omit_defaults=True):
    """All levels, the root's first."""

    levels: list[PageLevel]
    recorded: bool = True
    """Whether it is known what each op read; otherwise there are no flows."""


def graph(document: Document, cost: Cost | None = None) -> PageGraph:
    """The data flow of the forward pass; `cost` gives the FLOPs if the document does not."""
    figures = _Figures(document, cost or document.cost)
    return PageGraph(
        [_level(figures, level) for level in analysis.levels(document)], any(op.reads for op in document.ops)
    )


class _Figures:
    """The time and FLOPs of ops and calls."""

    def __init__(self, document: Document, cost: Cost | None) -> None:
        self.document = document
        self._op_s = document.profile.ops if document.profile is not None else []
        self._module_s = document.timing.modules if document.timing is not None else []
        self._kinds = cost.kinds if cost is not None else []
        self._calls = per_call_total(document, cost) if cost is not None else []

    def time_s(self, item: int) -> float | None:
        """Seconds of an op, or of `~call`: of a module that is called several times, the mean."""
        if item >= 0:
            return self._op_s[item] if self._op_s else None
        module = self._module_s[self.document.calls[~item].module] if self._module_s else None
        return None if module is None or module.total_s is None else module.total_s / max(module.calls, 1)

    def flops(self, item: int) -> float | None:
        """FLOPs of an op or `~call`."""
        if item >= 0:
            return self._kinds[self.document.ops[item].kind].flops if self._kinds else None
        return self._calls[~item].flops if self._calls else None


def _level(figures: _Figures, level: analysis.Level) -> PageLevel:
    nodes = level.nodes[:_LISTED]
    return PageLevel(
        paths=list(map(printable, level.paths)),
        class_name=printable(level.class_name),
        nodes=[_node(figures.document, level, node) for node in nodes],
        flows=[
            PageFlow(flow.source, targets, flow.shape, flow.dtype, flow.bytes, flow.tensors)
            for flow in level.flows
            if flow.source < _LISTED and (targets := [target for target in flow.targets if target < _LISTED])
        ],
        calls=level.calls,
        views=level.views,
        idle=list(map(printable, level.idle)),
        more=len(level.nodes) - len(nodes),
        time_s=_figures([[_sum(figures.time_s, ran, node) for node in nodes] for ran in level.ran]),
        flops=_figures([[_sum(figures.flops, ran, node) for node in nodes] for ran in level.ran]),
    )


def _node(document: Document, level: analysis.Level, node: analysis.Node) -> PageNode:
    path = None
    if node.kind == analysis.MODULE:
        path = document.modules[document.calls[~level.ran[0][node.members[0]]].module].path
        prefix = f"{level.paths[0]}." if level.paths[0] else ""
        if path.startswith(prefix) and path:
            path = f".{path.removeprefix(prefix)}"
        path = printable(path)
    return PageNode(node.kind, printable(node.name), printable(node.detail), node.shape, path, node.run)


def _sum(value: Callable[[int], float | None], ran: Sequence[int], node: analysis.Node) -> float | None:
    """The value of all members of a node; None if one is unknown, and for nodes that are not run."""
    return sum_if_all_known(value(ran[place]) for place in node.members) if node.members else None


def _figures(rows: list[Values]) -> NodeFigures | None:
    """The rows as they are given; None if nothing is known."""
    if all(value is None for row in rows for value in row):
        return None
    if all(row == rows[0] for row in rows):
        return NodeFigures([_short(rows[0])])
    if len(rows) <= _EACH:
        return NodeFigures([_short(row) for row in rows])
    return NodeFigures([_short([_mean(column) for column in zip(*rows, strict=True)])], mean=True)


def _mean(values: Sequence[float | None]) -> float | None:
    total = sum_if_all_known(values)
    return None if total is None else total / len(values)


def _short(values: Values) -> Values:
    """The values with three digits, which is what the page shows."""
    return [None if value is None else float(f"{value:.3g}") for value in values]
