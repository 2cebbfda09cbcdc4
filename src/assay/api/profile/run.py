"""Profiling a model: the document of a pass, with the times of its modules and operations, memory and sweeps."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from assay.analysis.memory import memory_of
from assay.analysis.memory.optimizers import optimizer_named
from assay.api.machine import measure_machine
from assay.api.profile import figures, module_times, op_times, resident
from assay.api.profile import sweep as sweeping
from assay.api.profile.energy import Asked, energy
from assay.api.profile.predict import beyond
from assay.api.profile.subject import Subject, subject
from assay.document.document import Document
from assay.document.machine import Recording
from assay.document.profile import MemoryMeasured, Profile, ThreadPoint
from assay.document.provenance import Counted, Figure, Unknown
from assay.errors import AssayError, UsageError
from assay.machine.load import BUSY, OtherWork
from assay.machine.monitor import Monitor
from assay.sources.resizing import axes

MONITORED_S = 3.0
"""The machine is watched for no less than this: a sample may cost so much that there are only a few a second."""
PROCESSOR_NS = 20_000_000
"""Processor time is read around passes that take about this long together."""


class Wishes(NamedTuple):
    """What is to be measured beside the pass itself."""

    warmup: int = 2
    passes: int | None = None
    """None: as many as fit into `seconds`, and at least three."""
    seconds: float = 2.0
    backward: bool = False
    optimizer: str = "adamw"
    threads: int | None = None
    thread_counts: Sequence[int] = ()
    sweeps: Sequence[tuple[str, Sequence[int]]] = ()
    memory_limit: int | None = None
    """Bytes: what is predicted to need more is not run."""
    system: bool = False
    """Watch the machine while passes run, apart from those that are timed."""
    energy: Asked | None = None
    """Energy of the pass, and of operations where a sensor can tell."""


def profile(
    model: Any,
    inputs: Any = None,
    *,
    device: str | None = None,
    dtype: str | None = None,
    train: bool = False,
    model_args: Mapping[str, Any] | None = None,
    trust: bool = False,
    tell: Callable[[str], None] = lambda _: None,
    **wishes: Any,
) -> Document:
    """The document of `model` with what clocks said: `document.timing` and `document.profile`.

    Further options are those of `Wishes`; `backward` runs everything in training mode. The model is left as it was.
    What cannot be measured is said in `document.profile.notes`.
    """
    wanted = Wishes(**wishes)
    _check(wanted)
    found = model
    if not isinstance(found, Subject):
        train = train or wanted.backward
        found = subject(
            model, inputs, device=device, dtype=dtype, train=train, model_args=model_args, trust=trust
        )  # fmt: skip
    for axis, _ in wanted.sweeps:
        axes(found.inputs, [axis])
    with _threads(wanted.threads):
        return _Profiling(found, wanted, tell).document()


def _check(wishes: Wishes) -> None:
    """Refuse, before any long work, what could not be answered."""
    if wishes.energy is not None:
        wishes.energy.check()
    if wishes.backward:
        optimizer_named(wishes.optimizer)


class _Profiling:
    """The steps of one profile, each adding to the document and to its profile."""

    def __init__(self, found: Subject, wishes: Wishes, tell: Callable[[str], None]) -> None:
        self._subject, self._wishes, self._tell = found, wishes, tell
        self._notes: list[str] = []

    def document(self) -> Document:
        """Everything that could be measured; a step that fails leaves a note, and what was measured before it."""
        refused = self._beyond_limit()
        if refused is not None:
            return refused
        self._tell("recording a pass")
        try:
            document = self._subject.observe(mode="real", backward=self._wishes.backward)
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
                    self._notes.append(_first_line(error))
                    break
        assert document.profile is not None
        return replace(document, profile=replace(document.profile, notes=self._notes))

    def _timed(self, document: Document) -> Document:
        """The pass, its modules and its operations."""
        import torch

        from assay.recorder import inventory
        from assay.timing.measuring import bench, clock_modules, clock_ops

        given, setting = self._subject.inputs, self._subject.setting()
        model = self._subject.opened.module
        writes = any(one.written and one.role == "parameter" for kind in document.kinds for one in kind.inputs)
        with bench(model, given.args, given.kwargs, setting, keep_parameters=writes) as stand:
            self._tell("memory of a pass")
            memory = self._memory(stand, document)
            others = OtherWork()
            self._tell("timing modules")
            clocked = clock_modules(stand, inventory.take(model).module_index, self._budget())
            processor = _processor(stand, min(clocked.bare))
            bursts = stand.repeat_bursts(self._budget()) if stand.device.type != "cpu" else clocked.bare
            self._note_others(others)
        self._tell("timing operations")
        timed = clock_ops(model, given.args, given.kwargs, setting, self._budget())
        parents = [module.parent for module in document.modules]
        timing = module_times.timing(clocked, parents, op_times.device_times(timed) if timed.on_device else None)
        bare = [sample / 1e9 for sample in clocked.bare]
        profile = Profile(
            device=clocked.device,
            threads=torch.get_num_threads() if clocked.device == "cpu" else None,
            passes=len(clocked.bare),
            warmup=self._wishes.warmup,
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
        from assay.api.profile.training import step

        if document.training is None:
            if self._wishes.backward:
                self._notes.append(f"no training step: {_last(document.run.assumptions)}")
            return document
        self._tell("timing a training step")
        found = step(self._subject, document, self._budget(), self._wishes.optimizer)
        return _with(document, step=found)

    def _swept(self, document: Document) -> Document:
        """Other numbers of threads and other sizes."""
        wishes = self._wishes
        if wishes.thread_counts:
            document = _with(document, thread_points=self._threaded())
        assert document.profile is not None
        limit = resident.free(document.profile.device)
        if wishes.memory_limit is not None:
            limit = Figure(wishes.memory_limit, Counted("the limit that was given"))
        sweeps = [
            sweeping.sweep(self._subject, axis, sizes, self._budget(), limit, self._tell)
            for axis, sizes in wishes.sweeps
        ]
        return _with(document, sweeps=sweeps)

    def _threaded(self) -> list[ThreadPoint]:
        """The pass with other numbers of threads; what they bring is unknown where others wanted the same cores."""
        others = OtherWork()
        points = sweeping.threads(self._subject, self._wishes.thread_counts, self._budget(), self._tell)
        share = others.share()
        if share is None or share <= BUSY:
            return points
        self._notes.append(f"other work took {share:.0%} of the processor: what threads bring is unknown")
        return [point if point.threads == 1 else replace(point, efficiency=None) for point in points]

    def _sensed(self, document: Document) -> Document:
        """What sensors said while further passes ran."""
        wishes, given = self._wishes, self._subject.inputs
        if not wishes.system and wishes.energy is None:
            return document
        from assay.timing.device import synchronizer
        from assay.timing.measuring import bench

        with bench(self._subject.opened.module, given.args, given.kwargs, self._subject.setting()) as stand:
            if wishes.system:
                self._tell("watching the machine")
                document = _with(document, system=self._recorded(stand))
            if wishes.energy is not None:
                report = measure_machine(stand.device.type, told=self._tell)
                wait = synchronizer(stand.device)
                found = energy(self._subject, document, stand.run, wait, report, wishes.energy, self._tell)
                document = _with(document, energy=found)
        return document

    def _recorded(self, stand: Any) -> Recording:
        """What the monitor saw over passes of at least so many seconds."""
        end = time.perf_counter() + max(self._wishes.seconds, MONITORED_S)
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
        from assay.timing.measuring import Budget

        wishes = self._wishes
        if wishes.passes is not None:
            return Budget(wishes.warmup, wishes.passes, wishes.passes, 0.0)
        return Budget(wishes.warmup, seconds=wishes.seconds)

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
        limit = self._wishes.memory_limit
        if limit is None:
            return None
        predicted = self._subject.observe(mode="meta", backward=self._wishes.backward)
        why = beyond(predicted, limit)
        return None if why is None else replace(predicted, profile=Profile(notes=[f"not run: {why}"]))

    def _unrun(self, why: str) -> Document:
        return replace(self._subject.observe(mode="meta"), profile=Profile(notes=[f"not run: {why}"]))


def _with(document: Document, **found: Any) -> Document:
    """The document with more in its profile."""
    assert document.profile is not None
    return replace(document, profile=replace(document.profile, **found))


def _last(assumptions: Sequence[str]) -> str:
    """Why the backward pass stopped: it is the last thing that was assumed."""
    return assumptions[-1] if assumptions else "the model has nothing to train"


def _processor(stand: Any, pass_ns: int) -> Figure:
    """The processor time of a pass; its clock may be coarse, so that short passes are taken together."""
    count = max(1, round(PROCESSOR_NS / max(pass_ns, 1)))
    samples = []
    for _ in range(3):
        begin = time.process_time_ns()
        stand.warm(count)
        samples.append((time.process_time_ns() - begin) // count)
    return figures.of_seconds(samples, "the process's processor time")


@contextlib.contextmanager
def _threads(count: int | None) -> Iterator[None]:
    import torch

    before = torch.get_num_threads()
    if count is not None:
        torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _first_line(error: BaseException) -> str:
    lines = str(error).splitlines()
    kind = "" if isinstance(error, AssayError) and lines else f"{type(error).__name__}: "
    return f"measuring stopped: {kind}{lines[0] if lines else ''}".removesuffix(": ")
