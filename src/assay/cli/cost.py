"""`assay cost`: parameters, FLOPs and bytes of a model, in total and per op or module."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from assay.api.options import RunOptions
from assay.cli.ceilings import note_limits
from assay.cli.cost_vary import cost_vary
from assay.cli.options import (
    OptionGroups,
    Output,
    as_typed,
    model_argument,
    output_options_with,
    run_options,
    sort_key,
    verbosity_options,
)
from assay.cli.output import emit
from assay.cli.stderr import Messages
from assay.errors import FINDINGS, OK

if TYPE_CHECKING:
    from assay.analysis.devices import Device
    from assay.document.cost import Cost
    from assay.document.document import Document
    from assay.views.text.cost import CostOptions
    from assay.views.text.report import Report

GROUPINGS = ("category", "kind", "op", "module", "class", "call")
TORCH_DEVICES = ("cpu", "cuda", "mps", "xpu", "hpu", "npu", "mtia", "xla", "meta", "privateuseone")
"""The device types of torch; any other `--device` is a name from the device table."""
SORTS = ("flops", "macs", "bytes", "count", "intensity", "total")


@click.command(cls=OptionGroups)
@model_argument
@click.option("--by", type=click.Choice(GROUPINGS), help="Print one table of the cost, grouped by this.")
@click.option(
    "--sort",
    callback=sort_key(SORTS, {"share": "flops"}),
    metavar="COLUMN",
    help=f"Sort by this, largest first: {', '.join(SORTS)}; total includes submodules.",
)
@click.option("--top", type=click.IntRange(min=1), metavar="N", help="Show N rows; sum the rest in one.")
@click.option("--depth", type=click.IntRange(min=0), metavar="N", help="Show modules down to depth N.")
@click.option(
    "--full", is_flag=True, help="With --by module: show every module; by default, repeated blocks share a row."
)
@click.option("--exact", is_flag=True, help="Print all digits instead of three.")
@click.option("--backward", is_flag=True, help="Count a training step: training mode and backward pass.")
@click.option(
    "--vary",
    metavar="NAMES",
    help="Derive exact scaling formulas in these sizes: batch,seq (also height, width, frames).",
)
@click.option(
    "--at",
    multiple=True,
    metavar="SIZES",
    help="With --vary: evaluate the formulas at batch=8,seq=4096; repeatable.",
)
@click.option("--strict", is_flag=True, help="Exit with 1 if an op has no cost formula.")
@run_options
@output_options_with(own=("sort", "top"))
@verbosity_options
def cost(
    messages: Messages,
    model: str,
    inputs: str | None,
    options: RunOptions,
    output: Output,
    by: str | None,
    backward: bool,
    strict: bool,
    exact: bool,
    top: int | None,
    sort: str | None,
    depth: int | None,
    full: bool,
    vary: str | None,
    at: tuple[str, ...],
) -> int:
    """Report the parameters, FLOPs and bytes of MODEL, in total and per op, module or class.

    By default, prints the totals, the cost per category of op, and the most expensive kinds of op. JSON contains
    everything; CSV and JSON lines contain the rows of --by.

    --device with a torch device (cpu, cuda:1) is the device to run on. With the name of a GPU such as H100, or
    `this` for this machine (measured by `assay machine`), the model runs as usual and the report shows the roofline
    of that device: a lower bound on the time of every op.
    """
    from assay.analysis.cost.totals import add_up
    from assay.cli.observed import document_of, exit_code
    from assay.views.json.cost import cost_file
    from assay.views.json.files import encode
    from assay.views.text.cost import CostOptions

    options, roofline = _split_device(replace(options, backward=backward))
    if at and vary is None:
        raise click.UsageError("--at requires --vary")
    if vary is not None and (by or roofline or strict):
        raise click.UsageError("--vary cannot be combined with --by, --strict or the roofline of a --device")
    if roofline is not None and (by or sort or top or depth is not None or exact):
        raise click.UsageError(
            f"--by, --sort, --top, --depth and --exact do not apply to the roofline of {roofline.name}"
        )
    if vary is not None:
        return cost_vary(messages, model, inputs, options, output, vary=vary, at=at)
    document = document_of(messages, model, inputs, options, output)
    totals = document.cost if document.cost is not None else add_up(document)
    if roofline is not None:
        _show_roofline(messages, document, roofline, output, training=backward and document.training is not None)
        return exit_code(messages, document) or (_strict_exit_code(messages, totals) if strict else OK)
    if by is None and output.format in ("table", "md"):
        note_limits(messages, document)
    view_options = CostOptions(exact=exact, top=top, sort=sort, depth=depth, full=full)
    emit(
        output,
        lambda: _view(document, totals, by, view_options, as_typed(model, inputs, options)),
        {"json": lambda: encode(cost_file(document, totals))},
        partial=document.stopped,
    )
    stopped = exit_code(messages, document)
    return stopped or (_strict_exit_code(messages, totals) if strict else stopped)


def _split_device(options: RunOptions) -> tuple[RunOptions, Device | None]:
    """Separate the device of a roofline (`--device H100`) from the device to run on (`--device cuda:1`)."""
    from assay.api.roofline import device_or_this_machine

    if options.device is None or options.device.partition(":")[0] in TORCH_DEVICES:
        return options, None
    return replace(options, device=None), device_or_this_machine(options.device)


def _show_roofline(messages: Messages, document: Document, device: Device, output: Output, *, training: bool) -> None:
    """Write the roofline of the device: a lower bound on the time of each kind of op."""
    from assay.analysis.roofline import roofline_of
    from assay.views.json.files import encode
    from assay.views.text.partial_report import marked
    from assay.views.text.roofline import headline, report

    roofline = roofline_of(document, device, training=training)
    emit(
        output,
        lambda: marked(report(roofline), document),
        {"json": lambda: encode(roofline)},
        partial=roofline.partial,
    )
    if output.format != "table":
        messages.note(headline(roofline))
    if training:
        messages.note("the lower bound covers a training step: forward pass with autograd, then backward pass")
    if device.note:
        messages.note(f"{device.name}: {device.note}")
    for assumption in roofline.how.assumptions:
        messages.detail(f"assumed: {assumption}")


def _view(document: Document, totals: Cost, by: str | None, options: CostOptions, source: str) -> Report:
    from assay.api.brief import achieved_here
    from assay.findings.brief_model import model_brief
    from assay.findings.engine import check_all
    from assay.machine.limits import device_of
    from assay.views.text.brief import with_brief
    from assay.views.text.cost import cost_report, cost_table
    from assay.views.text.partial_report import marked
    from assay.views.text.report import Report

    if by is not None:
        data = cost_table(document, totals, by, replace(options, full=True))
        return marked(Report([cost_table(document, totals, by, options)], data), document)
    device = device_of(document)
    findings, rows = check_all(document, device=device).findings, achieved_here(document)
    brief = model_brief(document, findings, rows=rows, device=device, source=source)
    return with_brief(brief, marked(cost_report(document, totals, options), document), document)


def _strict_exit_code(messages: Messages, totals: Cost) -> int:
    """0, or 1 after a message that lists the ops without a formula."""
    from assay.views.text.totals import unknown_op

    if not totals.unknown:
        return OK
    names = ", ".join(unknown_op(op).replace(" (no formula)", "") for op in totals.unknown)
    messages.warn(f"strict: ops without a formula: {names} (add formulas with assay.register_cost)")
    return FINDINGS
