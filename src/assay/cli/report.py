"""`assay report`: a web page, or Markdown, text or JSON, on a document or model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from assay import atomic
from assay.api.options import OPENING, RunOptions
from assay.cli.options import OptionGroups, Output, as_typed, model_argument, run_options, verbosity_options
from assay.cli.output import refuse_overwrite, text_style, write_result
from assay.cli.stderr import Messages
from assay.cli.streams import prints_to_stderr

FORMATS = ("html", "md", "txt", "json")
PAGE = Path("report.html")


@click.command(cls=OptionGroups)
@model_argument
@click.option("-o", "--output", type=click.Path(path_type=Path),
              help="File to write, - for stdout. Default: report.html for a page, else stdout.")  # fmt: skip
@click.option("--format", type=click.Choice(FORMATS), help="Format; by default, the end of the file's name decides.")
@click.option("--against", metavar="MODEL", help="Compare with this document or model: what MODEL changes.")
@click.option("--full", is_flag=True, help="Include the histograms of all tensors; in text, every section.")
@click.option("--no-measure", is_flag=True, help="Do not time a model that is analysed first.")
@click.option(
    "--seconds", type=click.FloatRange(0), default=5.0, show_default=True, help="Seconds after which timing stops."
)
@click.option("--backward", is_flag=True, help="Also record and time a training step.")
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@run_options
@verbosity_options
def report(
    messages: Messages,
    model: str,
    inputs: str | None,
    options: RunOptions,
    output: Path | None,
    format: str | None,
    against: str | None,
    full: bool,
    no_measure: bool,
    seconds: float,
    backward: bool,
    force: bool,
) -> int:
    """Write a report on MODEL: one web page that opens offline, or Markdown, text or JSON.

    MODEL is best a document (`assay analyze`, or --save of other commands), which is shown as it is, without torch.
    Anything else is analysed first. The page makes no request and can be sent as an attachment.
    """
    from assay.api.report.formats import HTML, encoded, format_of
    from assay.api.report.subject import reported, subject_of
    from assay.cli.observed import exit_code, report_not_run, weights_exit_code

    to_stdout = str(output) == "-"
    chosen = format_of(format, None if to_stdout else output)
    target = None if to_stdout else PAGE if output is None and chosen == HTML else output
    refuse_overwrite(Output(output=target, force=force), model, inputs, against)
    messages.line.step(OPENING)
    running, time = replace(options, backward=backward), 0.0 if no_measure else seconds
    with prints_to_stderr():
        result = reported(model, inputs, running, time, messages.line)
        other = None if against is None else reported(against, None, running, time, messages.line)
        subject = subject_of(result, source=as_typed(model, inputs, options), against=other, full=full)
    report_not_run(messages, subject.document)
    messages.line.step("writing the report")
    data = encoded(subject, chosen, style=text_style(Output(output=target)))
    code = exit_code(messages, subject.document) or weights_exit_code(messages, subject.document)
    if target is None:
        click.echo(data, nl=False)
    else:
        write_result(target, data, partial=bool(code), overwrite=force)
        messages.note(f"report: {atomic.partial_path(target) if code else target}")
    return code
