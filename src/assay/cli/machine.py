"""`assay machine`: what this machine can do, measured once and kept."""

from __future__ import annotations

import click

from assay.cli.narration import Narrator
from assay.cli.options import Output, narration_options, result_options
from assay.cli.output import emit, refuse_overwrite, utf8

DEVICES = ("cpu", "cuda")


@click.command()
@click.option("--fresh", is_flag=True, help="Measure again, whatever was measured before.")
@click.option("--energy", is_flag=True, help="Calibrate the energy model too: about a minute, where a sensor allows.")
@click.option("--device", type=click.Choice(DEVICES), help="What to measure; the board where there is one.")
@result_options
@narration_options
def machine(narrator: Narrator, fresh: bool, energy: bool, device: str | None, output: Output) -> None:
    """What this machine can do: peak FLOPs a second by precision, memory bandwidth, the cost of an operation,
    threads, and which sensors tell energy, power and temperature.

    Measured in some seconds, then kept in the cache directory by hardware and version of torch. `assay cost --device
    this` uses it.
    """
    from assay.api.machine import measure_machine
    from assay.views.json.files import encode
    from assay.views.text.machine import machine_report

    refuse_overwrite(output)
    report = measure_machine(
        device, fresh=fresh, energy=energy, on_step=lambda line: narrator.note(f"measuring {line}")
    )
    emit(output, lambda: machine_report(report, utf8=utf8(output)), {"json": lambda: encode(report)})
    if output.format != "table":
        for note in report.notes:
            narrator.note(note)
