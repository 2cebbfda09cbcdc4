"""Restoring the model after a pass: Python state, tensors, modes, gradients and random states, even after errors.

Values are saved just before the first op that would write to them (`Originals`), so that a 100 GB model costs nothing
unless it is modified. Everything that is not tensor data is saved before the pass (`state`).
"""

from __future__ import annotations

import contextlib
import functools
import random
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy.random
import torch
from torch import nn
from torch.utils._python_dispatch import _disable_current_modes

from assay.recorder.shared import Shared
from assay.recorder.state import PythonState
from assay.recorder.storages import Life

_HIDDEN_WRITERS = ("batch_norm", "instance_norm", "_fused_moving_avg", "_sync_")
"""Parts of the names of ops that write to buffers although their schema does not declare it."""

_WRITE_IN_TRAINING = {torch.ops.aten.batch_norm.default: 5, torch.ops.aten.instance_norm.default: 5}
"""Ops that write only if the argument at this index is true."""


class Originals:
    """Copies of storages that existed before the pass, saved before the first write to each."""

    def __init__(self) -> None:
        self._saved: dict[int, tuple[torch.UntypedStorage, torch.UntypedStorage]] = {}
        self._writes: dict[Any, bool] = {}

    def protect(self, func: Any, args: tuple[Any, ...], tensors: list[torch.Tensor], lives: list[Life]) -> None:
        """Save the storages of the model, its inputs and its constants that `func` may overwrite."""
        writes = self._writes.get(func)
        if writes is None:
            writes = self._writes[func] = _may_write(func)
        if not writes or (func in _WRITE_IN_TRAINING and not args[_WRITE_IN_TRAINING[func]]):
            return
        for tensor, life in zip(tensors, lives, strict=True):
            if life.role != "activation" and life.number not in self._saved:
                with contextlib.suppress(RuntimeError, NotImplementedError):  # no storage to overwrite
                    self._save(life.number, tensor.untyped_storage())

    def _save(self, number: int, storage: torch.UntypedStorage) -> None:
        if storage.device.type != "meta":
            with _disable_current_modes():  # the copy must hold data, also in a fake pass
                self._saved[number] = (storage, storage.clone())

    def restore(self) -> None:
        """Restore all saved storages."""
        with _disable_current_modes():
            for storage, copy in self._saved.values():
                if storage.nbytes() != copy.nbytes():
                    storage.resize_(copy.nbytes())
                storage.copy_(copy)
        self._saved.clear()


def _may_write(func: Any) -> bool:
    """Whether the op can write to its inputs; True if its schema cannot rule it out."""
    schema = getattr(func, "_schema", None)
    if schema is None or schema.is_mutable or func.namespace != "aten":
        return True
    return any(part in schema.name for part in _HIDDEN_WRITERS)


class _ModuleLock:
    """Lets passes that share modules run only one after the other, because each restores the modules."""

    def __init__(self) -> None:
        self._ended = threading.Condition()
        self._running: list[tuple[int, frozenset[int]]] = []

    @contextlib.contextmanager
    def exclusive(self, modules: list[nn.Module]) -> Iterator[None]:
        """Wait until no other thread uses these modules; a nested pass in the same thread does not wait."""
        thread, ids = threading.get_ident(), frozenset(map(id, modules))
        with self._ended:
            self._ended.wait_for(
                lambda: all(other == thread or ids.isdisjoint(other_ids) for other, other_ids in self._running)
            )
            self._running.append((thread, ids))
        try:
            yield
        finally:
            with self._ended:
                self._running.remove((thread, ids))
                self._ended.notify_all()


_module_lock = _ModuleLock()


class _TensorState(NamedTuple):
    """A tensor before the pass."""

    tensor: torch.Tensor
    data: torch.Tensor
    """An alias of its data, to detect and undo `parameter.data = …`."""
    address: int
    requires_grad: bool
    grad: torch.Tensor | None


@contextlib.contextmanager
def unchanged(modules: list[nn.Module], tensors: list[torch.Tensor]) -> Iterator[PythonState]:
    """Restore after the block, even after an error, all that the modules can reach, the tensors and random states.

    Only the values of tensors are not restored. Yields the saved state; raises `UsageError` before the block if
    something cannot be restored.
    """
    with _module_lock.exclusive(modules), random_state(), _settings():
        state = PythonState(modules)
        reachable = {id(tensor): tensor for tensor in (*tensors, *state.tensors)}
        values = [_tensor_state(tensor) for tensor in reachable.values()]
        try:
            yield state
        finally:
            state.close()
            for value in values:
                _restore_tensor(value)


@contextlib.contextmanager
def restored_state(modules: list[nn.Module]) -> Iterator[Callable[[], None]]:
    """Yields a function that restores the Python state that the modules can reach; it is also restored at the end."""
    with _settings():
        state = PythonState(modules)
        try:
            yield state.restore
        finally:
            state.close()


@contextlib.contextmanager
def values_restored(tensors: Iterable[torch.Tensor]) -> Iterator[None]:
    """Restore the values of `tensors` when the context ends."""
    with torch.no_grad():
        saved = [(values, values.clone()) for values in _values(tensors)]
    try:
        yield
    finally:
        with torch.no_grad():
            for values, original in saved:
                values.copy_(original)


def _values(tensors: Iterable[torch.Tensor]) -> list[Any]:
    """The storages of the tensors, each once; a tensor without a single storage stands for itself."""
    values: dict[int, Any] = {}
    for tensor in tensors:
        try:
            storage = tensor.untyped_storage()
        except (RuntimeError, NotImplementedError):
            values[id(tensor)] = tensor
        else:
            if storage.device.type != "meta":
                values[storage._cdata] = storage
    return list(values.values())


def _tensor_state(tensor: torch.Tensor) -> _TensorState:
    alias = tensor.detach() if _has_strides(tensor) else tensor
    return _TensorState(
        tensor, alias, _address(tensor), tensor.requires_grad, tensor.grad if tensor.is_leaf else None
    )


def _restore_tensor(state: _TensorState) -> None:
    tensor, data = state.tensor, state.data
    strided = _has_strides(tensor) and type(tensor) in (torch.Tensor, nn.Parameter)
    if strided and (
        _address(tensor) != state.address or tensor.shape != data.shape or tensor.stride() != data.stride()
    ):
        tensor.data = data
    if tensor.is_leaf:
        if tensor.requires_grad != state.requires_grad:
            tensor.requires_grad_(state.requires_grad)
        if tensor.grad is not state.grad:
            tensor.grad = state.grad


def _address(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata if _has_strides(tensor) else 0


def _has_strides(tensor: torch.Tensor) -> bool:
    """Whether the tensor is one strided block; a nested tensor in the strided layout is not."""
    return tensor.layout is torch.strided and not tensor.is_nested


@contextlib.contextmanager
def random_state() -> Iterator[None]:
    """Restore the random states of torch, Python and numpy after the block."""
    with _shared_generators, _generators():
        yield


@contextlib.contextmanager
def _generators() -> Iterator[None]:
    cpu = torch.get_rng_state()
    devices = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
    python = random.getstate()
    numpy_state = numpy.random.get_state()
    try:
        yield
    finally:
        torch.set_rng_state(cpu)
        if devices:
            torch.cuda.set_rng_state_all(devices)
        random.setstate(python)
        numpy.random.set_state(numpy_state)


def _set_cudnn_benchmark(enabled: bool) -> None:
    torch.backends.cudnn.benchmark = enabled


_SETTINGS: tuple[tuple[Callable[[], Any], Callable[[Any], Any]], ...] = (
    (torch.get_default_dtype, torch.set_default_dtype),
    (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    (torch.are_deterministic_algorithms_enabled, torch.use_deterministic_algorithms),
    (torch.is_anomaly_enabled, torch.autograd.set_detect_anomaly),
    (lambda: torch.backends.cudnn.benchmark, _set_cudnn_benchmark),
    *(
        (functools.partial(torch.is_autocast_enabled, device), functools.partial(torch.set_autocast_enabled, device))
        for device in ("cpu", "cuda")
    ),
)
"""Settings of torch that a model may change: how to read each one, and how to set it."""


@contextlib.contextmanager
def _settings() -> Iterator[None]:
    """Restore torch's settings after the block, and forget casts of parameters that autocast cached in it."""
    before = [read() for read, _ in _SETTINGS]
    torch.clear_autocast_cache()
    try:
        yield
    finally:
        torch.clear_autocast_cache()
        for (read, write), value in zip(_SETTINGS, before, strict=True):
            if read() != value:
                write(value)


_shared_generators = Shared(_generators)
"""If passes in several threads overlap, the last one to end restores the state from before the first."""
