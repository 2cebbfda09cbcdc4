"""`assay profile`: time and energy of a model per module and op, with bottlenecks."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from assay import host
from assay.api.options import OPENING, RunOptions
from assay.cli.ceilings import achieved_rows
from assay.cli.options import (
    MeasurementOption,
    OptionGroups,
    Output,
    as_typed,
    model_argument,
    output_options_with,
    run_options,
    verbosity_options,
)
from assay.cli.output import emit, refuse_overwrite
from assay.cli.stderr import Messages
from assay.cli.streams import prints_to_stderr
from assay.errors import PartialError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assay.analysis.achieved import Achieved
    from assay.api.profile.options import ProfileOptions
    from assay.document.document import Document
    from assay.sources.opened import Opened
    from assay.views.text.report import Report

GROUPINGS = ("module", "op", "execution")

TIMING_OPTIONS = (
    "warmup", "passes", "seconds", "budget", "backward", "optimizer", "threads", "threads_sweep", "sweeps",
)  # fmt: skip
"""Options that control how a pass is timed."""
SENSOR_OPTIONS = ("system", "energy", "energy_ops", "grid", "pue", "price")
"""Options that control measurements with sensors."""


def _finite(context: click.Context, parameter: click.Parameter, value: float | None) -> float | None:
    """The value if it is finite; NaN would pass the range check of click."""
    if value is not None and not math.isfinite(value):
        raise click.BadParameter(f"expected a finite number, got {value}")
    return value


def measurement_options(function: Any) -> Any:
    """Add the options that control what is measured and for how long."""
    option = partial(click.option, cls=MeasurementOption)
    options = (
        option("--warmup", default=2, show_default=True, type=click.IntRange(min=0), metavar="N",
               help="Untimed passes before the first timed one."),
        option("--passes", type=click.IntRange(min=1), metavar="N", help="Time exactly N passes."),
        option("--seconds", default=10.0, show_default=True, metavar="S", type=click.FloatRange(min=0),
               callback=_finite, help="Longest measurement; most stop earlier, when their times have settled."),
        option("--budget", default=60.0, show_default=True, metavar="S", type=click.FloatRange(min=0),
               callback=_finite, help="Time for everything; what does not fit is skipped and named. 0: no limit."),
        option("--backward", is_flag=True, help="Also time a training step, and the backward pass per module."),
        option("--optimizer", default="adamw", show_default=True, metavar="NAME",
               help="Optimizer of the training step (--backward)."),
        option("--threads", type=click.IntRange(min=1), metavar="N", help="Number of torch threads."),
        option("--threads-sweep", is_flag=True, help="Also time the pass with 1, 2, 4, … threads."),
        option("--sweep", "sweeps", multiple=True, metavar="AXIS=SIZES",
               help="Also time the pass at batch=1,2,4 (or seq, height, width, frames); repeatable."),
        option("--memory-limit", metavar="SIZE", help="Do not run anything predicted to need more memory: 8GiB."),
        option("--system/--no-system", default=True, help="Monitor the machine during the run (about a second)."),
        option("--energy/--no-energy", default=True, help="Energy per pass: measured if possible, else modelled."),
        option("--energy-ops", is_flag=True, help="Also measure the energy of each kind of op (takes minutes)."),
        option("--grid", metavar="GRID", help="Add CO2 emissions: FR, US-CA, or 400g (grams per kWh)."),
        option("--pue", default=1.0, show_default=True, type=click.FloatRange(min=1), metavar="X",
               callback=_finite, help="Power usage effectiveness of the data centre, for --grid and --price."),
        option("--price", type=click.FloatRange(min=0), metavar="X", callback=_finite,
               help="Price per kWh: adds the cost of a million passes."),
    )  # fmt: skip
    return reduce(lambda decorated, add: add(decorated), reversed(options), function)


def profile_options(
    *,
    warmup: int,
    passes: int | None,
    seconds: float,
    budget: float,
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
    """The values of `measurement_options` as one `ProfileOptions`."""
    from assay.api.profile.options import EnergyOptions, ProfileOptions, parse_sweep

    if options_on_command_line(("optimizer",)) and not backward:
        raise click.UsageError("--optimizer requires --backward")
    if not energy and (unused := options_on_command_line(("energy_ops", "grid", "pue", "price"))):
        raise click.UsageError(f"{unused[0].opts[0]} cannot be combined with --no-energy")
    return ProfileOptions(
        warmup=warmup,
        passes=passes,
        seconds=seconds,
        budget=budget or None,
        optimizer=optimizer,
        threads=threads,
        thread_counts=_thread_counts() if threads_sweep else (),
        sweeps=[parse_sweep(text) for text in sweeps],
        memory_limit=_bytes(memory_limit),
        system=system,
        energy=EnergyOptions(grid, pue, price, by_op=energy_ops) if energy else None,
    )


def options_on_command_line(names: Sequence[str]) -> list[click.Parameter]:
    """The options of the running command among `names` that were given on the command line."""
    context = click.get_current_context()
    return [
        parameter
        for parameter in context.command.params
        if parameter.name in names and context.get_parameter_source(parameter.name) is ParameterSource.COMMANDLINE
    ]


def options_in_use(names: Sequence[str]) -> list[click.Parameter]:
    """The options among `names` that were given on the command line and not switched off, as by `--no-system`."""
    values = click.get_current_context().params
    return [option for option in options_on_command_line(names) if values[option.name or ""] is not False]


@click.command(cls=OptionGroups)
@model_argument
@click.option("--by", type=click.Choice(GROUPINGS), help="Print one table, grouped by this, instead of the report.")
@click.option("--top", type=click.IntRange(min=1), metavar="N", help="Show the first N rows of each table.")
@click.option("--full", is_flag=True, help="Show every module; by default, repeated blocks share a row.")
@measurement_options
@run_options
@output_options_with(own=("top",))
@verbosity_options
def profile(
    messages: Messages,
    model: str,
    inputs: str | None,
    options: RunOptions,
    output: Output,
    by: str | None,
    top: int | None,
    full: bool,
    backward: bool,
    **measuring: Any,
) -> int:
    """Measure the time of MODEL: the whole pass, every module and every op, each with its range in this run.

    Times are those of an undisturbed pass, also on a busy machine; if they cannot be determined, they are withheld.
    The profile in a saved document is shown as it was measured.
    Run `assay machine` once to also see the bottleneck of every op.
    """
    messages.line.step(OPENING)
    from assay.cli.observed import report_run, save_document
    from assay.sources.open import open_source
    from assay.views.json.files import encode
    from assay.views.json.profile import profile_file
    from assay.views.text.profile import TOP, conditions_lines

    refuse_overwrite(output, model, inputs)
    _refuse_shapes_only(options)
    profile_settings = profile_options(backward=backward, **measuring)
    profile_settings.check()
    with prints_to_stderr():
        opened = open_source(model, model_args=options.model_args, trust=options.trust)
        stored = opened.document if opened.document is not None and opened.document.profile is not None else None
        if stored is not None:
            _refuse_measuring()
            document = stored
        else:
            document = _measured(messages, opened, inputs, replace(options, backward=backward), profile_settings)
    report_run(messages, document, fresh=stored is None)
    if by is not None:
        for condition in conditions_lines(document):
            messages.note(condition)
    rows = achieved_rows(messages, document)
    code = _exit_code(messages, document)
    save_document(document, output, partial=bool(code))
    encoders = {"json": lambda: encode(profile_file(document, rows))}
    source = as_typed(model, inputs, options)
    if output.sort is not None:  # all rows are sorted before the first are shown
        output, top = replace(output, top=top or TOP), sys.maxsize
    view = partial(_view, document, rows, by, source, top=top, full=full)
    emit(output, view, encoders, partial=bool(code), measured=True)
    return code


def _measured(
    messages: Messages, opened: Opened, inputs: str | None, options: RunOptions, settings: ProfileOptions
) -> Document:
    from assay.api.profile.profiled import prepare
    from assay.api.profile.run import profile_prepared

    prepared = prepare(opened, inputs, options, on_progress=messages.line)
    return profile_prepared(prepared, settings, on_progress=messages.line)


def _refuse_measuring() -> None:
    """Fail if an option of the measurement was given although a stored profile is shown."""
    for parameter in options_in_use((*TIMING_OPTIONS, *SENSOR_OPTIONS)):
        raise click.UsageError(f"{parameter.opts[0]} does not apply to a saved profile, which is shown as measured")


def _refuse_shapes_only(options: RunOptions) -> None:
    if options.without_data:
        raise click.UsageError(f"cannot profile with --{options.mode}: it runs on shapes only")


def _thread_counts() -> list[int]:
    """1, 2, 4, … up to the number of processors."""
    processors = host.processors()
    counts = [1 << power for power in range(processors.bit_length()) if 1 << power < processors]
    return [*counts, processors]


def _bytes(text: str | None) -> int | None:
    from assay.analysis.devices import device_with_memory

    if text is None:
        return None
    device = device_with_memory(text)
    if device is None:
        raise click.BadParameter(f"expected a size such as 8GiB, got {text!r}", param_hint="'--memory-limit'")
    return device.memory_bytes


def _view(
    document: Document, rows: Sequence[Achieved], by: str | None, source: str, *, top: int | None, full: bool
) -> Report:
    from assay.findings.brief_model import model_brief
    from assay.findings.engine import check_all
    from assay.machine.limits import device_of
    from assay.views.text import profile as views
    from assay.views.text import profile_modules as modules
    from assay.views.text.brief import with_brief
    from assay.views.text.partial_report import marked
    from assay.views.text.report import Report

    if by is None:
        device = device_of(document)
        brief = model_brief(document, check_all(document, device=device).findings, rows=rows, source=source)
        return with_brief(brief, views.profile_report(document, rows, device, top=top, full=full), document)
    tables = {
        "module": lambda: modules.module_table(document),
        "op": lambda: views.op_table(rows),
        "execution": lambda: views.execution_table(document),
    }
    table = tables[by]()
    shown = modules.shown_modules(document, full=full) if by == "module" else modules.with_range(table)
    return marked(Report([shown.first(top).without_empty()], table.first(top)), document)


def _exit_code(messages: Messages, document: Document) -> int:
    from assay.cli.observed import exit_code

    code = exit_code(messages, document)
    stopped = document.profile.stopped if document.profile is not None else ""
    if code or (document.timing is not None and not stopped):
        return code
    notes = document.profile.notes if document.profile is not None else []
    messages.warn(f"incomplete: {'; '.join(notes) or 'nothing was timed'}")
    return PartialError.exit_code
