"""`assay trace`: what a Chrome trace says about layers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from assay import atomic
from assay.cli.narration import Narrator
from assay.cli.options import Output, narration_options, result_options
from assay.cli.output import emit, refuse_overwrite
from assay.cli.progress import ProgressLine
from assay.errors import OK, PartialError, UsageError

if TYPE_CHECKING:
    from assay.document.trace import Trace
    from assay.trace.read.opening import Progress
    from assay.trace.read.parallel import UnreadableTrace
    from assay.views.text.traces_tables import TraceOptions

DIVISIONS = ("layer", "op", "kernel", "step", "stack")
SORTS = ("self", "total", "gpu", "backward", "memory", "calls", "median", "max", "latency", "name")
FOLDED = (".folded", ".txt", ".collapsed")
ENGINES = ("processes", "ray")
_SHORT = 25
"""Lines of a table for people, unless --top or --full says otherwise."""
_FOR_PEOPLE = ("table", "md")


@click.command()
@click.argument("paths", metavar="FILE...|DIR", nargs=-1, type=click.Path(readable=False))
@click.option("--by", type=click.Choice(DIVISIONS), default="layer", show_default=True, help="What lines are.")
@click.option("--sort", type=click.Choice(SORTS), metavar="FIGURE", help=f"Largest first: {', '.join(SORTS)}.")
@click.option("--top", type=click.IntRange(min=1), metavar="N", help="The first N lines; the others in one.")
@click.option("--full", is_flag=True, help=f"Every line; tables for people have {_SHORT} otherwise.")
@click.option(
    "--diff",
    nargs=2,
    type=click.Path(readable=False),
    metavar="A B",
    help="Compare two files or directories layer by layer.",
)
@click.option(
    "--export",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Stacks for a flame graph: folded for .folded or .txt, else a tree in JSON.",
)
@click.option(
    "--export-perfetto",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The trace as valid JSON for Perfetto, mended and with module paths; .gz compresses.",
)
@click.option("--engine", type=click.Choice(ENGINES), default=ENGINES[0], show_default=True, help="Who reads.")
@click.option("--address", metavar="WHERE", help="Ray cluster to use; one is started here otherwise.")
@click.option("--workers", type=click.IntRange(min=1), metavar="N", help="Processes, or processors for a local Ray.")
@result_options
@narration_options
def trace(
    narrator: Narrator,
    paths: tuple[str, ...],
    by: str,
    sort: str | None,
    top: int | None,
    full: bool,
    diff: tuple[str, str] | None,
    export: Path | None,
    export_perfetto: Path | None,
    engine: str,
    address: str | None,
    workers: int | None,
    output: Output,
) -> int:
    """What traces say about layers: time, kernels, memory, shapes and operations of each.

    FILE is a Chrome or Kineto trace, plain or gzip, whole or cut off; what could not be read is counted. Several
    files or a directory are taken as passes or ranks of a model and shown together: how much layers vary, which
    rank holds the others up. Exit code 4 where one of them could not be read; the others are shown.
    """
    from assay.trace.read.parallel import read_with, trace_files

    if bool(paths) == bool(diff):
        raise click.UsageError("give trace files or a directory, or --diff with two of them")
    refuse_overwrite(output, *paths, *(diff or ()))
    for target in (export, export_perfetto):
        _refuse_target(target, output)
    short = _SHORT if output.format in _FOR_PEOPLE and not full else None
    shown = _shown(by, sort, top or short)
    with ProgressLine(not narrator.quiet) as progress:
        if diff:
            sides = [trace_files([side]) for side in diff]
            found = read_with(engine, [*sides[0], *sides[1]], workers=workers, address=address, progress=progress)
            return _show_diff(narrator, found[: len(sides[0])], found[len(sides[0]) :], shown, output)
        files = trace_files(paths)
        if (by == "stack" or export or export_perfetto) and len(files) > 1:
            raise click.UsageError("stacks and exports are of one trace: give one file")
        if any(
            target is not None and target.exists() and target.samefile(files[0])
            for target in (export, export_perfetto)
        ):
            raise click.UsageError("an export may not replace the trace it is made from: choose another name")
        if export_perfetto is not None:
            _write_perfetto(narrator, files[0], export_perfetto, output, progress)
        if by == "stack" or export is not None:
            return _show_opened(narrator, files[0], export, shown, output, progress)
        found = read_with(engine, files, workers=workers, address=address, progress=progress)
        return _show(narrator, found, shown, output)


def _shown(by: str, sort: str | None, top: int | None) -> TraceOptions:
    from assay.views.text.traces_tables import TraceOptions

    return TraceOptions(by, sort, top)


def _refuse_target(target: Path | None, output: Output) -> None:

    if target is None:
        return
    if target.exists() and not output.force:
        raise UsageError(f"{target} exists: choose another name or pass --force")
    if not target.parent.is_dir():
        raise UsageError(f"cannot write {target}: there is no directory {target.parent}")


def _show(narrator: Narrator, found: Sequence[Trace | UnreadableTrace], shown: TraceOptions, output: Output) -> int:
    """One trace in full, several together."""
    from assay.api.trace import sorted_out
    from assay.document.trace import Traces
    from assay.trace.read.across import trace_sets
    from assay.views.json.files import encode
    from assay.views.text.traces import sets_report, trace_report

    traces, failures = sorted_out(found)
    _say_native(narrator)
    if len(found) == 1:
        single = traces[0]
        emit(output, lambda: trace_report(single, shown), {"json": lambda: encode(single)})
        return 0
    sets = trace_sets(traces)
    emit(output, lambda: sets_report(sets, shown), {"json": lambda: encode(Traces(sets, failures))})
    return _exit_code(narrator, failures.values())


def _show_diff(
    narrator: Narrator,
    before: Sequence[Trace | UnreadableTrace],
    after: Sequence[Trace | UnreadableTrace],
    shown: TraceOptions,
    output: Output,
) -> int:
    from assay.api.trace import sorted_out
    from assay.trace.read.diff import compared
    from assay.views.json.files import encode
    from assay.views.text.traces import diff_report

    old, old_failures = sorted_out(before)
    new, new_failures = sorted_out(after)
    found = compared(old, new)
    emit(output, lambda: diff_report(found, shown), {"json": lambda: encode(found)})
    return _exit_code(narrator, [*old_failures.values(), *new_failures.values()])


def _show_opened(
    narrator: Narrator, file: Path, export: Path | None, shown: TraceOptions, output: Output, progress: Progress
) -> int:
    """Stacks as lines or as an export, and the trace itself where stacks were not asked for."""
    from assay.trace.read.flames import folded, icicle
    from assay.trace.read.reading import opened, summarized
    from assay.trace.read.stacks import stacks_of
    from assay.views.json.files import encode
    from assay.views.json.traces import stacks_file
    from assay.views.text.traces import stacks_report

    parts = opened(file, progress=progress)
    stacks = stacks_of(parts)
    if export is not None:
        data = folded(stacks) if export.suffix in FOLDED else icicle(stacks, file.name)
        atomic.write_bytes(export, data, overwrite=output.force)
        narrator.note(f"wrote {export}")
    if shown.by != "stack":
        return _show(narrator, [summarized(parts)], shown, output)
    report = stacks_report(stacks, str(file), shown)
    emit(output, lambda: report, {"json": lambda: encode(stacks_file(stacks, str(file), shown.sort, shown.top))})
    return 0


def _write_perfetto(narrator: Narrator, file: Path, target: Path, output: Output, progress: Progress) -> None:
    from assay.trace.read.perfetto import write_repaired

    told = write_repaired(file, target, overwrite=output.force, progress=progress)
    narrator.note(f"wrote {target}: {told.kept:,} events, {told.repaired:,} mended, {told.skipped:,} left out")


def _exit_code(narrator: Narrator, failures: Iterable[str]) -> int:

    reasons = list(failures)
    for reason in reasons:
        narrator.warn(f"partial: {reason}")
    return PartialError.exit_code if reasons else OK


def _say_native(narrator: Narrator) -> None:
    from assay.trace.read.scanner import is_native

    if not is_native():
        narrator.note(
            "the native scanner was not built here: plain Python read this, with the same figures and slower"
        )
