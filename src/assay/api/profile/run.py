"""`assay.profile`: measure the time of a model, its modules and ops, with memory, sweeps and energy."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

import torch
from msgspec.structs import replace

from assay.analysis.flow import writes_parameters
from assay.analysis.memory import memory_of
from assay.api.activations import record_activations
from assay.api.arguments import check_callable
from assay.api.machine import measure_machine
from assay.api.options import READING_OUTPUTS, RECORDING, OnProgress, OnStep, RunOptions, by_step, unreported
from assay.api.partial import warn_if_partial
from assay.api.profile import figures
from assay.api.profile import sweep as sweeping
from assay.api.profile.columns import with_columns
from assay.api.profile.conditions import processor_time
from assay.api.profile.device_times import KERNELS, with_device
from assay.api.profile.energy import energy as energy_of
from assay.api.profile.energy import notes as energy_notes
from assay.api.profile.op_times import RecordedOps
from assay.api.profile.options import EnergyOptions, ProfileOptions
from assay.api.profile.pass_times import PassTimes
from assay.api.profile.predict import memory_limit, on_shapes, over_limit
from assay.api.profile.profiled import ProfiledModel, prepare
from assay.api.profile.stages import Stages
from assay.api.profile.training import step as training_step
from assay.document.document import Document
from assay.document.machine import MonitorRecording, unknown_figure
from assay.document.profile import Conditions, KindTime, MemoryMeasured, Profile
from assay.document.provenance import Counted, Figure, Measured, Unknown
from assay.document.timing import PassMode
from assay.errors import AssayError, UsageError
from assay.machine.limits import limits_of
from assay.machine.load import OtherLoad
from assay.machine.monitor import Monitor
from assay.machine.reports import report_of_this_machine
from assay.messages import error_line, first_line
from assay.sources.open import open_source
from assay.sources.resizing import axes
from assay.timing import resident, settings
from assay.timing.bench import Budget
from assay.timing.device import synchronizer
from assay.timing.modes import two_modes
from assay.timing.rounds import clock_recorded_ops, clock_rounds

_MEMORY_PASSES = 5
MONITORED_S = 3.0
"""Minimum seconds to monitor the machine, because expensive samples may allow only a few per second."""


def profile(
    model: Any,
    inputs: Any = None,
    *,
    warmup: int = 2,
    passes: int | None = None,
    seconds: float = 10.0,
    budget: float | None = 60.0,
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
        passes: Number of timed passes. None adds passes until the times of both halves agree, at most 100.
        seconds: Seconds after which a measurement stops even if they do not. It runs at least three passes, unless
            they take more than twice as long.
        budget: Seconds for everything. Measurements for which no time is left are skipped. If None, there is no
            limit.
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
        warmup, passes, seconds, budget, optimizer, threads, thread_counts, sweeps, memory_limit, system,
        energy_options if energy else None,
    )  # fmt: skip
    profile_options.check()
    options = RunOptions("real", device, dtype, train, backward, model_args, trust, as_is)
    opened = open_source(model, model_args=model_args, trust=trust)
    document = profile_prepared(prepare(opened, inputs, options), profile_options, by_step(on_step))
    warn_if_partial(document)
    return document


def profile_prepared(
    profiled: ProfiledModel,
    options: ProfileOptions,
    on_progress: OnProgress = unreported,
    recorded: Document | None = None,
) -> Document:
    """The document of an opened model, with measured times; the same as `profile`, with the options in groups.

    `recorded` is the document of a pass of the same model and inputs; if None, a pass is recorded first.
    """
    options.check()
    for axis, _ in options.sweeps:
        axes(profiled.inputs, [axis])
    with settings.threads(options.threads):
        return _Profiling(profiled, options, on_progress).document(recorded)


class _Profiling:
    """The steps of one profile; each adds its results to the document."""

    def __init__(self, profiled: ProfiledModel, options: ProfileOptions, on_progress: OnProgress) -> None:
        self._profiled, self._options = profiled, options
        self._stages = Stages(_stage_count(profiled, options), options.budget, on_progress)
        self._notes: list[str] = []
        self._stopped = ""

    def document(self, recorded: Document | None) -> Document:
        """The document with all measurements; a step that fails adds a note and keeps the results before it."""
        predicted = self._over_memory_limit()
        if predicted is not None:
            return predicted
        self._stages.begin(RECORDING, required=True)
        try:
            document = recorded or self._profiled.observe(mode="real", backward=self._profiled.backward)
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
            steps = (self._timed, self._with_outputs, self._with_training_step, self._swept, self._with_sensors)
            for step in steps:
                try:
                    document = step(document)
                except Exception as error:  # noqa: BLE001  a model may raise anything; earlier results are kept
                    message = first_line(error) if isinstance(error, AssayError) else error_line(error)
                    self._stopped = message
                    self._notes.append(f"measuring stopped: {message}")
                    break
        assert document.profile is not None
        if self._stages.skipped:
            skipped = ", ".join(self._stages.skipped)
            self._notes.append(f"not measured, because the budget of {self._options.budget:g} s was spent: {skipped}")
        profile = with_columns(replace(document.profile, notes=self._notes, stopped=self._stopped))
        document = replace(document, profile=profile)
        return replace(document, limits=limits_of(document))

    def _timed(self, document: Document) -> Document:
        """The document with the times of the pass, its modules and its ops, and its memory."""
        from assay.recorder import inventory

        model = self._profiled.opened.module
        with self._profiled.bench() as runner:
            memory = self._memory(runner, document) if self._options.memory and self._memory_fits(runner) else None
            self._stages.begin("timing modules and ops", required=True)
            others = OtherLoad()
            rounds = clock_rounds(runner, inventory.take_inventory(model).module_index, self._budget())
            times = PassTimes(rounds, document, others.share())
            on_cpu = runner.device.type == "cpu"
            bursts = [] if on_cpu else runner.repeat_bursts(self._budget())
        if times.paths:
            self._notes.append(f"passes took different paths: times are those of {times.paths}")
        timing = replace(times.timing(), modes=_modes([each.wall for each in rounds.bare], times.conditions))
        profile = Profile(
            device=rounds.device,
            threads=torch.get_num_threads() if on_cpu else None,
            passes=len(rounds.bare),
            warmup=self._options.warmup,
            whole=timing.whole,
            processor=processor_time(rounds.bare),
            conditions=times.conditions,
            memory=memory,
        )
        if on_cpu:
            profile = replace(
                profile,
                kinds=times.kinds(),
                ops=times.ops(),
                columns={**times.columns("kinds", KindTime, "count", "kernels"), "ops": times.measured},
                closure=times.in_ops,
                overheads=times.overheads,
            )
            return replace(document, timing=timing, profile=profile)
        return self._timed_on_device(replace(document, timing=timing, profile=profile), bursts)

    def _timed_on_device(self, document: Document, bursts: Sequence[float]) -> Document:
        """The document with the kernel times of its modules and ops, from traced passes."""
        profiled, profile, timing = self._profiled, document.profile, document.timing
        assert profile is not None
        assert timing is not None
        inputs = profiled.inputs
        self._stages.begin("timing kernels", required=True)
        timed = clock_recorded_ops(
            profiled.opened.module, inputs.args, inputs.kwargs, profiled.setting(), self._budget()
        )
        kernels, count = RecordedOps(timed), len(timed.times)
        whole = figures.median_of(bursts, figures.BACK_TO_BACK)
        modes = _modes([*bursts], profile.conditions)
        timing = replace(with_device(timing, kernels, whole, count), modes=modes or timing.modes)
        device_s, whole_s = timing.device.value, whole.value
        measured = Measured(KERNELS, count)
        kinds = kernels.kinds(document.kinds)
        names = [f"kinds.{name}" for name in KindTime.__struct_fields__ if name not in ("count", "processor_s")]
        profile = replace(
            profile,
            whole=whole,
            kinds=kinds,
            ops=kernels.seconds() if len(timed.shown.ops) == len(document.ops) else [],
            columns=dict.fromkeys([*names, "ops"], measured),
            closure=Figure(device_s / whole_s, measured)
            if device_s and whole_s
            else unknown_figure("no time passed"),
            overheads={"module clock": timing.overhead, "operation clock": _traced(timed.whole, timing.as_run)},
        )
        return replace(document, timing=timing, profile=profile)

    def _with_outputs(self, document: Document) -> Document:
        """The document with statistics of outputs and gradients, if they were requested and the pass has data."""
        if not self._options.outputs or document.run.mode != "real" or document.stopped:
            return document
        whole_s = document.timing.whole.value if document.timing is not None else None
        if not self._stages.begin(READING_OUTPUTS, least_s=whole_s or 0.0):
            return document
        profiled = self._profiled
        values = record_activations(
            profiled,
            None,
            profiled.options,
            backward=profiled.backward,
            writes_parameters=profiled.writes_parameters,
            maps=True,
        )
        return replace(document, activations=values)

    def _with_training_step(self, document: Document) -> Document:
        """The document with the times of a training step, if one was recorded."""
        if document.training is None:
            if self._profiled.backward:
                self._notes.append(f"no training step: {_why_no_step(document)}")
            return document
        if not self._stages.begin("timing a training step"):
            return document
        step = training_step(self._profiled, document, self._budget(), self._options.optimizer)
        return _with(document, step=step)

    def _swept(self, document: Document) -> Document:
        """The document with sweeps over thread counts and input sizes."""
        options = self._options
        if options.thread_counts:
            points = sweeping.threads(self._profiled, document, options.thread_counts, self._stages, self._budget)
            document = _with(document, thread_points=points)
        assert document.profile is not None
        limit = resident.free(document.profile.device)
        if options.memory_limit is not None:
            limit = Figure(options.memory_limit, Counted("the given limit"))
        sweeps = [
            sweeping.sweep(self._profiled, axis, sizes, self._stages, self._budget, limit, options.optimizer)
            for axis, sizes in options.sweeps
        ]
        return _with(document, sweeps=sweeps)

    def _with_sensors(self, document: Document) -> Document:
        """The document with the machine's load and the energy, measured during additional passes."""
        options = self._options
        if not options.system and options.energy is None:
            return document

        with self._profiled.bench() as runner:
            if options.system and self._stages.begin("monitoring the machine"):
                document = _with(document, system=self._recorded(runner))
            if options.energy is not None and self._stages.begin("energy"):
                device = runner.device.type
                report = report_of_this_machine(device) or measure_machine(
                    device, quick=True, on_step=self._stages.report
                )
                limits = [each for each in (options.energy.seconds, self._stages.left_s) if each is not None]
                within = dataclasses.replace(options.energy, seconds=min(limits, default=None))
                wait = synchronizer(runner.device)
                energy = energy_of(self._profiled, document, runner.run, wait, report, within, self._stages.report)
                document = _with(document, energy=energy)
                self._notes += energy_notes(document, energy)
        return document

    def _recorded(self, runner: Any) -> MonitorRecording:
        """The monitor's recording while passes run for at least `MONITORED_S` seconds."""
        end = time.perf_counter() + self._stages.share_s(MONITORED_S)
        with Monitor() as monitor:
            while time.perf_counter() < end:
                runner.clock()
                self._stages.on_repeat()
        return monitor.recording

    def _budget(self) -> Budget:
        return self._stages.budget(self._options.warmup, self._options.passes, self._options.seconds)

    def _memory_fits(self, runner: Any) -> bool:
        # Memory takes up to five passes, and timing must follow.
        return self._stages.begin("measuring memory", least_s=2 * _MEMORY_PASSES * runner.clock().wall / 1e9)

    def _memory(self, runner: Any, document: Document) -> MemoryMeasured:
        runner.warm(1)  # memory that is allocated once and kept is not part of a pass
        inference = memory_of(document).inference
        predicted = inference.moving if inference is not None else Figure(None, Unknown("no op ran"))
        return resident.measured(runner.run, runner.device, predicted)

    def _over_memory_limit(self) -> Document | None:
        """The document of a pass on shapes if a pass with data would exceed the memory limit; None otherwise."""
        given = self._options.memory_limit
        limit = memory_limit(self._profiled, given)
        if limit is None:
            return None
        backward, strict = self._profiled.backward, given is not None
        predicted = on_shapes(self._profiled, backward=backward)
        why = over_limit(self._profiled, predicted, limit, self._options.optimizer, backward=backward, strict=strict)
        return None if why is None else replace(predicted, profile=Profile(notes=[f"not run: {why}"]))

    def _not_run(self, why: str) -> Document:
        return replace(self._profiled.observe(mode="meta"), profile=Profile(notes=[f"not run: {why}"]))


def _modes(walls_ns: Sequence[float], conditions: Conditions | None) -> tuple[PassMode, ...]:
    """The two speeds of the passes; empty if there is only one, or if other processes disturbed the passes."""
    if conditions is not None and conditions.busy:
        return ()
    modes = two_modes(walls_ns)
    return tuple(PassMode(median(mode) / 1e9, len(mode)) for mode in modes) if modes is not None else ()


def _traced(whole_ns: Sequence[int], bare: Figure) -> Figure:
    """The time of traced passes divided by that of bare ones."""
    if bare.value is None:
        return unknown_figure("no pass was timed")
    return figures.ratio(whole_ns, [1e9 * bare.value], figures.CLOCK)


def _stage_count(profiled: ProfiledModel, options: ProfileOptions) -> int:
    """The number of stages that these options announce, as far as it is known beforehand."""
    sizes = sum(len(sizes) + 1 for _, sizes in options.sweeps)
    sensors = options.system + (options.energy is not None)
    return 3 + options.outputs + profiled.backward + len(options.thread_counts) + sizes + sensors


def _with(document: Document, **fields: Any) -> Document:
    """The document with these fields of its profile replaced."""
    assert document.profile is not None
    return replace(document, profile=replace(document.profile, **fields))


def _why_no_step(document: Document) -> str:
    failure = document.run.backward_failure
    if failure is None:
        return "the model has no trainable parameters"
    return f"the backward pass failed in '{failure.module}': {failure.error}"
