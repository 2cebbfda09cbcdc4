"""The totals of a model, one per row, and the lines on their coverage and how they were obtained."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter

from assay import units
from assay.analysis.cost.totals import summed
from assay.analysis.modules_run import ModulesRun, modules_run
from assay.analysis.parameters import Parameters, parameters
from assay.analysis.training_mode import mode_changes, mode_name
from assay.document.cost import Cost, CostTotals, UnknownOp
from assay.document.document import Document
from assay.document.tree import path_text
from assay.findings.naming import fold_names, joined_names, module_names
from assay.messages import plural
from assay.views.partial import marked_total
from assay.views.tables import Column, Table
from assay.views.text.amounts import Amounts, if_recorded
from assay.views.text.facts import facts_table

_MAX_NOT_RUN = 8
"""Modules named that did not run; JSON lists all of them."""
_MAX_UNKNOWN = 5
"""Ops without a formula that a line names; JSON lists all of them."""

_MODES = {
    "real": "run with real weights",
    "meta": "run on shapes only",
    "fake": "run on fake tensors",
    "made-up": "run with placeholder weights",
    "none": "not run",
}


def totals_tables(document: Document, cost: Cost, amounts: Amounts) -> list[Table]:
    """Parameters, FLOPs, bytes, coverage, convention and capture; forward and backward separately if both ran."""
    counts = [("parameters", parameters_line(parameters(document), amounts))]
    about = [
        *range_facts(cost, amounts),
        (marked_total("coverage", partial=cost.partial), coverage_line(cost)),
        *modules_run_facts(document),
        ("convention", cost.convention),
        ("captured", captured_line(document)),
    ]
    if cost.backward is None:
        figures = [
            (title, show(cost.forward)) for title, show in _figures([cost.forward], amounts, cost.partial).items()
        ]
        return [facts_table([*counts, *figures, *about])]
    both = {"forward": cost.forward, "backward": cost.backward, "total": summed([cost.forward, cost.backward])}
    shows = _figures(list(both.values()), amounts, cost.partial)
    rows = [{"": title, **{phase: show(sums) for phase, sums in both.items()}} for title, show in shows.items()]
    columns = [Column(name, itemgetter(name), "right" if name else "left") for name in ("", *both)]
    return [Table(columns, rows), facts_table([*counts, *about])]


def parameters_line(counted: Parameters, amounts: Amounts) -> str:
    """`25.6 M (25.6 M trainable), 97.5 MiB; buffers 208 KiB; 1 tied, counted once`."""
    lost = "; partial: files not read" if counted.partial else ""
    if counted.count is None and counted.stored is not None:
        stored = counted.stored
        return f"{amounts.count(stored.elements)} including buffers, {amounts.size(stored.bytes)} (as stored{lost})"
    how = f"as stored{lost}" if counted.stored is not None else f"{amounts.count(counted.trainable)} trainable"
    line = f"{amounts.count(counted.count)} ({how}), {amounts.size(counted.bytes)}"
    if counted.buffers is not None and counted.buffers.bytes:
        line += f"; buffers {amounts.size(counted.buffers.bytes)}"
    return f"{line}; {units.exact(len(counted.tied))} tied, counted once" if counted.tied else line


def range_facts(cost: Cost, amounts: Amounts) -> list[tuple[str, str]]:
    """The least and the most that the forward pass can cost, if sizes depend on data that was not there."""
    least, most = cost.least, cost.forward
    if least is None:
        return []
    ends = (("MACs", least.macs, most.macs), ("FLOPs", least.flops, most.flops))
    text = ", ".join(f"{name} {amounts.count(low)} to {amounts.count(high)}" for name, low, high in ends)
    return [("range", f"{text}: sizes in {plural(most.ops - least.ops, 'op')} depend on data")]


def coverage_line(cost: Cost) -> str:
    """`100 % of 175 ops counted`, followed by the ops without a formula, if any.

    A pass that stopped has no share, because its number of ops is unknown: `2 ops before the stop, 2 counted`.
    """
    phases = summed([cost.forward, cost.backward or CostTotals()])
    if not phases.ops:
        return "no ops ran" if phases.recorded else f"{units.UNKNOWN} (no ops recorded)"
    share = cost.coverage
    if share is None:
        known = units.exact(phases.ops - phases.unknown_ops)
        counted = f"{known} of the {plural(phases.ops, 'op')} before the stop counted"
    else:
        counted = f"{units.floored_percent(share)} of {plural(phases.ops, 'op')} counted"
    if not cost.unknown:
        return counted
    named = ", ".join(unknown_op(op) for op in cost.unknown[:_MAX_UNKNOWN])
    more = f" and {len(cost.unknown) - _MAX_UNKNOWN} more" if len(cost.unknown) > _MAX_UNKNOWN else ""
    return f"{counted}; {units.exact(phases.unknown_ops)} unknown: {named}{more}"


def modules_run_facts(document: Document) -> list[tuple[str, str]]:
    """The share of modules that ran, as a fact; nothing if it is unknown."""
    run = modules_run(document)
    return [] if run is None else [(marked_total("modules run", partial=document.partial), modules_run_line(run))]


def modules_run_line(run: ModulesRun) -> str:
    """`212 of 340 with parameters (62.3 %); not run: vision_tower, projector`."""
    line = f"{units.exact(run.ran)} of {units.exact(run.of)} with parameters"
    if run.ran == run.of:
        return line
    return (
        f"{line} ({units.floored_percent(run.share)}); not run: {joined_names(fold_names(run.not_run), _MAX_NOT_RUN)}"
    )


def unknown_op(op: UnknownOp) -> str:
    """`mylib::op (no formula) ×2`."""
    namespace, _, name = op.target.removesuffix(".default").partition(".")
    return f"{namespace}::{name} ({op.why}) ×{units.exact(op.count)}"


def captured_line(document: Document) -> str:
    """How the model was run: mode, torch version, source of the inputs, assumptions, and where it failed."""
    run = document.run
    parts = [_MODES.get(run.mode, run.mode)]
    if run.mode != "none":
        parts.append(mode_text(document))
    if document.machine.torch:
        parts.append(f"torch {document.machine.torch}")
    if run.inputs_from:
        parts.append(f"inputs {run.inputs_from}")
    assumptions = plural(len(run.assumptions), "assumption")
    if run.mode != "none" or run.assumptions:
        parts.append(f"{assumptions} (see -v)" if run.assumptions else "no assumptions")
    parts += [f"input {each.name} is empty ({units.shape(each.type.shape)})" for each in run.empty_inputs]
    if run.failure is not None:
        parts.append(f"stopped in {path_text(run.failure.module)}: totals cover only the ops before it")
    return ", ".join(parts)


def mode_text(document: Document) -> str:
    """`in evaluation mode (the model was in training mode)`; which modules differed is named."""
    run, root = document.run, document.modules[0]
    changes = mode_changes(document)
    own = f"{mode_name(root.training)} mode"
    if changes:
        own += f", except {module_names(document, changes)} in {mode_name(not root.training)} mode"
    if run.as_is:
        return f"in its own mode ({own})"
    ran = f"in {mode_name(run.training)} mode"
    return f"{ran} (the model was in {own})" if changes or run.training != root.training else ran


def _figures(phases: Sequence[CostTotals], amounts: Amounts, partial: bool) -> dict[str, Callable[[CostTotals], str]]:
    """Functions that format each total, by its label."""

    def size(amount: int, sums: CostTotals) -> str:
        return amounts.size(if_recorded(amount, sums))

    figures: dict[str, Callable[[CostTotals], str]] = {
        "MACs": lambda sums: amounts.count(sums.macs if sums.known else None),
        "matrix FLOPs": lambda sums: amounts.count(sums.matrix_flops if sums.known else None),
        "needed FLOPs (causal)": lambda sums: amounts.count(sums.needed_flops if sums.known else None),
        "pointwise FLOPs": lambda sums: amounts.count(sums.pointwise_flops if sums.known else None),
        "total FLOPs": lambda sums: amounts.count(sums.flops),
        "parameters read": lambda sums: size(sums.read_parameters, sums),
        "activations read": lambda sums: size(sums.read_activations, sums),
        "bytes written": lambda sums: size(sums.written, sums),
        "intensity": lambda sums: f"{units.ratio(sums.intensity)} FLOPs/byte",
    }
    if all(sums.needed_flops == sums.matrix_flops for sums in phases):
        del figures["needed FLOPs (causal)"]
    return {marked_total(title, partial=partial): show for title, show in figures.items()}
