"""Devices a model may run on: memory, bandwidth and peak FLOP/s, each with its source.

The values are data (`devices.json`); peaks are dense. Values that the vendor does not publish are absent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from functools import cache
from importlib.resources import files

import msgspec
from msgspec import Struct

from assay.errors import UsageError
from assay.messages import alternatives

GIB = 1 << 30

THIS = "this"
"""The name of the current machine."""

_A_NAME = "a name such as H100"
_A_NAME_OR_SIZE = f"{_A_NAME} or a size such as 24GiB"

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(GiB|GB|KiB|kB|MiB|MB|TiB|TB)", re.IGNORECASE)
_GROUP = re.compile(r"(\d{1,6})\s*[x×]\s*(\S.*)", re.IGNORECASE)
_UNITS = {
    "gib": GIB,
    "gb": 10**9,
    "kib": 1 << 10,
    "kb": 10**3,
    "mib": 1 << 20,
    "mb": 10**6,
    "tib": 1 << 40,
    "tb": 10**12,
}


class Device(Struct, frozen=True, omit_defaults=True):
    """One accelerator as its vendor describes it."""

    name: str
    memory_gib: float
    """Vendors write GB, but memory comes in powers of two."""
    bandwidth_gb_s: float | None = None
    tflops: dict[str, float] = {}
    """Dense peaks by `fp64`, `fp32`, `tf32`, `bf16`, `fp16`, `fp8`, `int8`."""
    tdp_w: float | None = None
    source: str = ""
    """Title of the vendor's publication."""
    aliases: tuple[str, ...] = ()
    note: str = ""
    checked: bool = False
    """Whether memory, bandwidth and the main peak were checked against a public source."""

    @property
    def memory_bytes(self) -> int:
        """Total memory, before any reserve is subtracted."""
        return round(self.memory_gib * GIB)

    @property
    def bandwidth(self) -> float | None:
        """Bytes per second."""
        return None if self.bandwidth_gb_s is None else self.bandwidth_gb_s * 1e9

    def peak(self, precision: str) -> float | None:
        """FLOP/s in `precision`; None if the vendor does not publish it."""
        tera = self.tflops.get(precision)
        return None if tera is None else tera * 1e12


class DeviceGroup(Struct, frozen=True):
    """One or several equal devices."""

    device: Device
    count: int = 1

    @property
    def name(self) -> str:
        """`H100 SXM`, or `8xH100 SXM` for several devices."""
        return self.device.name if self.count == 1 else f"{self.count}x{self.device.name}"


FindDevice = Callable[[], Device | None]
"""A function that returns the current machine as a device, or None if it was not measured."""


@cache
def devices() -> tuple[Device, ...]:
    """Every device in the built-in table."""
    data = files("assay.analysis").joinpath("devices.json").read_bytes()
    return msgspec.json.decode(data, type=tuple[Device, ...])


def find_device(name: str, this: FindDevice | None = None, expected: str = _A_NAME) -> Device:
    """The device with that name or alias; spaces, hyphens and case do not matter.

    For the name `this`, the function `this` is called to get the current machine.
    """
    if _plain(name) == THIS:
        measured = this() if this is not None else None
        if measured is None:
            raise UsageError("this machine has not been measured: run `assay machine` once, or name a device")
        return measured
    device = _by_name().get(_plain(name))
    if device is None:
        raise UsageError(f"unknown device {name!r}: {_hint(name, expected)}")
    return device


def device_to_compute_on(name: str, this: FindDevice | None = None) -> Device:
    """The device with that name, whose peaks are known; a memory size is refused."""
    if device_with_memory(name) or device_with_memory(f"{name}GiB"):
        raise UsageError(f"no device in {name!r}: a roofline needs a device by name, such as H100, not a memory size")
    return find_device(name, this)


def device_with_memory(text: str) -> Device | None:
    """A device with only the given amount of memory (`24GiB`, `24 GB`); None if `text` is not a size."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        return None
    size = float(match[1]) * _UNITS[match[2].lower()]
    return Device(text.strip(), size / GIB, source="user input")


def parse_devices(text: str, this: FindDevice | None = None) -> Sequence[DeviceGroup]:
    """The devices in a list such as `H100,8xRTX4090,24GiB,this`; `all` is every built-in device."""
    if _plain(text) == "all":
        return [DeviceGroup(device) for device in devices()]
    names = [part for part in text.split(",") if part.strip()]
    if not names:
        raise UsageError(f"no device in {text!r}: expected names such as H100 or 24GiB, separated by commas, or all")
    return [_group(name.strip(), this) for name in names]


def _group(text: str, this: FindDevice | None) -> DeviceGroup:
    match = _GROUP.fullmatch(text)
    count, name = (int(match[1]), match[2]) if match else (1, text)
    if not count:
        raise UsageError(f"no device in {text!r}: expected at least 1, as in 8x{name}")
    return DeviceGroup(device_with_memory(name) or find_device(name, this, _A_NAME_OR_SIZE), count)


@cache
def _by_name() -> dict[str, Device]:
    return {_plain(name): device for device in devices() for name in (device.name, *device.aliases)}


def _hint(name: str, expected: str) -> str:
    plain = _plain(name)
    if plain.replace(".", "", 1).isdecimal():
        return f"for a memory size, write {plain}GiB"
    names = _by_name()
    similar = get_close_matches(plain, names, n=4, cutoff=0.5) or [each for each in names if plain and plain in each]
    shown = list(dict.fromkeys(names[each].name for each in similar))[:4]
    if shown:
        return f"did you mean {alternatives(shown)}?"
    return f"expected {expected}; `assay memory --fit all` and docs/devices.md list the names"


def _plain(name: str) -> str:
    return re.sub(r"[\s_-]+", "", name).lower()
