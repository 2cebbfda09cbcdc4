"""What an entry does without Assay: it runs, and a bare dispatch mode writes down what reaches it."""

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
        """No: a yes would make torch import its compiler, which takes seconds, for nothing."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


def call(model: nn.Module, inputs: Inputs) -> Any:
    """What the model returns for `inputs`."""
    return model(**inputs) if isinstance(inputs, dict) else model(*inputs)


def operations(model: nn.Module, inputs: Inputs) -> list[str]:
    """The dispatcher's names of every operation of one forward pass, in order."""
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
    """Compiled submodules run uncompiled, for compiled ones answer to no dispatch mode."""
    return torch.compiler.set_stance("force_eager") if "torch._dynamo" in sys.modules else contextlib.nullcontext()


def fresh(entry: Entry) -> tuple[nn.Module, Inputs]:
    """The entry's model and inputs, the same each time."""
    torch.manual_seed(0)
    numpy.random.seed(0)
    random.seed(0)
    model, inputs = entry.build()
    model.train(entry.trains)
    return model, inputs


def awake(entry: Entry) -> tuple[nn.Module, Inputs]:
    """The same with lazy modules initialised, for what they do on their first call is no part of the model."""
    model, inputs = fresh(entry)
    if any(is_lazy(tensor) for tensor in (*model.parameters(), *model.buffers())):
        with torch.no_grad():
            call(model, inputs)
    return model, inputs


def plain(entry: Entry) -> str:
    """Empty where the entry does by itself what it should; else what went wrong."""
    model, inputs = fresh(entry)
    try:
        with torch.no_grad():
            call(model, inputs)
    except Exception as error:  # noqa: BLE001  whatever a model raises is the answer here
        return "" if entry.fails else line(error)
    return "it was meant to fail" if entry.fails else ""


def line(error: BaseException) -> str:
    """The error in one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:400]
