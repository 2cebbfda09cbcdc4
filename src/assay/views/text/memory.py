"""The report about memory: what there is, the peaks over time and what was alive there, the devices it fits on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from assay import units
from assay.analysis.memory.batches import LargestBatch
from assay.analysis.memory.fitting import Fit
from assay.analysis.memory.totals import Memory, Occupancy
from assay.document.provenance import Figure
from assay.views import plots
from assay.views.tables import Column, Table
from assay.views.text.report import Report

_FIGURES = (
    Column("what"),
    Column("bytes", "right", units.size),
    Column("how", drops=True),
    Column("note", shrinks=True, drops=True),
)
_HELD = (
    Column("bytes", "right", units.size),
    Column("role"),
    Column("made by", shrinks=True),
    Column("in module", shrinks=True),
    Column("from", "right", units.exact, drops=True),
    Column("until", "right", lambda op: "end" if op is None else units.exact(op), drops=True),
)
_FITS = (
    Column("device"),
    Column("memory", "right", units.size),
    Column("reserve", "right", units.size, drops=True),
    Column("needed", "right", units.size),
    Column("headroom", "right", units.size),
    Column("fits", show=lambda fits: "yes" if fits else "no"),
)
_BATCHES = (
    Column("device"),
    Column("largest batch", "right", units.exact),
    Column("its peak", "right", units.size),
    Column("captures", "right", units.exact),
    Column("note", shrinks=True, drops=True),
)
_PLOT = (Column("bytes", "right"), Column("alive"))


def report(
    memory: Memory,
    *,
    fits: Sequence[Fit] = (),
    batches: Mapping[str, LargestBatch] | None = None,
    cache: tuple[str, Figure] | None = None,
    utf8: bool = True,
) -> Report:
    """Everything a person is told; its data are the figures."""
    summary = figures(memory, cache)
    parts: list[str | Table] = ["Memory", summary]
    for name, found in (("Inference", memory.inference), ("Training step", memory.training)):
        if found is not None:
            parts += [_headline(name, found), timeline(found, utf8=utf8), "Alive there, largest first", held(found)]
    if fits:
        parts += [f"Does it fit? ({'training' if memory.training else 'inference'})", fit_table(fits)]
    if batches:
        parts += ["Largest batch", batch_table(batches)]
    notes = [*memory.assumptions, f"not in any figure: {'; '.join(memory.not_modelled)}"]
    parts += ["Notes", Table((Column("note", shrinks=True),), [[note] for note in notes], bare=True)]
    return Report(parts, summary)


def figures(memory: Memory, cache: tuple[str, Figure] | None = None) -> Table:
    """One row a figure, with how it was obtained."""
    state = memory.optimizer
    per_number = "" if state.bytes_per_parameter is None else f", {state.bytes_per_parameter:.3g} B a trained number"
    rows = [
        _row("parameters", memory.parameters, _dtypes(memory)),
        _row("buffers", memory.buffers),
        _row("inputs", memory.inputs),
        _row("gradients", memory.gradients),
        _row("optimizer state", state.bytes, f"{state.name}: {state.state}{per_number}"),
    ]
    if state.master.value:
        rows.append(_row("master weights", state.master, "float32 copies"))
    rows += _pass_rows("inference", memory.inference)
    rows += [_row("training: saved for backward", memory.saved)]
    rows += _pass_rows("training", memory.training) or [_row("training: peak", memory.training_peak)]
    if memory.cache is not None:
        captured = memory.cache.captured
        at = memory.cache.at(captured.batch, captured.length)
        each = f"{units.exact(round(memory.cache.per_token))} B a token of a sequence"
        rows.append(_row(f"cache: batch {captured.batch}, length {units.exact(captured.length)}", at, each))
    if cache is not None:
        rows.append(_row(f"cache: {cache[0]}", cache[1], "grows linearly, as far as one capture shows"))
    return Table(_FIGURES, rows)


def timeline(found: Occupancy, *, utf8: bool = True) -> Table:
    """What comes and goes, over the operations."""
    lines = plots.area(found.alive, utf8=utf8)
    labels = [units.size(found.peak.bytes), *[""] * (len(lines) - 2), "0 B"]
    return Table(_PLOT, [list(row) for row in zip(labels, lines, strict=True)], bare=True)


def held(found: Occupancy) -> Table:
    """The largest storages alive at the peak."""
    return Table(
        _HELD, [[one.bytes, one.role, one.target, one.module, one.born, one.died] for one in found.peak.largest]
    )


def fit_table(fits: Sequence[Fit]) -> Table:
    """One row a device."""
    return Table(_FITS, [[fit.device, fit.memory, fit.reserve, fit.needed, fit.headroom, fit.fits] for fit in fits])


def batch_table(batches: Mapping[str, LargestBatch]) -> Table:
    """One row a device."""
    rows = [[name, each.batch, each.peak_bytes, each.captures, _doubt(each)] for name, each in batches.items()]
    return Table(_BATCHES, rows)


def _row(what: str, figure: Figure, note: str = "") -> list[Any]:
    return [what, figure.value, type(figure.how).__name__.lower(), note or getattr(figure.how, "why", "")]


def _pass_rows(name: str, found: Occupancy | None) -> list[list[Any]]:
    if found is None:
        return []
    roles = ", ".join(f"{role} {units.size(size)}" for role, size in found.peak.by_role.items())
    return [
        _row(f"{name}: alive at the peak", found.moving, roles),
        _row(f"{name}: peak", found.total, _where(found)),
    ]


def _where(found: Occupancy) -> str:
    peak = found.peak
    inside = f" in {peak.module}" if peak.module else ""
    return f"at op {units.exact(peak.op)} of {units.exact(len(found.alive))}, {peak.target}{inside} ({peak.phase})"


def _headline(name: str, found: Occupancy) -> str:
    return f"{name}: peak {units.size(found.total.value)} {_where(found)}"


def _dtypes(memory: Memory) -> str:
    return "with buffers: " + ", ".join(f"{dtype} {units.size(size)}" for dtype, size in memory.by_dtype.items())


def _doubt(found: LargestBatch) -> str:
    if not found.monotone:
        return "the peak fell as the batch grew: a larger one may fit"
    return "" if found.bounded else "the search ended here: larger ones may fit"
