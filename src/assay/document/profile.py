"""Measurements of a profiled model, as rows. Times are in seconds, sizes in bytes."""

from __future__ import annotations

from msgspec import Struct, field

from assay.display import Displayed
from assay.document.machine import NOT_MEASURED, MonitorRecording, Thermal
from assay.document.provenance import Figure, Provenance


class KindTime(Struct, frozen=True, omit_defaults=True):
    """The time of one kind of op; times are null if the machine was too busy to measure them."""

    count: int
    """Executions per pass."""
    time_s: float | None
    """Seconds per execution: `total_s` divided by `count`."""
    total_s: float | None
    """Seconds of all executions in one pass: the sum of the times of each."""
    low_s: float | None = None
    """The lowest estimate of `total_s` in this run; null if there is only one."""
    high_s: float | None = None
    """The highest estimate of `total_s` in this run; null if there is only one."""
    share: float | None = None
    """`total_s` as a share of the time of all ops; null if unknown."""
    processor_s: float | None = None
    """CPU seconds of all executions in one pass; null if the pass used several threads or ran on an accelerator."""
    kernels: int | None = None
    """Kernels and copies that all executions in one pass launch; null on a CPU."""


class Conditions(Struct, frozen=True, omit_defaults=True):
    """How undisturbed the machine was while passes were timed."""

    busy: str = ""
    """How other processes disturbed the passes; empty if they did not."""
    waiting: Figure = NOT_MEASURED
    """The share of the passes in which threads of this process waited for a processor."""
    undisturbed: int | None = None
    """Number of bare passes in which they waited less than 1 % of the time; null if unknown."""
    drift: Figure = NOT_MEASURED
    """Time of a fixed piece of work in the slowest quarter of the run divided by that in the fastest."""
    single_threaded: bool | None = None
    """Whether one thread did all the work of a pass; null if unknown."""
    withheld: bool = False
    """Whether times were withheld because no undisturbed time could be determined; shares are kept."""
    rates: str = "time"
    """What FLOP/s, bottlenecks and recoverable times use: `time`, `processor` (CPU time), or empty if unknown."""


class MemoryMeasured(Struct, frozen=True, omit_defaults=True):
    """The peak memory of a pass or of training steps, as measured and as predicted, in bytes.

    All but the two peaks are bytes beyond the parameters, buffers and inputs that existed before.
    """

    process_growth: Figure = NOT_MEASURED
    """Growth of the resident set of the process, including what the C library keeps after it is freed."""
    process_peak: Figure = NOT_MEASURED
    """Peak resident set size of the whole process."""
    allocator_peak: Figure = NOT_MEASURED
    """Peak of the accelerator's allocator, including weights."""
    predicted_activations: Figure = NOT_MEASURED
    """Predicted from the lifetimes in a recorded pass; for training steps with gradients and optimizer state."""
    allocator_growth: Figure = NOT_MEASURED
    """Peak of what torch's allocator handed out on the device."""
    allocator_op: str = ""
    """The op in which the allocator reached its peak; empty if unknown."""


class StepTime(Displayed, Struct, frozen=True, omit_defaults=True):
    """The time of a training step, in seconds: forward pass, backward pass and optimizer step."""

    whole: Figure = NOT_MEASURED
    """Forward and backward pass together."""
    backward: Figure = NOT_MEASURED
    """The backward pass: the step minus its own forward pass."""
    forward: Figure = NOT_MEASURED
    """The forward pass of the step, with autograd."""
    optimizer: Figure = NOT_MEASURED
    """The optimizer step."""
    optimizer_name: str = ""
    """The optimizer's name; empty if none was timed."""
    modules: list[float | None] = field(default_factory=list)
    """Backward time of each module's own ops, in the order of `Document.modules`; null if unknown."""
    outside_s: float | None = None
    """Time of backward ops that belong to no module; null if unknown."""
    memory: MemoryMeasured | None = None
    """Memory of two steps with the optimizer, whose state exists in the second; null if it was not measured."""


class ThreadPoint(Struct, frozen=True, omit_defaults=True):
    """The time of a pass with a given number of threads."""

    threads: int
    """Number of threads."""
    time: Figure
    """Seconds per pass."""
    efficiency: float | None = None
    """Speedup over one thread, divided by `threads`; 1 is perfect, null if unknown."""
    kinds: list[float | None] = field(default_factory=list)
    """Seconds of all executions of each kind of op, in the order of `Document.kinds`; null if unknown."""
    kind_efficiency: list[float | None] = field(default_factory=list)
    """The parallel efficiency of each kind of op; null if unknown."""


class SweepPoint(Struct, frozen=True, omit_defaults=True):
    """The time and memory of a pass at one input size."""

    sizes: dict[str, int]
    """The swept sizes: `{"batch": 4}`."""
    time: Figure = NOT_MEASURED
    """Seconds per pass."""
    throughput: float | None = None
    """Items of the swept batch (or tokens of the swept length) per second; null if the time is unknown."""
    memory: Figure = NOT_MEASURED
    """Predicted peak of weights and activations, in bytes."""
    measured_memory: Figure = NOT_MEASURED
    """Measured peak of weights and activations, in bytes."""
    step_memory: Figure = NOT_MEASURED
    """Predicted peak of a training step, in bytes: weights, activations, gradients and optimizer state."""
    problem: str = ""
    """Why there is no time: out of memory, or inputs that the model rejects; empty if there is one."""


LARGEST_SEARCHED = 1 << 14
"""The largest batch that a sweep tries; a model that fits at it may fit at a larger one."""


class Sweep(Struct, frozen=True, omit_defaults=True):
    """Passes at several input sizes."""

    axis: str
    """The swept dimension: `batch`, `seq`."""
    points: list[SweepPoint] = field(default_factory=list)
    """One entry per size."""
    knee: int | None = None
    """The smallest size with at least 90 % of the best throughput; null if that is the largest measured one."""
    largest: int | None = None
    """The largest size whose forward pass is predicted to fit into `limit`; null if it was not searched for."""
    largest_step: int | None = None
    """The largest size whose training step is predicted to fit into `limit`; null if it was not searched for."""
    limit: Figure = NOT_MEASURED
    """The memory limit in bytes."""


class KindEnergy(Struct, frozen=True, omit_defaults=True):
    """The energy of one kind of op."""

    each: Figure
    """Joules per execution of everything the sensor covers, including idle power."""
    above_idle: Figure = NOT_MEASURED
    """Joules per execution above the idle power."""
    count: int = 0
    """Executions per pass."""
    replayed_s: Figure = NOT_MEASURED
    """Seconds per execution while it was replayed."""
    throttles: tuple[str, ...] = ()
    """Why the device was throttled while it was replayed; empty if it was not, or if that is unknown."""


class EnergyPart(Struct, frozen=True):
    """A part of the difference between the energy of a pass and that of its ops."""

    name: str
    """`gaps between ops`, `ops not replayed`, …"""
    energy: Figure
    """Joules per pass; negative if the ops include energy that the pass does not use."""


class EnergyProfile(Displayed, Struct, frozen=True, omit_defaults=True):
    """The energy of a pass: measured if a sensor covers the device, otherwise modelled."""

    sensor: str = ""
    """The sensor that was read; empty if there was none."""
    why: str = ""
    """Why no sensor was read; empty if one was."""
    whole: Figure = NOT_MEASURED
    """Joules per pass."""
    above_idle: Figure = NOT_MEASURED
    """Joules per pass above the idle power."""
    time: Figure = NOT_MEASURED
    """Seconds per pass while its energy was measured."""
    modelled: Figure = NOT_MEASURED
    """Joules per pass according to the energy model, for comparison with `whole`."""
    idle_w: Figure = NOT_MEASURED
    """Idle power in watts."""
    average_w: Figure = NOT_MEASURED
    """Average power in watts during the passes."""
    peak_w: Figure = NOT_MEASURED
    """Peak power in watts during the passes."""
    flops_per_joule: Figure = NOT_MEASURED
    """FLOPs of a pass per joule."""
    kinds: list[KindEnergy | None] = field(default_factory=list)
    """Energy per kind, in the order of `Document.kinds`; null for a kind that was not measured."""
    closure: Figure = NOT_MEASURED
    """The sum of the energies of the kinds, before they were scaled, divided by the energy of the pass."""
    scale: Figure = NOT_MEASURED
    """The factor by which modelled energies of ops were multiplied so that they add up to the pass."""
    remainder: list[EnergyPart] = field(default_factory=list)
    """The energy of the pass less that of `kinds`, in parts; empty if the energy of ops is unknown."""
    thermal: Thermal = Thermal()
    """Temperature and throttling while the energy of the pass was measured."""
    covered: float | None = None
    """The share of op time that the kinds in that sum account for; null if unknown."""
    carbon_g: Figure = NOT_MEASURED
    """Grams of CO2 per pass on the given power grid."""
    price: Figure = NOT_MEASURED
    """The price of a million passes, in the currency of the given electricity price."""


class Profile(Displayed, Struct, frozen=True, omit_defaults=True):
    """All measurements of one model on one device."""

    device: str = "cpu"
    """The device on which it ran."""
    threads: int | None = None
    """Threads torch used within an op; null on an accelerator."""
    passes: int = 0
    """Number of timed passes without clocks, not counting warm-up."""
    warmup: int = 0
    """Number of warm-up passes."""
    whole: Figure = NOT_MEASURED
    """Seconds of one forward pass, without clocks and without disturbances."""
    processor: Figure = NOT_MEASURED
    """CPU seconds of one pass without clocks, over all threads."""
    kinds: list[KindTime | None] = field(default_factory=list)
    """Time per kind of op, in the order of `Document.kinds`; null if it was not measured."""
    ops: list[float | None] = field(default_factory=list)
    """Seconds of each op, in the order of `Document.ops`; null if it was not measured."""
    columns: dict[str, Provenance] = field(default_factory=dict)
    """How bare numbers were obtained, by the path of the column: `kinds.total_s`; a path covers what is below it."""
    conditions: Conditions | None = None
    """How undisturbed the machine was; null if nothing was timed."""
    closure: Figure = NOT_MEASURED
    """The sum of op times divided by the pass time; the rest is Python time between ops."""
    overheads: dict[str, Figure] = field(default_factory=dict)
    """The time of each kind of instrumented pass divided by that of a pass without instrumentation."""
    memory: MemoryMeasured | None = None
    """Measured and predicted memory; null if it was not measured."""
    step: StepTime | None = None
    """The time of a training step; null if it was not measured."""
    thread_points: list[ThreadPoint] = field(default_factory=list)
    """Time by number of threads; empty if it was not measured."""
    sweeps: list[Sweep] = field(default_factory=list)
    """Time and memory over input sizes; empty if they were not measured."""
    energy: EnergyProfile | None = None
    """The energy of a pass; null if it was not requested."""
    system: MonitorRecording | None = None
    """The machine's utilisation during separate, untimed passes; null if it was not requested."""
    notes: list[str] = field(default_factory=list)
    """What could not be measured and why, one line each."""
    stopped: str = ""
    """Why measuring stopped before its end; empty if it did not."""
