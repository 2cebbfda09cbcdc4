"""Devices a model may run on: how much memory, how fast it is read, how fast they calculate, each with its source.

The figures are data (`devices.json`), peaks are dense. What a vendor does not say is absent.
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

GIB = 1 << 30

THIS = "this"
"""Stands for the machine at hand."""

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(GiB|GB|MiB|MB|TiB|TB)", re.IGNORECASE)
_UNITS = {"gib": GIB, "gb": 10**9, "mib": 1 << 20, "mb": 10**6, "tib": 1 << 40, "tb": 10**12}


class Device(Struct, frozen=True, omit_defaults=True):
    """One accelerator as its vendor describes it."""

    name: str
    memory_gib: float
    """What vendors write as GB: memory is built in powers of two."""
    bandwidth_gb_s: float | None = None
    tflops: dict[str, float] = {}
    """Dense peaks by `fp64`, `fp32`, `tf32`, `bf16`, `fp16`, `fp8`, `int8`."""
    tdp_w: float | None = None
    source: str = ""
    """The title of the vendor's text."""
    aliases: tuple[str, ...] = ()
    note: str = ""
    checked: bool = False
    """Whether memory, bandwidth and the main peak were compared with public text when they were entered."""

    @property
    def memory_bytes(self) -> int:
        """All memory it has, before anything is kept back."""
        return round(self.memory_gib * GIB)

    @property
    def bandwidth(self) -> float | None:
        """Bytes a second."""
        return None if self.bandwidth_gb_s is None else self.bandwidth_gb_s * 1e9

    def peak(self, precision: str) -> float | None:
        """FLOPs a second in `precision`, where the vendor says."""
        tera = self.tflops.get(precision)
        return None if tera is None else tera * 1e12


FindDevice = Callable[[], Device | None]
"""The machine at hand as a device, where it was measured."""


@cache
def devices() -> tuple[Device, ...]:
    """Every device there are figures for."""
    data = files("assay.analysis").joinpath("devices.json").read_bytes()
    return msgspec.json.decode(data, type=tuple[Device, ...])


def find(name: str, this: FindDevice | None = None) -> Device:
    """The device called `name`, by any of its names, however they are spaced or capitalised.

    `this` gives the machine at hand, where it was measured.
    """
    if _plain(name) == THIS:
        measured = this() if this is not None else None
        if measured is None:
            raise UsageError("'this' machine was not measured yet: run `assay machine` once, or name a device")
        return measured
    found = _by_name().get(_plain(name))
    if found is None:
        raise UsageError(f"no device is called {name!r}: {_near(name)}")
    return found


def sized(text: str) -> Device | None:
    """A device of which only the memory is known, from `24GiB` or `24 GB`; None where it is no size."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        return None
    size = float(match[1]) * _UNITS[match[2].lower()]
    return Device(text.strip(), size / GIB, source="as given")


def listed(text: str, this: FindDevice | None = None) -> Sequence[Device]:
    """The devices in a list such as `H100,RTX4090,24GiB,this`; `all` is every one with a name of its own."""
    if _plain(text) == "all":
        return devices()
    names = [part for part in text.split(",") if part.strip()]
    if not names:
        raise UsageError("no device was named: say H100, 24GiB or all, with commas between several")
    return [sized(name) or find(name, this) for name in names]


@cache
def _by_name() -> dict[str, Device]:
    return {_plain(name): device for device in devices() for name in (device.name, *device.aliases)}


def _near(name: str) -> str:
    plain = _plain(name)
    names = _by_name()
    alike = get_close_matches(plain, names, n=4, cutoff=0.5) or [known for known in names if plain and plain in known]
    shown = list(dict.fromkeys(names[known].name for known in alike))[:4]
    return f"near it are {', '.join(shown)}" if shown else f"known are {', '.join(each.name for each in devices())}"


def _plain(name: str) -> str:
    return re.sub(r"[\s_-]+", "", name).lower()
