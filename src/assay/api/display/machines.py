"""Previews of measurements of a machine: its limits, its load over time, and the energy of a block of code."""

from __future__ import annotations

from collections.abc import Sequence

from assay.api.display.preview import Preview, parts_of_report, preview
from assay.document.machine import MachineReport, MonitorRecording, Replay
from assay.document.provenance import Figure, Measured
from assay.findings.brief import Brief, BriefFigure, NotKnown
from assay.machine.energy import EnergyMeter
from assay.machine.monitor import Monitor
from assay.messages import plural
from assay.views.text.energy import system_table
from assay.views.text.machine import headline, machine_report

_PRECISIONS = ("fp32", "bf16", "fp16")
"""The rates that a preview shows."""
_TABLES = ("Arithmetic", "Memory")
_REASONS = 3
"""Sensors that cannot be used, of which a preview gives the reason."""


def of_machine(report: MachineReport) -> Preview:
    """The rates, the bandwidth and the overhead that were measured."""
    rates = [one for name in _PRECISIONS for one in report.arithmetic if one.name == name]
    fastest = max(report.bandwidth, key=lambda one: one.value or 0, default=None)
    known = [one for one in report.overhead if one.value is not None]
    least = min(known, key=lambda one: one.value or 0, default=None)
    figures = [BriefFigure(one.name, one.best, "count", "FLOP/s", one.at) for one in rates]
    figures += [BriefFigure("Memory", fastest.best, "count", f"B/s, {fastest.name}", fastest.at)] if fastest else []
    figures += [BriefFigure("Overhead", least.best, "seconds", "per op", least.name)] if least else []
    figures += [BriefFigure("Idle", report.idle_w, "count", "W")] if report.idle_w.value is not None else []
    unusable = [NotKnown(one.name, one.why) for one in report.sensors if not one.usable]
    brief = Brief((headline(report),), figures, unknown=unusable[:_REASONS])
    return preview(brief, parts=lambda: parts_of_report(machine_report(report).parts, _TABLES))


def of_monitor(monitor: Monitor) -> Preview:
    """What it has recorded so far."""
    return of_recording(monitor.recording)


def of_recording(recording: MonitorRecording) -> Preview:
    """The load of the machine, and the memory of this process."""
    times = recording.times_s
    figures = [
        *_means(recording, {"CPU": "cpu.utilisation", "GPU": "gpu.0.utilisation"}),
        BriefFigure("Memory", recording.rss_peak, "bytes", "peak of this process"),
        BriefFigure("Overhead", recording.overhead, "share", "of one core for sampling"),
    ]
    length = f"{times[-1] - times[0]:.3g} s" if times else ""
    brief = Brief(
        tuple(filter(None, (plural(len(times), "sample"), length, plural(len(recording.series), "metric")))),
        figures,
        unknown=[NotKnown(problem) for problem in recording.problems[:_REASONS]],
    )
    table = system_table(recording)
    return preview(brief, parts=lambda: ["Metrics", table] if table.rows else ())


def of_replay(replay: Replay) -> Preview:
    """The energy, the time and the power of one run."""
    figures = [
        BriefFigure("Energy", replay.energy_j, "joules", "per run"),
        BriefFigure("Above idle", replay.above_idle_j, "joules", "per run"),
        BriefFigure("Time", replay.time_s, "seconds", "per run"),
        BriefFigure("Power", replay.power_w, "count", "W"),
    ]
    return preview(Brief(("energy of a function", plural(replay.calls, "run")), figures))


def of_meter(meter: EnergyMeter) -> Preview:
    """The energy and the power of the last block."""
    figures = [BriefFigure("Energy", meter.energy, "joules"), BriefFigure("Power", meter.power_w, "count", "W")]
    return preview(Brief(("energy of a block of code",), figures))


def _means(recording: MonitorRecording, names: dict[str, str]) -> Sequence[BriefFigure]:
    """The mean of each series that was recorded, with its peak."""
    figures = []
    for label, name in names.items():
        series = recording.named(name)
        if series is not None and series.mean is not None:
            how = Measured("samples", len(series.known), range=(min(series.known), max(series.known)))
            figures.append(BriefFigure(label, Figure(series.mean, how), "share", "busy (mean)"))
    return figures
