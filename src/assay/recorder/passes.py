"""Choosing the pass: with data where there is some; else meta, then fake, then made-up weights.

The first pass that reaches the end is taken. Where none does, the last one with real arithmetic is, for its
error is the model's own.
"""

from __future__ import annotations

import copy
import inspect
from collections import Counter
from typing import Any

import msgspec
import torch
from torch import nn
from torch.nn.parameter import is_lazy
from torch.utils._pytree import tree_map_only

from assay.document.document import Attempt
from assay.document.rows import Op
from assay.errors import InputsError, UsageError
from assay.messages import error_line
from assay.recorder import guard, inventory, substitute
from assay.recorder.inventory import Members
from assay.recorder.watch import Pass, Setting, watch

MODES = ("auto", "real", "meta", "fake")

_WANTS_AUTOGRAD = (
    "does not require grad",
    "requires grad",
    "grad_fn",
    "no graph",
    "Expected gradient function",
    "require gradient",
    "retain_grad",
)
"""What torch says when a model differentiates inside its forward and autograd is off."""


def observe(
    model: nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    mode: str = "auto",
    train: bool = False,
    device: str | None = None,
    dtype: str | None = None,
) -> Pass:
    """The best pass that can be had in this mode."""
    if mode not in MODES:
        raise UsageError(f"no mode is called {mode!r}: say {', '.join(MODES)}")
    _check_call(model, args, kwargs)
    members = inventory.members(model)
    model, notes = _awake(model, members, args, kwargs)
    if notes:
        members = inventory.members(model)
    wanted = Setting("real", train, device, substitute.dtype_named(dtype))
    tries: list[Pass] = []
    for name in _order(mode, members.tensors):
        shown = _try(model, members, args, kwargs, wanted._replace(mode=name))
        if shown.error is None:
            return _finished(shown, notes, tries)
        tries.append(shown)
    return _finished(tries[-1], notes, tries[:-1])


def observe_training(
    model: nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    forward: Pass,
    *,
    device: str | None,
    dtype: str | None,
) -> Pass:
    """One training step in the way that `forward` was run: forward with autograd on, then backward."""
    model, _ = _awake(model, inventory.members(model), args, kwargs)
    setting = Setting(forward.mode, True, device, substitute.dtype_named(dtype), autograd=True, backward=True)
    shown = watch(model, inventory.members(model), args, kwargs, setting)
    return shown._replace(ops=_same_calls(shown, forward))


def _same_calls(shown: Pass, forward: Pass) -> list[Op]:
    """The operations with the calls of the forward pass, matched by module and by how often it was called."""
    if [call.module for call in shown.calls] == [call.module for call in forward.calls]:
        return shown.ops
    places: dict[tuple[int, int], int] = {}
    seen: Counter[int] = Counter()
    for index, call in enumerate(forward.calls):
        places[call.module, seen[call.module]] = index
        seen[call.module] += 1
    seen.clear()
    matched = {-1: -1}
    for index, call in enumerate(shown.calls):
        matched[index] = places.get((call.module, seen[call.module]), -1)
        seen[call.module] += 1
    return [msgspec.structs.replace(op, call=matched[op.call]) for op in shown.ops]


def _try(model: nn.Module, members: Members, args: tuple[Any, ...], kwargs: dict[str, Any], setting: Setting) -> Pass:
    shown = watch(model, members, args, kwargs, setting)
    if shown.error is None or setting.mode in ("meta", "fake") or not _wants_autograd(shown.error):
        return shown
    again = watch(model, members, args, kwargs, setting._replace(autograd=True))
    if again.error is not None:
        return shown
    return _with_notes(again, ("the model differentiates inside forward: operations are recorded decomposed",))


def _order(mode: str, tensors: list[torch.Tensor]) -> list[str]:
    without_weights = any(tensor.is_meta for tensor in tensors)
    size = sum(inventory.size_in_bytes(tensor) for tensor in tensors)
    with_data = ["made-up"] if without_weights else ["real"]
    if without_weights and size > substitute.MADE_UP_LIMIT:
        with_data = []
    if mode == "real":
        if not with_data:
            raise UsageError("this model has no weights and is too large to make some up: use --meta")
        return with_data
    if mode == "auto" and not without_weights:
        return ["real"]
    return [*(["fake"] if mode == "fake" else ["meta", "fake"]), *with_data]


def _finished(shown: Pass, notes: tuple[str, ...], failed: list[Pass]) -> Pass:
    """The pass with what the ones before it came to."""
    attempts = tuple(Attempt(entry.mode, entry.failure) for entry in failed if entry.failure is not None)
    history = tuple(
        f"the {each.mode} pass stopped in '{each.failure.module}' ({each.failure.error}); "
        f"a {shown.mode} pass was used"
        for each in attempts
    )
    return _with_notes(shown, notes + history)._replace(attempts=attempts)


def _with_notes(shown: Pass, notes: tuple[str, ...]) -> Pass:
    return shown._replace(assumptions=notes + shown.assumptions)


def _wants_autograd(error: BaseException) -> bool:
    return isinstance(error, RuntimeError) and any(part in str(error) for part in _WANTS_AUTOGRAD)


def _awake(
    model: nn.Module, members: Members, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[nn.Module, tuple[str, ...]]:
    """The model, or a copy of a lazy one with its parameters made: a first forward would change it for good."""
    asleep = [tensor for tensor in members.tensors if is_lazy(tensor)]
    if not asleep:
        return model, ()
    # A lazy buffer refuses to be copied, so the copies are made here.
    memo: dict[int, Any] = {id(tensor): type(tensor)(device=tensor.device, dtype=tensor.dtype) for tensor in asleep}
    awake = copy.deepcopy(model, memo)
    args, kwargs = tree_map_only(torch.Tensor, _with_values, (args, kwargs))
    with torch.no_grad(), guard.random_state():
        try:
            awake(*args, **kwargs)
        except Exception as error:
            raise InputsError(f"lazy modules could not initialise: {error_line(error)}") from error
    return awake, ("lazy modules were initialised on a copy of the model",)


def _with_values(tensor: torch.Tensor) -> torch.Tensor:
    return torch.zeros(tensor.shape, dtype=tensor.dtype) if tensor.is_meta else tensor.clone()


def _check_call(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Inputs that forward cannot even be called with are refused before anything runs."""
    try:
        signature = inspect.signature(model.forward)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        given = [_short(value) for value in args] + [f"{name}={_short(value)}" for name, value in kwargs.items()]
        raise InputsError(
            f"{type(model).__name__}.forward{signature} cannot be called with ({', '.join(given)}): {error}"
        ) from error


def _short(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return "x".join(map(str, value.shape)) or "scalar"
    found = inventory.tensors_among(value)
    return f"{type(value).__name__} of {len(found)} tensors" if found else type(value).__name__
