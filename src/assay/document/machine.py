"""What one machine can do and what its sensors tell, as rows: ceilings, sensors, series taken while something ran.

Rates are per second, powers watts, energies joules, times seconds. What could not be had is an unknown figure that
says why.
"""

from __future__ import annotations

from msgspec import Struct, field

from assay.document.provenance import Figure, Measured, Unknown

VERSION = 1
"""Of the report's layout; a cached report of another version is measured again."""

NOT_MEASURED = Figure(None, Unknown("not measured"))


class Cache(Struct, frozen=True, omit_defaults=True):
    """One level of the processor's cache."""

    level: int
    size: int
    """Bytes of one of them."""


class Hardware(Struct, frozen=True, omit_defaults=True):
    """What was measured, without names of people, hosts or places."""

    device: str
    """`cpu` or `cuda`."""
    name: str
    cores: int | None = None
    """Processor cores this process may use."""
    memory_bytes: int | None = None
    """Of the device that was measured."""
    caches: tuple[Cache, ...] = ()
    system: str = ""
    torch: str | None = None
    """Its version."""
    driver: str | None = None
    threads: int | None = None
    """Threads torch used inside an operation."""
    key: str = ""
    """Stands for the hardware and the version of torch; equal keys share a report."""


class Ceiling(Struct, frozen=True, omit_defaults=True):
    """One limit that was reached: the best burst, and the middle of all."""

    name: str
    """`bf16`, `copy`, …"""
    best: Figure
    median: Figure = NOT_MEASURED
    at: str = ""
    """What reached it: `matmul 4096`."""

    @property
    def value(self) -> float | None:
        """The best burst, where there was one."""
        return self.best.value


class CacheLevel(Struct, frozen=True, omit_defaults=True):
    """What the sweep over working sets saw inside one level of the memory."""

    name: str
    """`L1`, `L2`, `L3` or `memory`."""
    bandwidth: Figure
    """Bytes read and written a second."""
    size: int | None = None


class WorkingSet(Struct, frozen=True):
    """A copy inside a working set of this many bytes."""

    bytes: int
    bandwidth: float
    """Bytes read and written a second, the best burst."""


class Scaling(Struct, frozen=True, omit_defaults=True):
    """What several threads reached together."""

    threads: int
    flops: Figure
    efficiency: float | None = None
    """Of what one thread does alone, times their number; one is perfect."""


class Sensor(Struct, frozen=True, omit_defaults=True):
    """One thing that can be read, or why it cannot."""

    name: str
    """`nvml:0:energy`, `rapl:package-0`, `hwmon:k10temp:Tctl`"""
    measures: str
    """`energy`, `power` or `temperature`."""
    unit: str
    scope: str
    """What it covers: board, package, dram, …"""
    value: float | None = None
    """When it was last read; an energy counter has no meaning but its differences, so it has none."""
    period: Figure = NOT_MEASURED
    """Seconds between two values, found by watching it."""
    read_s: float | None = None
    """What a read costs."""
    idle_w: Figure = NOT_MEASURED
    """Power while nothing was asked of the machine; where it measures energy or power."""
    why: str = ""
    """Why it is of no use, where it is."""

    @property
    def usable(self) -> bool:
        """Whether it gave values."""
        return not self.why


class EnergyModel(Struct, frozen=True, omit_defaults=True):
    """What work takes in energy: so much a FLOP, so much a byte, so much a second."""

    device: str
    j_per_flop: dict[str, float] = {}
    """By precision, for matrix work."""
    j_per_byte: float = 0.0
    static_w: float = 0.0
    """Drawn all the time it works; more than when idle."""
    idle_w: float | None = None
    """Drawn while it waits for work; as much as `static_w` where it is unknown."""
    error: float | None = None
    """Relative; the median where it was validated."""
    source: str = ""
    """What it was calibrated on, or the titles of the texts it follows."""
    assumptions: tuple[str, ...] = ()


class MachineReport(Struct, frozen=True, omit_defaults=True):
    """Everything measured of one device."""

    hardware: Hardware
    date: str = ""
    """The day, as 2026-11-15."""
    arithmetic: tuple[Ceiling, ...] = ()
    """FLOPs a second by precision, with as many threads as torch uses."""
    bandwidth: tuple[Ceiling, ...] = ()
    """Bytes a second: `read`, `copy`, `triad`, far outside any cache."""
    levels: tuple[CacheLevel, ...] = ()
    sweep: tuple[WorkingSet, ...] = ()
    overhead: tuple[Ceiling, ...] = ()
    """Seconds an operation takes that has nothing to do; the least is best."""
    scaling: tuple[Scaling, ...] = ()
    sensors: tuple[Sensor, ...] = ()
    idle_w: Figure = NOT_MEASURED
    """Of all that is measured and does not overlap."""
    energy: EnergyModel | None = None
    """Calibrated here, where a sensor allowed it and it was asked for."""
    others: float | None = None
    """The share of the processor that other work took meanwhile."""
    took_s: float | None = None
    notes: tuple[str, ...] = ()
    version: int = VERSION


class Series(Struct, frozen=True, omit_defaults=True):
    """One quantity over time; None where it could not be had."""

    name: str
    """`cpu.utilisation`, `gpu.0.power`"""
    unit: str
    scope: str
    """Whose it is: machine, process or board."""
    values: list[float | None] = field(default_factory=list)

    @property
    def known(self) -> list[float]:
        """The values there are."""
        return [value for value in self.values if value is not None]

    @property
    def peak(self) -> float | None:
        """The largest value."""
        return max(self.known, default=None)

    @property
    def mean(self) -> float | None:
        """The middle by weight."""
        return sum(self.known) / len(self.known) if self.known else None


class MonitorRecording(Struct, frozen=True, omit_defaults=True):
    """What a monitor saw while something ran."""

    times_s: list[float] = field(default_factory=list)
    """Since it began, one for each sample."""
    series: list[Series] = field(default_factory=list)
    period_s: float | None = None
    """The time between samples that was asked for."""
    overhead: Figure = NOT_MEASURED
    """Processor time of the sampling, as a share of the time that passed."""
    rss_peak: Figure = NOT_MEASURED
    """The most memory this process ever held, in bytes."""
    problems: tuple[str, ...] = ()
    """What could not be read, one line each."""

    def named(self, name: str) -> Series | None:
        """The series called `name`."""
        return next((one for one in self.series if one.name == name), None)


class Replay(Struct, frozen=True, omit_defaults=True):
    """The energy of something that was run over and over between ticks of a counter."""

    energy_j: Figure
    """Of one run, everything the sensor covers."""
    above_idle_j: Figure = NOT_MEASURED
    """Of one run, without what the device takes when idle."""
    time_s: Figure = NOT_MEASURED
    """Of one run."""
    power_w: Figure = NOT_MEASURED
    """The average while it ran."""
    calls: int = 0
    """Runs in all windows."""
    window_s: float | None = None
    """The shortest window."""
    period_s: float | None = None
    """Between ticks of the counter."""


def unknown(why: str) -> Figure:
    """A figure nobody has, and why."""
    return Figure(None, Unknown(why))


def measured(value: float, by: str, *, repeats: int = 1, spread: float | None = None) -> Figure:
    """A figure that a clock or sensor gave."""
    return Figure(value, Measured(by, repeats, spread))
