"""Recording one pass: the model runs under a guard, and every call and op is recorded."""

from __future__ import annotations

import contextlib
import gc
import logging
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_map_only

from assay.document.document import Attempt, Failure, KeyValueCache
from assay.document.host_reads import HostRead
from assay.document.rows import Call, Module, Op, OpKind, Storage, Tensor
from assay.recorder import backward, caches, cuda_memory, explain, guard, higher_order, inventory, substitute
from assay.recorder.autocast import disabled_on_meta
from assay.recorder.calls import CallLog
from assay.recorder.dataless import Dataless, real_constants
from assay.recorder.dispatch import Executor, Recorder, below_autograd
from assay.recorder.guard import Originals
from assay.recorder.inventory import Members, tensors_among
from assay.recorder.shared import Shared, attribute
from assay.recorder.storages import Life, StorageLog, lacks_meta_form

_recursion_limit_lock = threading.Lock()
_fake_log_off = Shared(lambda: attribute(logging.getLogger("torch._subclasses.fake_tensor"), "disabled", True))
"""Torch logs a traceback for every fake op that fails, even if another pass follows."""


class Pass(NamedTuple):
    """The recording of one pass."""

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
    host_reads: tuple[HostRead, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    """The passes in other modes that failed before this one."""


class PassSettings(NamedTuple):
    """How to run a pass."""

    mode: str
    """`real`, `meta`, `fake` or `made-up`."""
    train: bool | None = False
    """Training or evaluation mode for all modules; None to leave each module in its own."""
    device: str | None = None
    dtype: torch.dtype | None = None
    autograd: bool = False
    """Leave autograd on, for models that differentiate inside forward; composite ops are then decomposed."""
    backward: bool = False
    """Run the backward pass as well; requires `autograd`."""


OpCaller = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]
"""Runs an op of a recorded pass: (func, args, kwargs) → its result."""


class PreparedInputs(NamedTuple):
    """The inputs for a model that is prepared for a pass, and notes about the preparation."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    notes: tuple[str, ...]
    held: list[torch.Tensor]
    """All tensors that the model can reach: parameters, buffers and those in its other Python state."""


def _call_directly(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return func(*args, **kwargs)


@contextlib.contextmanager
def prepared_model(
    model: nn.Module, members: Members, args: tuple[Any, ...], kwargs: dict[str, Any], setting: PassSettings
) -> Iterator[PreparedInputs]:
    """Prepare the model for a pass with `setting`, and restore it afterwards except for overwritten values."""
    modules, tensors = members
    cuda_memory.limit(map(torch.device, {str(tensor.device) for tensor in tensors} | {str(setting.device or "cpu")}))
    # New containers around the same tensors, so that forward does not modify the caller's lists.
    args, kwargs = tree_map_only(torch.Tensor, lambda tensor: tensor, (args, kwargs))
    inputs = tensors_among((args, kwargs))
    with guard.unchanged(modules, [*tensors, *inputs]) as state, contextlib.ExitStack() as stack:
        if setting.train is not None:
            _set_mode(modules, setting.train)
        convert = _conversion(setting, stack)
        if convert is not None:
            substitute.swap(modules, convert)
            args, kwargs = tree_map_only(torch.Tensor, convert, (args, kwargs))
        notes: tuple[str, ...] = ()
        if setting.backward:
            leaves = [tensor for tensor in tensors_among((args, kwargs)) if tensor.is_leaf]
            notes = backward.prepare([*inventory.members(model).tensors, *leaves])
        yield PreparedInputs(args, kwargs, notes, state.tensors)


def _set_mode(modules: list[nn.Module], train: bool) -> None:
    """Set the mode of each module by its flag: `train()` may be overridden, write to weights, or be forbidden."""
    for module in modules:
        if getattr(module, "training", train) == train:  # frozen TorchScript has no modes
            continue
        if isinstance(module, torch.jit.ScriptModule):
            module.training = train
        else:
            module.__dict__["training"] = train


def record_pass(
    model: nn.Module,
    members: Members,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    setting: PassSettings,
    caller: OpCaller = _call_directly,
) -> Pass:
    """Run `model` once and return the recording; an error raised by the model is part of the result.

    Every op is run by `caller`, for example a clock, which then does not include the overhead of recording.
    """
    if setting.mode == "meta":
        # The first meta kernel imports torch's compiler, and the frames of that import would keep a tensor alive.
        torch.empty(1, device="meta").add(1)
    # Meta tensors have no memory to free, and garbage collection took a third of a meta pass.
    pause = garbage_collection_paused() if setting.mode == "meta" else contextlib.nullcontext()
    own_modes = [inventory.is_training(module) for module in members.modules]
    with pause, prepared_model(model, members, args, kwargs, setting) as prepared:
        result = _record(model, members.modules, prepared.args, prepared.kwargs, setting, caller)
    for index, training in enumerate(own_modes):
        if result.modules[index].training != training:
            result.modules[index] = msgspec.structs.replace(result.modules[index], training=training)
    return result._replace(assumptions=prepared.notes + result.assumptions)


def _record(
    model: nn.Module,
    modules: list[nn.Module],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    setting: PassSettings,
    caller: OpCaller,
) -> Pass:
    """Run and record the prepared model."""
    model_inventory = inventory.take_inventory(model)
    dataless = setting.mode == "meta"
    storages = StorageLog(dataless=dataless)
    originals = Originals()
    live_tensors, rows = model_inventory.live_tensors, model_inventory.tensors
    for tensor, row in zip(live_tensors, rows, strict=False):
        storages.find(tensor, row.role)
    for row in rows[len(live_tensors) :]:  # packed weights, which have no storage
        storages.add_permanent(row.bytes, row.role)
    for tensor in tensors_among((args, kwargs)):
        storages.find(tensor, "input")
    calls = CallLog(model_inventory)
    without_data = Dataless(storages, originals, lambda: explain.module_label(calls, calls.current))
    executor = without_data if dataless else _with_data(originals, caller)
    recorder = Recorder(calls, storages, executor, nominal_device="cpu" if setting.mode in ("meta", "fake") else None)
    error: BaseException | None = None
    cache: KeyValueCache | None = None
    try:
        with _recording_calls(calls, modules, setting), recorder:
            result = model(*args, **kwargs)
            if setting.backward:
                backward.run(result, recorder, calls)
                backward.mark_gradients(live_tensors, storages)
            cache = caches.key_value_cache(result, args, kwargs)
            storages.close()
            del result
    except (Exception, SystemExit) as raised:  # noqa: BLE001 - an error of the model is part of the result
        error = raised
    finally:
        storages.close()
        originals.restore()
    return Pass(
        mode=setting.mode,
        modules=calls.modules,
        tensors=rows,
        calls=calls.rows(),
        kinds=recorder.kinds,
        ops=recorder.rows(without_data.bounds.ops),
        storages=storages.rows(),
        assumptions=calls.assumptions() + without_data.assumptions(),
        failure=None if error is None else explain.failure(error, calls, recorder.failed_op),
        cache=cache,
        error=error,
        host_reads=tuple(recorder.host_reads),
    )


@contextlib.contextmanager
def _recording_calls(calls: CallLog, modules: list[nn.Module], setting: PassSettings) -> Iterator[None]:
    """Record module calls inside the block, without compilation, with autograd on or off as in `setting`."""
    on_meta = setting.mode == "meta"
    autocast = disabled_on_meta if on_meta else contextlib.nullcontext()
    with higher_order.eager(), real_constants(on_meta), autocast, _doubled_recursion_limit(), calls:
        calls.watch_forward(modules)
        if setting.backward:
            calls.watch_autograd()
        if setting.autograd:
            with torch.enable_grad():
                yield
        else:
            with below_autograd():
                yield


@contextlib.contextmanager
def _doubled_recursion_limit() -> Iterator[None]:
    """Double the recursion limit inside the block, because recording adds frames at every level of nesting."""
    with _recursion_limit_lock:
        added = sys.getrecursionlimit()
        sys.setrecursionlimit(2 * added)
    try:
        yield
    finally:
        with _recursion_limit_lock:  # subtracted, because another thread may have raised the limit too
            sys.setrecursionlimit(sys.getrecursionlimit() - added)


@contextlib.contextmanager
def garbage_collection_paused() -> Iterator[None]:
    """Pause garbage collection inside the block; it resumes afterwards if it was on before."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _with_data(originals: Originals, call: OpCaller) -> Executor:
    """An executor that runs each op with `call` after saving what it may overwrite."""
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


def _conversion(setting: PassSettings, stack: contextlib.ExitStack) -> substitute.Convert | None:
    """The conversion of the model's tensors and inputs for this kind of pass; None if they stay unchanged."""
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
        fake.cache_enabled = False  # its keys compare packed weights, which cannot be compared
        steps.append(lambda tensor: _faked(fake, tensor))
    if not steps:
        return None

    def convert(tensor: torch.Tensor) -> torch.Tensor:
        for step in steps:
            tensor = step(tensor)
        return tensor

    return convert


def _faked(fake: Any, tensor: torch.Tensor) -> torch.Tensor:
    """A fake tensor on the CPU; while the mode `fake` is active, newly created tensors are fake as well."""
    if lacks_meta_form(tensor):
        return tensor
    if tensor.is_meta:
        return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="cpu")
    return fake.from_tensor(tensor)
