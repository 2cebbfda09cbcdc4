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
"""The bits of reasons for lower clocks that are worth reporting; an idle board is not one."""
SLOWDOWNS = 0x8 | 0x20 | 0x40 | 0x80
"""The bits that mean throttling, by heat or by the power brake; a power cap is normal under full load."""


@dataclass(frozen=True)
class NvmlBoard:
    """One board and its metrics; every reading may raise `SensorError`."""

    module: ModuleType
    handle: Any
    index: int
    name: str
    uuid: str
    driver: str | None
    memory_bytes: int | None

    def energy_j(self) -> float:
        """Joules since the driver was loaded."""
        return float(self.ask("nvmlDeviceGetTotalEnergyConsumption")) * _MILLI

    def power_w(self) -> float:
        """Power draw, averaged by the board itself."""
        return float(self.ask("nvmlDeviceGetPowerUsage")) * _MILLI

    def temperature_c(self) -> float:
        """Temperature of the GPU chip."""
        return float(self.ask("nvmlDeviceGetTemperature", self.module.NVML_TEMPERATURE_GPU))

    def clock_mhz(self, kind: str) -> float:
        """Clock frequency of `SM` or `MEM`."""
        return float(self.ask("nvmlDeviceGetClockInfo", getattr(self.module, f"NVML_CLOCK_{kind}")))

    def utilisation(self) -> float:
        """The share of recent time in which any kernel ran, regardless of how much of the board it used."""
        return float(self.ask("nvmlDeviceGetUtilizationRates").gpu) / 100

    def memory_used(self) -> float:
        """Bytes in use by all processes."""
        return float(self.ask("nvmlDeviceGetMemoryInfo").used)

    def limit_w(self) -> float:
        """The highest power the board may draw."""
        return float(self.ask("nvmlDeviceGetEnforcedPowerLimit")) * _MILLI

    def throttle_bits(self) -> float:
        """Why clocks are lower than they could be, as bits of `THROTTLES`."""
        renamed = hasattr(self.module, "nvmlDeviceGetCurrentClocksEventReasons")
        kind = "ClocksEventReasons" if renamed else "ClocksThrottleReasons"
        return float(self.ask(f"nvmlDeviceGetCurrent{kind}"))

    def ask(self, function: str, *arguments: Any) -> Any:
        """The result of an NVML function for this board; raises `SensorError` if the call fails."""
        try:
            return getattr(self.module, function)(self.handle, *arguments)
        except self.module.NVMLError as error:
            raise SensorError(f"NVML: {error}") from error
        except AttributeError as error:
            raise SensorError(f"this version of nvidia-ml-py has no {function}") from error


@dataclass
class Boards:
    """The boards this process may use, or why there are none."""

    boards: list[NvmlBoard] = field(default_factory=list)
    why: str = ""
    queried: bool = True
    """Whether NVML could be queried; without nvidia-ml-py, boards may exist but cannot be listed."""

    @property
    def may_exist(self) -> bool:
        """Whether there may be a board; if NVML could not be queried, whether a driver is loaded."""
        return bool(self.boards) or (not self.queried and _driver_there())


def _driver_there() -> bool:
    """Whether an NVIDIA driver is loaded on Linux; True on other systems, where this cannot be checked."""
    return sys.platform != "linux" or os.path.exists("/proc/driver/nvidia") or os.path.exists("/dev/nvidiactl")


def boards(module: ModuleType | None = None, environment: Mapping[str, str] | None = None) -> Boards:
    """The boards visible to this process; `module` replaces `pynvml`."""
    loaded = module or _load()
    if isinstance(loaded, str):
        return Boards(why=loaded, queried=False)
    try:
        loaded.nvmlInit()
        answers = [_board(loaded, index) for index in range(loaded.nvmlDeviceGetCount())]
    except loaded.NVMLError as error:
        is_missing = str(error).endswith(("Not Found", "Not Loaded"))
        return Boards(why=f"no NVIDIA driver ({error})" if is_missing else f"the NVIDIA driver failed: {error}")
    every = [board for board in answers if board is not None]
    selection = (os.environ if environment is None else environment).get(_VISIBLE)
    shown = every if selection is None else _visible(every, selection)
    return Boards(shown, "" if shown else f"{_VISIBLE} hides every board" if every else "no NVIDIA board responded")


def find(module: ModuleType | None = None) -> ProbedSensors:
    """Energy, power and temperature sensors of every visible board."""
    visible, sensors = boards(module), ProbedSensors()
    if not visible.boards:
        sensors.add_missing("nvml", ENERGY, "board", visible.why)
    for board in visible.boards:
        readers: tuple[tuple[str, Callable[[], float]], ...] = (
            (ENERGY, board.energy_j),
            (POWER, board.power_w),
            (TEMPERATURE, board.temperature_c),
        )
        for measures, read in readers:
            name = f"nvml:{board.index}:{measures}"
            sensors.try_out(Probe(name, measures, "board", read, adds=measures == ENERGY))
    return sensors


def limit_w(uuid: str, module: ModuleType | None = None) -> float | None:
    """The power limit of the board with this UUID; None if it is unknown."""
    board = next((board for board in boards(module).boards if uuid in board.uuid), None)
    try:
        return None if board is None else board.limit_w()
    except SensorError:
        return None


def throttles(bits: int) -> list[str]:
    """The names of the throttle reasons set in `bits`."""
    return [text for bit, text in THROTTLES.items() if bits & bit]


def _load() -> ModuleType | str:
    try:
        import pynvml  # type: ignore[import-untyped]
    except ImportError:
        return "nvidia-ml-py is not installed: install the `nvidia` extra"
    return cast("ModuleType", pynvml)


def _board(module: ModuleType, index: int) -> NvmlBoard | None:
    """The board with this index; None if it does not respond, for example because it has fallen off the bus."""
    try:
        handle = module.nvmlDeviceGetHandleByIndex(index)
        name, uuid = (_decoded(ask(handle)) for ask in (module.nvmlDeviceGetName, module.nvmlDeviceGetUUID))
    except module.NVMLError:
        return None
    try:
        driver = _decoded(module.nvmlSystemGetDriverVersion())
        memory = int(module.nvmlDeviceGetMemoryInfo(handle).total)
    except module.NVMLError:
        driver, memory = None, None
    return NvmlBoard(module, handle, index, name, uuid, driver, memory)


def _decoded(text: str | bytes) -> str:
    return text.decode(errors="replace") if isinstance(text, bytes) else text


def _visible(every: list[NvmlBoard], selection: str) -> list[NvmlBoard]:
    """The boards selected by CUDA_VISIBLE_DEVICES, in its order; like CUDA, stop at the first unknown name."""
    shown: list[NvmlBoard] = []
    for name in (part.strip() for part in selection.split(",")):
        match = [board for board in every if name and (name == str(board.index) or board.uuid.startswith(name))]
        if not match or match[0] in shown:
            break
        shown.append(match[0])
    return shown
