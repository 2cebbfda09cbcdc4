"""`assay.profile`: measure the time of a model, its modules and ops, with memory, sweeps and energy."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from msgspec.structs import replace

from assay.analysis.flow import writes_parameters
from assay.analysis.memory import memory_of
from assay.api.arguments import check_callable
from assay.api.machine import measure_machine
from assay.api.options import OnStep, RunOptions
from assay.api.partial import warn_if_partial
from assay.api.profile import figures, module_times, op_times, resident
from assay.api.profile import sweep as sweeping
from assay.api.profile.energy import energy as energy_of
from assay.api.profile.energy import notes as energy_notes
from assay.api.profile.options import EnergyOptions, ProfileOptions
from assay.api.profile.predict import over_limit
from assay.api.profile.profiled import ProfiledModel, prepare
from assay.api.profile.training import step as training_step
from assay.document.document import Document
from assay.document.machine import MonitorRecording
from assay.document.profile import MemoryMeasured, Profile, ThreadPoint
from assay.document.provenance import Counted, Figure, Measured, Unknown
from assay.errors import AssayError, UsageError
from assay.machine.load import BUSY, OtherLoad
from assay.machine.monitor import Monitor
from assay.messages import error_line, first_line
from assay.sources.open import open_source
from assay.sources.resizing import axes
from assay.timing import settings
from assay.timing.device import synchronizer
from assay.timing.measuring import Budget, clock_modules, clock_ops

MONITORED_S = 3.0
"""Minimum seconds to monitor the machine, because expensive samples may allow only a few per second."""
PROCESSOR_NS = 20_000_000
"""CPU time is read around groups of passes that take approximately this long together."""


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
    as_is: bool = False,
    model_args: Mapping[str, Any] | None = None,
    trust: bool = False,
    on_step: OnStep | None = None,
) -> Document:
    """Measure the time of `model`, its modules and its ops, and its memory.

    The model is left as it was.

    Args:
        model: Anything `assay.open` accepts that can be run.
        inputs: What to call the model with, in any form `assay.observe` accepts. If None, they are inferred.
        warmup: Number of untimed passes to run first.
        passes: Number of timed passes. None runs as many as fit into `seconds`, but at least three.
        seconds: Seconds per measurement if `passes` is None.
        backward: Also time a training step, in training mode.
        optimizer: The optimizer of the training step, such as `"adamw"` or `"sgd"`.
        threads: Number of CPU threads for torch. Default: torch's own setting.
        thread_counts: Thread counts to time the pass with, to compute parallel efficiency. By default none.
        sweeps: Input sizes to time the pass at, such as `[("batch", [1, 2, 4])]`. By default none.
        memory_limit: Bytes. A pass that is predicted to need more is not run. Default: no limit.
        system: Monitor the machine during additional passes.
        energy: Measure the energy of a pass, or model it if the device has no sensor.
        energy_ops: With `energy`, also replay ops to measure the energy of each kind of op, which takes minutes.
        grid: The power grid for the carbon footprint: a code such as `"FR"` or `"US-CA"`, or grams of CO2 per
            kilowatt-hour such as `"400g"`. If None, no footprint is computed.
        pue: Power usage effectiveness (energy of the building divided by energy of its machines), at least 1. Applied
            to the carbon footprint and the price.
        price: The price per kilowatt-hour. If None, no price is computed.
        device: The torch device to run on, such as `"cuda:0"`. Default: where the model is.
        dtype: The floating-point dtype to run in, such as `"bfloat16"`. Default: the model's own.
        train: Run in training mode instead of evaluation mode.
        as_is: Run every module in the mode it is in, training or evaluation.
        model_args: Keyword arguments for the function or class that builds the model. Default: no arguments.
        trust: Allow code stored in a file to run.
        on_step: Called with one line of text before each step. If None, steps are not reported.

    Returns:
        The document of one recorded pass, with measured times in seconds per module in `document.timing`, and
        everything else in `document.profile`. Its `notes` list what could not be measured, with the reason. If the
        forward pass stops midway, a `PartialWarning` is issued, and nothing is measured.

    Raises:
        UsageError: An argument is not valid, or the model cannot be run, for example because it is a document.
        InputsError: The inputs do not match the arguments of forward, or cannot be parsed or inferred.
        ReadError: The model or file cannot be read.
    """
    check_callable("on_step", on_step, optional=True)
    energy_options = EnergyOptions(grid, pue, price, by_op=energy_ops)
    energy_options.check()
    profile_options = ProfileOptions(
        warmup, passes, seconds, optimizer, threads, thread_counts, sweeps, memory_limit, system,
        energy_options if energy else None,
    )  # fmt: skip
    profile_options.check()
    options = RunOptions("real", device, dtype, train, backward, model_args, trust, as_is)
    opened = open_source(model, model_args=model_args, trust=trust)
    document = profile_prepared(prepare(opened, inputs, options), profile_options, on_step)
    warn_if_partial(document)
    return document


def profile_prepared(profiled: ProfiledModel, options: ProfileOptions, on_step: OnStep | None = None) -> Document:
    """The document of an opened model, with measured times; the same as `profile`, with the options in groups."""
    options.check()
    for axis, _ in options.sweeps:
        axes(profiled.inputs, [axis])
    with settings.threads(options.threads):
        return _Profiling(profiled, options, on_step or (lambda _: None)).document()


class _Profiling:
    """The steps of one profile; each adds its results to the document."""

    def __init__(self, profiled: ProfiledModel, options: ProfileOptions, on_step: OnStep) -> None:
        self._profiled, self._options, self._on_step = profiled, options, on_step
        self._notes: list[str] = []

    def document(self) -> Document:
        """The document with all measurements; a step that fails adds a note and keeps the results before it."""
        predicted = self._over_memory_limit()
        if predicted is not None:
            return predicted
        self._on_step("recording a pass")
        try:
            document = self._profiled.observe(mode="real", backward=self._profiled.backward)
        except UsageError as error:
            return self._not_run(str(error))
        self._profiled = dataclasses.replace(self._profiled, writes_parameters=writes_parameters(document))
        document = replace(document, profile=Profile())
        if document.run.failure is not None:
            failure = document.run.failure
            self._notes.append(f"the pass failed in '{failure.module}': {failure.error}")
        else:
            if document.run.mode == "made-up":
                self._notes.append(
                    "run with placeholder weights: value-dependent results, such as routing, may differ"
                )
            for step in (self._timed, self._with_training_step, self._swept, self._with_sensors):
                try:
                    document = step(document)
                except Exception as error:  # noqa: BLE001  a model may raise anything; earlier results are kept
                    message = first_line(error) if isinstance(error, AssayError) else error_line(error)
                    self._notes.append(f"measuring stopped: {message}")
                    break
        assert document.profile is not None
        return replace(document, profile=replace(document.profile, notes=self._notes))

    def _timed(self, document: Document) -> Document:
        """The document with the times of the pass, its modules and its ops, and its memory."""

        from assay.recorder import inventory

        inputs, setting = self._profiled.inputs, self._profiled.setting()
        model = self._profiled.opened.module
        with self._profiled.bench() as runner:
            self._on_step("measuring memory")
            memory = self._memory(runner, document)
            others = OtherLoad()
            self._on_step("timing modules")
            clocked = clock_modules(runner, inventory.take_inventory(model).module_index, self._budget())
            processor = _cpu_time(runner, min(clocked.bare))
            bursts = runner.repeat_bursts(self._budget()) if runner.device.type != "cpu" else clocked.bare
            whole = figures.of_seconds(bursts, figures.CLOCK if bursts is clocked.bare else figures.BACK_TO_BACK)
            self._note_unreliable_times(others, whole)
        self._on_step("timing ops")
        timed = clock_ops(model, inputs.args, inputs.kwargs, setting, self._budget())
        parents = [module.parent for module in document.modules]
        timing = module_times.timing(clocked, parents, op_times.device_times(timed) if timed.on_device else None)
        bare = [sample / 1e9 for sample in clocked.bare]
        profile = Profile(
            device=clocked.device,
            threads=torch.get_num_threads() if clocked.device == "cpu" else None,
            passes=len(clocked.bare),
            warmup=self._options.warmup,
            whole=whole,
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

    def _with_training_step(self, document: Document) -> Document:
        """The document with the times of a training step, if one was recorded."""
        if document.training is None:
            if self._profiled.backward:
                self._notes.append(f"no training step: {_why_no_step(document)}")
            return document
        self._on_step("timing a training step")
        step = training_step(self._profiled, document, self._budget(), self._options.optimizer)
        return _with(document, step=step)

    def _swept(self, document: Document) -> Document:
        """The document with sweeps over thread counts and input sizes."""
        options = self._options
        if options.thread_counts:
            document = _with(document, thread_points=self._thread_points())
        assert document.profile is not None
        limit = resident.free(document.profile.device)
        if options.memory_limit is not None:
            limit = Figure(options.memory_limit, Counted("the given limit"))
        sweeps = [
            sweeping.sweep(self._profiled, axis, sizes, self._budget(), limit, self._on_step)
            for axis, sizes in options.sweeps
        ]
        return _with(document, sweeps=sweeps)

    def _thread_points(self) -> list[ThreadPoint]:
        """The pass at each thread count; parallel efficiency is unknown if other processes kept the CPU busy."""
        others = OtherLoad()
        points = sweeping.threads(self._profiled, self._options.thread_counts, self._budget(), self._on_step)
        share = others.share()
        if share is None or share <= BUSY:
            return points
        self._notes.append(f"{_busy(share)}: parallel efficiency is unknown")
        return [point if point.threads == 1 else replace(point, efficiency=None) for point in points]

    def _with_sensors(self, document: Document) -> Document:
        """The document with the machine's load and the energy, measured during additional passes."""
        options = self._options
        if not options.system and options.energy is None:
            return document

        with self._profiled.bench() as runner:
            if options.system:
                self._on_step("monitoring the machine")
                document = _with(document, system=self._recorded(runner))
            if options.energy is not None:
                report = measure_machine(runner.device.type, on_step=self._on_step)
                wait = synchronizer(runner.device)
                energy = energy_of(self._profiled, document, runner.run, wait, report, options.energy, self._on_step)
                document = _with(document, energy=energy)
                self._notes += energy_notes(document, energy)
        return document

    def _recorded(self, runner: Any) -> MonitorRecording:
        """The monitor's recording while passes run for at least `MONITORED_S` seconds."""
        end = time.perf_counter() + max(self._options.seconds, MONITORED_S)
        with Monitor() as monitor:
            while time.perf_counter() < end:
                runner.time_ns()
        return monitor.recording

    def _note_unreliable_times(self, others: OtherLoad, whole: Figure) -> None:
        """Add a note if other processes kept the machine busy, or if the pass time varies more than its median."""
        share = others.share()
        reasons = [f"{_busy(share)}: timings are inflated"] if share is not None and share > BUSY else []
        if isinstance(whole.how, Measured) and (whole.how.spread or 0.0) > (whole.value or 0.0):
            reasons.append("timings unreliable: rerun with more passes or on an idle machine")
        if reasons:
            self._notes.append("; ".join(reasons))

    def _budget(self) -> Any:
        options = self._options
        if options.passes is not None:
            return Budget(options.warmup, options.passes, options.passes, 0.0)
        return Budget(options.warmup, seconds=options.seconds)

    def _memory(self, runner: Any, document: Document) -> MemoryMeasured:
        runner.warm(1)  # memory that is allocated once and kept is not part of a pass
        growth, peak = resident.growth(runner.run)
        inference = memory_of(document).inference
        return MemoryMeasured(
            process_growth=growth,
            process_peak=peak,
            allocator_peak=resident.allocator_peak(runner),
            predicted_activations=inference.moving if inference is not None else Figure(None, Unknown("no op ran")),
        )

    def _over_memory_limit(self) -> Document | None:
        """The document of a pass on shapes if a pass with data would exceed the memory limit; None otherwise."""
        limit = self._options.memory_limit
        if limit is None:
            return None
        predicted = self._profiled.observe(mode="meta", backward=self._profiled.backward)
        why = over_limit(predicted, limit)
        return None if why is None else replace(predicted, profile=Profile(notes=[f"not run: {why}"]))

    def _not_run(self, why: str) -> Document:
        return replace(self._profiled.observe(mode="meta"), profile=Profile(notes=[f"not run: {why}"]))


def _busy(share: float) -> str:
    return f"machine busy ({100 * share:.0f} % used by other processes)"


def _with(document: Document, **fields: Any) -> Document:
    """The document with these fields of its profile replaced."""
    assert document.profile is not None
    return replace(document, profile=replace(document.profile, **fields))


def _why_no_step(document: Document) -> str:
    failure = document.run.backward_failure
    if failure is None:
        return "the model has no trainable parameters"
    return f"the backward pass failed in '{failure.module}': {failure.error}"


def _cpu_time(runner: Any, pass_ns: int) -> Figure:
    """The CPU time of one pass; short passes are measured in groups because the clock may be coarse."""
    count = max(1, round(PROCESSOR_NS / max(pass_ns, 1)))
    samples = []
    for _ in range(3):
        begin = time.process_time_ns()
        runner.warm(count)
        samples.append((time.process_time_ns() - begin) // count)
    return figures.of_seconds(samples, "CPU time of the process")
