"""Fake machines: trees of kernel files, an NVML module, and clocks that tests advance."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType, SimpleNamespace


class NVMLError(Exception):
    """The error that NVML raises."""


class Clock:
    """A clock that advances when sleeping, and slightly with every read."""

    def __init__(self, step: float = 0.0001) -> None:
        self.now, self.step = 100.0, step

    def __call__(self) -> float:
        self.now += self.step
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def write(path: Path, text: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")
    return path


def zone(root: Path, name: str, called: str, micro_joules: object, wraps: int = 262_143_328_850) -> Path:
    """One powercap zone."""
    write(root / name / "name", called)
    write(root / name / "max_energy_range_uj", wraps)
    return write(root / name / "energy_uj", micro_joules)


def nvml(boards: int = 1, *, missing: tuple[str, ...] = (), init: Exception | None = None) -> ModuleType:
    """A `pynvml` with this many boards at 200 W; the functions in `missing` are not supported."""
    module = ModuleType("pynvml")
    module.NVMLError = NVMLError
    module.NVML_TEMPERATURE_GPU, module.NVML_CLOCK_SM, module.NVML_CLOCK_MEM = 0, 1, 2
    module.energy_mj = 5_000_000

    def start() -> None:
        if init is not None:
            raise init

    def energy(handle: int) -> int:
        module.energy_mj += 20_000
        return module.energy_mj

    answers = {
        "nvmlDeviceGetTotalEnergyConsumption": energy,
        "nvmlDeviceGetPowerUsage": lambda handle: 200_000,
        "nvmlDeviceGetEnforcedPowerLimit": lambda handle: 700_000,
        "nvmlDeviceGetTemperature": lambda handle, kind: 41,
        "nvmlDeviceGetClockInfo": lambda handle, kind: {1: 1980, 2: 3201}[kind],
        "nvmlDeviceGetUtilizationRates": lambda handle: SimpleNamespace(gpu=87),
        "nvmlDeviceGetMemoryInfo": lambda handle: SimpleNamespace(used=3 << 30, total=141 << 30),
        "nvmlDeviceGetCurrentClocksEventReasons": lambda handle: 0x4,
        "nvmlDeviceGetName": lambda handle: b"NVIDIA H200",
        "nvmlDeviceGetUUID": lambda handle: f"GPU-{handle}abc",
    }

    def unsupported(*_: object) -> None:
        raise NVMLError("Not Supported")

    for name, answer in answers.items():
        setattr(module, name, unsupported if name in missing else answer)
    module.nvmlInit = start
    module.nvmlDeviceGetCount = lambda: boards
    module.nvmlDeviceGetHandleByIndex = lambda index: index
    module.nvmlSystemGetDriverVersion = lambda: "580.1"
    return module
