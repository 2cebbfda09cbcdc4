"""`assay machine`: the limits of this machine, measured once and cached."""

from __future__ import annotations

import click

from assay.cli.options import OptionGroups, Output, result_options, verbosity_options
from assay.cli.output import emit, refuse_overwrite, utf8
from assay.cli.stderr import Messages

DEVICES = ("cpu", "cuda")


@click.command(cls=OptionGroups)
@click.option("--fresh", is_flag=True, help="Measure again instead of using cached results.")
@click.option(
    "--energy", is_flag=True, help="Also calibrate the energy model; takes a minute and needs an energy sensor."
)
@click.option("--device", type=click.Choice(DEVICES), help="Device to measure.  [default: cuda if available]")
@result_options
@verbosity_options
def machine(messages: Messages, fresh: bool, energy: bool, device: str | None, output: Output) -> None:
    """Measure the limits of this machine: peak FLOP/s by precision, memory bandwidth, overhead per op and thread
    scaling. Also lists the sensors for energy, power and temperature.

    Takes some seconds. Results are cached per hardware and torch version; `assay profile` and `assay cost --device
    this` use them.
    """
    from assay.api.machine import measure_machine
    from assay.views.json.files import encode
    from assay.views.text.machine import machine_report

    refuse_overwrite(output)
    report = measure_machine(
        device, fresh=fresh, energy=energy, on_step=lambda line: messages.note(f"measuring {line}")
    )
    emit(output, lambda: machine_report(report, utf8=utf8(output)), {"json": lambda: encode(report)})
    if output.format != "table":
        for note in report.notes:
            messages.note(note)
