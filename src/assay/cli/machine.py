"""`assay machine`: the limits of this machine, measured once and cached."""

from __future__ import annotations

import click

from assay.cli.options import OptionGroups, Output, result_options, verbosity_options
from assay.cli.output import emit, refuse_overwrite
from assay.cli.stderr import Messages

DEVICES = ("cpu", "cuda")


@click.command(cls=OptionGroups)
@click.option("--fresh", is_flag=True, help="Measure again instead of using cached results.")
@click.option("--quick", is_flag=True, help="Measure in approximately 5 s, without caches and thread scaling.")
@click.option(
    "--if-missing", is_flag=True, help="Measure only if there are no cached results; print no report of them."
)
@click.option(
    "--energy", is_flag=True, help="Also calibrate the energy model; takes two minutes and needs an energy sensor."
)
@click.option("--device", type=click.Choice(DEVICES), help="Device to measure.  [default: cuda if available]")
@result_options
@verbosity_options
def machine(
    messages: Messages,
    fresh: bool,
    quick: bool,
    if_missing: bool,
    energy: bool,
    device: str | None,
    output: Output,
) -> None:
    """Measure the limits of this machine: peak FLOP/s by precision, memory bandwidth, overhead per op and thread
    scaling. Also lists the sensors for energy, power and temperature.

    Takes approximately ten seconds, with --quick half of that. Results are cached per hardware and torch version;
    `assay profile` and `assay cost --device this` use them. Quick results never replace full ones.
    """
    from assay.api.machine import measure_machine
    from assay.machine.reports import report_of_this_machine
    from assay.views.json.files import encode
    from assay.views.text.machine import headline, machine_report

    if if_missing and (fresh or energy):
        raise click.UsageError("--if-missing cannot be combined with --fresh or --energy")
    refuse_overwrite(output)
    cached = report_of_this_machine(device) if if_missing else None
    if cached is not None:
        messages.note(f"limits already known: {headline(cached)}")
        return
    report = measure_machine(
        device,
        fresh=fresh,
        energy=energy,
        quick=quick,
        on_step=lambda step: messages.line.step(f"measuring {step}"),
    )
    emit(output, lambda: machine_report(report), {"json": lambda: encode(report)})
    if output.format != "table":
        for note in report.notes:
            messages.note(note)
