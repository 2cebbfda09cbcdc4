"""`assay cost`: what a model costs, and where it goes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from assay.api.options import RunOptions
from assay.cli.cost_vary import cost_vary
from assay.cli.narration import Narrator
from assay.cli.options import Output, model_argument, narration_options, output_options, run_options
from assay.cli.output import emit
from assay.errors import FOUND, OK

if TYPE_CHECKING:
    from assay.analysis.devices import Device
    from assay.document.cost import Cost
    from assay.document.document import Document
    from assay.views.tables import Table
    from assay.views.text.cost import CostOptions
    from assay.views.text.report import Report

DIVISIONS = ("category", "kind", "op", "module", "class", "call")
RUNS_ON = ("cpu", "cuda", "mps", "xpu", "hpu", "npu", "mtia", "xla", "meta", "privateuseone")
"""What torch calls the places a model can run on; any other `--device` names one of the device table."""
SORTS = ("flops", "macs", "bytes", "count", "intensity", "total")


@click.command()
@model_argument
@click.option("--by", type=click.Choice(DIVISIONS), help="One table of all the cost, divided by this.")
@click.option("--sort", type=click.Choice(SORTS), help="Largest first by this; `total` is with what is inside.")
@click.option("--top", type=click.IntRange(min=1), metavar="N", help="The first N lines; the others in one.")
@click.option("--depth", type=click.IntRange(min=0), metavar="N", help="Modules down to this depth.")
@click.option("--exact", is_flag=True, help="Every digit instead of three.")
@click.option("--backward", is_flag=True, help="Run and count a training step: training mode, backward too.")
@click.option(
    "--vary", metavar="NAMES", help="Costs as exact laws in these sizes: batch,seq (or height,width,frames)."
)
@click.option(
    "--at", multiple=True, metavar="SIZES", help="With --vary: the figures at batch=8,seq=4096; may repeat."
)
@click.option("--strict", is_flag=True, help="Fail where an operation has no formula.")
@run_options
@output_options
@narration_options
def cost(
    narrator: Narrator,
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
    vary: str | None,
    at: tuple[str, ...],
) -> int:
    """What MODEL costs: parameters, FLOPs, bytes, and where they go.

    Without --by a report of totals, types of operation and the heaviest kinds. JSON is always the whole; CSV and JSON
    lines have the lines of --by. With --device H100 (or another name of the device table, or `this` for this machine
    as `assay machine` measured it) every operation is placed on that device's roofline: a lower bound of its time.
    Other names of --device say where to run.
    """
    from assay.analysis.cost.totals import add_up
    from assay.cli.observed import document_of, exit_code
    from assay.views.json.cost import cost_file
    from assay.views.json.files import encode
    from assay.views.text.cost import CostOptions

    options, roofline = _split_device(replace(options, backward=backward))
    if at and vary is None:
        raise click.UsageError("--at says where the laws of --vary are evaluated: give --vary too")
    if vary is not None and (by or roofline or strict):
        raise click.UsageError("--vary makes laws from several captures: --by, --device and --strict go with one")
    if vary is not None:
        return cost_vary(narrator, model, inputs, options, output, vary=vary, at=at)
    document = document_of(narrator, model, inputs, options, output)
    found = document.cost if document.cost is not None else add_up(document)
    _tell_backward(narrator, document, found, backward)
    if roofline is not None:
        _show_roofline(narrator, document, roofline, output, training=backward and document.training is not None)
        return exit_code(narrator, document) or (_strict_exit_code(narrator, found) if strict else OK)
    shown = CostOptions(exact=exact, top=top, sort=sort, depth=depth)
    emit(
        output,
        lambda: _shown(document, found, by, shown),
        {"json": lambda: encode(cost_file(document, found))},
    )
    stopped = exit_code(narrator, document)
    return stopped or (_strict_exit_code(narrator, found) if strict else stopped)


def _split_device(options: RunOptions) -> tuple[RunOptions, Device | None]:
    """`--device H100` asks for that device's roofline; `--device cuda:1` is where to run."""
    from assay.api.roofline import device_named

    if options.device is None or options.device.partition(":")[0] in RUNS_ON:
        return options, None
    return replace(options, device=None), device_named(options.device)


def _show_roofline(narrator: Narrator, document: Document, device: Device, output: Output, *, training: bool) -> None:
    """Write what each kind of operation takes at least on the device."""
    from assay.analysis.roofline import bound
    from assay.views.json.files import encode
    from assay.views.text.roofline import headline, report

    found = bound(document, device, training=training)
    emit(output, lambda: report(found), {"json": lambda: encode(found)})
    if output.format != "table":
        narrator.note(headline(found))
    if training:
        narrator.note("the bound is that of a training step: forward with autograd on, then backward")
    if device.note:
        narrator.note(f"{device.name}: {device.note}")
    for assumption in found.how.assumptions:
        narrator.detail(f"assumed: {assumption}")


def _tell_backward(narrator: Narrator, document: Document, found: Cost, wanted: bool) -> None:
    """Report where a backward pass was requested and there is none."""
    if not wanted or found.backward is not None:
        return
    failed = document.run.backward_failure
    why = f": it stopped in '{failed.module}': {failed.error}" if failed is not None else ""
    narrator.warn(f"there is no backward pass to count{why}")


def _shown(document: Document, found: Cost, by: str | None, shown: CostOptions) -> Table | Report:
    from assay.views.text.cost import cost_report, cost_table

    return cost_report(document, found, shown) if by is None else cost_table(document, found, by, shown)


def _strict_exit_code(narrator: Narrator, found: Cost) -> int:
    """Zero, or 1 with every operation that has no formula."""
    from assay.views.text.totals import unknown_op

    if not found.unknown:
        return OK
    listed = ", ".join(map(unknown_op, found.unknown))
    narrator.warn(f"strict: operations without a formula: {listed} (assay.register_cost adds one)")
    return FOUND
