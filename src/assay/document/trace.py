"""What one trace tells, as rows. Times are whole nanoseconds; None is a figure nobody knows.

`cpu_total_ns` of a layer holds everything inside its calls, a call inside a call of the same layer once;
`cpu_self_ns` leaves out what its submodules took. Self times of all layers and the rows of `outside` add up to
`Trace.cpu_ns`, and the same holds for accelerator time with the rows of `unattributed` added.
"""

from __future__ import annotations

from msgspec import Struct, field


class Spread(Struct, frozen=True):
    """How a time varies over calls."""

    min_ns: int
    median_ns: int
    p95_ns: int
    """The smallest that 95 % of the calls do not exceed."""
    max_ns: int


class LayerTimes(Struct, frozen=True, omit_defaults=True):
    """One module of the traced model."""

    name: str
    """Its path; `nn.Module: Linear_0` or an annotation where the trace has no paths."""
    calls: int
    cpu_total_ns: int
    cpu_self_ns: int
    per_call: Spread
    """Of the CPU time of one call, submodules included."""
    gpu_total_ns: int | None = None
    gpu_self_ns: int | None = None
    communication_ns: int | None = None
    """The part of `gpu_self_ns` that is communication, where ranks wait for each other."""
    kernels: int | None = None
    """Launched by the layer itself, not by its submodules."""
    backward_cpu_ns: int | None = None
    backward_gpu_ns: int | None = None
    allocated_bytes: int | None = None
    freed_bytes: int | None = None
    shapes: tuple[str, ...] = ()
    """Of its inputs, each distinct one once."""
    ops: dict[str, int] = field(default_factory=dict)
    """Operations it ran itself, and how often."""
    class_name: str = ""


class OutsideTimes(Struct, frozen=True, omit_defaults=True):
    """Time on threads or accelerators that belongs to no layer's forward."""

    what: str
    cpu_ns: int
    gpu_ns: int | None = None
    kernels: int | None = None


class Unattributed(Struct, frozen=True):
    """Accelerator time that cannot be given to any layer."""

    why: str
    kernels: int
    gpu_ns: int


class OpTimes(Struct, frozen=True, omit_defaults=True):
    """One operation by name."""

    name: str
    calls: int
    cpu_total_ns: int
    cpu_self_ns: int
    per_call: Spread
    gpu_ns: int | None = None
    """Of the kernels it launched itself, not through another operation."""
    kernels: int | None = None


class KernelTimes(Struct, frozen=True, omit_defaults=True):
    """One kernel, copy or fill by name."""

    name: str
    kind: str
    """`compute`, `communication`, `copy` or `fill`."""
    calls: int
    gpu_ns: int
    per_call: Spread
    latency: Spread | None = None
    """From the beginning of the launch call to the beginning of the kernel; None without launch records."""
    bytes: int | None = None
    """What copies moved."""


class StepTimes(Struct, frozen=True, omit_defaults=True):
    """One step as the profiler marked it."""

    name: str
    start_ns: int
    cpu_ns: int
    gpu_ns: int | None = None
    """Of what was launched in it."""
    kernels: int | None = None


class ThreadTimes(Struct, frozen=True, omit_defaults=True):
    """One thread that recorded spans."""

    name: str
    start_ns: int
    cpu_ns: int
    """From its first span to its last."""
    recorded_ns: int
    """The part covered by spans."""
    spans: int


class DeviceTimes(Struct, frozen=True, omit_defaults=True):
    """How one accelerator was used between its first and last kernel."""

    name: str
    span_ns: int
    busy_ns: int
    """At least one kernel, copy or fill under way."""
    idle_ns: int
    idle_causes: dict[str, int] = field(default_factory=dict)
    """Idle time by what the next kernel waited for; they add up to `idle_ns`."""
    compute_ns: int = 0
    communication_ns: int = 0
    copy_ns: int = 0
    communication_hidden_ns: int = 0
    """Communication while something computes."""
    copy_hidden_ns: int = 0
    streams: int = 0
    queue_max: int | None = None
    """The most kernels that were launched and had not begun."""
    queue_mean: float | None = None
    """The same over time."""


class MemoryTimeline(Struct, frozen=True, omit_defaults=True):
    """What one device's allocator held."""

    device: str
    peak_bytes: int
    peak_at_ns: int
    """After the trace's beginning."""
    peak_layer: str | None
    """The layer that was running then."""
    allocated_bytes: int
    freed_bytes: int
    events: int
    timeline: tuple[tuple[int, int], ...] = ()
    """Times after the trace's beginning and the most held until the next of them."""


class Trace(Struct, frozen=True, omit_defaults=True):
    """Everything read from one trace file."""

    path: str
    wall_ns: int
    """From the first span to the last, on any thread or accelerator."""
    cpu_ns: int
    """Threads added up, each from its first span to its last: the pass's time where there is one thread."""
    gpu_ns: int | None
    """Kernels, copies and fills added up; None where there is no accelerator in the trace."""
    layers_from: str
    """What layers were told by: `labels`, `nn.Module`, `annotations` or nothing."""
    layers: list[LayerTimes] = field(default_factory=list)
    outside: list[OutsideTimes] = field(default_factory=list)
    unattributed: list[Unattributed] = field(default_factory=list)
    ops: list[OpTimes] = field(default_factory=list)
    kernels: list[KernelTimes] = field(default_factory=list)
    steps: list[StepTimes] = field(default_factory=list)
    threads: list[ThreadTimes] = field(default_factory=list)
    devices: list[DeviceTimes] = field(default_factory=list)
    memory: list[MemoryTimeline] = field(default_factory=list)
    model_name: str = ""
    rank: int | None = None
    world_size: int | None = None
    events: int = 0
    skipped: dict[str, int] = field(default_factory=dict)
    """Events that could not be taken as they stand, by reason."""
    complete: bool = True
    """Whether the file's end was the end of its JSON."""
    notes: tuple[str, ...] = ()


class LayerAcross(Struct, frozen=True, omit_defaults=True):
    """One layer over several passes or ranks: its own time in each, as `TraceSet.time` says, less communication."""

    name: str
    median_ns: int
    min_ns: int
    max_ns: int
    spread_ns: int | None
    """Half the interquartile range over passes; None where there is one."""
    seen_in: int
    slowest: int | None = None
    """The rank that took longest, where there are several."""
    imbalance: float | None = None
    """How much longer that rank took than the mean of ranks: 0.1 is a tenth."""


class RankTimes(Struct, frozen=True, omit_defaults=True):
    """One rank among several; medians where it has several passes."""

    rank: int
    passes: int
    wall_ns: int
    cpu_ns: int
    gpu_ns: int | None = None
    communication_ns: int | None = None
    working_ns: int | None = None
    """Accelerator time that is no communication: ranks that wait for others wait in communication."""
    behind: float | None = None
    """How much longer it worked than the median rank."""
    straggler: bool = False


class TraceSet(Struct, frozen=True, omit_defaults=True):
    """Several traces of one model."""

    model_name: str
    time: str
    """What is compared: `gpu` where all have it, else `cpu`."""
    paths: tuple[str, ...]
    layers: list[LayerAcross] = field(default_factory=list)
    ranks: list[RankTimes] = field(default_factory=list)
    notes: tuple[str, ...] = ()


class LayerChange(Struct, frozen=True, omit_defaults=True):
    """One layer before and after; the median of its own time in a pass."""

    name: str
    before_ns: int | None
    """None where it was not there."""
    after_ns: int | None
    change_ns: int
    noise_ns: int | None
    """A difference of medians up to this is no difference; None where one pass tells nothing about noise."""
    verdict: str
    """`slower`, `faster`, `same`, `new`, `gone` or `unknown`."""


class TraceDiff(Struct, frozen=True, omit_defaults=True):
    """Two sides compared layer by layer."""

    before: tuple[str, ...]
    after: tuple[str, ...]
    time: str
    total: LayerChange
    layers: list[LayerChange] = field(default_factory=list)
    notes: tuple[str, ...] = ()


class Traces(Struct, frozen=True):
    """Several traces, taken together by model."""

    models: list[TraceSet]
    failures: dict[str, str]
    """Files that could not be read, and why."""
