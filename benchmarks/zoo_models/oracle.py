"""Run an entry without Assay: its result, and the ops that a bare dispatch mode sees."""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Iterator
from typing import Any

import numpy
import torch
from torch import nn
from torch.nn.parameter import is_lazy
from torch.utils._python_dispatch import TorchDispatchMode

from zoo_models.registry import Entry, Inputs


class _Names(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """False, because True would make torch import its compiler, which takes seconds."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


def call(model: nn.Module, inputs: Inputs) -> Any:
    """The result of the model for `inputs`."""
    return model(**inputs) if isinstance(inputs, dict) else model(*inputs)


def operations(model: nn.Module, inputs: Inputs) -> list[str]:
    """The dispatcher's names of all ops of one forward pass, in order."""
    names = _Names()
    with _below_autograd(), _as_written(), names:
        call(model, inputs)
    return names.seen


def operations_with_autograd(model: nn.Module, inputs: Inputs) -> list[str]:
    """The same with autograd on, for models that differentiate inside forward."""
    names = _Names()
    with _as_written(), names:
        call(model, inputs)
    return names.seen


@contextlib.contextmanager
def _below_autograd() -> Iterator[None]:
    with torch.no_grad():
        guard = torch._C._AutoDispatchBelowAutograd()
        try:
            yield
        finally:
            del guard


def _as_written() -> contextlib.AbstractContextManager[Any]:
    """Run compiled submodules uncompiled, because a dispatch mode does not see compiled code."""
    return torch.compiler.set_stance("force_eager") if "torch._dynamo" in sys.modules else contextlib.nullcontext()


def fresh(entry: Entry) -> tuple[nn.Module, Inputs]:
    """The model and inputs of the entry, equal on each call."""
    torch.manual_seed(0)
    numpy.random.seed(0)
    random.seed(0)
    model, inputs = entry.build()
    if not entry.keeps_modes:
        model.train(entry.trains)
    return model, inputs


def awake(entry: Entry) -> tuple[nn.Module, Inputs]:
    """The same with lazy modules initialised, because their first call is not part of the model."""
    model, inputs = fresh(entry)
    if any(is_lazy(tensor) for tensor in (*model.parameters(), *model.buffers())):
        with torch.no_grad():
            call(model, inputs)
    return model, inputs


def plain(entry: Entry) -> str:
    """The error of the entry without Assay, or empty if it runs (or fails) as expected."""
    model, inputs = fresh(entry)
    try:
        with torch.no_grad():
            call(model, inputs)
    except Exception as error:  # noqa: BLE001  any error of the model is the result
        return "" if entry.fails else line(error)
    return "expected to fail, but it ran" if entry.fails else ""


def line(error: BaseException) -> str:
    """The error in one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:400]
