"""Restoring the model after a pass: attributes, tensors, modes, gradients and random states, even after errors.

Values are saved just before the first op that would write to them (`Originals`), so that a 100 GB model costs nothing
unless it is modified. Everything that is not tensor data is small and saved before the pass.
"""

from __future__ import annotations

import contextlib
import random
import sys
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import torch
from torch import nn

from assay.recorder.shared import Shared
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
                    storage = tensor.untyped_storage()
                    if storage.device.type != "meta":
                        self._saved[life.number] = (storage, storage.clone())

    def restore(self) -> None:
        """Restore all saved storages."""
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


_CONTAINERS = (dict, list, set, deque)
STATS_ATTRIBUTE = "forward_stats"
"""Assay's own attribute, not restored: another thread may start or stop recording calls during a pass."""


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


class _ModuleState(NamedTuple):
    """A module's attributes before the pass."""

    module: nn.Module
    attributes: dict[str, Any]
    identities: list[int]
    """The ids of the attributes, in order, to compare a whole module with one comparison."""
    contents: list[tuple[Any, Any]]
    """The containers among the attributes, each with a shallow copy."""


@contextlib.contextmanager
def unchanged(modules: list[nn.Module], tensors: list[torch.Tensor]) -> Iterator[None]:
    """Restore the modules, tensors and random states after the block, even after an error."""
    with _module_lock.exclusive(modules), _restored(modules, tensors):
        yield


@contextlib.contextmanager
def _restored(modules: list[nn.Module], tensors: list[torch.Tensor]) -> Iterator[None]:
    """Save the state of modules and tensors, and restore it after the block."""
    states = [_module_state(module) for module in modules if not isinstance(module, torch.jit.ScriptModule)]
    scripted = [(module, module.training) for module in modules if isinstance(module, torch.jit.ScriptModule)]
    values = [_tensor_state(tensor) for tensor in tensors]
    with random_state():
        try:
            yield
        finally:
            for state in states:
                _restore_module(state)
            for module, training in scripted:
                if module.training != training:
                    module.train(training)
            for value in values:
                _restore_tensor(value)


def _module_state(module: nn.Module) -> _ModuleState:
    attributes = dict(module.__dict__)
    contents = [
        (value, value.copy() if value else ()) for value in attributes.values() if isinstance(value, _CONTAINERS)
    ]
    return _ModuleState(module, attributes, list(map(id, attributes.values())), contents)


def _restore_module(state: _ModuleState) -> None:
    for container, copy in state.contents:
        if (container or copy) and _differs(container, copy):
            _refill(container, copy)
    current = state.module.__dict__
    if list(map(id, current.values())) != state.identities or current.keys() != state.attributes.keys():
        recorded = {name: value for name, value in current.items() if name == STATS_ATTRIBUTE}
        current.clear()
        current.update(
            {name: value for name, value in state.attributes.items() if name != STATS_ATTRIBUTE} | recorded
        )


def _differs(container: Any, copy: Any) -> bool:
    """Whether the container has other items than its copy, by identity, because tensors cannot be compared."""
    if len(container) != len(copy):
        return True
    if isinstance(container, dict):
        pairs: Iterable[tuple[Any, Any]] = zip(container.items(), copy.items(), strict=True)
        return any((a[0] is not b[0] and a[0] != b[0]) or a[1] is not b[1] for a, b in pairs)
    if isinstance(container, set):
        return bool(container != copy)
    return any(a is not b for a, b in zip(container, copy, strict=True))


def _refill(container: Any, copy: Any) -> None:
    container.clear()
    if isinstance(container, (dict, set)):
        container.update(copy)
    else:
        container.extend(copy)


def _tensor_state(tensor: torch.Tensor) -> _TensorState:
    alias = tensor.detach() if tensor.layout is torch.strided else tensor
    return _TensorState(
        tensor, alias, _address(tensor), tensor.requires_grad, tensor.grad if tensor.is_leaf else None
    )


def _restore_tensor(state: _TensorState) -> None:
    tensor, data = state.tensor, state.data
    strided = tensor.layout is torch.strided and type(tensor) in (torch.Tensor, nn.Parameter)
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
    return tensor.untyped_storage()._cdata if tensor.layout is torch.strided else 0


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
    numpy_random = sys.modules.get("numpy.random")
    numpy_state = numpy_random.get_state() if numpy_random is not None else None
    try:
        yield
    finally:
        torch.set_rng_state(cpu)
        if devices:
            torch.cuda.set_rng_state_all(devices)
        random.setstate(python)
        if numpy_random is not None:
            numpy_random.set_state(numpy_state)


_shared_generators = Shared(_generators)
"""If passes in several threads overlap, the last one to end restores the state from before the first."""
