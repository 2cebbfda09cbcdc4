"""What clocks and sensors said while a model ran, as rows. Times are seconds, sizes bytes."""

from __future__ import annotations

from msgspec import Struct, field

from assay.document.machine import NOT_MEASURED, MonitorRecording
from assay.document.provenance import Figure


class KindTime(Struct, frozen=True, omit_defaults=True):
    """The time of one kind of operation."""

    count: int
    """Executions in one pass."""
    time_s: float
    """One execution: the median over executions and passes."""
    total_s: float
    """All executions of one pass: the sum of each one's median over passes."""
    spread_s: float
    """Half the interquartile range of `time_s`."""


class MemoryMeasured(Struct, frozen=True, omit_defaults=True):
    """What a pass needed, as the system and the allocator saw it, beside what was predicted."""

    process_growth: Figure = NOT_MEASURED
    """The highest resident set during a pass over the one before it."""
    process_peak: Figure = NOT_MEASURED
    """The highest resident set of the whole process."""
    allocator_peak: Figure = NOT_MEASURED
    """The accelerator's allocator at its highest, weights included."""
    predicted_activations: Figure = NOT_MEASURED
    """The peak of what operations allocate, from the lifetimes of a recorded pass."""


class StepTime(Struct, frozen=True, omit_defaults=True):
    """A training step: forward, backward and the optimizer."""

    whole: Figure = NOT_MEASURED
    """Forward and backward."""
    backward: Figure = NOT_MEASURED
    """The backward pass: the step without the forward pass of the same step."""
    optimizer: Figure = NOT_MEASURED
    optimizer_name: str = ""
    modules: list[float | None] = field(default_factory=list)
    """Backward time of each module's own operations, in the order of `Document.modules`."""
    outside_s: float | None = None
    """Backward operations that serve no module."""


class ThreadPoint(Struct, frozen=True, omit_defaults=True):
    """A pass with a number of threads."""

    threads: int
    time: Figure
    efficiency: float | None = None
    """One thread's time over this one's, divided by the threads."""


class SweepPoint(Struct, frozen=True, omit_defaults=True):
    """A pass at one size."""

    sizes: dict[str, int]
    """`{"batch": 4}`."""
    time: Figure = NOT_MEASURED
    throughput: float | None = None
    """Items of the swept batch (or tokens of the swept length) a second."""
    memory: Figure = NOT_MEASURED
    """Weights and activations at their peak, predicted from the shapes."""
    measured_memory: Figure = NOT_MEASURED
    problem: str = ""
    """Why there is no time: out of memory, or inputs the model does not take."""


class Sweep(Struct, frozen=True, omit_defaults=True):
    """Passes over several sizes."""

    axis: str
    points: list[SweepPoint] = field(default_factory=list)
    knee: int | None = None
    """The smallest size that reaches 90 % of the best throughput; None where fewer than two points are known."""
    largest: int | None = None
    """The largest size that fits by prediction; None where it was not searched."""
    limit: Figure = NOT_MEASURED
    """The bytes it had to fit into."""


class KindEnergy(Struct, frozen=True, omit_defaults=True):
    """The energy of one kind of operation."""

    each: Figure
    """One execution, all that the sensor covers, idle power included."""
    above_idle: Figure = NOT_MEASURED
    count: int = 0
    """Executions in one pass."""


class EnergyProfile(Struct, frozen=True, omit_defaults=True):
    """The energy of a pass: measured where a sensor covers the device, modelled with its error where none does."""

    sensor: str = ""
    """What was read; empty where nothing could be."""
    why: str = ""
    """Why no sensor was read."""
    whole: Figure = NOT_MEASURED
    """Joules of one pass."""
    above_idle: Figure = NOT_MEASURED
    modelled: Figure = NOT_MEASURED
    """The model's joules of one pass, beside the measured ones."""
    idle_w: Figure = NOT_MEASURED
    average_w: Figure = NOT_MEASURED
    peak_w: Figure = NOT_MEASURED
    flops_per_joule: Figure = NOT_MEASURED
    kinds: list[KindEnergy | None] = field(default_factory=list)
    """In the order of `Document.kinds`; None for one that was not looked at."""
    closure: Figure = NOT_MEASURED
    """The kinds' energies together over that of the pass."""
    covered: float | None = None
    """The share of operation time whose energy is in that sum."""
    carbon_g: Figure = NOT_MEASURED
    """Grams of carbon dioxide of one pass, on the grid that was named."""
    price: Figure = NOT_MEASURED
    """A million passes, in the currency of the price that was given."""


class Profile(Struct, frozen=True, omit_defaults=True):
    """Everything measured of one model on one device."""

    device: str = "cpu"
    threads: int | None = None
    passes: int = 0
    """Bare passes that were timed, warm-up left out."""
    warmup: int = 0
    whole: Figure = NOT_MEASURED
    """One bare forward pass."""
    processor: Figure = NOT_MEASURED
    """Processor time of one bare pass, all threads."""
    kinds: list[KindTime | None] = field(default_factory=list)
    """In the order of `Document.kinds`."""
    closure: Figure = NOT_MEASURED
    """Operation times of a pass over the bare pass: below one, the rest is Python between operations."""
    overheads: dict[str, Figure] = field(default_factory=dict)
    """Each measuring pass over the bare one, as a ratio."""
    memory: MemoryMeasured | None = None
    step: StepTime | None = None
    thread_points: list[ThreadPoint] = field(default_factory=list)
    sweeps: list[Sweep] = field(default_factory=list)
    energy: EnergyProfile | None = None
    system: MonitorRecording | None = None
    """The machine while passes ran, apart from those that were timed."""
    notes: list[str] = field(default_factory=list)
    """What could not be measured and why, a line each."""
