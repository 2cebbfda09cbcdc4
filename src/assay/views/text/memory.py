"""The memory report: sizes, memory over time, live tensors at the peak, and the devices the model fits on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from assay import units
from assay.analysis.memory.batches import LargestBatch
from assay.analysis.memory.fitting import Fit
from assay.analysis.memory.lifetimes import LiveStorages, forward, training_step
from assay.analysis.memory.totals import Memory, Occupancy
from assay.document.document import Document
from assay.document.provenance import Figure, Modelled
from assay.views.partial import marked_total
from assay.views.tables import Column, Table
from assay.views.text.facts import notes_table
from assay.views.text.memory_plot import timeline
from assay.views.text.report import Parts, Report, section

_STEP = "Training step"


def _item_text(name: str) -> str:
    """The name of a size as shown to people; CSV and JSON keep the name itself."""
    return name.replace(": alive at", ": live at").replace("cache: ", "KV cache: ")


def _each_text(size: int | None) -> str:
    """The size of each of several tensors; empty for a single one."""
    return "" if size is None else units.size(size)


class _FigureRow(NamedTuple):
    name: str
    figure: Figure
    note: str = ""


_FIGURES: tuple[Column[_FigureRow], ...] = (
    Column("item", lambda row: row.name, show=_item_text, name="what"),
    Column("bytes", lambda row: row.figure.value, "right", units.size),
    Column("method", lambda row: type(row.figure.how).__name__.lower(), drops=True, name="how"),
    Column("note", lambda row: row.note or getattr(row.figure.how, "why", ""), shrinks=True, drops=True),
)
_LIVE: tuple[Column[LiveStorages], ...] = (
    Column("bytes", lambda one: one.bytes, "right", units.size),
    Column("role", lambda one: one.role),
    Column("created by", lambda one: one.target, show=units.op, shrinks=True, cuts="middle"),
    Column(
        "module",
        lambda one: f"{one.module}{f' ×{one.count}' if one.count > 1 else ''}",
        shrinks=True,
        cuts="middle",
        keeps=8,
    ),
    Column("each", lambda one: one.each if one.count > 1 else None, "right", _each_text),
    Column("first op", lambda one: one.born, "right", lambda op: units.exact(op + 1), drops=True),
    Column("last op", lambda one: one.died, "right", lambda op: "end" if op is None else units.exact(op), drops=True),
)
_FITS: tuple[Column[Fit], ...] = (
    Column("device", lambda fit: fit.device),
    Column("parallelism", lambda fit: fit.parallelism),
    Column("memory", lambda fit: fit.memory, "right", units.size),
    Column("reserve", lambda fit: fit.reserve, "right", units.size, drops=True),
    Column("needed", lambda fit: fit.needed, "right", units.size),
    Column("headroom", lambda fit: fit.headroom, "right", units.size),
    Column("fits", lambda fit: fit.fits, show={True: "yes", False: "no", None: "unknown"}.__getitem__),
)


class _BatchRow(NamedTuple):
    device: str
    use: str
    """`inference` or `training step`; empty if only one of them was searched."""
    largest: LargestBatch


_BATCHES: tuple[Column[_BatchRow], ...] = (
    Column("device", lambda row: row.device),
    Column("pass", lambda row: row.use),
    Column("largest batch", lambda row: row.largest.batch, "right", units.exact),
    Column("peak", lambda row: row.largest.peak_bytes, "right", units.size),
    Column("recorded passes", lambda row: row.largest.captures, "right", units.exact),
    Column("note", lambda row: _caveat(row.largest), shrinks=True, drops=True),
)


def report(
    memory: Memory,
    document: Document,
    *,
    fits: Sequence[Fit] = (),
    batches: Mapping[str, LargestBatch] | None = None,
    inference_batches: Mapping[str, LargestBatch] | None = None,
    comparison: Parts | tuple[()] = (),
    cache: tuple[str, Figure] | None = None,
) -> Report:
    """The whole report; CSV and JSON lines contain the table of sizes.

    `comparison` is shown below it. With `inference_batches`, `batches` are those of a training step.
    """
    summary = sizes_table(memory, cache)
    name = document.model_class or document.origin.name
    parts: Parts = [f"{name}: memory" if name else "Memory", summary, *comparison, *occupancy_parts(memory, document)]
    parts += section(marked_total(_fit_title(memory, fits), partial=memory.partial), fit_table(fits))
    parts += section("How several devices share the model (modelled)", sharing_table(fits))
    parts += section("Largest batch", batch_table(batches or {}, inference_batches or {}))
    parts += ["Notes", notes_table(_notes(memory))]
    return Report(parts, summary)


def occupancy_parts(memory: Memory, document: Document) -> Parts:
    """The peak, the timeline and the live tensors at the peak of every recorded pass."""
    parts: Parts = []
    for name, usage in _passes(memory).items():
        parts += [*_timeline_parts(name, usage, document, partial=memory.partial)]
        parts += [
            "Live tensors at the peak, largest first",
            live_table(usage),
        ]
    return parts


def live_table(usage: Occupancy) -> Table:
    """The tensors that are live at the peak, largest first."""
    return Table(_LIVE, [one for one in usage.peak.together if one.bytes]).without_empty()


def timelines(memory: Memory, document: Document) -> Parts:
    """The peak and memory over time of every recorded pass."""
    passes = _passes(memory).items()
    return [part for name, usage in passes for part in _timeline_parts(name, usage, document, partial=memory.partial)]


def _timeline_parts(name: str, usage: Occupancy, document: Document, *, partial: bool) -> Parts:
    step = training_step(document) if name == _STEP else None
    recorded = step if step is not None else forward(document)
    title = marked_total(f"{name}: peak {units.size(usage.total.value)}", partial=partial)
    picture = timeline(_timeline_caption(usage, name), usage, recorded)
    return [f"{title} {_peak_text(usage)}", picture]


def _passes(memory: Memory) -> dict[str, Occupancy]:
    """The memory of each recorded pass."""
    found = {"Inference": memory.inference, _STEP: memory.training}
    return {name: usage for name, usage in found.items() if usage is not None}


def _notes(memory: Memory) -> list[str]:
    """Assumptions, formulas of workspaces, and what is not included."""
    passes = [usage.moving.how for usage in (memory.inference, memory.training) if usage is not None]
    formulas = [note for how in passes if isinstance(how, Modelled) for note in how.assumptions]
    unknown = memory.workspace_unknown
    return [
        *memory.assumptions,
        *(f"workspace modelled for the CPU: {formula}" for formula in dict.fromkeys(formulas)),
        *([f"workspace unknown, and not included: {', '.join(unknown)}"] if unknown else []),
        f"not included: {'; '.join(memory.not_modelled)}",
    ]


def sizes_table(memory: Memory, cache: tuple[str, Figure] | None = None) -> Table:
    """One row per size, with how it was obtained; `cache` is the requested size of the KV cache and its bytes."""
    state = memory.optimizer
    dtypes = ", ".join(f"{dtype} {units.size(size)}" for dtype, size in memory.by_dtype.items())
    each = "" if state.bytes_per_parameter is None else f", {state.bytes_per_parameter:.3g} B per trained parameter"
    rows = [
        _FigureRow(
            "parameters",
            memory.parameters,
            f"parameters and buffers: {dtypes}" if memory.buffers.value != 0 else dtypes,
        ),
        _FigureRow("buffers", memory.buffers),
        _FigureRow("inputs", memory.inputs),
        _FigureRow("gradients", memory.gradients),
        _FigureRow("optimizer state", state.bytes, f"{state.name}: {state.state}{each}"),
    ]
    if state.master.value:
        rows.append(_FigureRow("master weights", state.master, "float32 copies"))
    rows += _pass_rows("inference", memory.inference, memory.inference_peak, memory.partial)
    rows += [_FigureRow("training: saved for backward", memory.saved)]
    rows += _pass_rows("training", memory.training, memory.training_peak)
    if memory.cache is not None:
        captured = memory.cache.captured
        at = memory.cache.at(captured.batch, captured.length)
        per_token = f"{units.exact(round(memory.cache.per_token))} B per token"
        rows.append(
            _FigureRow(f"cache: batch {captured.batch}, length {units.exact(captured.length)}", at, per_token)
        )
    if cache is not None:
        rows.append(_FigureRow(f"cache: {cache[0]}", cache[1], "extrapolated linearly from one recorded pass"))
    return Table(_FIGURES, rows)


def _timeline_caption(usage: Occupancy, name: str) -> str:
    """`Activations peak at 10.7 MiB (plus 98.3 MiB of parameters, buffers and inputs)`."""
    peak, fixed = units.size(usage.peak.bytes), units.size(int(usage.total.value or 0) - usage.peak.bytes)
    if name == _STEP:
        rest = "parameters, buffers, inputs and optimizer state"
        return f"Activations and gradients peak at {peak} (plus {fixed} of {rest})"
    return f"Activations peak at {peak} (plus {fixed} of parameters, buffers and inputs)"


def _fit_title(memory: Memory, fits: Sequence[Fit]) -> str:
    """`Does it fit? (inference, bytes per device)`."""
    each = ", bytes per device" if any(fit.parallelism for fit in fits) else ""
    return f"Does it fit? ({'training' if memory.training else 'inference'}{each})"


def fit_table(fits: Sequence[Fit]) -> Table:
    """One row per device, or per way in which several share the model: memory, need, and whether it fits."""
    shared = any(fit.parallelism for fit in fits)
    return Table([column for column in _FITS if shared or column.title != "parallelism"], fits)


def sharing_table(fits: Sequence[Fit]) -> Table:
    """What the bytes per device assume, one line per number of devices and way of sharing."""
    lines = [f"{fit.count} devices, {fit.parallelism}: {fit.how.assumptions[0]}" for fit in fits if fit.parallelism]
    return notes_table(dict.fromkeys(lines))


def batch_table(batches: Mapping[str, LargestBatch], inference: Mapping[str, LargestBatch] | None = None) -> Table:
    """One row per device: the largest batch that fits, and its peak memory.

    With `inference`, `batches` are those of a training step, and each device has one row of either.
    """
    rows = [_BatchRow(name, "training step" if inference else "", batch) for name, batch in batches.items()]
    rows += [_BatchRow(name, "inference", batch) for name, batch in (inference or {}).items()]
    places = list(batches)
    rows.sort(key=lambda row: (places.index(row.device), row.use))
    return Table([column for column in _BATCHES if inference or column.title != "pass"], rows)


def _pass_rows(name: str, usage: Occupancy | None, peak: Figure, partial: bool = False) -> list[_FigureRow]:
    """What is live at the peak, and the peak; without `usage`, both are unknown for the reason of `peak`."""
    live, total = (marked_total(f"{name}: {what}", partial=partial) for what in ("alive at the peak", "peak"))
    if usage is None:
        return [_FigureRow(live, peak), _FigureRow(total, peak)]
    roles = ", ".join(f"{role} {units.size(size)}" for role, size in usage.peak.by_role.items())
    return [_FigureRow(live, usage.moving, roles), _FigureRow(total, peak, _peak_text(usage))]


def _peak_text(usage: Occupancy) -> str:
    """`at op 31 of 228, torch.batch_norm in layer1.1.bn3 (forward)`."""
    peak = usage.peak
    inside = f" in {peak.module}" if peak.module else ""
    return (
        f"at op {units.exact(peak.op + 1)} of {units.exact(len(usage.alive))}, {peak.target}{inside} ({peak.phase})"
    )


def _caveat(largest: LargestBatch) -> str:
    if not largest.monotone:
        return "peak memory fell as the batch grew: larger batches may fit"
    return "" if largest.bounded else "search limit reached: larger batches may fit"
