"""The model that changes are tried on: how it reaches a child process, and fresh copies of it there."""

from __future__ import annotations

import copy
import pickle
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from assay import host, units
from assay.errors import InputsError, UsageError
from assay.messages import error_line
from assay.recorder import inventory, substitute
from assay.sources.inputs import check_affordable, find_inputs
from assay.sources.open import open_source
from assay.sources.opened import Opened
from assay.sources.tensors import torch_dtype
from assay.timing import resident
from assay.trials.change import NotApplicable
from assay.trials.plan import TrialSettings
from assay.trials.runnable import Runnable

_COPIES = 2
"""Copies that a trial makes: one stays as it is, one is changed."""


@dataclass(frozen=True)
class TrialSubject:
    """A model and its inputs, as text that can be opened again or as live objects."""

    source: Any
    """A specifier or path, a live model, or an opened source."""
    inputs: Any = None
    model_args: Mapping[str, Any] | None = None
    trust: bool = False

    @property
    def is_text(self) -> bool:
        """Whether the model can be opened again from its text."""
        return isinstance(self.source, str)


class NotPortable(Exception):
    """Raised if a model or its inputs cannot be loaded in another process."""


def save_subject(subject: TrialSubject, path: Path) -> None:
    """Write the subject to a file that another process can load; `NotPortable` if that is impossible."""
    try:
        torch.save(_portable(subject), path, pickle_module=_PICKLE)
    except Exception as error:  # a user's object may raise anything when it is pickled
        path.unlink(missing_ok=True)
        raise NotPortable(error_line(error)) from error


def _portable(subject: TrialSubject) -> TrialSubject:
    """The subject with a module in place of an opened source, which holds functions."""
    if not isinstance(subject.source, Opened):
        return subject
    model = subject.source.with_weights.model
    return replace(subject, source=model.module, inputs=model.inputs if subject.inputs is None else subject.inputs)


def load_subject(path: Path) -> TrialSubject:
    """The subject that `save_subject` wrote."""
    subject: TrialSubject = torch.load(path, weights_only=False)
    return subject


class PreparedSubject:
    """A model that is placed, in the mode asked for and ready to be copied; the copies may be changed at will."""

    def __init__(self, original: Runnable, again: Callable[[], Runnable] | None, note: str) -> None:
        self.original = original
        self.note = note
        """What limits all results, such as made-up weights; empty if nothing does."""
        self._again = again

    def fresh(self) -> Runnable:
        """A new copy of the model and its inputs; opened again if it cannot be copied."""
        original = self.original
        try:
            return Runnable(*copy.deepcopy((original.model, original.args, original.kwargs)))
        except Exception as error:  # a user's object may raise anything when it is copied
            if self._again is None:
                raise UsageError(f"the model cannot be copied: {error_line(error)}") from error
            return self._again()

    def check_memory(self) -> None:
        """Raise `NotApplicable` if the copies of a trial would not fit into the free memory."""
        tensors = inventory.members(self.original.model).tensors
        needed = _COPIES * sum({id(each): each.nbytes for each in tensors}.values())
        free = _free_memory(tensors)
        if needed > free:
            raise NotApplicable(f"two copies of the model take {units.size(needed)}, and {units.size(free)} is free")


def prepare_subject(
    subject: TrialSubject, settings: TrialSettings, again: Callable[[], TrialSubject] | None
) -> PreparedSubject:
    """The subject ready for trials; its own model is placed and set to the mode asked for.

    `again` gives the same subject with other objects, for models that cannot be copied; None if there is no way.
    """
    original, note = _opened(subject, settings)
    reopen = None if again is None else lambda: _opened(again(), settings)[0]
    return PreparedSubject(original, reopen, note)


def _opened(subject: TrialSubject, settings: TrialSettings) -> tuple[Runnable, str]:
    # A function that builds a model draws random weights, which must be the same each time.
    torch.manual_seed(settings.seed)
    opened = open_source(subject.source, model_args=subject.model_args, trust=subject.trust).with_weights
    module = opened.module
    note = _fill(module) if opened.model.on_meta else ""
    inputs = find_inputs(subject.inputs, opened, device=settings.device, dtype=settings.dtype)
    check_affordable(inputs)
    if settings.device is not None or settings.dtype is not None:
        module = module.to(device=settings.device, dtype=torch_dtype(settings.dtype))
    _set_mode(module, True if settings.backward else settings.training)
    return Runnable(module, inputs.args, dict(inputs.kwargs)), note


def _fill(module: Any) -> str:
    """Give a model without weights made-up ones, and return the note about it."""
    modules, tensors = inventory.members(module)
    size = sum(tensor.nbytes for tensor in tensors)
    if size > substitute.MADE_UP_LIMIT:
        raise InputsError(
            f"the model has no weights, and {units.size(size)} are too many to make up: give its weights"
        )
    substitute.swap(modules, substitute.made_up)
    return "with made-up weights"


def _set_mode(module: Any, training: bool | None) -> None:
    """Set the mode by the flags: `train()` may be overridden or forbidden."""
    for each in inventory.members(module).modules if training is not None else ():
        if getattr(each, "training", training) != training:
            each.training = bool(training)


def _free_memory(tensors: list[torch.Tensor]) -> int:
    device = next((tensor.device for tensor in tensors if tensor.is_cuda), None)
    return host.free_memory() if device is None else int(resident.free(str(device)).value or 0)


class _ByReference(pickle.Pickler):
    """Refuses what only this process can find: classes and functions of the script or notebook that is running."""

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, (type, types.FunctionType)) and value.__module__ == "__main__":
            raise pickle.PicklingError(f"{value.__qualname__} is defined in __main__")
        return NotImplemented


_PICKLE: Any = types.SimpleNamespace(Pickler=_ByReference, __name__="pickle")
