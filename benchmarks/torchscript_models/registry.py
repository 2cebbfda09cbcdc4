"""The entry of the TorchScript bench, and the decorator with which a file registers its models."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

Inputs = tuple[Any, ...] | dict[str, Any]
"""A tuple is passed by position, a dict by keyword."""
Build = Callable[[], tuple[nn.Module, Inputs]]
Convert = Callable[[nn.Module, Inputs], torch.jit.ScriptModule]
Write = Callable[[torch.jit.ScriptModule, Path], None]


def scripted(model: nn.Module, inputs: Inputs) -> torch.jit.ScriptModule:
    """The model as `torch.jit.script` compiles it."""
    return torch.jit.script(model)


def traced(model: nn.Module, inputs: Inputs) -> torch.jit.ScriptModule:
    """The model as `torch.jit.trace` records it; its file carries the inputs."""
    given = {"example_kwarg_inputs": inputs} if isinstance(inputs, dict) else {"example_inputs": inputs}
    return torch.jit.trace(model, strict=False, check_trace=False, **given)


def saved(program: torch.jit.ScriptModule, path: Path) -> None:
    """Write the program as most people do."""
    torch.jit.save(program, str(path))


@dataclass(frozen=True)
class Entry:
    """One TorchScript file: `build` returns the live model and its inputs, `convert` and `write` make the file."""

    name: str
    family: str
    build: Build
    convert: Convert
    write: Write = saved
    live: Build | None = None
    """Builds the model that the file is compared with, if freezing changed what is computed."""
    inlined: bool = False
    """Whether the file has no submodules, because freezing wrote them into one function."""
    counted: bool = True
    """Whether torch's own FLOP counter counts every matrix product of the live model."""

    @property
    def literal(self) -> str:
        """The inputs as `--inputs` takes them; empty if they are not just tensors by position."""
        _, inputs = self.build()
        if not isinstance(inputs, tuple) or not all(isinstance(each, torch.Tensor) for each in inputs):
            return ""
        return ",".join(
            f"{'x'.join(map(str, each.shape))}:{str(each.dtype).removeprefix('torch.')}" for each in inputs
        )


FORMS = {"scripted": scripted, "traced": traced}


class Shelf:
    """The entries of one file; used as a decorator with the family's name and the forms of the file."""

    def __init__(self) -> None:
        self.items: list[Entry] = []

    def __call__(self, family: str, *forms: str, counted: bool = True) -> Callable[[Build], Build]:
        """Register a build function under its own name, once per form."""

        def listed(build: Build) -> Build:
            self.items += [
                Entry(f"{build.__name__}-{form}", family, build, FORMS[form], counted=counted) for form in forms
            ]
            return build

        return listed

    def special(
        self, family: str, convert: Convert, write: Write = saved, live: Build | None = None, inlined: bool = False
    ) -> Callable[[Build], Build]:
        """Register a build function whose file is made in its own way."""

        def listed(build: Build) -> Build:
            self.items.append(Entry(build.__name__, family, build, convert, write, live, inlined))
            return build

        return listed

    def entries(self) -> list[Entry]:
        """The entries registered so far."""
        return list(self.items)
