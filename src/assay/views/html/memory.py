"""Memory for the page: live bytes over a pass, what is alive at the peak, and peaks over input sizes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from assay import units
from assay.analysis.memory.lifetimes import PassStorages, forward, training_step
from assay.analysis.memory.stages import Stage, module_stages, phases
from assay.analysis.memory.totals import Occupancy
from assay.document.profile import Sweep, SweepPoint
from assay.views.canvas import sampled
from assay.views.html.convert import block_of, blocks_of
from assay.views.html.page import AnyBlock, AreaBlock, Line, LinesBlock, NotesBlock, PageAxis, PageStage, PageView
from assay.views.html.subject import Subject
from assay.views.tables import printable
from assay.views.text.memory import live_table, sizes_table
from assay.views.text.profile_memory import comparison_parts

_POINTS = 1200
"""Values of a timeline: more than a screen has pixels for."""


def memory_view(subject: Subject) -> PageView:
    """What is in memory during a pass."""
    memory, document = subject.memory, subject.document
    if memory is None:
        return PageView("memory", "Memory", [], f"No tensors are known. Run `assay memory {subject.model}`.")
    blocks: list[AnyBlock] = []
    step = training_step(document)
    passes = ((memory.inference, "Inference", forward(document)), (memory.training, "Training step", step))
    for usage, name, recorded in passes:
        if usage is not None and recorded is not None:
            blocks += [_timeline(name, usage, recorded)]
            blocks += [block_of(live_table(usage), f"live-{name.split()[0].lower()}", f"{name}: live at the peak")]
    blocks.append(block_of(sizes_table(memory), "sizes", "Sizes"))
    blocks += blocks_of(comparison_parts(document, memory), "peaks")
    if document.profile is not None:
        blocks += [block for sweep in document.profile.sweeps for block in _memory_sweep(sweep)]
    if memory.training is None:
        blocks.append(
            NotesBlock(
                lines=[f"no training step was recorded: `assay analyze {subject.model} --inference --backward`"]
            )
        )
    return PageView("memory", "Memory", blocks)


def _timeline(name: str, usage: Occupancy, recorded: PassStorages) -> AnyBlock:
    """Live bytes over the ops of a pass, without parameters, buffers and inputs."""
    count = len(usage.alive)
    values = sampled(usage.alive, _POINTS) if count > _POINTS else usage.alive
    scale = len(values) / count if count else 1.0

    def stages(found: Sequence[Stage]) -> list[PageStage]:
        return [PageStage(printable(one.name), int(one.first * scale), int(one.last * scale)) for one in found]

    several = phases(recorded)
    where = f" in {printable(usage.peak.module)}" if usage.peak.module else ""
    return AreaBlock(
        title=f"{name}: activations over the pass",
        caption=(
            f"{units.size(usage.peak.bytes)} of activations at the peak, op {usage.peak.op + 1:,} of {count:,} "
            f"({units.op(usage.peak.target)}{where}); {units.size(usage.total.value)} with weights and inputs."
        ),
        unit="bytes",
        values=list(values),
        peak=min(int(usage.peak.op * scale), max(len(values) - 1, 0)),
        stages=stages(module_stages(recorded)),
        phases=stages(several) if len(several) > 1 else [],
        x=f"ops 1 to {count:,}",
    )


def _memory_sweep(sweep: Sweep) -> Iterator[AnyBlock]:
    """Peak memory over the swept sizes: of a pass, predicted and measured, and of a training step."""
    series = {
        "pass, predicted": [point.memory for point in sweep.points],
        "pass, measured": [point.measured_memory for point in sweep.points],
        "training step, predicted": [point.step_memory for point in sweep.points],
    }
    known = {name: figures for name, figures in series.items() if any(one.value is not None for one in figures)}
    if len(sweep.points) < 2 or not known:
        return
    yield LinesBlock(
        title=f"Peak memory over {sweep.axis}",
        caption=_growth(sweep),
        x=PageAxis(sweep.axis, "exact", [float(point.sizes[sweep.axis]) for point in sweep.points]),
        series=[Line(name, [one.value for one in figures]) for name, figures in known.items()],
        unit="bytes",
    )


def _growth(sweep: Sweep) -> str:
    def peak(point: SweepPoint) -> float | None:
        return point.step_memory.value if point.step_memory.value is not None else point.memory.value

    first, last = sweep.points[0], sweep.points[-1]
    low, high = peak(first), peak(last)
    if low is None or high is None:
        return ""
    what = "a training step" if last.step_memory.value is not None else "a pass"
    sizes = f"{first.sizes[sweep.axis]:,} to {last.sizes[sweep.axis]:,}"
    return f"From {sweep.axis} {sizes}, the peak of {what} grows from {units.size(low)} to {units.size(high)}."
