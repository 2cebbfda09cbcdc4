"""One machine's measured limits and sensors, and time series recorded while something ran, as rows.

Rates are per second, power is in watts, energy in joules, time in seconds. A value that could not be measured is
unknown and states why.
"""

from __future__ import annotations

from msgspec import Struct, field

from assay.display import Displayed
from assay.document.provenance import Figure, Measured, Modelled, Provenance, Unknown

VERSION = 1
"""Version of the report's layout; a cached report of another version is discarded and measured again."""

NOT_MEASURED = Figure(None, Unknown("not measured"))


class Cache(Struct, frozen=True, omit_defaults=True):
    """One level of the processor's cache."""

    level: int
    """1, 2 or 3."""
    size: int
    """Bytes of one cache of this level."""


class Hardware(Struct, frozen=True, omit_defaults=True):
    """The hardware and software that was measured, without names of users or hosts."""

    device: str
    """`cpu` or `cuda`."""
    name: str
    """The model name of the processor or accelerator."""
    cores: int | None = None
    """CPU cores this process may use; null if unknown."""
    memory_bytes: int | None = None
    """Memory of the measured device in bytes; null if unknown."""
    caches: tuple[Cache, ...] = ()
    """The levels of the processor's cache, if known."""
    system: str = ""
    """The operating system."""
    torch: str | None = None
    """The torch version; null if torch is not installed."""
    driver: str | None = None
    """The accelerator's driver version; null on a CPU."""
    threads: int | None = None
    """Threads torch used within an op; null if unknown."""
    key: str = ""
    """Identifies the hardware and the torch version; reports with equal keys are interchangeable."""


class Ceiling(Struct, frozen=True, omit_defaults=True):
    """One measured limit: the best burst and the median of all bursts."""

    name: str
    """`bf16`, `copy`, …"""
    best: Figure
    """The best burst, in the unit of the list it is in."""
    median: Figure = NOT_MEASURED
    """The median of all bursts, in the same unit."""
    at: str = ""
    """The workload that reached it: `matmul 4096`."""

    @property
    def value(self) -> float | None:
        """The best burst; None if it was not measured."""
        return self.best.value


class CacheLevel(Struct, frozen=True, omit_defaults=True):
    """The bandwidth of one level of the memory hierarchy, from the sweep over working sets."""

    name: str
    """`L1`, `L2`, `L3` or `memory`."""
    bandwidth: Figure
    """Bytes read and written per second."""
    size: int | None = None
    """Size of the level in bytes; null for main memory."""


class WorkingSet(Struct, frozen=True):
    """The bandwidth of a copy within a working set."""

    bytes: int
    """Size of the working set in bytes."""
    bandwidth: float
    """Bytes read and written per second, best burst."""


class Scaling(Struct, frozen=True, omit_defaults=True):
    """The throughput of several threads together."""

    threads: int
    """Number of threads."""
    flops: Figure
    """FLOPs per second of all threads together."""
    efficiency: float | None = None
    """Throughput divided by that of one thread times `threads`; 1 is perfect, null if unknown."""


class Sensor(Struct, frozen=True, omit_defaults=True):
    """One sensor, or the reason why it cannot be used."""

    name: str
    """`nvml:0:energy`, `rapl:package-0`, `hwmon:k10temp:Tctl`"""
    measures: str
    """`energy`, `power` or `temperature`."""
    unit: str
    """The unit of its values."""
    scope: str
    """What it covers: board, package, dram, …"""
    value: float | None = None
    """The last reading; null for an energy counter, of which only differences are meaningful."""
    period: Figure = NOT_MEASURED
    """Observed seconds between two updates."""
    read_s: float | None = None
    """Seconds that one reading takes; null if not measured."""
    idle_w: Figure = NOT_MEASURED
    """Idle power in watts, for sensors of energy or power."""
    why: str = ""
    """Why it cannot be used; empty if it can."""

    @property
    def usable(self) -> bool:
        """Whether it can be used."""
        return not self.why


class EnergyModel(Struct, frozen=True, omit_defaults=True):
    """A model of energy use: joules per FLOP, per byte and per second."""

    device: str
    """The device it describes."""
    j_per_flop: dict[str, float] = {}
    """Joules per FLOP of matrix work, by precision."""
    j_per_byte: float = 0.0
    """Joules per byte read or written."""
    static_w: float = 0.0
    """Watts drawn whenever the device works, independent of the work; above the idle power."""
    per_core: bool = False
    """Whether `static_w` is the power of one busy core, to be multiplied by processor time."""
    idle_w: float | None = None
    """Watts drawn while waiting for work; `static_w` is used if it is null."""
    ramp_s: float = 0.0
    """Seconds of each kernel, while it starts and ends, that draw no more than waiting."""
    limit_w: float | None = None
    """The highest power in watts, at which the device slows down; null if unknown."""
    error: float | None = None
    """Median relative error in validation; null if it was not validated."""
    interval: tuple[float, float] | None = None
    """Multiples of an estimate between which the energy lies in 90 % of cases; null if not validated so."""
    errors: dict[str, float] = {}
    """Relative error of the estimate for each op or model, from coefficients fitted to the others."""
    source: str = ""
    """What it was calibrated on, or the titles of the publications it follows."""
    assumptions: tuple[str, ...] = ()
    """What the model assumes."""


def _columns() -> dict[str, Provenance]:
    return {
        "sweep": Measured("copies within a working set, best burst"),
        "scaling": Measured("matrix products with this number of threads"),
        "sensors": Measured("the sensor itself"),
        "energy": Modelled("fitted to measured energies of this machine"),
        "others": Measured("processor time of other processes while it was measured"),
        "took_s": Measured("monotonic clock"),
    }


class MachineReport(Displayed, Struct, frozen=True, omit_defaults=True):
    """The measured limits and sensors of one device.

    Attributes:
        hardware: The hardware and software that was measured.
        date: The day of the measurement, such as 2026-11-15.
        arithmetic: FLOPs per second by precision, with as many threads as torch uses.
        bandwidth: Bytes per second from main memory: `read`, `copy`, `triad`.
        levels: The bandwidth of each cache level and of main memory.
        sweep: The bandwidth at each size of the working set.
        overhead: Seconds per op without any work to do; lower is better.
        scaling: Throughput by number of threads.
        sensors: The sensors found, usable or not.
        idle_w: Idle power in watts, summed over sensors that do not overlap.
        energy: The energy model calibrated on this machine; null if it was not requested or no sensor allowed it.
        others: The share of the processor that other processes used during the measurement, from 0 to 1; null if
            unknown.
        took_s: Seconds the measurement took; null if unknown.
        quick: Whether it was a quick measurement, which spends less time on each limit.
        left_out: What a quick measurement left out: precisions, `caches`, `thread scaling`.
        notes: Remarks about the measurement, one sentence each.
        version: The version of this layout.
        columns: How bare numbers were obtained, by the name of the field; it covers everything below.
    """

    hardware: Hardware
    date: str = ""
    arithmetic: tuple[Ceiling, ...] = ()
    bandwidth: tuple[Ceiling, ...] = ()
    levels: tuple[CacheLevel, ...] = ()
    sweep: tuple[WorkingSet, ...] = ()
    overhead: tuple[Ceiling, ...] = ()
    scaling: tuple[Scaling, ...] = ()
    sensors: tuple[Sensor, ...] = ()
    idle_w: Figure = NOT_MEASURED
    energy: EnergyModel | None = None
    others: float | None = None
    took_s: float | None = None
    quick: bool = False
    left_out: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    version: int = VERSION
    columns: dict[str, Provenance] = field(default_factory=_columns)


class Series(Struct, frozen=True, omit_defaults=True):
    """One quantity over time."""

    name: str
    """`cpu.utilisation`, `gpu.0.power`"""
    unit: str
    """The unit of its values."""
    scope: str
    """What it covers: machine, process or board."""
    values: list[float | None] = field(default_factory=list)
    """One value per sample; null if it could not be read."""

    @property
    def known(self) -> list[float]:
        """The values that could be read."""
        return [value for value in self.values if value is not None]

    @property
    def peak(self) -> float | None:
        """The largest value; None if there is none."""
        return max(self.known, default=None)

    @property
    def mean(self) -> float | None:
        """The mean of the known values; None if there is none."""
        return sum(self.known) / len(self.known) if self.known else None


class MonitorRecording(Displayed, Struct, frozen=True, omit_defaults=True):
    """The samples that a monitor took while something ran."""

    times_s: list[float] = field(default_factory=list)
    """The time of each sample, in seconds since the start."""
    series: list[Series] = field(default_factory=list)
    """The recorded quantities."""
    period_s: float | None = None
    """The requested seconds between samples; null if unknown."""
    overhead: Figure = NOT_MEASURED
    """CPU time of the sampling, as a share of the elapsed time."""
    rss_peak: Figure = NOT_MEASURED
    """The peak resident set size of this process, in bytes."""
    problems: tuple[str, ...] = ()
    """What could not be read, one line per problem."""

    def named(self, name: str) -> Series | None:
        """The series with this name; None if there is none."""
        return next((one for one in self.series if one.name == name), None)


class Thermal(Struct, frozen=True, omit_defaults=True):
    """The temperature of a device, and why it lowered its clocks, from before to after a measured window."""

    start_c: Figure = NOT_MEASURED
    """Degrees Celsius before the window."""
    end_c: Figure = NOT_MEASURED
    """Degrees Celsius after the window."""
    max_c: Figure = NOT_MEASURED
    """The highest temperature before, during and after the window, in degrees Celsius."""
    throttled: Figure = NOT_MEASURED
    """The share of samples in which the device was throttled by heat or by the power brake."""
    throttles: tuple[str, ...] = ()
    """The reasons for that; a device with any was throttled, even if `throttled` is unknown."""
    limits: tuple[str, ...] = ()
    """Ordinary reasons for lower clocks, such as the power cap; they are not throttling."""


class Replay(Displayed, Struct, frozen=True, omit_defaults=True):
    """The energy of a workload that was repeated between updates of an energy counter."""

    energy_j: Figure
    """Joules per run, of everything the sensor covers."""
    above_idle_j: Figure = NOT_MEASURED
    """Joules per run above the idle power."""
    time_s: Figure = NOT_MEASURED
    """Seconds per run."""
    power_w: Figure = NOT_MEASURED
    """Average power in watts while it ran."""
    calls: int = 0
    """Number of runs in all windows."""
    window_s: float | None = None
    """Seconds of the shortest window; null if nothing was measured."""
    period_s: float | None = None
    """Seconds between updates of the counter; null if unknown."""
    thermal: Thermal = Thermal()
    """Temperature and throttling from before the first window to after the last."""


def unknown_figure(why: str) -> Figure:
    """An unknown value with the reason."""
    return Figure(None, Unknown(why))


def measured_figure(value: float, by: str, *, repeats: int = 1, spread: float | None = None) -> Figure:
    """A value measured with the clock or sensor `by`."""
    return Figure(value, Measured(by, repeats, spread))
