"""NVIDIA boards through NVML (`nvidia-ml-py`, optional): energy, power, temperature, clocks, utilisation."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, cast

from assay.machine.sensors.probe import ENERGY, POWER, TEMPERATURE, Probe, ProbedSensors, SensorError

_MILLI = 1e-3
_VISIBLE = "CUDA_VISIBLE_DEVICES"

THROTTLES = {
    0x2: "applications' clocks setting",
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x20: "thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
}
"""Bits of the reasons for lower clocks that are worth telling; idle is none."""


@dataclass(frozen=True)
class NvmlBoard:
    """One board and what can be asked of it; every question may raise `SensorError`."""

    module: ModuleType
    handle: Any
    index: int
    name: str
    uuid: str
    driver: str | None
    memory_bytes: int | None

    def energy_j(self) -> float:
        """Since the driver was loaded."""
        return float(self.ask("nvmlDeviceGetTotalEnergyConsumption")) * _MILLI

    def power_w(self) -> float:
        """An average the board keeps itself."""
        return float(self.ask("nvmlDeviceGetPowerUsage")) * _MILLI

    def temperature_c(self) -> float:
        """Of the processor on the board."""
        return float(self.ask("nvmlDeviceGetTemperature", self.module.NVML_TEMPERATURE_GPU))

    def clock_mhz(self, kind: str) -> float:
        """Of `SM` or `MEM`."""
        return float(self.ask("nvmlDeviceGetClockInfo", getattr(self.module, f"NVML_CLOCK_{kind}")))

    def utilisation(self) -> float:
        """The share of recent time in which any kernel ran; says nothing of how much of the board it used."""
        return float(self.ask("nvmlDeviceGetUtilizationRates").gpu) / 100

    def memory_used(self) -> float:
        """Bytes in use by everyone."""
        return float(self.ask("nvmlDeviceGetMemoryInfo").used)

    def throttle_bits(self) -> float:
        """Why clocks are lower than they could be, as bits of `THROTTLES`."""
        renamed = hasattr(self.module, "nvmlDeviceGetCurrentClocksEventReasons")
        kind = "ClocksEventReasons" if renamed else "ClocksThrottleReasons"
        return float(self.ask(f"nvmlDeviceGetCurrent{kind}"))

    def ask(self, function: str, *arguments: Any) -> Any:
        """What NVML answers."""
        try:
            return getattr(self.module, function)(self.handle, *arguments)
        except self.module.NVMLError as error:
            raise SensorError(f"NVML: {error}") from error
        except AttributeError as error:
            raise SensorError(f"this nvidia-ml-py has no {function}") from error


@dataclass
class Boards:
    """The boards this process may use, or why there are none."""

    boards: list[NvmlBoard] = field(default_factory=list)
    why: str = ""
    asked: bool = True
    """Whether there was anyone to ask; without nvidia-ml-py there may be boards all the same."""

    @property
    def possible(self) -> bool:
        """Whether there may be a board: where nobody could be asked, the driver's traces on the system tell."""
        return bool(self.boards) or (not self.asked and _driver_there())


def _driver_there() -> bool:
    """Whether an NVIDIA driver is loaded, as far as Linux shows it; other systems may have one."""
    return sys.platform != "linux" or os.path.exists("/proc/driver/nvidia") or os.path.exists("/dev/nvidiactl")


def boards(module: ModuleType | None = None, environment: Mapping[str, str] | None = None) -> Boards:
    """The visible boards; `module` stands in for `pynvml`."""
    loaded = module or _load()
    if isinstance(loaded, str):
        return Boards(why=loaded, asked=False)
    try:
        loaded.nvmlInit()
        answers = [_board(loaded, index) for index in range(loaded.nvmlDeviceGetCount())]
    except loaded.NVMLError as error:
        return Boards(why=f"no NVIDIA driver answers: {error}")
    every = [board for board in answers if board is not None]
    wanted = (os.environ if environment is None else environment).get(_VISIBLE)
    shown = every if wanted is None else _visible(every, wanted)
    return Boards(shown, "" if shown else f"{_VISIBLE} hides every board" if every else "no NVIDIA board answers")


def find(module: ModuleType | None = None) -> ProbedSensors:
    """Energy, power and temperature of every visible board."""
    seen, found = boards(module), ProbedSensors()
    if not seen.boards:
        found.absent("nvml", ENERGY, "board", seen.why)
    for board in seen.boards:
        readers: tuple[tuple[str, Callable[[], float]], ...] = (
            (ENERGY, board.energy_j),
            (POWER, board.power_w),
            (TEMPERATURE, board.temperature_c),
        )
        for measures, read in readers:
            name = f"nvml:{board.index}:{measures}"
            found.try_out(Probe(name, measures, "board", read, adds=measures == ENERGY))
    return found


def throttles(bits: int) -> list[str]:
    """The reasons in words."""
    return [text for bit, text in THROTTLES.items() if bits & bit]


def _load() -> ModuleType | str:
    try:
        import pynvml  # type: ignore[import-untyped]
    except ImportError:
        return "nvidia-ml-py is not installed: the extra `nvidia` brings it"
    return cast("ModuleType", pynvml)


def _board(module: ModuleType, index: int) -> NvmlBoard | None:
    """The board of that number; None where it does not answer, as one that fell off its bus."""
    try:
        handle = module.nvmlDeviceGetHandleByIndex(index)
        name, uuid = (_words(ask(handle)) for ask in (module.nvmlDeviceGetName, module.nvmlDeviceGetUUID))
    except module.NVMLError:
        return None
    try:
        driver = _words(module.nvmlSystemGetDriverVersion())
        memory = int(module.nvmlDeviceGetMemoryInfo(handle).total)
    except module.NVMLError:
        driver, memory = None, None
    return NvmlBoard(module, handle, index, name, uuid, driver, memory)


def _words(text: str | bytes) -> str:
    return text.decode(errors="replace") if isinstance(text, bytes) else text


def _visible(every: list[NvmlBoard], wanted: str) -> list[NvmlBoard]:
    """Those that CUDA shows, in its order; it stops at the first name that it does not know."""
    shown: list[NvmlBoard] = []
    for name in (part.strip() for part in wanted.split(",")):
        match = [board for board in every if name and (name == str(board.index) or board.uuid.startswith(name))]
        if not match or match[0] in shown:
            break
        shown.append(match[0])
    return shown
