"""`assay profile`: how long a model takes, where, and what holds it back."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from assay import host
from assay.api.options import RunOptions
from assay.cli.ceilings import achieved_here
from assay.cli.narration import Narrator
from assay.cli.options import Output, model_argument, narration_options, output_options, run_options
from assay.cli.output import emit, refuse_overwrite
from assay.cli.streams import prints_to_stderr
from assay.errors import PartialError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assay.analysis.achieved import Achieved
    from assay.api.profile.options import ProfileOptions
    from assay.document.document import Document
    from assay.views.tables import Table
    from assay.views.text.report import Report

DIVISIONS = ("module", "op")

TIMED = (
    "warmup", "passes", "seconds", "backward", "optimizer", "threads", "threads_sweep", "sweeps",
)  # fmt: skip
"""The options below that say how a pass is timed."""
SENSED = ("system", "energy", "energy_ops", "grid", "pue", "price")
"""Those that say what sensors are asked."""


def _finite(context: click.Context, parameter: click.Parameter, value: float | None) -> float | None:
    """The value; what is no number compares with nothing, and passes every range."""
    if value is not None and not math.isfinite(value):
        raise click.BadParameter(f"{value} is no finite number")
    return value


def measuring_options(function: Any) -> Any:
    """The options that say what is measured and for how long, as keywords of `assay.profile`."""
    options = (
        click.option("--warmup", default=2, show_default=True, type=click.IntRange(min=0), help="Passes not timed."),
        click.option("--passes", type=click.IntRange(min=1), metavar="N", help="Exactly so many timed passes."),
        click.option("--seconds", default=2.0, show_default=True, metavar="S", type=click.FloatRange(min=0),
                     callback=_finite, help="Time for each measurement, where --passes says nothing."),
        click.option("--backward", is_flag=True, help="Time a training step too, and backward by module."),
        click.option("--optimizer", default="adamw", show_default=True, metavar="NAME", help="With --backward."),
        click.option("--threads", type=click.IntRange(min=1), metavar="N", help="Threads torch works with."),
        click.option("--threads-sweep", is_flag=True, help="The pass with 1, 2, 4, … threads."),
        click.option("--sweep", "sweeps", multiple=True, metavar="AXIS=SIZES",
                     help="The pass at batch=1,2,4 (or seq, height, width, frames); may repeat."),
        click.option("--memory-limit", metavar="SIZE", help="Run nothing predicted to need more: 8GiB."),
        click.option("--system/--no-system", default=True, help="Watch the machine while it runs (about a second)."),
        click.option("--energy/--no-energy", default=True, help="Energy of a pass: measured where a sensor is."),
        click.option("--energy-ops", is_flag=True, help="Replay operations for their energy too; some minutes."),
        click.option("--grid", metavar="WHERE", help="Carbon dioxide on this grid: FR, US-CA, 400g."),
        click.option("--pue", default=1.0, show_default=True, type=click.FloatRange(min=1), metavar="X",
                     callback=_finite, help="Energy of the building over that of its machines, for --grid, --price."),
        click.option("--price", type=click.FloatRange(min=0), metavar="X", callback=_finite,
                     help="A kilowatt-hour: what a million passes cost."),
    )  # fmt: skip
    for option in reversed(options):
        function = option(function)
    return function


def measured_options(
    *,
    warmup: int,
    passes: int | None,
    seconds: float,
    backward: bool,
    optimizer: str,
    threads: int | None,
    threads_sweep: bool,
    sweeps: tuple[str, ...],
    memory_limit: str | None,
    system: bool,
    energy: bool,
    energy_ops: bool,
    grid: str | None,
    pue: float,
    price: float | None,
) -> ProfileOptions:
    """The values of those options in one."""
    from assay.api.profile.options import EnergyOptions, ProfileOptions
    from assay.api.profile.sweep import parse

    if given(("optimizer",)) and not backward:
        raise click.UsageError("--optimizer belongs to a training step: it needs --backward")
    if not energy and (unused := given(("energy_ops", "grid", "pue", "price"))):
        raise click.UsageError(f"{unused[0].opts[0]} is about energy: it does not go with --no-energy")
    return ProfileOptions(
        warmup=warmup,
        passes=passes,
        seconds=seconds,
        optimizer=optimizer,
        threads=threads,
        thread_counts=_thread_counts() if threads_sweep else (),
        sweeps=[parse(text) for text in sweeps],
        memory_limit=_bytes(memory_limit),
        system=system,
        energy=EnergyOptions(grid, pue, price, by_op=energy_ops) if energy else None,
    )


def given(names: Sequence[str]) -> list[click.Parameter]:
    """Those of the running command's options with these names that were put on the command line."""
    context = click.get_current_context()
    return [
        parameter
        for parameter in context.command.params
        if parameter.name in names and context.get_parameter_source(parameter.name) is ParameterSource.COMMANDLINE
    ]


@click.command()
@model_argument
@click.option("--by", type=click.Choice(DIVISIONS), help="One table of this instead of the report.")
@click.option("--top", type=click.IntRange(min=1), metavar="N", help="The first N lines of each table.")
@measuring_options
@run_options
@output_options
@narration_options
def profile(
    narrator: Narrator,
    model: str,
    inputs: str | None,
    options: RunOptions,
    output: Output,
    by: str | None,
    top: int | None,
    backward: bool,
    **measuring: Any,
) -> int:
    """How long MODEL takes: the pass, every module and operation, with the spread over repetitions.

    Times come from passes in which nothing is recorded; what each measuring pass adds to a bare one is measured and
    shown. With the ceilings that `assay machine` measured, every operation says what bounds it.
    """
    from assay.api.profile.profiled import prepared
    from assay.api.profile.run import measure
    from assay.cli.observed import report_inputs
    from assay.document import files
    from assay.sources.open import open_source
    from assay.views.json.files import encode
    from assay.views.json.profile import profile_file

    refuse_overwrite(output, model, inputs)
    _refuse_dataless(options)
    measured = measured_options(backward=backward, **measuring)
    measured.check()
    with prints_to_stderr():
        opened = open_source(model, model_args=options.model_args, trust=options.trust)
        profiled = prepared(opened, inputs, replace(options, backward=backward))
        document = measure(profiled, measured, narrator.detail)
    report_inputs(narrator, document.run.inputs_from, document.run.inputs_kind)
    if output.save is not None:
        files.save(document, output.save, overwrite=output.force)
    rows = achieved_here(narrator, document)
    emit(output, lambda: _shown(document, rows, by, top), {"json": lambda: encode(profile_file(document, rows))})
    return _exit_code(narrator, document)


def _refuse_dataless(options: RunOptions) -> None:
    if options.without_data:
        raise click.UsageError(f"--{options.mode} runs on shapes alone: there is no time to measure")


def _thread_counts() -> list[int]:
    most = host.processors()
    counts = [1 << power for power in range(most.bit_length()) if 1 << power < most]
    return [*counts, most]


def _bytes(text: str | None) -> int | None:
    from assay.analysis.devices import sized

    if text is None:
        return None
    found = sized(text)
    if found is None:
        raise click.BadParameter(f"{text!r} was given, a size such as 8GiB is wanted", param_hint="--memory-limit")
    return found.memory_bytes


def _shown(document: Document, rows: Sequence[Achieved], by: str | None, top: int | None) -> Table | Report:
    from assay.views.text import profile as views

    if by is None:
        return views.profile_report(document, rows, top=top)
    table = views.module_table(document) if by == "module" else views.op_table(rows)
    return table.first(top)


def _exit_code(narrator: Narrator, document: Document) -> int:
    from assay.cli.observed import exit_code

    stopped = exit_code(narrator, document)
    if stopped or document.timing is not None:
        return stopped
    notes = document.profile.notes if document.profile is not None else []
    narrator.warn(f"partial: {'; '.join(notes) or 'nothing was timed'}")
    return PartialError.exit_code
