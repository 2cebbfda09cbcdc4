"""`assay analyze`: everything about a model in one command, as deep as asked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from assay import atomic
from assay.api.options import RunOptions
from assay.cli.ceilings import achieved_here
from assay.cli.narration import Narrator
from assay.cli.options import model_argument, narration_options, run_options
from assay.cli.output import show
from assay.cli.profile import SENSED, TIMED, given, measured_options, measuring_options
from assay.cli.progress import ProgressLine
from assay.cli.streams import prints_to_stderr
from assay.errors import PartialError

if TYPE_CHECKING:
    from assay.findings.analyzed import Analysis

DOCUMENT = "analysis.assay.json"
TEXT = "comprehensive_model_analysis.txt"


@click.command()
@model_argument
@click.option("--inference", is_flag=True, help="Run it too: time and memory of every module and operation.")
@click.option("--profile", is_flag=True, help="All of that, and energy and the machine while it runs.")
@click.option("--weights", metavar="FILE", help="A checkpoint of the model, where it is built without its own.")
@click.option("--dir", "folder", type=click.Path(path_type=Path), default=Path("assay_analysis"), show_default=True,
              help="Where the files go; what this command wrote there before is replaced.")  # fmt: skip
@measuring_options
@run_options
@narration_options
def analyze(
    narrator: Narrator,
    model: str,
    inputs: str | None,
    options: RunOptions,
    inference: bool,
    profile: bool,
    weights: str | None,
    folder: Path,
    backward: bool,
    **measuring: Any,
) -> int:
    """Everything about MODEL: architecture, parameters, computation, memory, findings; with --inference its time,
    with --profile its energy.

    A report is printed; the document and the report of every parameter and operation are written into --dir.
    """
    from assay.api.analyze.run import INFERENCE, PROFILE, STRUCTURE, analysis_of

    depth = PROFILE if profile else INFERENCE if inference else STRUCTURE
    _refuse_unused(depth)
    measured = measured_options(backward=backward, **measuring)
    atomic.make_directory(folder)
    with prints_to_stderr(), ProgressLine(not narrator.quiet) as progress:
        found = analysis_of(
            model,
            inputs,
            depth,
            replace(options, backward=backward),
            measured,
            weights,
            on_step=narrator.note,
            progress=progress,
        )
    return _written(narrator, found, folder)


def _refuse_unused(depth: str) -> None:
    """Options that the depth has no use for are refused, not ignored."""
    from assay.api.analyze.run import INFERENCE, PROFILE, STRUCTURE

    unused = {STRUCTURE: (*TIMED, *SENSED), INFERENCE: SENSED, PROFILE: ()}[depth]
    for parameter in given(unused):
        wanted = "--profile" if parameter.name in SENSED else "--inference"
        raise click.UsageError(f"{parameter.opts[0]} needs {wanted}: without it nothing of the kind is measured")


def _written(narrator: Narrator, found: Analysis, folder: Path) -> int:
    """Print the report, write the files, and say where they are."""
    from assay.document import files
    from assay.views.text.analysis import analysis_report, common_sections
    from assay.views.text.full_analysis import full_report

    document = found.document
    _tell(narrator, found)
    rows = achieved_here(narrator, document)
    common = common_sections(found)
    files.save(document, folder / DOCUMENT, overwrite=True)
    atomic.write_bytes(folder / TEXT, full_report(found, common, rows).encode(), overwrite=True)
    show(analysis_report(found, common, rows))
    narrator.note(f"the document is {folder / DOCUMENT}, every parameter and operation in {folder / TEXT}")
    narrator.note(f"look around in it with: assay explore {folder / DOCUMENT}")
    return _exit_code(narrator, found)


def _tell(narrator: Narrator, found: Analysis) -> None:
    """What had to be inferred; with -v what was assumed, and which rules could say nothing."""
    from assay.cli.observed import report_run

    report_run(narrator, found.document, fresh=True)
    for skipped in found.checked.skipped:
        narrator.detail(f"{skipped.code} could not be applied: {skipped.why}")


def _exit_code(narrator: Narrator, found: Analysis) -> int:
    from assay.api.analyze.run import REAL_PASS, TIME
    from assay.cli.observed import exit_code, weights_exit_code

    stopped = exit_code(narrator, found.document)
    if stopped:
        return stopped
    code = weights_exit_code(narrator, found.document)
    # These were requested: without them the result is a partial one.
    for what in (REAL_PASS, TIME):
        if what in found.missing:
            narrator.warn(f"partial: {what} is not known: {found.missing[what]}")
            code = PartialError.exit_code
    return code
