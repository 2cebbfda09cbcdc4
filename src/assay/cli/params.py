"""`assay params`: exact statistics of every tensor in a checkpoint."""

from __future__ import annotations

import os
import shlex
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from assay.cli.options import OptionGroups, Output, output_options_with, sort_key, verbosity_options
from assay.cli.output import choice_of, emit, refuse_overwrite
from assay.cli.stderr import Messages
from assay.cli.streams import silenced
from assay.errors import OK, PartialError, WriteError
from assay.messages import one_line
from assay.views.choosing import choose

if TYPE_CHECKING:
    from assay.checkpoint.statistics.journal import Journal
    from assay.document.document import Document
    from assay.document.weights import WeightsReport
    from assay.sources.opened import Opened
    from assay.views.tables import Table
    from assay.views.text.params import ParamsOptions
    from assay.views.text.report import Report

SORTS = (
    "name", "dtype", "count", "bytes", "min", "max", "mean", "std", "kurtosis", "l2", "zeros", "nan", "inf",
    "entropy", "coded", "int8", "int4", "bits", "prunable", "norm", "bound", "rank", "effective",
)  # fmt: skip
HEADINGS = {
    "tensor": "name", "infinite": "inf", "L2 norm": "l2", "entropy (64 bins)": "entropy", "entropy-coded": "coded",
    "int8 dB": "int8", "int4 dB": "int4", "pruning potential": "prunable", "spectral norm": "norm",
    "norm error": "bound", "stable rank": "rank", "effective rank": "effective",
}  # fmt: skip
"""Headings of columns that differ from the key they are sorted by."""
LISTED_SORTS = ("name", "dtype", "count", "bytes")
"""The columns that --list has."""
SPECTRAL_SORTS = ("norm", "bound", "rank", "effective")
"""The columns that only --spectral computes."""
ROW_FORMATS = ("csv", "jsonl")
"""Formats for programs: one row per tensor, nothing folded."""
ENGINES = ("threads", "ray")
NEXT_TO_OUTPUT = "next to the output"
"""The value of --resume without a file name."""
_MOST_NAMES = 5
"""Tensors named in a message before "and N more"."""


@click.command(cls=OptionGroups)
@click.argument("source", metavar="FILE|DIR|URL|MODEL", type=click.Path(readable=False))
@click.option("--full", is_flag=True, help="Show every tensor; by default, repeated blocks share a row.")
@click.option(
    "--sort",
    callback=sort_key(SORTS, HEADINGS),
    metavar="COLUMN",
    help=f"Sort by this, largest first: {', '.join(SORTS)}.",
)
@click.option("--filter", "pattern", metavar="REGEX", help="Only tensors whose name matches this regular expression.")
@click.option("--top", type=click.IntRange(min=1), metavar="N", help="Show N rows; sum the rest in one.")
@click.option("--stats/--list", "stats", default=True, help="Compute statistics (default), or only list headers.")
@click.option("--histogram", is_flag=True, help="Draw a histogram for every row.")
@click.option(
    "--spectral", is_flag=True, help="Also compute spectral norms and ranks; reads each matrix several times."
)
@click.option(
    "--sqnr",
    type=click.FloatRange(0, 200),
    metavar="DB",
    help="SQNR in dB that the column `bits` must keep (default 30).",
)
@click.option("--engine", type=click.Choice(ENGINES), default=ENGINES[0], show_default=True, help="Execution engine.")
@click.option("--address", metavar="ADDRESS", help="Ray cluster to use; by default, one is started here.")
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    metavar="N",
    help="Number of threads, or of CPUs for a local Ray cluster.",
)
@click.option(
    "--resume",
    is_flag=False,
    flag_value=NEXT_TO_OUTPUT,
    metavar="[FILE]",
    help="Resume an interrupted run from its journal, FILE or the one next to the output.",
)
@click.option("--lenient", is_flag=True, help="Accept files with bytes that belong to no tensor.")
@click.option("--trust", is_flag=True, help="Unpickle modules in a separate process, which runs their code.")
@output_options_with(own=("sort", "top"))
@verbosity_options
def params(
    messages: Messages,
    source: str,
    full: bool,
    sort: str | None,
    pattern: str | None,
    top: int | None,
    stats: bool,
    histogram: bool,
    spectral: bool,
    sqnr: float | None,
    engine: str,
    address: str | None,
    workers: int | None,
    resume: str | None,
    lenient: bool,
    trust: bool,
    output: Output,
) -> int:
    """Compute exact statistics of every tensor in FILE, DIR or URL: safetensors, torch.save, TorchScript, .pt2, GGUF,
    .npy, .npz, shards with or without an index, distributed checkpoints, or a document written with --save.

    The format is detected from the content. Without --trust, no code from the file runs. CSV and JSON lines have one
    row per tensor with every value; JSON contains everything. If a shard or tensor cannot be analysed, the rest is
    reported and the exit code is 4.
    """
    from assay.api.weights import weights_document
    from assay.checkpoint.statistics.settings import StatisticsSettings
    from assay.cli.observed import save_document
    from assay.sources.open import open_source
    from assay.views.text.params import ParamsOptions

    messages.line.step("reading headers")
    refuse_overwrite(output, source)
    _refuse_unused(
        stats, engine=engine, address=address, spectral=spectral, sqnr=sqnr, workers=workers, resume=resume
    )
    _refuse_unknown_columns(output)
    settings = StatisticsSettings(engine, workers, address, spectral, sqnr)
    journal = _journal(messages, source, resume, output)
    keeps_journal = resume not in (None, NEXT_TO_OUTPUT) and journal.path.exists()
    try:
        opened = open_source(source)
        if opened.saved is None or opened.stored is not None:
            _refuse_unavailable(opened, source, sort, resume, stats=stats, spectral=spectral)
        messages.line.step("reading tensors with Ray" if engine == "ray" else "reading tensors")
        with silenced() if messages.quiet and engine == "ray" else nullcontext():
            document = weights_document(
                opened,
                settings=settings,
                resume=journal,
                progress=messages.line.read,
                filter=pattern,
                trust=trust,
                lenient=lenient,
                listing=not stats,
            )
    except KeyboardInterrupt:
        _announce(messages, journal)
        raise
    except BaseException:
        journal.discard()
        raise
    del opened  # its tensors, which the document describes
    if pattern is not None and not _weights(document).tensors:
        messages.warn(f"no tensor name matches {one_line(pattern)!r}")
    code = _exit_code(messages, _weights(document), stats)
    view_options = ParamsOptions(full=full, sort=sort, top=top, histogram=histogram)
    try:
        save_document(document, output, partial=bool(code))
        emit(
            output,
            lambda: _view(document, view_options, output.format, source),
            {"json": lambda: _encoded(document)},
            partial=bool(code),
        )
    except WriteError:
        _announce(messages, journal)
        raise
    if stats and not keeps_journal and _is_journal_done(journal, resume, pattern):
        journal.remove()
    return code


def _announce(messages: Messages, journal: Journal) -> None:
    """Print where the finished tensors are, if any were written."""
    if journal.path.exists() and journal.path.stat().st_size:
        messages.warn(f"finished tensors are in {journal.path}: add --resume to the same command to continue")


def _refuse_unused(stats: bool, **options: object) -> None:
    """Fail if an option was given that has no effect without statistics or without Ray."""
    if options["address"] is not None and options["engine"] != "ray":
        raise click.UsageError("--address requires --engine ray")
    unused = {**options, "engine": options["engine"] != ENGINES[0]}
    for name, value in unused.items():
        if not stats and value is not None and value is not False:
            raise click.UsageError(f"--{name} cannot be combined with --list")


def _refuse_unknown_columns(output: Output) -> None:
    """Fail, before any long work, if a chosen column does not exist."""
    from assay.document.document import Document
    from assay.document.weights import WeightsReport
    from assay.views.text.params import tables_without_rows
    from assay.views.text.params_data import params_table

    is_rows = output.format in ROW_FORMATS
    tables = [params_table(Document(weights=WeightsReport()))] if is_rows else tables_without_rows()
    choose(tables, choice_of(output))


def _refuse_unavailable(
    opened: Opened, source: str, sort: str | None, resume: str | None, *, stats: bool, spectral: bool
) -> None:
    """Fail if the tensors of this source have no values to sort by, or if there is no file to resume."""
    if not stats and sort not in (None, *LISTED_SORTS):
        raise click.UsageError(f"--sort {sort} requires statistics: remove --list")
    if sort in SPECTRAL_SORTS and not spectral:
        raise click.UsageError(f"--sort {sort} requires --spectral")
    if resume is not None and opened.stored is None:
        raise click.UsageError(f"--resume requires a checkpoint file, got {one_line(source)}")


def _journal(messages: Messages, source: str, resume: str | None, output: Output) -> Journal:
    """The journal of finished tensors: written during the run with an output file or --resume, else on Ctrl-C."""
    from assay.checkpoint.statistics.journal import SUFFIX, Journal

    target = output.output or output.save
    name = os.path.basename(source.rstrip("/\\")) or "weights"
    default = target.with_name(target.name + SUFFIX) if target is not None else Path(name + SUFFIX)
    path = default if resume in (None, NEXT_TO_OUTPUT) else Path(str(resume))
    at_once = resume is not None or target is not None
    return Journal(path, read=resume is not None, at_once=at_once, warn=messages.warn)


def _view(document: Document, options: ParamsOptions, form: str, source: str) -> Report | Table:
    """A report for people, or for row formats a table with every value of every tensor."""
    from assay.findings.brief_weights import weight_findings, weights_brief
    from assay.views.text.brief import with_brief
    from assay.views.text.params import params_report
    from assay.views.text.params_data import params_table
    from assay.views.text.partial_report import marked_rows

    if form in ROW_FORMATS:
        table = params_table(document, replace(options, full=True))  # unfolded, so that --top counts tensors
        return marked_rows(table) if _weights(document).partial else table
    next_step = shlex.join(["assay", "check", source])
    brief = weights_brief(document, weight_findings(document), next_step=next_step)
    return with_brief(brief, params_report(document, options))


def _encoded(document: Document) -> bytes:
    from assay.views.json.files import encode
    from assay.views.json.params import params_file

    return encode(params_file(document))


def _is_journal_done(journal: Journal, resume: str | None, pattern: str | None) -> bool:
    """Whether the journal has served its purpose after a complete run; a resumed run may need the other tensors."""
    return journal.at_once and (resume is None or pattern is None)


def _weights(document: Document) -> WeightsReport:
    assert document.weights is not None
    return document.weights


def _exit_code(messages: Messages, weights: WeightsReport, stats: bool) -> int:
    """0, or 4 after messages that name the files and tensors that could not be analysed."""
    if weights.kernel == "numpy":
        messages.note("native kernel not built: computed with numpy (same results, slower)")
    failed = [tensor for tensor in weights.tensors if tensor.problem] if stats else []
    for failure in weights.files_lost:
        messages.warn(f"incomplete: {failure}")
    if failed:
        more = f" and {len(failed) - _MOST_NAMES} more" if len(failed) > _MOST_NAMES else ""
        names = ", ".join(tensor.names[0] for tensor in failed[:_MOST_NAMES])
        reasons = {tensor.problem for tensor in failed}
        reason = f": {reasons.pop()}" if len(reasons) == 1 else ""
        messages.warn(f"incomplete: not analysed: {names}{more}{reason}")
    return PartialError.exit_code if failed or weights.failures else OK
