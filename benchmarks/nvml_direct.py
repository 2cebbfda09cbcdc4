"""The part of `pynvml` that sensors need, from the driver's library, for a GPU machine without nvidia-ml-py."""

from __future__ import annotations

import ctypes
import importlib.util
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

LIBRARY = "libnvidia-ml.so.1"
NUMBERS: dict[str, tuple[str, type]] = {
    "nvmlDeviceGetTotalEnergyConsumption": ("nvmlDeviceGetTotalEnergyConsumption", ctypes.c_ulonglong),
    "nvmlDeviceGetPowerUsage": ("nvmlDeviceGetPowerUsage", ctypes.c_uint),
    "nvmlDeviceGetEnforcedPowerLimit": ("nvmlDeviceGetEnforcedPowerLimit", ctypes.c_uint),
    "nvmlDeviceGetTemperature": ("nvmlDeviceGetTemperature", ctypes.c_uint),
    "nvmlDeviceGetClockInfo": ("nvmlDeviceGetClockInfo", ctypes.c_uint),
    "nvmlDeviceGetCurrentClocksEventReasons": ("nvmlDeviceGetCurrentClocksThrottleReasons", ctypes.c_ulonglong),
    "nvmlDeviceGetHandleByIndex": ("nvmlDeviceGetHandleByIndex_v2", ctypes.c_void_p),
}
"""By name: the library's function, whose last argument receives a number of this type."""


class NVMLError(Exception):
    """A call that failed."""


class _Utilisation(ctypes.Structure):
    _fields_ = [("gpu", ctypes.c_uint), ("memory", ctypes.c_uint)]


class _Memory(ctypes.Structure):
    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]


def install() -> None:
    """Provide `pynvml` if it cannot be imported and the driver's library can be loaded."""
    if importlib.util.find_spec("pynvml") is not None:
        return
    try:
        library = ctypes.CDLL(LIBRARY)
    except OSError:
        return
    sys.modules["pynvml"] = _module(library)


def _module(library: Any) -> ModuleType:
    module: Any = ModuleType("pynvml")
    module.NVMLError = NVMLError
    module.NVML_TEMPERATURE_GPU, module.NVML_CLOCK_SM, module.NVML_CLOCK_MEM = 0, 1, 2

    def call(name: str, *arguments: Any) -> None:
        code = getattr(library, name)(*arguments)
        if code:
            raise NVMLError(f"{name} returned {code}")

    def number(name: str, kind: type) -> Any:
        def read(*arguments: Any) -> Any:
            result = kind()
            call(name, *arguments, ctypes.byref(result))
            return result if kind is ctypes.c_void_p else result.value

        return read

    def text(name: str) -> Any:
        def read(*handle: Any) -> str:
            result = ctypes.create_string_buffer(96)
            call(name, *handle, result, 96)
            return result.value.decode()

        return read

    def parts(name: str, kind: type) -> Any:
        def read(handle: Any) -> SimpleNamespace:
            result: Any = kind()
            call(name, handle, ctypes.byref(result))
            return SimpleNamespace(**{field: getattr(result, field) for field, _ in result._fields_})

        return read

    for public, (name, kind) in NUMBERS.items():
        setattr(module, public, number(name, kind))
    module.nvmlDeviceGetCount = number("nvmlDeviceGetCount_v2", ctypes.c_uint)
    module.nvmlInit = lambda: call("nvmlInit_v2")
    module.nvmlDeviceGetName = text("nvmlDeviceGetName")
    module.nvmlDeviceGetUUID = text("nvmlDeviceGetUUID")
    module.nvmlSystemGetDriverVersion = text("nvmlSystemGetDriverVersion")
    module.nvmlDeviceGetUtilizationRates = parts("nvmlDeviceGetUtilizationRates", _Utilisation)
    module.nvmlDeviceGetMemoryInfo = parts("nvmlDeviceGetMemoryInfo", _Memory)
    return module
