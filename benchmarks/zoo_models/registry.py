"""The entry of the zoo, and the decorator with which a file registers its entries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import nn

Inputs = tuple[Any, ...] | dict[str, Any]
"""A tuple is passed by position, a dict by keyword."""
Build = Callable[[], tuple[nn.Module, Inputs]]


@dataclass(frozen=True)
class Entry:
    """One architecture: `build` returns the model and its inputs; `fails` is set if its forward pass raises."""

    name: str
    family: str
    build: Build
    fails: bool = False

    @property
    def trains(self) -> bool:
        """Whether the entry runs in training mode, derived from its name."""
        return self.name.endswith("training")

    @property
    def keeps_modes(self) -> bool:
        """Whether every module runs in the mode that `build` left it in."""
        return self.family in ("exported", "mode-mixed")


class Shelf:
    """The entries of one file; used as a decorator with the family's name."""

    def __init__(self) -> None:
        self.items: list[Entry] = []

    def __call__(self, family: str) -> Callable[[Build], Build]:
        """Register a build function under its own name in `family`."""

        def listed(build: Build) -> Build:
            self.items.append(Entry(build.__name__.strip("_"), family, build))
            return build

        return listed

    def entries(self) -> list[Entry]:
        """The entries registered so far."""
        return list(self.items)
