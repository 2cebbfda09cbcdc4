"""The totals of a model as facts, one a row, and the lines that say what they cover and how they were obtained."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from operator import itemgetter

from assay import units
from assay.analysis.cost.totals import summed
from assay.analysis.parameters import Parameters, parameters
from assay.document.cost import Cost, CostTotals, UnknownOp
from assay.document.document import Document
from assay.document.tree import shown
from assay.messages import plural
from assay.views.tables import Column, Table
from assay.views.text.amounts import Amounts
from assay.views.text.facts import facts_table

_NAMED = 5
"""Unknown operations that a line names; the JSON has all of them."""

_MODES = {
    "real": "run with real weights",
    "meta": "run on shapes alone",
    "fake": "run on fake tensors",
    "made-up": "run with made-up weights",
    "none": "not run",
}


def totals_tables(document: Document, cost: Cost, amounts: Amounts) -> list[Table]:
    """Parameters, work, bytes, coverage, convention and capture; the phases apart where there are two."""
    held = [("parameters", parameters_line(parameters(document), amounts))]
    about = [
        ("coverage", coverage_line(cost)),
        ("convention", cost.convention),
        ("captured", captured_line(document)),
    ]
    if cost.backward is None:
        figures = [(title, show(cost.forward)) for title, show in _figures([cost.forward], amounts).items()]
        return [facts_table([*held, *figures, *about])]
    both = {"forward": cost.forward, "backward": cost.backward, "sum": summed([cost.forward, cost.backward])}
    shows = _figures(list(both.values()), amounts)
    rows = [{"": title, **{phase: show(sums) for phase, sums in both.items()}} for title, show in shows.items()]
    columns = [Column(name, itemgetter(name), "right" if name else "left") for name in ("", *both)]
    return [Table(columns, rows), facts_table([*held, *about])]


def parameters_line(held: Parameters, amounts: Amounts) -> str:
    """`25.6 M (25.6 M trainable), 97.5 MiB; buffers 208 KiB; 1 tied, counted once`."""
    line = f"{amounts.count(held.count)} ({amounts.count(held.trainable)} trainable), {amounts.size(held.bytes)}"
    if held.buffers.bytes:
        line += f"; buffers {amounts.size(held.buffers.bytes)}"
    return f"{line}; {units.exact(len(held.tied))} tied, counted once" if held.tied else line


def coverage_line(cost: Cost) -> str:
    """`100 % of 175 ops counted`, or the share with the operations that have no formula."""
    share = cost.coverage
    if share is None:
        return "nothing ran"
    phases = summed([cost.forward, cost.backward or CostTotals()])
    counted = f"{_floored(share)} % of {units.exact(phases.ops)} ops counted"
    if not cost.unknown:
        return counted
    named = ", ".join(unknown_op(op) for op in cost.unknown[:_NAMED])
    more = f" and {len(cost.unknown) - _NAMED} more" if len(cost.unknown) > _NAMED else ""
    return f"{counted}; {units.exact(phases.unknown_ops)} unknown: {named}{more}"


def unknown_op(op: UnknownOp) -> str:
    """`mylib::op (no formula) ×2`."""
    namespace, _, name = op.target.removesuffix(".default").partition(".")
    return f"{namespace}::{name} ({op.why}) ×{units.exact(op.count)}"


def captured_line(document: Document) -> str:
    """How the model was watched, what had to be assumed, and where it stopped."""
    run = document.run
    parts = [_MODES.get(run.mode, run.mode)]
    if document.machine.torch:
        parts.append(f"torch {document.machine.torch}")
    if run.inputs_from:
        parts.append(f"inputs {run.inputs_from}")
    assumed = plural(len(run.assumptions), "assumption")
    parts.append(f"{assumed} (-v lists them)" if run.assumptions else "nothing assumed")
    if run.failure is not None:
        parts.append(f"stopped in {shown(run.failure.module)}: the figures cover what ran before")
    return ", ".join(parts)


def _floored(share: float) -> str:
    """A percentage that says 100 only when it is."""
    return "100" if share == 1 else f"{math.floor(1000 * share) / 10:.1f}"


def _figures(phases: Sequence[CostTotals], amounts: Amounts) -> dict[str, Callable[[CostTotals], str]]:
    figures: dict[str, Callable[[CostTotals], str]] = {
        "MACs": lambda sums: amounts.count(sums.macs if sums.known else None),
        "matrix FLOPs": lambda sums: amounts.count(sums.matrix_flops if sums.known else None),
        "needed FLOPs (causal)": lambda sums: amounts.count(sums.needed_flops if sums.known else None),
        "pointwise FLOPs": lambda sums: amounts.count(sums.pointwise_flops if sums.known else None),
        "total FLOPs": lambda sums: amounts.count(sums.flops),
        "parameters read": lambda sums: amounts.size(sums.read_parameters),
        "activations read": lambda sums: amounts.size(sums.read_activations),
        "written": lambda sums: amounts.size(sums.written),
        "intensity": lambda sums: f"{units.ratio(sums.intensity)} FLOPs a byte",
    }
    if all(sums.needed_flops == sums.matrix_flops for sums in phases):
        del figures["needed FLOPs (causal)"]
    return figures
