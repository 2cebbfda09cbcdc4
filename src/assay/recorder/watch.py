"""One watched forward pass: the model as it is, guarded, with every call and operation recorded."""

from __future__ import annotations

import contextlib
import gc
import logging
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_map_only

from assay.document.document import Attempt, Failure, KeyValueCache
from assay.document.rows import Call, Module, Op, OpKind, Storage, Tensor
from assay.recorder import backward, caches, explain, guard, higher_order, inventory, substitute
from assay.recorder.calls import CallLog
from assay.recorder.dataless import Dataless, real_constants
from assay.recorder.dispatch import Executor, Recorder, below_autograd
from assay.recorder.guard import Originals
from assay.recorder.inventory import Members, tensors_among
from assay.recorder.shared import Shared, attribute
from assay.recorder.storages import Life, StorageLog

_limit_lock = threading.Lock()
_fake_log_off = Shared(lambda: attribute(logging.getLogger("torch._subclasses.fake_tensor"), "disabled", True))
"""Torch logs a traceback for every fake operation that fails, also where another pass will do."""


class Pass(NamedTuple):
    """What one pass showed."""

    mode: str
    modules: list[Module]
    tensors: list[Tensor]
    calls: list[Call]
    kinds: list[OpKind]
    ops: list[Op]
    storages: list[Storage]
    assumptions: tuple[str, ...]
    failure: Failure | None
    cache: KeyValueCache | None
    error: BaseException | None
    attempts: tuple[Attempt, ...] = ()
    """The passes in other modes that stopped before."""


class Setting(NamedTuple):
    """How a pass is to be run."""

    mode: str
    """`real`, `meta`, `fake` or `made-up`."""
    train: bool = False
    device: str | None = None
    dtype: torch.dtype | None = None
    autograd: bool = False
    """Leave autograd on, for models that differentiate inside forward; operations arrive decomposed."""
    backward: bool = False
    """Run the backward pass as well; wants autograd."""


OpCaller = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]
"""Runs an operation of a recorded pass: (func, args, kwargs) → its result."""


class Ready(NamedTuple):
    """A model placed and in its mode, with the inputs it is to be called with."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    notes: tuple[str, ...]


def _called(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return func(*args, **kwargs)


@contextlib.contextmanager
def ready(
    model: nn.Module, members: Members, args: tuple[Any, ...], kwargs: dict[str, Any], setting: Setting
) -> Iterator[Ready]:
    """The model as `setting` wants it while inside; as it was afterwards, but for values that a pass wrote."""
    modules, tensors = members
    # New containers around the same tensors, so that what forward appends to a list stays here.
    args, kwargs = tree_map_only(torch.Tensor, lambda tensor: tensor, (args, kwargs))
    with guard.unchanged(modules, [*tensors, *tensors_among((args, kwargs))]), contextlib.ExitStack() as stack:
        if any(module.training != setting.train for module in modules):
            model.train(setting.train)
        convert = _conversion(setting, stack)
        if convert is not None:
            substitute.swap(modules, convert)
            args, kwargs = tree_map_only(torch.Tensor, convert, (args, kwargs))
        notes = _scripted_note(modules)
        if setting.backward:
            given = [tensor for tensor in tensors_among((args, kwargs)) if tensor.is_leaf]
            notes += backward.prepare([*inventory.members(model).tensors, *given])
        yield Ready(args, kwargs, notes)


def watch(
    model: nn.Module,
    members: Members,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    setting: Setting,
    caller: OpCaller = _called,
) -> Pass:
    """Run `model` once and return what was seen; an error of its own ends up in the result.

    Every operation is run by `caller`: by a clock, say, which then sees nothing of what recording takes.
    """
    if setting.mode == "meta":
        # The first meta kernel imports torch's compiler, whose import frames would keep a tensor alive.
        torch.empty(1, device="meta").add(1)
    # Meta tensors hold no memory to free, and walking the records took a third of a meta pass.
    pause = no_collection() if setting.mode == "meta" else contextlib.nullcontext()
    with pause, ready(model, members, args, kwargs, setting) as given:
        shown = _record(model, members.modules, given.args, given.kwargs, setting, caller)
        return shown._replace(assumptions=given.notes + shown.assumptions)


def _record(
    model: nn.Module,
    modules: list[nn.Module],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    setting: Setting,
    caller: OpCaller,
) -> Pass:
    stock = inventory.take(model)
    dataless = setting.mode == "meta"
    storages = StorageLog(dataless=dataless)
    originals = Originals()
    for tensor, row in zip(stock.live_tensors, stock.tensors, strict=False):  # the packed ones have no storage
        storages.find(tensor, row.role)
    for row in stock.tensors[len(stock.live_tensors) :]:
        storages.hold(row.bytes, row.role)
    for tensor in tensors_among((args, kwargs)):
        storages.find(tensor, "input")
    calls = CallLog(stock)
    without_data = Dataless(storages, originals, lambda: explain.place(calls, calls.current))
    executor = without_data if dataless else _with_data(originals, caller)
    recorder = Recorder(calls, storages, executor, nominal_device="cpu" if setting.mode in ("meta", "fake") else None)
    error: BaseException | None = None
    cache: KeyValueCache | None = None
    try:
        with _watching(calls, modules, setting), recorder:
            result = model(*args, **kwargs)
            if setting.backward:
                backward.run(result, recorder, calls)
                backward.mark_gradients(stock.live_tensors, storages)
            cache = caches.found(result, args, kwargs)
            storages.close()
            del result
    except (Exception, SystemExit) as raised:  # noqa: BLE001 - whatever the model raises is the result
        error = raised
    finally:
        storages.close()
        originals.restore()
    return Pass(
        mode=setting.mode,
        modules=calls.modules,
        tensors=stock.tensors,
        calls=calls.rows(),
        kinds=recorder.kinds,
        ops=recorder.rows(),
        storages=storages.rows(),
        assumptions=without_data.assumptions(),
        failure=None if error is None else explain.failure(error, calls, recorder.failed_op),
        cache=cache,
        error=error,
    )


@contextlib.contextmanager
def _watching(calls: CallLog, modules: list[nn.Module], setting: Setting) -> Iterator[None]:
    with higher_order.eager(), real_constants(setting.mode == "meta"), _deep_enough(), calls:
        calls.watch_forward(modules)
        if setting.backward:
            calls.watch_autograd()
        if setting.autograd:
            with torch.enable_grad():
                yield
        else:
            with below_autograd():
                yield


def _scripted_note(modules: list[nn.Module]) -> tuple[str, ...]:
    if not any(isinstance(module, torch.jit.ScriptModule) and module._modules for module in modules):
        return ()
    return ("calls inside TorchScript are not seen: their operations belong to the module that was called",)


@contextlib.contextmanager
def _deep_enough() -> Iterator[None]:
    """Watching takes frames of its own at every level of nesting; a model that runs must still run."""
    with _limit_lock:
        added = sys.getrecursionlimit()
        sys.setrecursionlimit(2 * added)
    try:
        yield
    finally:
        with _limit_lock:  # by difference, for another thread may have raised it meanwhile
            sys.setrecursionlimit(sys.getrecursionlimit() - added)


@contextlib.contextmanager
def no_collection() -> Iterator[None]:
    """No garbage collection inside; afterwards it is on again if it was on before."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


def _with_data(originals: Originals, call: OpCaller) -> Executor:
    protect = originals.protect

    def execute(
        func: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        key: tuple[Any, ...],
        tensors: list[torch.Tensor],
        lives: list[Life],
    ) -> Any:
        protect(func, args, tensors, lives)
        return call(func, args, kwargs)

    return execute


def _conversion(setting: Setting, stack: contextlib.ExitStack) -> substitute.Convert | None:
    """What the model's tensors and the inputs must become for this kind of pass; None: they stay."""
    steps: list[substitute.Convert] = []
    if setting.mode == "made-up":
        steps.append(substitute.made_up)
    if setting.device is not None or setting.dtype is not None:
        steps.append(substitute.placed(None if setting.mode == "meta" else setting.device, setting.dtype))
    if setting.mode == "meta":
        steps.append(substitute.to_meta)
    if setting.mode == "fake":
        stack.enter_context(_fake_log_off)
        fake = stack.enter_context(FakeTensorMode(allow_non_fake_inputs=True))
        steps.append(lambda tensor: _faked(fake, tensor))
    if not steps:
        return None

    def convert(tensor: torch.Tensor) -> torch.Tensor:
        for step in steps:
            tensor = step(tensor)
        return tensor

    return convert


def _faked(fake: Any, tensor: torch.Tensor) -> torch.Tensor:
    """A fake tensor on the CPU; `fake` is active, so what is created here is fake as well."""
    if tensor.is_meta:
        return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="cpu")
    return fake.from_tensor(tensor)
