"""The stages of a recorded pass: the modules that ran one after another, at the depth that divides the pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import groupby
from operator import itemgetter

from msgspec import Struct

from assay.analysis.memory.lifetimes import PassStorages

_SHARE = 0.5
"""Modules are divided further as long as one of them runs more than this share of their ops."""


class Stage(Struct, frozen=True):
    """Consecutive ops of one module, or of one phase."""

    name: str
    first: int
    """The first of its ops."""
    last: int


def module_stages(recorded_pass: PassStorages) -> list[Stage]:
    """The modules in order of execution, without ops outside all modules."""
    paths = {op: path.split(".") for op in range(len(recorded_pass.ops)) if (path := recorded_pass.module(op))}
    names: dict[int, str] = {}
    for depth in range(1, max(map(len, paths.values()), default=0) + 1):
        names = {op: ".".join(path[:depth]) for op, path in paths.items()}
        if max(Counter(names.values()).values()) <= _SHARE * len(names):
            break
    return [Stage(_short(stage.name), stage.first, stage.last) for stage in _runs(names)]


def phases(recorded_pass: PassStorages) -> list[Stage]:
    """The phases of the pass, in order: `forward`, and in a training step `backward`."""
    return _runs({number: op.phase for number, op in enumerate(recorded_pass.ops)})


def _runs(names: Mapping[int, str]) -> list[Stage]:
    """The runs of ops with equal names."""
    runs = [(name, [op for op, _ in items]) for name, items in groupby(names.items(), key=itemgetter(1))]
    return [Stage(name, ops[0], ops[-1]) for name, ops in runs]


def _short(path: str) -> str:
    """The last name of a path, with the one before it if it is a number: `layer.0`."""
    *before, last = path.split(".")
    return f"{before[-1]}.{last}" if before and last.isdecimal() else last
