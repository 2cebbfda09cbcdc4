"""Energy for the page: of the pass and of the kinds of op, and the load of the machine over time."""

from __future__ import annotations

from collections.abc import Iterator

from assay import units
from assay.document.machine import MonitorRecording, Series
from assay.document.rows import OpKind
from assay.views.html.columns import provenance
from assay.views.html.convert import block_of, blocks_of
from assay.views.html.page import AnyBlock, Bar, BarsBlock, Line, LinesBlock, PageAxis, PageView, Unit
from assay.views.html.subject import Subject
from assay.views.tables import percent
from assay.views.text.energy import energy_facts, energy_table, energy_title
from assay.views.text.profile import system_parts

_UNITS: dict[str, Unit] = {"share": "share", "B": "bytes", "W": "watts"}
"""The units of series that are drawn over time."""
_DRAWN = ("cpu.utilisation", "process.", "gpu.", "memory.")
_TOP = 12
_SPLIT = 6
"""Series of one picture."""


def energy_view(subject: Subject) -> PageView:
    """The energy of a pass."""
    document = subject.document
    energy = document.profile.energy if document.profile is not None else None
    if energy is None:
        return PageView(
            "energy", "Energy", [], f"Energy was not measured. Run `assay analyze {subject.model} --profile`."
        )
    title, *parts = [f"Energy of a pass ({energy_title(energy)})", *energy_facts(energy)]
    blocks: list[AnyBlock] = blocks_of([title, *parts], "energy")
    kinds = energy_table(document, energy)
    if kinds.rows and energy.whole.value is not None:
        method, how = provenance(kinds.rows[0].energy.each.how)
        known = [(row, "" if row.share is None else percent(row.share)) for row in kinds.rows[:_TOP]]
        bars = [Bar(_name(row.kind), row.total, note=share) for row, share in known]
        blocks.append(BarsBlock(title="Energy by kind of op", unit="joules", method=method, how=how, bars=bars))
        blocks.append(block_of(kinds, "energy-kinds"))
    recording = document.profile.system if document.profile is not None else None
    blocks += [
        *(_series_blocks(recording) if recording is not None else ()),
        *blocks_of(system_parts(document), "system"),
    ]
    return PageView("energy", "Energy", blocks)


def _name(kind: OpKind) -> str:
    """`torch.conv2d 1x256x14x14, 256x256x3x3`: the op and its first inputs."""
    return f"{units.op(kind.name)} {units.shapes(one.type.shape for one in kind.inputs[:2])}".rstrip()


def _series_blocks(recording: MonitorRecording) -> Iterator[AnyBlock]:
    """One picture per unit, of the series that say most."""
    for unit, shown in _UNITS.items():
        series = [one for one in recording.series if one.unit == unit and one.name.startswith(_DRAWN) and _moves(one)]
        if len(recording.times_s) > 1 and series:
            yield LinesBlock(
                title={"share": "Utilisation", "bytes": "Memory", "watts": "Power"}[shown] + " while it ran",
                x=PageAxis("time", "seconds", [round(time, 3) for time in recording.times_s]),
                series=[Line(f"{one.name} ({one.scope})", one.values, method="measured") for one in series[:_SPLIT]],
                unit=shown,
            )


def _moves(series: Series) -> bool:
    """Whether the series is worth drawing: it has values that differ."""
    return len(set(series.known)) > 1
