"""The report about memory: what there is, the peaks over time and what was alive there, the devices it fits on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from assay import units
from assay.analysis.memory.batches import LargestBatch
from assay.analysis.memory.fitting import Fit
from assay.analysis.memory.lifetimes import LiveStorage
from assay.analysis.memory.totals import Memory, Occupancy
from assay.document.provenance import Figure
from assay.views import plots
from assay.views.tables import Column, Table
from assay.views.text.facts import drawing_table, notes_table
from assay.views.text.report import Parts, Report, section


class _FigureRow(NamedTuple):
    what: str
    figure: Figure
    note: str = ""


_FIGURES: tuple[Column[_FigureRow], ...] = (
    Column("what", lambda row: row.what),
    Column("bytes", lambda row: row.figure.value, "right", units.size),
    Column("how", lambda row: type(row.figure.how).__name__.lower(), drops=True),
    Column("note", lambda row: row.note or getattr(row.figure.how, "why", ""), shrinks=True, drops=True),
)
_HELD: tuple[Column[LiveStorage], ...] = (
    Column("bytes", lambda one: one.bytes, "right", units.size),
    Column("role", lambda one: one.role),
    Column("made by", lambda one: one.target, shrinks=True),
    Column("in module", lambda one: one.module, shrinks=True),
    Column("from", lambda one: one.born, "right", units.exact, drops=True),
    Column("until", lambda one: one.died, "right", lambda op: "end" if op is None else units.exact(op), drops=True),
)
_FITS: tuple[Column[Fit], ...] = (
    Column("device", lambda fit: fit.device),
    Column("memory", lambda fit: fit.memory, "right", units.size),
    Column("reserve", lambda fit: fit.reserve, "right", units.size, drops=True),
    Column("needed", lambda fit: fit.needed, "right", units.size),
    Column("headroom", lambda fit: fit.headroom, "right", units.size),
    Column("fits", lambda fit: fit.fits, show=lambda fits: "yes" if fits else "no"),
)


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
    parts: Parts = ["Memory", summary]
    for name, found in (("Inference", memory.inference), ("Training step", memory.training)):
        if found is not None:
            parts += [f"{name}: peak {units.size(found.total.value)} {_where(found)}", timeline(found, utf8=utf8)]
            parts += ["Alive there, largest first", Table(_HELD, found.peak.largest)]
    parts += section(f"Does it fit? ({'training' if memory.training else 'inference'})", fit_table(fits))
    parts += section("Largest batch", batch_table(batches or {}))
    notes = [*memory.assumptions, f"not in any figure: {'; '.join(memory.not_modelled)}"]
    parts += ["Notes", notes_table(notes)]
    return Report(parts, summary)


def figures(memory: Memory, cache: tuple[str, Figure] | None = None) -> Table:
    """One row per figure, with how it was obtained."""
    state = memory.optimizer
    dtypes = ", ".join(f"{dtype} {units.size(size)}" for dtype, size in memory.by_dtype.items())
    per_number = "" if state.bytes_per_parameter is None else f", {state.bytes_per_parameter:.3g} B a trained number"
    rows = [
        _FigureRow("parameters", memory.parameters, f"with buffers: {dtypes}"),
        _FigureRow("buffers", memory.buffers),
        _FigureRow("inputs", memory.inputs),
        _FigureRow("gradients", memory.gradients),
        _FigureRow("optimizer state", state.bytes, f"{state.name}: {state.state}{per_number}"),
    ]
    if state.master.value:
        rows.append(_FigureRow("master weights", state.master, "float32 copies"))
    rows += _pass_rows("inference", memory.inference)
    rows += [_FigureRow("training: saved for backward", memory.saved)]
    rows += _pass_rows("training", memory.training) or [_FigureRow("training: peak", memory.training_peak)]
    if memory.cache is not None:
        captured = memory.cache.captured
        at = memory.cache.at(captured.batch, captured.length)
        each = f"{units.exact(round(memory.cache.per_token))} B a token of a sequence"
        rows.append(_FigureRow(f"cache: batch {captured.batch}, length {units.exact(captured.length)}", at, each))
    if cache is not None:
        rows.append(_FigureRow(f"cache: {cache[0]}", cache[1], "grows linearly, as far as one capture shows"))
    return Table(_FIGURES, rows)


def timeline(found: Occupancy, *, utf8: bool = True) -> Table:
    """What comes and goes, over the operations."""
    lines = plots.area(found.alive, utf8=utf8)
    labels = [units.size(found.peak.bytes), *[""] * (len(lines) - 2), "0 B"]
    return drawing_table("bytes", "alive", zip(labels, lines, strict=True))


def fit_table(fits: Sequence[Fit]) -> Table:
    """One row per device."""
    return Table(_FITS, fits)


def batch_table(batches: Mapping[str, LargestBatch]) -> Table:
    """One row per device."""
    columns: tuple[Column[str], ...] = (
        Column("device", str),
        Column("largest batch", lambda name: batches[name].batch, "right", units.exact),
        Column("its peak", lambda name: batches[name].peak_bytes, "right", units.size),
        Column("captures", lambda name: batches[name].captures, "right", units.exact),
        Column("note", lambda name: _doubt(batches[name]), shrinks=True, drops=True),
    )
    return Table(columns, list(batches))


def _pass_rows(name: str, found: Occupancy | None) -> list[_FigureRow]:
    if found is None:
        return []
    roles = ", ".join(f"{role} {units.size(size)}" for role, size in found.peak.by_role.items())
    return [
        _FigureRow(f"{name}: alive at the peak", found.moving, roles),
        _FigureRow(f"{name}: peak", found.total, _where(found)),
    ]


def _where(found: Occupancy) -> str:
    peak = found.peak
    inside = f" in {peak.module}" if peak.module else ""
    return f"at op {units.exact(peak.op)} of {units.exact(len(found.alive))}, {peak.target}{inside} ({peak.phase})"


def _doubt(found: LargestBatch) -> str:
    if not found.monotone:
        return "the peak fell as the batch grew: a larger one may fit"
    return "" if found.bounded else "the search ended here: larger ones may fit"
