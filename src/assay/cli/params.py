"""`assay params`: exact statistics of every tensor in a checkpoint."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from assay.cli.narration import Narrator
from assay.cli.options import Output, narration_options, output_options
from assay.cli.output import emit, refuse_overwrite, utf8
from assay.cli.progress import ProgressLine
from assay.errors import OK, PartialError

if TYPE_CHECKING:
    from assay.checkpoint.statistics.journal import Journal
    from assay.document.document import Document
    from assay.document.weights import WeightsReport
    from assay.views.tables import Table
    from assay.views.text.params import ParamsOptions
    from assay.views.text.report import Report

SORTS = (
    "name", "dtype", "count", "bytes", "min", "max", "mean", "std", "kurtosis", "l2", "zeros", "nan", "entropy",
    "int8", "int4", "bits", "norm", "bound", "rank", "effective",
)  # fmt: skip
PLAIN = ("csv", "jsonl")
"""Forms for programs, which fold nothing."""
ENGINES = ("threads", "ray")
BESIDE = "beside the output"
_NAMED = 5


@click.command()
@click.argument("source", metavar="FILE|DIR|URL|MODEL", type=click.Path(readable=False))
@click.option("--full", is_flag=True, help="Every tensor on a line of its own; repeated blocks are folded otherwise.")
@click.option("--sort", type=click.Choice(SORTS), metavar="COLUMN", help=f"Largest first: {', '.join(SORTS)}.")
@click.option("--filter", "pattern", metavar="REGEX", help="Only tensors with a name that holds this pattern.")
@click.option("--top", type=click.IntRange(min=1), metavar="N", help="The first N lines; the others in one.")
@click.option("--stats/--list", "stats", default=True, help="All statistics, or what headers tell alone, at once.")
@click.option("--histogram", is_flag=True, help="Draw the distribution of every line.")
@click.option("--spectral", is_flag=True, help="Spectral norm with its bound, and ranks; reads matrices often.")
@click.option("--sqnr", type=click.FloatRange(0, 200), metavar="DB", help="Ratio that `bits` must keep (30).")
@click.option("--engine", type=click.Choice(ENGINES), default=ENGINES[0], show_default=True, help="Who works.")
@click.option("--address", metavar="WHERE", help="Ray cluster to use; one is started here otherwise.")
@click.option("--workers", type=click.IntRange(min=1), metavar="N", help="Threads, or processors for a local Ray.")
@click.option(
    "--resume",
    is_flag=False,
    flag_value=BESIDE,
    metavar="[FILE]",
    help="Go on where an interrupted pass stopped; its journal is beside the output unless FILE names it.",
)
@click.option("--lenient", is_flag=True, help="Read files with bytes that no tensor claims.")
@click.option("--trust", is_flag=True, help="Load a pickled module for real, in a process of its own: its code runs.")
@output_options
@narration_options
def params(
    narrator: Narrator,
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
    """Exact statistics of every tensor in FILE, DIR or URL: safetensors, torch.save, TorchScript, .pt2, GGUF, shards
    with or without an index, distributed checkpoints, or a document that --save wrote.

    The format is told from the bytes. No code from the file runs. CSV and JSON lines have one row a tensor with
    every figure; JSON is the whole. Exit code 4 where a shard or tensor could not be analysed; the others are kept.
    """
    from assay.api.weights import weigh
    from assay.checkpoint.statistics.settings import StatisticsSettings
    from assay.document import files
    from assay.views.text.params import ParamsOptions

    refuse_overwrite(output, source)
    settings = StatisticsSettings(engine, workers, address, spectral, sqnr)
    journal = _journal(source, resume, output)
    try:
        with ProgressLine(not narrator.quiet) as progress:
            document = weigh(
                source,
                settings=settings,
                resume=journal,
                progress=progress,
                filter=pattern,
                trust=trust,
                lenient=lenient,
                listing=not stats,
            )
    except KeyboardInterrupt:
        if journal.path.exists():
            narrator.warn(f"finished tensors are in {journal.path}: the same command with --resume goes on")
        raise
    if output.save is not None:
        files.save(document, output.save, overwrite=output.force)
    shown = ParamsOptions(full=full, sort=sort, top=top, histogram=histogram, utf8=utf8(output))
    emit(output, lambda: _shown(document, shown, output.format), {"json": lambda: _encoded(document)})
    if stats and _is_spent(journal, resume, pattern):
        journal.remove()
    return _exit_code(narrator, _weights(document), stats)


def _journal(source: str, resume: str | None, output: Output) -> Journal:
    """Where finished tensors are noted: as they finish where there is an output or --resume, else on Ctrl-C."""
    from assay.checkpoint.statistics.journal import SUFFIX, Journal

    beside = output.output or output.save
    name = os.path.basename(source.rstrip("/\\")) or "weights"
    default = beside.with_name(beside.name + SUFFIX) if beside is not None else Path(name + SUFFIX)
    path = default if resume in (None, BESIDE) else Path(str(resume))
    return Journal(path, read=resume is not None, at_once=resume is not None or beside is not None)


def _shown(document: Document, shown: ParamsOptions, form: str) -> Report | Table:
    """The report for people, or for programs every figure of every tensor."""
    from assay.views.text.params import params_report
    from assay.views.text.params_data import params_table

    # One row a tensor, so that --top counts tensors there.
    return params_table(document, replace(shown, full=True)) if form in PLAIN else params_report(document, shown)


def _encoded(document: Document) -> bytes:
    from assay.views.json.files import encode
    from assay.views.json.params import params_file

    return encode(params_file(document))


def _is_spent(journal: Journal, resume: str | None, pattern: str | None) -> bool:
    """Whether the pass that has just ended was all its journal was for; one that was named is the user's."""
    return journal.at_once and (resume is None or (resume == BESIDE and pattern is None))


def _weights(document: Document) -> WeightsReport:
    assert document.weights is not None
    return document.weights


def _exit_code(narrator: Narrator, weights: WeightsReport, stats: bool) -> int:
    """Zero, or 4 with one line that names what could not be analysed."""

    if weights.kernel == "numpy":
        narrator.note("the native kernel was not built here: numpy computed this, with the same figures and slower")
    lost = [tensor for tensor in weights.tensors if tensor.problem] if stats else []
    for failure in weights.files_lost:
        narrator.warn(f"partial: {failure}")
    if lost:
        more = f" and {len(lost) - _NAMED} more" if len(lost) > _NAMED else ""
        names = ", ".join(tensor.names[0] for tensor in lost[:_NAMED])
        reasons = {tensor.problem for tensor in lost}
        why = f": {reasons.pop()}" if len(reasons) == 1 else ""
        narrator.warn(f"partial: not analysed: {names}{more}{why}")
    return PartialError.exit_code if lost or weights.failures else OK
