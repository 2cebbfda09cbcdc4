"""`assay trace`: time, kernels and memory per layer, read from Chrome traces."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from assay import atomic
from assay.cli.options import OptionGroups, Output, result_options_with, sort_key, verbosity_options
from assay.cli.output import emit, refuse_overwrite
from assay.cli.stderr import Messages
from assay.errors import OK, PartialError, UsageError
from assay.messages import plural

if TYPE_CHECKING:
    from assay.document.trace import Trace
    from assay.trace.read.parallel import UnreadableTrace
    from assay.views.text.traces_tables import TraceOptions

GROUPINGS = ("layer", "op", "kernel", "step", "stack")
SORTS = ("self", "total", "gpu", "backward", "memory", "calls", "median", "max", "latency", "name")
HEADINGS = {
    "CPU self": "self", "CPU total": "total", "GPU self": "gpu", "allocated": "memory", "layer": "name", "op": "name",
    "kernel": "name", "backward CPU": "backward", "backward GPU": "backward", "launch latency": "latency",
}  # fmt: skip
"""Headings of columns that differ from the key they are sorted by."""
SET_SORTS = ("median", "max", "name")
"""Keys that the layers of several traces are sorted by."""
FOLDED_SUFFIXES = (".folded", ".txt", ".collapsed")
ENGINES = ("processes", "ray")
_DEFAULT_ROWS = 25
"""Rows of a table for people, without --top or --full."""
_FORMATS_FOR_PEOPLE = ("table", "md")


@click.command(cls=OptionGroups)
@click.argument("paths", metavar="FILE...|DIR", nargs=-1, type=click.Path(readable=False))
@click.option("--by", type=click.Choice(GROUPINGS), default="layer", show_default=True, help="Group rows by this.")
@click.option(
    "--sort",
    callback=sort_key(SORTS, HEADINGS),
    metavar="COLUMN",
    help=f"Sort by this, largest first: {', '.join(SORTS)}.",
)
@click.option("--top", type=click.IntRange(min=1), metavar="N", help="Show N rows.")
@click.option(
    "--full", is_flag=True, help=f"Show all rows; by default, at most {_DEFAULT_ROWS}, and one for repeated blocks."
)
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
    help="Write stacks for a flame graph: folded if FILE ends in .folded, .collapsed or .txt, otherwise a JSON tree.",
)
@click.option(
    "--export-perfetto",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write a repaired trace with module paths, for Perfetto; compressed if FILE ends in .gz.",
)
@click.option("--engine", type=click.Choice(ENGINES), default=ENGINES[0], show_default=True, help="Execution engine.")
@click.option("--address", metavar="ADDRESS", help="Ray cluster to use; by default, one is started here.")
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    metavar="N",
    help="Number of processes, or of CPUs for a local Ray cluster.",
)
@result_options_with(own=("sort", "top"))
@verbosity_options
def trace(
    messages: Messages,
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
    """Report time, kernels, memory, shapes and ops per layer from profiler traces.

    FILE is a Chrome or Kineto trace, plain or gzipped. Truncated files are read as far as possible; unreadable events
    are counted. Several files or a directory are treated as passes or ranks of one model and reported together, with
    the variation per layer and the slowest rank. If one of them is truncated or cannot be read, the rest is reported
    and the exit code is 4.
    """
    from assay.trace.read.parallel import read_with, trace_files

    if bool(paths) == bool(diff):
        raise click.UsageError("give either trace files (or a directory) or --diff A B")
    if address is not None and engine != "ray":
        raise click.UsageError("--address requires --engine ray")
    if diff and by != "layer":
        raise click.UsageError(f"--diff compares layers: it cannot be combined with --by {by}")
    refuse_overwrite(output, *paths, *(diff or ()))
    for target in (export, export_perfetto):
        _refuse_target(target, output)
    default_top = _DEFAULT_ROWS if output.format in _FORMATS_FOR_PEOPLE and not full else None
    view_options = _view_options(by, sort, top or default_top, full)

    def read(files: Sequence[Path]) -> list[Trace | UnreadableTrace]:
        messages.line.step(f"reading {plural(len(files), 'trace')}{' with Ray' * (engine == 'ray')}")
        return read_with(engine, files, workers=workers, address=address, progress=messages.line.read)

    if diff and sort is not None:
        raise click.UsageError("--sort does not apply to --diff, which lists the largest changes first")
    if diff:
        sides = [trace_files([side]) for side in diff]
        traces = read([*sides[0], *sides[1]])
        return _show_diff(messages, traces[: len(sides[0])], traces[len(sides[0]) :], view_options, output)
    files = trace_files(paths)
    if (by == "stack" or export or export_perfetto) and len(files) > 1:
        raise click.UsageError("--by stack and exports work on one trace: give one file")
    if by != "layer" and len(files) > 1:
        raise click.UsageError(f"several traces are shown by layer: give one file for --by {by}")
    if len(files) > 1 and sort not in (None, *SET_SORTS):
        raise click.UsageError(f"several traces are sorted by {', '.join(SET_SORTS)}: got {sort}")
    if any(
        target is not None and target.exists() and target.samefile(files[0]) for target in (export, export_perfetto)
    ):
        raise click.UsageError("an export cannot overwrite the trace it is made from: choose another name")
    if export_perfetto is not None:
        _write_perfetto(messages, files[0], export_perfetto, output)
    if by == "stack" or export is not None:
        return _show_stacks(messages, files[0], export, view_options, output)
    return _show(messages, read(files), view_options, output)


def _view_options(by: str, sort: str | None, top: int | None, full: bool) -> TraceOptions:
    from assay.views.text.traces_tables import TraceOptions

    return TraceOptions(by, sort, top, full)


def _refuse_target(target: Path | None, output: Output) -> None:
    """Fail, before any long work, if an export exists (without --force) or its directory does not."""
    if target is None:
        return
    if target.exists() and not output.force:
        raise UsageError(f"{target} already exists: choose another name or pass --force")
    if not target.parent.is_dir():
        raise UsageError(f"cannot write {target}: directory {target.parent} does not exist")


def _show(
    messages: Messages, results: Sequence[Trace | UnreadableTrace], options: TraceOptions, output: Output
) -> int:
    """Write the report of one trace, or the combined report of several, and return the exit code."""
    from assay.api.trace import split_failures
    from assay.document.trace import Traces
    from assay.trace.read.across import trace_sets
    from assay.views.json.files import encode
    from assay.views.text.traces import sets_report, trace_report

    traces, failures = split_failures(results)
    _note_if_not_native(messages)
    code = _exit_code(messages, failures.values(), traces)
    if len(results) == 1:
        single = traces[0]
        emit(output, lambda: trace_report(single, options), {"json": lambda: encode(single)}, partial=bool(code))
        return code
    sets = trace_sets(traces)
    encoders = {"json": lambda: encode(Traces(sets, failures))}
    emit(output, lambda: sets_report(sets, traces, options), encoders, partial=bool(code))
    return code


def _show_diff(
    messages: Messages,
    before: Sequence[Trace | UnreadableTrace],
    after: Sequence[Trace | UnreadableTrace],
    options: TraceOptions,
    output: Output,
) -> int:
    from assay.api.trace import split_failures
    from assay.trace.read.diff import compare
    from assay.views.json.files import encode
    from assay.views.text.traces import diff_report

    old, old_failures = split_failures(before)
    new, new_failures = split_failures(after)
    comparison = compare(old, new)
    code = _exit_code(messages, [*old_failures.values(), *new_failures.values()], [*old, *new])
    encoders = {"json": lambda: encode(comparison)}
    emit(output, lambda: diff_report(comparison, options), encoders, partial=bool(code))
    return code


def _show_stacks(messages: Messages, file: Path, export: Path | None, options: TraceOptions, output: Output) -> int:
    """Export the stacks if requested; then write them as rows, or the report of the trace unless --by is stack."""
    from assay.trace.read.flames import folded, icicle
    from assay.trace.read.reading import open_trace, summarize
    from assay.trace.read.stacks import stacks_of
    from assay.views.json.files import encode
    from assay.views.json.traces import stacks_file
    from assay.views.text.traces import stacks_report

    messages.line.step("reading 1 trace")
    parts = open_trace(file, progress=messages.line.read)
    messages.line.step("adding up stacks")
    stacks = stacks_of(parts)
    if export is not None:
        data = folded(stacks) if export.suffix in FOLDED_SUFFIXES else icicle(stacks, file.name)
        partial = not parts.columns.complete
        messages.note(f"wrote {atomic.write_result(export, data, partial=partial, overwrite=output.force)}")
    if options.by != "stack":
        return _show(messages, [summarize(parts)], options, output)
    report = stacks_report(stacks, str(file), options)
    code = _exit_code(messages, (), [summarize(parts)])
    encoders = {"json": lambda: encode(stacks_file(stacks, str(file), options.sort, options.top))}
    emit(output, lambda: report, encoders, partial=bool(code))
    return code


def _write_perfetto(messages: Messages, file: Path, target: Path, output: Output) -> None:
    from assay.trace.read.perfetto import write_repaired

    messages.line.step(f"writing {target.name}")
    counts = write_repaired(file, target, overwrite=output.force, progress=messages.line.read)
    events = plural(counts.kept, "event")
    messages.note(f"wrote {target}: {events} ({counts.repaired:,} repaired), {counts.skipped:,} skipped")


def _exit_code(messages: Messages, failures: Iterable[str], traces: Iterable[Trace]) -> int:
    """0, or 4 after one message per trace that could not be read, or only in part because it ends early."""
    reasons = [*failures, *(f"{trace.path} is truncated" for trace in traces if not trace.complete)]
    for reason in reasons:
        messages.warn(f"incomplete: {reason}")
    return PartialError.exit_code if reasons else OK


def _note_if_not_native(messages: Messages) -> None:
    from assay.trace.read.scanner import is_native

    if not is_native():
        messages.note("native scanner not built: read with plain Python (same results, slower)")
