"""`assay machine`: what this machine can do, measured once and kept."""

from __future__ import annotations

from pathlib import Path

import click

from assay.cli.narration import Narrator
from assay.cli.options import FORMATS, Output, narration_options

DEVICES = ("cpu", "cuda")


@click.command()
@click.option("--fresh", is_flag=True, help="Measure again, whatever was measured before.")
@click.option("--energy", is_flag=True, help="Calibrate the energy model too: about a minute, where a sensor allows.")
@click.option("--device", type=click.Choice(DEVICES), help="What to measure; the board where there is one.")
@click.option("--format", type=click.Choice(FORMATS), default="table", show_default=True, help="Form of the data.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write to a file instead of stdout.")
@click.option("--force", is_flag=True, help="Overwrite a file that exists.")
@click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    help="When to color; auto heeds NO_COLOR.",
)
@narration_options
def machine(
    narrator: Narrator,
    fresh: bool,
    energy: bool,
    device: str | None,
    format: str,
    output: Path | None,
    force: bool,
    color: str,
) -> None:
    """What this machine can do: peak FLOPs a second by precision, memory bandwidth, the cost of an operation,
    threads, and which sensors tell energy, power and temperature.

    Measured in some seconds, then kept in the cache directory by hardware and version of torch. `assay cost --device
    this` uses it.
    """
    from assay.api.machine import measure_machine
    from assay.cli.output import emit, refuse_overwrite, utf8
    from assay.views.json.machine import encode
    from assay.views.text.machine import machine_report

    out = Output(format, output, force, None, color)
    refuse_overwrite(out)
    report = measure_machine(device, fresh=fresh, energy=energy, told=lambda line: narrator.note(f"measuring {line}"))
    emit(out, lambda: machine_report(report, utf8=utf8(out)), {"json": lambda: encode(report)})
    if format != "table":
        for note in report.notes:
            narrator.note(note)
