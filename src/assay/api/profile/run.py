"""Profiling a model: the document of a pass, with the times of its modules and operations, memory and sweeps."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from msgspec.structs import replace

from assay.analysis.memory import memory_of
from assay.api.machine import measure_machine
from assay.api.options import OnStep, RunOptions
from assay.api.profile import figures, module_times, op_times, resident
from assay.api.profile import sweep as sweeping
from assay.api.profile.energy import energy as energy_of
from assay.api.profile.options import EnergyOptions, ProfileOptions
from assay.api.profile.predict import over_limit
from assay.api.profile.profiled import ProfiledModel, prepared
from assay.api.profile.training import step as training_step
from assay.document.document import Document
from assay.document.machine import MonitorRecording
from assay.document.profile import MemoryMeasured, Profile, ThreadPoint
from assay.document.provenance import Counted, Figure, Unknown
from assay.errors import AssayError, UsageError
from assay.machine.load import BUSY, OtherWork
from assay.machine.monitor import Monitor
from assay.messages import error_line, first_line
from assay.sources.open import open_source
from assay.sources.resizing import axes
from assay.timing import settings
from assay.timing.device import synchronizer
from assay.timing.measuring import Budget, bench, clock_modules, clock_ops

MONITORED_S = 3.0
"""The machine is watched for no less than this: a sample may cost so much that there are only a few a second."""
PROCESSOR_NS = 20_000_000
"""Processor time is read around passes that take about this long together."""


def profile(
    model: Any,
    inputs: Any = None,
    *,
    warmup: int = 2,
    passes: int | None = None,
    seconds: float = 2.0,
    backward: bool = False,
    optimizer: str = "adamw",
    threads: int | None = None,
    thread_counts: Sequence[int] = (),
    sweeps: Sequence[tuple[str, Sequence[int]]] = (),
    memory_limit: int | None = None,
    system: bool = False,
    energy: bool = False,
    energy_ops: bool = False,
    grid: str | None = None,
    pue: float = 1.0,
    price: float | None = None,
    device: str | None = None,
    dtype: str | None = None,
    train: bool = False,
    model_args: Mapping[str, Any] | None = None,
    trust: bool = False,
    on_step: OnStep | None = None,
) -> Document:
    """The document of `model` with measured times: `document.timing` by module, `document.profile` for the rest.

    The model is left as it was. What could not be measured is listed in `document.profile.notes`.

    Args:
        model: Anything `assay.open` takes that can be run.
        inputs: What to call the model with, as `assay.observe` takes it; inferred where left out.
        warmup: Passes that are run first and not timed.
        passes: Timed passes; None runs as many as fit into `seconds`, and at least three.
        seconds: Time for each measurement where `passes` is None.
        backward: Time a training step too, in training mode.
        optimizer: The optimizer of the training step.
        threads: The number of threads torch works with; None leaves it as it is.
        thread_counts: Numbers of threads to time the pass with, for parallel efficiency.
        sweeps: Sizes to time the pass at, such as `[("batch", [1, 2, 4])]`.
        memory_limit: Bytes; what is predicted to need more is not run.
        system: Monitor the machine while further passes run.
        energy: Measure the energy of a pass, or model it where no sensor covers the device.
        energy_ops: Replay operations to measure the energy of each kind, which takes minutes.
        grid: The power grid for carbon dioxide, such as `"FR"`, `"US-CA"` or `"400g"`.
        pue: Energy of the building over that of its machines, for `grid` and `price`.
        price: The price of a kilowatt-hour.
        device: The torch device to run on.
        dtype: The floating-point type to run in, such as `"bfloat16"`.
        train: Run in training mode.
        model_args: Keyword arguments for the function or class that builds the model.
        trust: Allow code from a file to run.
        on_step: Called with a line of text before each step.
    """
    wanted = EnergyOptions(grid, pue, price, by_op=energy_ops)
    wanted.check()
    measured = ProfileOptions(
        warmup, passes, seconds, optimizer, threads, thread_counts, sweeps, memory_limit, system,
        wanted if energy else None,
    )  # fmt: skip
    measured.check()
    options = RunOptions("real", device, dtype, train, backward, model_args, trust)
    opened = open_source(model, model_args=model_args, trust=trust)
    return measure(prepared(opened, inputs, options), measured, on_step)


def measure(profiled: ProfiledModel, options: ProfileOptions, on_step: OnStep | None = None) -> Document:
    """The document of a model that was opened, with measured times."""
    options.check()
    for axis, _ in options.sweeps:
        axes(profiled.inputs, [axis])
    with settings.threads(options.threads):
        return _Profiling(profiled, options, on_step or (lambda _: None)).document()


class _Profiling:
    """The steps of one profile, each adding to the document and to its profile."""

    def __init__(self, profiled: ProfiledModel, options: ProfileOptions, on_step: OnStep) -> None:
        self._profiled, self._options, self._on_step = profiled, options, on_step
        self._notes: list[str] = []

    def document(self) -> Document:
        """Everything that could be measured; a step that fails leaves a note, and what was measured before it."""
        refused = self._beyond_limit()
        if refused is not None:
            return refused
        self._on_step("recording a pass")
        try:
            document = self._profiled.observe(mode="real", backward=self._profiled.backward)
        except UsageError as error:
            return self._unrun(str(error))
        document = replace(document, profile=Profile())
        if document.run.failure is not None:
            failure = document.run.failure
            self._notes.append(f"the pass stopped in '{failure.module}': {failure.error}")
        else:
            if document.run.mode == "made-up":
                self._notes.append("run with made-up weights: what depends on values, such as routing, may differ")
            for step in (self._timed, self._stepped, self._swept, self._sensed):
                try:
                    document = step(document)
                except Exception as error:  # noqa: BLE001  a model may raise anything; what was measured stays
                    told = first_line(error) if isinstance(error, AssayError) else error_line(error)
                    self._notes.append(f"measuring stopped: {told}")
                    break
        assert document.profile is not None
        return replace(document, profile=replace(document.profile, notes=self._notes))

    def _timed(self, document: Document) -> Document:
        """The pass, its modules and its operations."""

        from assay.recorder import inventory
        from assay.timing.measuring import bench

        given, setting = self._profiled.inputs, self._profiled.setting()
        model = self._profiled.opened.module
        writes = any(one.written and one.role == "parameter" for kind in document.kinds for one in kind.inputs)
        with bench(model, given.args, given.kwargs, setting, keep_parameters=writes) as stand:
            self._on_step("memory of a pass")
            memory = self._memory(stand, document)
            others = OtherWork()
            self._on_step("timing modules")
            clocked = clock_modules(stand, inventory.take(model).module_index, self._budget())
            processor = _processor(stand, min(clocked.bare))
            bursts = stand.repeat_bursts(self._budget()) if stand.device.type != "cpu" else clocked.bare
            self._note_others(others)
        self._on_step("timing operations")
        timed = clock_ops(model, given.args, given.kwargs, setting, self._budget())
        parents = [module.parent for module in document.modules]
        timing = module_times.timing(clocked, parents, op_times.device_times(timed) if timed.on_device else None)
        bare = [sample / 1e9 for sample in clocked.bare]
        profile = Profile(
            device=clocked.device,
            threads=torch.get_num_threads() if clocked.device == "cpu" else None,
            passes=len(clocked.bare),
            warmup=self._options.warmup,
            whole=figures.of_seconds(bursts, figures.CLOCK if bursts is clocked.bare else figures.BACK_TO_BACK),
            processor=processor,
            kinds=op_times.kind_times(timed, document.kinds),
            closure=figures.ratio(op_times.whole_passes(timed, "forward"), bare),
            overheads={
                "module clock": timing.overhead,
                "operation clock": figures.ratio([sample / 1e9 for sample in timed.whole], bare),
            },
            memory=memory,
        )
        return replace(document, timing=timing, profile=profile)

    def _stepped(self, document: Document) -> Document:
        """A training step, where one was watched."""
        if document.training is None:
            if self._profiled.backward:
                self._notes.append(f"no training step: {_why_no_step(document)}")
            return document
        self._on_step("timing a training step")
        found = training_step(self._profiled, document, self._budget(), self._options.optimizer)
        return _with(document, step=found)

    def _swept(self, document: Document) -> Document:
        """Other numbers of threads and other sizes."""
        options = self._options
        if options.thread_counts:
            document = _with(document, thread_points=self._threaded())
        assert document.profile is not None
        limit = resident.free(document.profile.device)
        if options.memory_limit is not None:
            limit = Figure(options.memory_limit, Counted("the limit that was given"))
        sweeps = [
            sweeping.sweep(self._profiled, axis, sizes, self._budget(), limit, self._on_step)
            for axis, sizes in options.sweeps
        ]
        return _with(document, sweeps=sweeps)

    def _threaded(self) -> list[ThreadPoint]:
        """The pass with other numbers of threads; what they bring is unknown where others wanted the same cores."""
        others = OtherWork()
        points = sweeping.threads(self._profiled, self._options.thread_counts, self._budget(), self._on_step)
        share = others.share()
        if share is None or share <= BUSY:
            return points
        self._notes.append(f"other work took {share:.0%} of the processor: what threads bring is unknown")
        return [point if point.threads == 1 else replace(point, efficiency=None) for point in points]

    def _sensed(self, document: Document) -> Document:
        """What sensors said while further passes ran."""
        options, given = self._options, self._profiled.inputs
        if not options.system and options.energy is None:
            return document

        with bench(self._profiled.opened.module, given.args, given.kwargs, self._profiled.setting()) as stand:
            if options.system:
                self._on_step("watching the machine")
                document = _with(document, system=self._recorded(stand))
            if options.energy is not None:
                report = measure_machine(stand.device.type, on_step=self._on_step)
                wait = synchronizer(stand.device)
                found = energy_of(self._profiled, document, stand.run, wait, report, options.energy, self._on_step)
                document = _with(document, energy=found)
        return document

    def _recorded(self, stand: Any) -> MonitorRecording:
        """What the monitor saw over passes of at least so many seconds."""
        end = time.perf_counter() + max(self._options.seconds, MONITORED_S)
        with Monitor() as monitor:
            while time.perf_counter() < end:
                stand.time_ns()
        return monitor.recording

    def _note_others(self, others: OtherWork) -> None:
        share = others.share()
        if share is not None and share > BUSY:
            self._notes.append(
                f"other work took {share:.0%} of the processor meanwhile: times are larger than they need be"
            )

    def _budget(self) -> Any:

        options = self._options
        if options.passes is not None:
            return Budget(options.warmup, options.passes, options.passes, 0.0)
        return Budget(options.warmup, seconds=options.seconds)

    def _memory(self, stand: Any, document: Document) -> MemoryMeasured:
        stand.warm(1)  # what is made once and kept is not of a pass
        grown, peak = resident.growth(stand.run)
        inference = memory_of(document).inference
        return MemoryMeasured(
            process_growth=grown,
            process_peak=peak,
            allocator_peak=resident.allocator_peak(stand),
            predicted_activations=inference.moving if inference is not None else Figure(None, Unknown("nothing ran")),
        )

    def _beyond_limit(self) -> Document | None:
        """The predicted document where running would take more memory than allowed."""
        limit = self._options.memory_limit
        if limit is None:
            return None
        predicted = self._profiled.observe(mode="meta", backward=self._profiled.backward)
        why = over_limit(predicted, limit)
        return None if why is None else replace(predicted, profile=Profile(notes=[f"not run: {why}"]))

    def _unrun(self, why: str) -> Document:
        return replace(self._profiled.observe(mode="meta"), profile=Profile(notes=[f"not run: {why}"]))


def _with(document: Document, **found: Any) -> Document:
    """The document with more in its profile."""
    assert document.profile is not None
    return replace(document, profile=replace(document.profile, **found))


def _why_no_step(document: Document) -> str:
    failure = document.run.backward_failure
    if failure is None:
        return "the model has nothing to train"
    return f"the backward pass stopped in '{failure.module}': {failure.error}"


def _processor(stand: Any, pass_ns: int) -> Figure:
    """The processor time of a pass; its clock may be coarse, so that short passes are taken together."""
    count = max(1, round(PROCESSOR_NS / max(pass_ns, 1)))
    samples = []
    for _ in range(3):
        begin = time.process_time_ns()
        stand.warm(count)
        samples.append((time.process_time_ns() - begin) // count)
    return figures.of_seconds(samples, "the process's processor time")
