"""The contents of one trace, as rows. Times are in whole nanoseconds; unknown values are None.

`cpu_total_ns` of a layer includes everything inside its calls and counts a call inside another call of the same layer
once; `cpu_self_ns` excludes submodules. The self times of all layers plus the rows of `outside` add up to
`Trace.cpu_ns`. For accelerator time, the rows of `unattributed` come on top.
"""

from __future__ import annotations

from msgspec import Struct, field

from assay.display import Displayed


class Spread(Struct, frozen=True):
    """The distribution of a time over calls, in nanoseconds."""

    min_ns: int
    """The shortest time."""
    median_ns: int
    """The median."""
    p95_ns: int
    """The 95th percentile: the smallest time that 95 % of the calls do not exceed."""
    max_ns: int
    """The longest time."""


class LayerTimes(Struct, frozen=True, omit_defaults=True):
    """The times of one module of the traced model; accelerator values are null if the trace has no accelerator."""

    name: str
    """Its path; `nn.Module: Linear_0` or an annotation if the trace has no paths."""
    calls: int
    """Number of calls."""
    cpu_total_ns: int
    """CPU time including submodules."""
    cpu_self_ns: int
    """CPU time without submodules."""
    per_call: Spread
    """CPU time per call, including submodules."""
    gpu_total_ns: int | None = None
    """Accelerator time including submodules."""
    gpu_self_ns: int | None = None
    """Accelerator time without submodules."""
    communication_ns: int | None = None
    """The part of `gpu_self_ns` spent in communication, in which ranks wait for each other."""
    kernels: int | None = None
    """Kernels launched by the layer itself, not by its submodules."""
    backward_cpu_ns: int | None = None
    """CPU time of its backward ops; null if the trace has no backward pass."""
    backward_gpu_ns: int | None = None
    """Accelerator time of its backward ops; null if the trace has no backward pass."""
    allocated_bytes: int | None = None
    """Bytes allocated by the layer itself, not by its submodules; null if the trace has no memory events."""
    freed_bytes: int | None = None
    """Bytes freed by the layer itself, not by its submodules; null if the trace has no memory events."""
    shapes: tuple[str, ...] = ()
    """The distinct shapes of its inputs."""
    ops: dict[str, int] = field(default_factory=dict)
    """Number of executions of each op it ran itself."""
    class_name: str = ""
    """The name of its class; empty if unknown."""


class OutsideTimes(Struct, frozen=True, omit_defaults=True):
    """Time on threads or accelerators that belongs to no layer's forward pass."""

    what: str
    """What the time was spent on."""
    cpu_ns: int
    """CPU time."""
    gpu_ns: int | None = None
    """Accelerator time; null if the trace has no accelerator."""
    kernels: int | None = None
    """Number of kernels; null if the trace has no accelerator."""


class Unattributed(Struct, frozen=True):
    """Accelerator time that cannot be attributed to any layer."""

    why: str
    """Why it cannot be attributed."""
    kernels: int
    """Number of kernels."""
    gpu_ns: int
    """Accelerator time."""


class OpTimes(Struct, frozen=True, omit_defaults=True):
    """The times of all executions of one op."""

    name: str
    """The op's name: `aten::linear`."""
    calls: int
    """Number of executions."""
    cpu_total_ns: int
    """CPU time including ops inside it."""
    cpu_self_ns: int
    """CPU time without ops inside it."""
    per_call: Spread
    """CPU time per execution, including ops inside it."""
    gpu_ns: int | None = None
    """Accelerator time of the kernels that it launched itself; null if the trace has no accelerator."""
    kernels: int | None = None
    """Number of those kernels; null if the trace has no accelerator."""


class KernelTimes(Struct, frozen=True, omit_defaults=True):
    """The times of all executions of one kernel, copy or fill."""

    name: str
    """The kernel's name."""
    kind: str
    """`compute`, `communication`, `copy` or `fill`."""
    calls: int
    """Number of executions."""
    gpu_ns: int
    """Accelerator time."""
    per_call: Spread
    """Accelerator time per execution."""
    latency: Spread | None = None
    """Time from the start of the launch call to the start of the kernel; null without launch records."""
    bytes: int | None = None
    """Bytes that copies moved; null for other kinds."""


class StepTimes(Struct, frozen=True, omit_defaults=True):
    """One step marked by the profiler."""

    name: str
    """The step's name: `ProfilerStep#3`."""
    start_ns: int
    """Start of the step after the start of the trace."""
    cpu_ns: int
    """Duration on the CPU."""
    gpu_ns: int | None = None
    """Accelerator time of the kernels launched in it; null if the trace has no accelerator."""
    kernels: int | None = None
    """Number of those kernels; null if the trace has no accelerator."""


class ThreadTimes(Struct, frozen=True, omit_defaults=True):
    """One thread with recorded spans."""

    name: str
    """The thread's name or id."""
    start_ns: int
    """Start of its first span after the start of the trace."""
    cpu_ns: int
    """Time from the start of its first span to the end of its last."""
    recorded_ns: int
    """The part of that time that spans cover."""
    spans: int
    """Number of spans."""


class DeviceTimes(Struct, frozen=True, omit_defaults=True):
    """The use of one accelerator between its first and last kernel."""

    name: str
    """The accelerator's name."""
    span_ns: int
    """Time from the start of its first kernel to the end of its last."""
    busy_ns: int
    """Time during which at least one kernel, copy or fill ran."""
    idle_ns: int
    """Time during which nothing ran."""
    idle_causes: dict[str, int] = field(default_factory=dict)
    """Idle time by what the next kernel waited for; the values add up to `idle_ns`."""
    idle_loading_ns: int = 0
    """The part of `idle_ns` in which a thread was loading input data."""
    compute_ns: int = 0
    """Time during which a compute kernel ran."""
    communication_ns: int = 0
    """Time during which a communication kernel ran."""
    copy_ns: int = 0
    """Time during which a copy ran."""
    communication_hidden_ns: int = 0
    """The part of `communication_ns` that overlapped with compute."""
    copy_hidden_ns: int = 0
    """The part of `copy_ns` that overlapped with compute."""
    streams: int = 0
    """Number of streams."""
    queue_max: int | None = None
    """The largest number of kernels that were launched but not yet started; null without launch records."""
    queue_mean: float | None = None
    """The mean of that number over time; null without launch records."""


class MemoryTimeline(Displayed, Struct, frozen=True, omit_defaults=True):
    """The memory of one device's allocator over time."""

    device: str
    """The device's name."""
    peak_bytes: int
    """Peak of the allocated bytes."""
    peak_at_ns: int
    """Time of the peak after the start of the trace."""
    peak_layer: str | None
    """The layer that ran at the peak; null if none did."""
    allocated_bytes: int
    """Sum of all allocations."""
    freed_bytes: int
    """Sum of all frees."""
    events: int
    """Number of memory events."""
    timeline: tuple[tuple[int, int], ...] = ()
    """Pairs of a time after the start of the trace and the peak bytes until the next pair."""


class Trace(Displayed, Struct, frozen=True, omit_defaults=True):
    """The contents of one trace file, with times in nanoseconds.

    Attributes:
        path: The file that was read.
        wall_ns: Time from the first to the last span on any thread or accelerator.
        cpu_ns: Sum over threads of the time from first to last span; the time of the pass if there is one thread.
        gpu_ns: Sum of all kernels, copies and fills; null if the trace has no accelerator.
        layers_from: How layers were identified: `labels`, `nn.Module`, `annotations`, or empty if they were not.
        layers: Times per layer.
        outside: Time outside any layer's forward pass.
        unattributed: Accelerator time that cannot be attributed to a layer.
        ops: Times per op name.
        kernels: Times per kernel name.
        steps: Steps marked by the profiler.
        threads: Threads with recorded spans.
        devices: Use of each accelerator.
        memory: Memory over time per device; empty if the trace has no memory events.
        model_name: The model's name; empty if the trace does not contain it.
        rank: The rank of the process; null if the trace does not contain it.
        world_size: The number of ranks; null if the trace does not contain it.
        events: Number of events in the file.
        skipped: Number of events that were not used, by reason.
        complete: Whether the file is complete JSON; False if it ends early.
        notes: Remarks about the trace, one sentence each.
        loading_ns: Time in which a thread was loading input data, as the DataLoader marks it.
    """

    path: str
    wall_ns: int
    cpu_ns: int
    gpu_ns: int | None
    layers_from: str
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
    complete: bool = True
    notes: tuple[str, ...] = ()
    loading_ns: int = 0


class LayerAcross(Struct, frozen=True, omit_defaults=True):
    """The self time (`TraceSet.time`) of one layer over several passes or ranks, without communication."""

    name: str
    """The layer's path."""
    median_ns: int
    """The median."""
    min_ns: int
    """The shortest time."""
    max_ns: int
    """The longest time."""
    spread_ns: int | None
    """Half the interquartile range over passes; null with a single pass."""
    seen_in: int
    """Number of traces that contain the layer."""
    slowest: int | None = None
    """The rank with the longest time; null with a single rank."""
    imbalance: float | None = None
    """How much longer that rank took than the mean over ranks: 0.1 is 10 % longer; null with a single rank."""


class RankTimes(Struct, frozen=True, omit_defaults=True):
    """The times of one rank; medians if it has several passes."""

    rank: int
    """The rank."""
    passes: int
    """Number of passes."""
    wall_ns: int
    """Time from the first to the last span."""
    cpu_ns: int
    """CPU time over all threads."""
    gpu_ns: int | None = None
    """Accelerator time; null if the traces have no accelerator."""
    communication_ns: int | None = None
    """Accelerator time in communication; null if the traces have no accelerator."""
    working_ns: int | None = None
    """Accelerator time without communication, in which ranks wait for each other; null if unknown."""
    behind: float | None = None
    """How much longer it worked than the median rank: 0.1 is 10 % longer; null if unknown."""
    straggler: bool = False
    """Whether it worked at least 5 % longer than the median rank."""


class TraceSet(Displayed, Struct, frozen=True, omit_defaults=True):
    """Several traces of one model."""

    model_name: str
    """The model's name."""
    time: str
    """The time that is compared: `gpu` if all traces have it, else `cpu`."""
    paths: tuple[str, ...]
    """The files that were read."""
    layers: list[LayerAcross] = field(default_factory=list)
    """Times per layer over all traces."""
    ranks: list[RankTimes] = field(default_factory=list)
    """Times per rank; empty with a single rank."""
    notes: tuple[str, ...] = ()
    """Remarks about the traces, one sentence each."""


class LayerChange(Struct, frozen=True, omit_defaults=True):
    """The median self time per pass of one layer before and after."""

    name: str
    """The layer's path."""
    before_ns: int | None
    """The time before; null if the layer did not exist."""
    after_ns: int | None
    """The time after; null if the layer no longer exists."""
    change_ns: int
    """`after_ns` minus `before_ns`; a missing layer counts as 0."""
    noise_ns: int | None
    """Differences up to this value are not significant; null if there are too few passes."""
    verdict: str
    """`slower`, `faster`, `same`, `new`, `gone` or `unknown`."""


class TraceDiff(Displayed, Struct, frozen=True, omit_defaults=True):
    """Two sets of traces compared layer by layer.

    Attributes:
        before: The files of the first set.
        after: The files of the second set.
        time: The time that is compared: `gpu` if all traces have it, else `cpu`.
        total: The change of the whole pass.
        layers: The change per layer.
        notes: Remarks about the comparison, one sentence each.
    """

    before: tuple[str, ...]
    after: tuple[str, ...]
    time: str
    total: LayerChange
    layers: list[LayerChange] = field(default_factory=list)
    notes: tuple[str, ...] = ()


class Traces(Displayed, Struct, frozen=True):
    """Several traces, grouped by model.

    Attributes:
        models: One entry per model.
        failures: Files that could not be read, each with the reason.
    """

    models: list[TraceSet]
    failures: dict[str, str]
