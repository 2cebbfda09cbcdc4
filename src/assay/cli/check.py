"""`assay check`: what a person should know or do about a model, a saved document or a checkpoint."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from assay.cli.narration import Narrator
from assay.cli.options import Output, Watch, narration_options, optional_model_argument, output_options, watch_options

if TYPE_CHECKING:
    from assay.document.document import Document
    from assay.findings.engine import Checked

FAIL_ON = ("error", "warning")


@click.command()
@optional_model_argument
@click.option("--select", multiple=True, metavar="CODES", help="Only these rules: W101,C2 (or how they begin).")
@click.option("--ignore", multiple=True, metavar="CODES", help="Not these rules.")
@click.option("--weights", metavar="FILE", help="Look into this checkpoint of the model too.")
@click.option("--backward", is_flag=True, help="Watch a training step too: training mode, backward.")
@click.option("--rules", is_flag=True, help="List the rules instead of applying them.")
@click.option("--fail-on", type=click.Choice(FAIL_ON), help="Exit with 1 where something as bad or worse is found.")
@watch_options
@output_options
@narration_options
def check(
    narrator: Narrator,
    model: str | None,
    watch: Watch,
    output: Output,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    weights: str | None,
    backward: bool,
    rules: bool,
    fail_on: str | None,
) -> int:
    """What to know or do about MODEL, worst first, each with its evidence.

    MODEL is file.py::function, package.module:name, a directory with config.json, a .pt2 file, a saved document, or a
    checkpoint, of which the weights alone are looked at and no code runs. The exit code is 1 only with --fail-on.
    """
    from msgspec import structs

    from assay.cli.observed import exit_code, weights_exit_code
    from assay.cli.output import emit, refuse_overwrite
    from assay.document import files
    from assay.errors import OK
    from assay.findings.catalogue import chosen
    from assay.findings.engine import apply
    from assay.views.json.files import encode
    from assay.views.json.findings import findings_file, rules_file
    from assay.views.text.findings import findings_report, rules_table

    refuse_overwrite(output, model, watch.inputs, weights)
    codes = _codes(select) or None, _codes(ignore)
    listed = chosen(*codes)  # a code that no rule has is told before any long work
    if rules:
        emit(output, lambda: rules_table(listed), {"json": lambda: encode(rules_file(listed))})
        return OK
    if model is None:
        raise click.UsageError("Missing argument 'MODEL': what is to be checked")
    document = _opened(narrator, model, replace(watch, backward=backward), output, weights)
    checked = apply(listed, document)
    document = structs.replace(document, findings=checked.findings)
    if output.save is not None:
        files.save(document, output.save, overwrite=output.force)
    for skipped in checked.skipped:
        narrator.detail(f"{skipped.code} could not be applied: {skipped.why}")
    emit(
        output,
        lambda: findings_report(document, checked),
        {"json": lambda: encode(findings_file(document, checked))},
    )
    return exit_code(narrator, document) or weights_exit_code(narrator, document) or _found(checked, fail_on)


def _codes(given: tuple[str, ...]) -> list[str]:
    return [code for text in given for code in text.split(",") if code.strip()]


def _opened(narrator: Narrator, model: str, watch: Watch, output: Output, weights: str | None) -> Document:
    """The document of a model or of a checkpoint, with the statistics of `weights` where they are given."""
    from msgspec import structs

    from assay.cli.observed import watched
    from assay.sources.kinds import holds_weights

    if holds_weights(Path(model), trust=watch.trust):
        _refuse_watching(model, watch, weights)
        return _weighed(narrator, model)
    # It is saved with the findings in it, so not yet.
    document = watched(narrator, model, watch, replace(output, save=None))
    return document if weights is None else structs.replace(document, weights=_weighed(narrator, weights).weights)


def _refuse_watching(model: str, watch: Watch, weights: str | None) -> None:
    """Options that would change a pass are refused where there is none, not ignored."""
    from assay.errors import UsageError

    given = [f"--{name}" for name in ("inputs", "device", "dtype", "train", "backward") if getattr(watch, name)]
    given += [f"--{watch.mode}"] * bool(watch.mode) + ["--model-args"] * bool(watch.model_args)
    given += ["--weights"] * bool(weights)
    if given:
        raise UsageError(f"{model} holds weights alone and is not run: {', '.join(given)} cannot apply to it")


def _weighed(narrator: Narrator, source: str) -> Document:
    from assay.api.weights import weigh
    from assay.cli.progress import ProgressLine

    with ProgressLine(not narrator.quiet) as progress:
        return weigh(source, progress=progress)


def _found(checked: Checked, fail_on: str | None) -> int:
    from assay.errors import FOUND, OK
    from assay.findings.engine import at_least

    return FOUND if fail_on is not None and at_least(checked.findings, fail_on) else OK
