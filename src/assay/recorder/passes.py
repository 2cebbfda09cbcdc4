"""Choosing a pass: with data if there is any; else meta, then fake, then with made-up weights.

The first pass that completes is used. If none does, the last one with data is used, because its error is the model's
own, else the first one. A pass on shapes that was asked for is never replaced by one with data.
"""

from __future__ import annotations

import copy
import inspect
from collections import Counter
from typing import Any

import msgspec
import torch
from torch import nn
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
)
from torch.nn.parameter import is_lazy
from torch.utils._pytree import tree_map_only

from assay import units
from assay.analysis.cost import cost_of
from assay.document.document import Attempt
from assay.document.rows import Op
from assay.errors import InputsError, UsageError
from assay.messages import error_line, one_line, plural
from assay.recorder import guard, inventory, substitute
from assay.recorder.dataless import NeedsDataError
from assay.recorder.inventory import Members
from assay.recorder.watch import Pass, PassSettings, record_pass
from assay.sources.tensors import torch_dtype
from assay.sources.torchscript.modules import InterpretedModule
from assay.sources.torchscript.refusal import Endless

MODES = ("auto", "real", "meta", "fake")

SHAPE_MODES = ("meta", "fake")
"""The modes without data, in the order in which they are tried."""

INTERPRETED_MODES = ("auto", "meta")
"""The modes for code of a TorchScript file that is not trusted."""

MADE_UP_FLOPS = 10**11
"""In auto mode, no pass with made-up weights follows a pass on shapes that counted more FLOPs before it failed."""

_MOST_LOOPS = 4
"""Loops of interpreted code that do not end without data."""

_LONGEST = 800
"""Most characters of a signature or a list of arguments in a message."""

_LACKS_DATA = (
    NotImplementedError,
    NeedsDataError,
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
)
"""Errors of a pass that needs values or a kernel that does not exist for shapes."""

_NO_META_FORM = ("meta", "NestedTensorImpl", "shape_env")
"""Parts of torch's messages about values on meta, and about nested tensors in a fake pass."""

_AUTOGRAD_ERRORS = (
    "does not require grad",
    "requires grad",
    "grad_fn",
    "no graph",
    "Expected gradient function",
    "require gradient",
    "retain_grad",
)
"""Parts of torch's messages if a model differentiates inside its forward while autograd is off."""


def observe(
    model: nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    mode: str = "auto",
    train: bool | None = False,
    device: str | None = None,
    dtype: str | None = None,
) -> Pass:
    """Run `model` in `mode` and return the first pass that completes, else the last one that failed.

    Raises `UsageError` for an unknown mode or a model that cannot run in it, `InputsError` for inputs that forward
    does not accept.
    """
    if mode not in MODES:
        raise UsageError(f"unknown mode {mode!r}: expected one of {', '.join(MODES)}")
    if isinstance(model, InterpretedModule) and mode not in INTERPRETED_MODES:
        raise UsageError(f"code that is interpreted runs on shapes only: expected mode meta, got {mode}")
    _check_call(model, args, kwargs)
    members = inventory.members(model)
    model, notes = _initialised(model, members, args, kwargs)
    if notes:
        members = inventory.members(model)
    setting = PassSettings("real", train, device, torch_dtype(dtype))
    failed_passes: list[Pass] = []
    if isinstance(model, InterpretedModule):
        return _interpreted(model, members, args, kwargs, setting._replace(mode="meta"))
    for name in _order(mode, members.tensors):
        if name == "made-up" and mode == "auto" and max(map(_flops, failed_passes)) > MADE_UP_FLOPS:
            break
        result = _try(model, members, args, kwargs, setting._replace(mode=name))
        if result.error is None:
            return _finished(result, notes, failed_passes)
        failed_passes.append(result)
    if failed_passes[-1].mode in SHAPE_MODES:
        return _refused(_finished(failed_passes[0], notes, failed_passes[1:]))
    return _finished(failed_passes[-1], notes, failed_passes[:-1])


def observe_training(
    model: nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    forward: Pass,
    *,
    device: str | None,
    dtype: str | None,
) -> Pass:
    """Record one training step in the mode of the pass `forward`: a forward pass with autograd, then backward."""
    model, _ = _initialised(model, inventory.members(model), args, kwargs)
    setting = PassSettings(forward.mode, True, device, torch_dtype(dtype), autograd=True, backward=True)
    result = record_pass(model, inventory.members(model), args, kwargs, setting)
    return result._replace(ops=_same_calls(result, forward))


def _same_calls(result: Pass, forward: Pass) -> list[Op]:
    """The ops of `result` with the call indices of `forward`; the n-th calls of a module are matched."""
    if [call.module for call in result.calls] == [call.module for call in forward.calls]:
        return result.ops
    forward_calls: dict[tuple[int, int], int] = {}
    call_counts: Counter[int] = Counter()
    for index, call in enumerate(forward.calls):
        forward_calls[call.module, call_counts[call.module]] = index
        call_counts[call.module] += 1
    call_counts.clear()
    matched = {-1: -1}
    for index, call in enumerate(result.calls):
        matched[index] = forward_calls.get((call.module, call_counts[call.module]), -1)
        call_counts[call.module] += 1
    return [msgspec.structs.replace(op, call=matched[op.call]) for op in result.ops]


def _try(
    model: nn.Module, members: Members, args: tuple[Any, ...], kwargs: dict[str, Any], setting: PassSettings
) -> Pass:
    """One pass; repeated with autograd on if the model needs it inside its forward."""
    result = record_pass(model, members, args, kwargs, setting)
    if result.error is None or not _needs_autograd(result.error):
        return result
    repeated = record_pass(model, members, args, kwargs, setting._replace(autograd=True))
    if repeated.error is not None:
        return result
    return _with_notes(repeated, ("the model differentiates inside forward: composite ops are recorded decomposed",))


def _interpreted(
    model: InterpretedModule, members: Members, args: tuple[Any, ...], kwargs: dict[str, Any], setting: PassSettings
) -> Pass:
    """A pass of code that is interpreted; repeated if a loop did not end, which then runs for one round."""
    result = _try(model, members, args, kwargs, setting)
    for _ in range(_MOST_LOOPS):
        if isinstance(result.error, Endless):
            result = _try(model, members, args, kwargs, setting)
    return _with_notes(result, model.interpreter.one_round_loops)


def _order(mode: str, tensors: list[torch.Tensor]) -> list[str]:
    """The modes to try, in order; raises `UsageError` if the model cannot run in `mode`."""
    without_weights = any(tensor.is_meta for tensor in tensors)
    size = sum(inventory.size_in_bytes(tensor) for tensor in tensors)
    with_data = ["made-up"] if without_weights else ["real"]
    if without_weights and size > substitute.MADE_UP_LIMIT:
        with_data = []
    if mode == "real":
        if not with_data:
            too_large = f"it is too large ({units.size(size)}) for made-up ones"
            raise UsageError(f"the model has no weights, and {too_large}: use meta mode")
        return with_data
    if mode == "auto" and not without_weights:
        return ["real"]
    return [*SHAPE_MODES, *with_data] if mode == "auto" else list(SHAPE_MODES[SHAPE_MODES.index(mode) :])


def _flops(result: Pass) -> int:
    """The known FLOPs of the ops that a pass recorded."""
    counts = Counter(op.kind for op in result.ops)
    return sum(count * (cost_of(result.kinds[kind]).flops or 0) for kind, count in counts.items())


def _refused(result: Pass) -> Pass:
    """A pass that failed on shapes, with the next step if it failed because it has no data."""
    error, failure = result.error, result.failure
    lacks_data = isinstance(error, _LACKS_DATA) or any(part in str(error) for part in _NO_META_FORM)
    if failure is None or not lacks_data:
        return result
    text = f"cannot run on shapes only: {failure.error}; run with data: --real (mode='real' in Python)"
    return result._replace(failure=msgspec.structs.replace(failure, error=text))


def _finished(result: Pass, notes: tuple[str, ...], failed: list[Pass]) -> Pass:
    """`result` with the failed passes before it as attempts and notes."""
    attempts = tuple(Attempt(entry.mode, entry.failure) for entry in failed if entry.failure is not None)
    history = tuple(
        f"the {each.mode} pass failed in '{each.failure.module}' ({each.failure.error}); "
        f"a {result.mode} pass was used instead"
        for each in attempts
        if result.error is None
    )
    return _with_notes(result, notes + history)._replace(attempts=attempts)


def _with_notes(result: Pass, notes: tuple[str, ...]) -> Pass:
    return result._replace(assumptions=notes + result.assumptions)


def _needs_autograd(error: BaseException) -> bool:
    return isinstance(error, RuntimeError) and any(part in str(error) for part in _AUTOGRAD_ERRORS)


def _initialised(
    model: nn.Module, members: Members, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[nn.Module, tuple[str, ...]]:
    """The model itself or, if it is lazy, an initialised copy with a note: its first forward changes it for good."""
    lazy = [tensor for tensor in members.tensors if is_lazy(tensor)]
    if not lazy:
        return model, ()
    # A lazy buffer cannot be copied by deepcopy, so the copies are made here.
    memo: dict[int, Any] = {id(tensor): type(tensor)(device=tensor.device, dtype=tensor.dtype) for tensor in lazy}
    initialised = copy.deepcopy(model, memo)
    args, kwargs = tree_map_only(torch.Tensor, _with_values, (args, kwargs))
    modes = [(module, module.training) for module in initialised.modules()]
    with torch.no_grad(), guard.random_state(), guard.restored_state(members.modules):
        try:
            for module, _ in modes:
                module.training = False
            initialised(*args, **kwargs)
            for module, training in modes:
                module.training = training
        except Exception as error:
            raise InputsError(f"lazy modules cannot be initialised with these inputs: {error_line(error)}") from error
    return initialised, ("lazy modules were initialised on a copy of the model",)


def _with_values(tensor: torch.Tensor) -> torch.Tensor:
    return torch.zeros(tensor.shape, dtype=tensor.dtype) if tensor.is_meta else tensor.clone()


def _check_call(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raise `InputsError` if the inputs do not match forward's signature."""
    try:
        signature = inspect.signature(model.forward)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        arguments = [_short(value) for value in args] + [f"{name}={_short(value)}" for name, value in kwargs.items()]
        raise InputsError(
            f"{type(model).__name__}.forward{one_line(signature, _LONGEST)} cannot be called with "
            f"({one_line(', '.join(arguments), _LONGEST)}): {error}"
            f"{_names_hint(signature, args)}"
        ) from error


def _names_hint(signature: inspect.Signature, args: tuple[Any, ...]) -> str:
    """The advice to give every required input of forward by name; empty if fewer than two are required."""
    shapes = [_short(value) for value in args if isinstance(value, torch.Tensor) and value.dim()]
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    required = [
        name
        for name, parameter in signature.parameters.items()
        if parameter.default is parameter.empty and parameter.kind not in variable
    ]
    if not shapes or len(required) < 2:
        return ""
    named = ", ".join(f"{name}={shapes[0]}" for name in required)
    return f"; give the inputs by name, such as {one_line(named, _LONGEST)}"


def _short(value: Any) -> str:
    """A short description of an argument: its shape if it is a tensor, else its type."""
    if isinstance(value, torch.Tensor):
        return "x".join(map(str, inventory.sizes(value))) or "scalar"
    tensors = inventory.tensors_among(value)
    name = type(value).__name__
    return f"{name} of {plural(len(tensors), 'tensor')}" if tensors else name
