"""`assay analyze`: a full report on a model; --inference and --profile also measure it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from assay import atomic, host
from assay.api.options import OPENING, RunOptions
from assay.cli.ceilings import achieved_rows
from assay.cli.options import (
    OptionGroups,
    Output,
    as_typed,
    display_options,
    model_argument,
    run_options,
    verbosity_options,
)
from assay.cli.output import refuse_existing, show
from assay.cli.profile import (
    SENSOR_OPTIONS,
    TIMING_OPTIONS,
    measurement_options,
    options_in_use,
    profile_options,
)
from assay.cli.stderr import Messages
from assay.cli.streams import prints_to_stderr
from assay.errors import PartialError

if TYPE_CHECKING:
    from assay.findings.analyzed import Analysis

DOCUMENT = "analysis.assay.json"
TEXT = "comprehensive_model_analysis.txt"
PAGE = "report.html"


@click.command(cls=OptionGroups)
@model_argument
@click.option("--inference", is_flag=True, help="Also measure time and memory per module and op.")
@click.option("--profile", is_flag=True, help="As --inference, and also energy and machine load.")
@click.option("--weights", metavar="FILE", help="Checkpoint with the weights, if the model is built without them.")
@click.option("--dir", "folder", type=click.Path(path_type=Path), default=Path("assay_analysis"), show_default=True,
              help="Directory for the files.")  # fmt: skip
@click.option("--force", is_flag=True, help="Overwrite existing files.")
@click.option("--full", is_flag=True, help="Print all sections, and list every op and tensor in the text file.")
@measurement_options
@run_options
@display_options
@verbosity_options
def analyze(
    messages: Messages,
    model: str,
    inputs: str | None,
    options: RunOptions,
    output: Output,
    inference: bool,
    profile: bool,
    weights: str | None,
    folder: Path,
    force: bool,
    full: bool,
    backward: bool,
    **measuring: Any,
) -> int:
    """Report on MODEL: architecture, parameters, computation, memory and findings; with --inference also its time,
    with --profile also its energy.

    Without either, the environment variable PYTORCH_PROFILER_LEVEL chooses: 0 for neither, 1 for --inference, 2 for
    --profile. PYTORCH_CUDA_MEMORY_FRACTION limits the GPU memory, OMP_NUM_THREADS the CPU threads.

    Prints the answer. Writes the document, a web page and a longer text to --dir. If a part of the analysis fails,
    the files are called *.partial.* and the exit code is 4.
    """
    messages.line.step(OPENING)
    from assay.api.analyze.run import INFERENCE, PROFILE, REAL_PASS, STRUCTURE, TIME, analysis_of

    default = (STRUCTURE, INFERENCE, PROFILE)[host.profiler_level() or 0]
    depth = PROFILE if profile else INFERENCE if inference else default
    _refuse_unused(depth)
    profile_settings = profile_options(backward=backward, **measuring)
    atomic.check_directory(folder)
    refuse_existing([folder / name for name in (DOCUMENT, PAGE, TEXT)], force=force)
    with prints_to_stderr():
        analysis = analysis_of(
            model,
            inputs,
            depth,
            replace(options, backward=backward),
            profile_settings,
            weights,
            on_progress=messages.line,
            progress=messages.line.read,
        )
    source, full = as_typed(model, inputs, options), full or messages.verbose > 0
    asked = {TIME} if inference or profile else set()
    return _write(messages, analysis, folder, weights, output, source, {REAL_PASS, *asked}, force=force, full=full)


def _refuse_unused(depth: str) -> None:
    """Fail if an option was given that has no effect at this depth."""
    from assay.api.analyze.run import INFERENCE, PROFILE, STRUCTURE

    unused = {STRUCTURE: (*TIMING_OPTIONS, *SENSOR_OPTIONS), INFERENCE: SENSOR_OPTIONS, PROFILE: ()}[depth]
    for parameter in options_in_use(unused):
        required = "--profile" if parameter.name in SENSOR_OPTIONS else "--inference or --profile"
        raise click.UsageError(f"{parameter.opts[0]} requires {required}")


def _write(
    messages: Messages,
    analysis: Analysis,
    folder: Path,
    weights: str | None,
    output: Output,
    source: str,
    asked: Collection[str],
    *,
    force: bool,
    full: bool,
) -> int:
    """Print the report, write the files to `folder`, and return the exit code: 4 if a part in `asked` is missing."""
    from assay.api.report.formats import HTML, encoded
    from assay.api.report.subject import subject_of
    from assay.document import files
    from assay.machine.limits import device_of
    from assay.views.text.analysis import analysis_report, common_sections
    from assay.views.text.full_analysis import full_report

    document = analysis.document
    _print_notes(messages, analysis, weights)
    rows, device = achieved_rows(messages, document), device_of(document)
    common = common_sections(analysis, verbose=messages.verbose > 0)
    code = _exit_code(messages, analysis, asked)
    contents = {
        DOCUMENT: files.encode(document, DOCUMENT),
        PAGE: encoded(subject_of(analysis, source=source, full=full), HTML),
        TEXT: full_report(analysis, common, rows, device, full=full, source=source).encode(),
    }
    messages.line.step("writing the report")
    saved, page, text = atomic.write_results(folder, contents, partial=bool(code), overwrite=force)
    show(analysis_report(analysis, common, rows, device, full=full, source=source), output)
    messages.note(f"report: {page}; as text: {text}; in the terminal: assay explore {saved}")
    return code


def _print_notes(messages: Messages, analysis: Analysis, weights: str | None) -> None:
    """Print what was inferred; with -v also what was assumed and which rules were skipped."""
    from assay.cli.observed import report_run, warn_of_other_weights

    report_run(messages, analysis.document, fresh=True)
    warn_of_other_weights(messages, analysis.document, weights)
    for skipped in analysis.checked.skipped:
        messages.detail(f"{skipped.code} skipped: {skipped.why}")


def _exit_code(messages: Messages, analysis: Analysis, asked: Collection[str]) -> int:
    from assay.api.analyze.run import REAL_PASS, TIME
    from assay.cli.observed import exit_code, weights_exit_code

    stopped = exit_code(messages, analysis.document)
    if stopped:
        return stopped
    code = weights_exit_code(messages, analysis.document)
    for name in (REAL_PASS, TIME):
        if name not in analysis.missing:
            continue
        why = f"{name} was not measured: {analysis.missing[name]}"
        if name in asked:
            messages.warn(f"incomplete: {why}")
            code = PartialError.exit_code
        else:  # only the environment chose to measure it
            messages.note(why)
    return code
