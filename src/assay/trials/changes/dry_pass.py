"""One pass of a model before it is changed: its outputs, and which modules and ops read which tensors.

Belongs here: what several changes use to find out how a model runs. Does not belong here: any change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode

from assay.trials.change import NotApplicable
from assay.trials.runnable import Runnable


def tensors_in(value: Any) -> list[Any]:
    """The tensors in nested values."""
    return [leaf for leaf in torch.utils._pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def map_tensors(function: Callable[[Any], Any], value: Any) -> Any:
    """Nested values with `function` applied to each tensor."""
    return torch.utils._pytree.tree_map_only(torch.Tensor, function, value)


def device_of(runnable: Runnable) -> str:
    """The type of the device that the model runs on: `cpu`, `cuda`, …"""
    own = runnable.model.parameters() if isinstance(runnable.model, nn.Module) else ()
    first = next(iter([*own, *tensors_in((runnable.args, runnable.kwargs))]), None)
    return "cpu" if first is None else str(first.device.type)


def require_modules(runnable: Runnable) -> None:
    """Raise `NotApplicable` if the modules of the model cannot be changed."""
    model = runnable.model
    if not isinstance(model, nn.Module):
        raise NotApplicable("the model is not a torch.nn.Module")
    if isinstance(model, torch.jit.ScriptModule):
        raise NotApplicable("a TorchScript model cannot be changed: use the model it was made from")
    if hasattr(model, "_orig_mod") or isinstance(model, torch.fx.GraphModule):
        raise NotApplicable("the model is compiled or exported already: apply this change first")


def has_hooks(module: Any) -> bool:
    """Whether hooks run before or after the module."""
    return any((module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks))


@contextmanager
def restored(model: Any) -> Iterator[None]:
    """Within it, torch does not record gradients; after it, buffers and the random state are as before."""
    saved = [(buffer, buffer.clone()) for buffer in model.buffers()]
    devices = {buffer.device for buffer in model.parameters() if buffer.device.type == "cuda"}
    with torch.random.fork_rng(devices), torch.no_grad():
        try:
            yield
        finally:
            for buffer, value in saved:
                buffer.copy_(value)


def dry_outputs(runnable: Runnable) -> Any:
    """The outputs of one pass that leaves buffers and the random state as they were."""
    with restored(runnable.model):
        return runnable()


def largest_error(expected: Any, actual: Any) -> float:
    """The largest difference between two outputs, relative to the largest value; inf if their shapes differ."""
    pairs = list(zip(tensors_in(expected), tensors_in(actual), strict=False))
    if len(tensors_in(expected)) != len(tensors_in(actual)) or any(a.shape != b.shape for a, b in pairs):
        return float("inf")
    worst = 0.0
    for a, b in pairs:
        if not torch.equal(a.isnan(), b.isnan()):
            return float("inf")
        a, b = a.nan_to_num().double(), b.nan_to_num().double()
        if a.numel():
            worst = max(worst, float((a - b).abs().max() / a.abs().max().clamp_min(1e-30)))
    return worst


@dataclass(eq=False)
class RecordedCall:
    """One call of a module in a recorded pass."""

    module: Any
    parent: RecordedCall | None
    begin: int
    """Number of ops that ran before it."""
    inputs: tuple[Any, ...] = ()
    """Without those that were given by keyword."""
    outputs: tuple[Any, ...] = ()


class RecordedPass(TorchDispatchMode):  # type: ignore[misc]
    """The calls of modules in one pass, and the ops that read parameters, inputs and outputs of modules."""

    def __init__(self, runnable: Runnable) -> None:
        super().__init__()
        self.calls: list[RecordedCall] = []
        self.ops = 0
        self.tensors: dict[int, Any] = {}
        self.reads: dict[int, list[tuple[int, str, Any]]] = {}
        """By id of a tensor: number of the op, its name, and the innermost module that ran it."""
        self._open: list[RecordedCall] = []
        for tensor in [*runnable.model.parameters(), *runnable.model.buffers()]:
            self.keep(tensor)
        before = register_module_forward_pre_hook(self._enter)
        after = register_module_forward_hook(self._leave)
        try:
            with restored(runnable.model), self:
                self.outputs = runnable()
        finally:
            before.remove()
            after.remove()

    def keep(self, tensor: Any) -> None:
        """Record reads of `tensor` from now on; keeping it alive keeps its id unique."""
        if id(tensor) not in self.tensors:
            self.tensors[id(tensor)] = tensor
            self.reads[id(tensor)] = []

    def readers(self, tensor: Any) -> list[Any]:
        """The modules that read `tensor`, once per op; None for ops outside all modules or if it is an output."""
        ends = [None for each in tensors_in(self.outputs) if each is tensor]
        return [module for _, _, module in self.reads[id(tensor)]] + ends

    def calls_of(self, module: Any) -> list[RecordedCall]:
        """The calls of `module`."""
        return [call for call in self.calls if call.module is module]

    def _enter(self, module: Any, args: Any) -> None:
        call = RecordedCall(module, self._open[-1] if self._open else None, self.ops)
        self.calls.append(call)
        self._open.append(call)

    def _leave(self, module: Any, args: Any, outputs: Any) -> None:
        call = self._open.pop()
        while call.module is not module:  # a call that raised an exception, which its caller caught
            call = self._open.pop()
        call.inputs = tuple(tensors_in(args))
        call.outputs = tuple(tensors_in(outputs))
        for tensor in (*call.inputs, *call.outputs):
            self.keep(tensor)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """The result of the op, after a note of what it reads."""
        self.ops += 1
        module = self._open[-1].module if self._open else None
        for tensor in tensors_in((args, kwargs)):
            if id(tensor) in self.reads:
                self.reads[id(tensor)].append((self.ops, str(func), module))
        return func(*args, **(kwargs or {}))


DRY_PASS = (tensors_in, map_tensors, device_of, require_modules, has_hooks, restored, dry_outputs, largest_error)
"""Functions that a change may use, as parts."""
RECORDED_PASS = (*DRY_PASS, RecordedCall, RecordedPass)
DRY_PASS_IMPORTS = ("from contextlib import contextmanager", "from dataclasses import dataclass")
RECORDED_PASS_IMPORTS = (
    *DRY_PASS_IMPORTS,
    "from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook",
    "from torch.utils._python_dispatch import TorchDispatchMode",
)
