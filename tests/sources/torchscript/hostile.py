"""Hostile TorchScript files: the registry of cases."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Case:
    """One hostile file: why it is hostile, and the function that writes it."""

    name: str
    why: str
    write: Callable[[Path], None]
    valid: bool = False
    """Whether torch.jit loads the file, so that only running it is hostile."""


def cases() -> list[Case]:
    """Every hostile file."""
    import hostile_code
    import hostile_data
    import hostile_names
    import hostile_work

    return [*hostile_code.cases(), *hostile_work.cases(), *hostile_names.cases(), *hostile_data.cases()]
