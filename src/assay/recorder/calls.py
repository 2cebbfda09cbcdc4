"""The stack of module calls: which module is running, and the inputs and outputs of every call.

A `CallLog` observes `nn.Module.__call__` and, to record direct `.forward()` calls, the `forward` of the model's own
classes. It costs 0.3 µs per module; hooks would cost 5 µs. Calls in other threads are not recorded.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import threading
import types
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
import torch
from torch import nn

from assay.document.rows import Call, Module, TensorType
from assay.document.tree import path_text
from assay.recorder import intercept, inventory, scripted

_TO_CALLER = "the ops are attributed to the calling module"
_PLAIN = frozenset({int, float, bool, str, bytes, complex, type(None), torch.dtype, torch.device})


class CallLog:
    """Records every module call while it is entered."""

    def __init__(self, model_inventory: inventory.Inventory) -> None:
        self.current = -1
        """The index of the innermost running call; -1 outside the model."""
        self.modules: list[Module] = model_inventory.modules
        self._index = dict(model_inventory.module_index)
        self._created_modules: list[nn.Module] = []
        self._created_counts: Counter[str] = Counter()
        self._rows: list[tuple[int, int, tuple[TensorType, ...]]] = []
        self._outputs: dict[int, tuple[TensorType, ...]] = {}
        self._running: list[nn.Module] = []
        self._types: dict[tuple[Any, ...], TensorType] = {}
        self._failure: tuple[BaseException, int] | None = None
        self._owner = threading.get_ident()
        self._stack = contextlib.ExitStack()
        self._next_node: Callable[[], int] | None = None
        self._marked = scripted.MarkedModules(())
        self.autograd_events: list[tuple[int, int]] = []
        """(number of the next autograd node, innermost call from that node on); filled after `watch_autograd`."""

    def __enter__(self) -> CallLog:
        self._stack.enter_context(intercept.observing(functools.partial(self._watch, ())))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def watch_forward(self, modules: Iterable[nn.Module]) -> None:
        """Also record direct `.forward()` calls of these modules' classes, and calls inside TorchScript."""
        observer = functools.partial(self._watch, self._running)
        owners = {owner for cls in {type(module) for module in modules} if (owner := _forward_owner(cls))}
        for owner in sorted(owners, key=lambda cls: (cls.__module__, cls.__qualname__)):
            self._stack.enter_context(intercept.observing(observer, owner, "forward"))
        self._marked = scripted.MarkedModules(modules)
        self._stack.enter_context(self._marked.listening(self, lambda forward: observer(forward, ())))

    def watch_autograd(self) -> None:
        """Also record which autograd nodes each call creates."""
        self._next_node = torch.autograd._get_sequence_nr

    def rows(self) -> list[Call]:
        """The calls in the order in which they began."""
        return [
            Call(
                module=module,
                parent=None if parent < 0 else parent,
                inputs=inputs,
                outputs=self._outputs.get(index, ()),
                failed=index not in self._outputs,
            )
            for index, (module, parent, inputs) in enumerate(self._rows)
        ]

    def assumptions(self) -> tuple[str, ...]:
        """Where calls inside TorchScript could not be recorded."""
        choosing = dict.fromkeys(self._label(module) for module in self._marked.unmarked_in)
        return (
            *(f"{label} calls a module that TorchScript chooses as it runs: {_TO_CALLER}" for label in choosing),
            *(
                f"calls inside {self._label(module)} could not be recorded ({reason}): {_TO_CALLER}"
                for module, reason in self._marked.failed
            ),
        )

    def _label(self, module: nn.Module) -> str:
        """The quoted path of a module, for messages."""
        return f"'{path_text(self.modules[self._index[id(module)]].path)}'"

    def module_of(self, call: int) -> Module | None:
        """The module of a call; None for -1, outside the model."""
        return self.modules[self._rows[call][0]] if call >= 0 else None

    def failed_call(self) -> int:
        """The innermost call that raised the error; the outermost call if it is unknown, -1 if there are no calls."""
        if self._failure is None:
            return 0 if self._rows else -1
        return self._failure[1]

    def _watch(
        self, running: Sequence[nn.Module], original: intercept.Method, replaced: Sequence[intercept.Method]
    ) -> intercept.Method:
        """A wrapper that records calls of `original`, except by the last module in `running`, recorded already."""
        get_ident = threading.get_ident
        owner, record = self._owner, self._record

        def __call__(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
            if replaced:
                return replaced[0](self, *args, **kwargs)
            if (running and running[-1] is self) or get_ident() != owner:
                return original(self, *args, **kwargs)
            return record(self, original, args, kwargs)

        return __call__

    def begin(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> None:
        """Record that a call of `module` begins."""
        position = self._index.get(id(module))
        row = (self._adopt(module) if position is None else position, self.current, self._types_of(args, kwargs))
        self.current = len(self._rows)
        self._rows.append(row)
        self._running.append(module)
        if self._next_node is not None:
            self.autograd_events.append((self._next_node(), self.current))

    def end(self, result: Any) -> None:
        """Record that the innermost call returned `result`."""
        index = self.current
        self._leave(self._rows[index][1], len(self._running) - 1)
        if self._failure is not None and self._failure[1] > index:
            self._failure = None
        self._outputs[index] = self._types_of((result,), None)

    def _record(self, module: nn.Module, original: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Call `original` and record the call."""
        outer, depth = self.current, len(self._running)
        self.begin(module, args, kwargs)
        try:
            result = original(module, *args, **kwargs)
        except BaseException as error:
            if self._failure is None or self._failure[0] is not error:
                # The innermost call: those inside TorchScript do not end when it raises.
                self._failure = (error, self.current)
            self._leave(outer, depth)
            raise
        self.end(result)
        return result

    def _leave(self, outer: int, depth: int) -> None:
        """Return to the call `outer`, at `depth` running calls."""
        self.current = outer
        del self._running[depth:]
        if self._next_node is not None:
            self.autograd_events.append((self._next_node(), outer))

    def _adopt(self, module: nn.Module) -> int:
        """Add a row for a module created in forward and return its index; the module is kept alive to keep its id."""
        self._created_modules.append(module)
        parent = self._rows[self.current][0] if self.current >= 0 else 0
        stem = f"{self.modules[parent].path}.({type(module).__name__})".lstrip(".")
        earlier = self._created_counts[stem]
        self._created_counts[stem] += 1
        path = f"{stem}#{earlier}" if earlier else stem
        row = inventory.describe(module, path, parent, {})
        self.modules.append(msgspec.structs.replace(row, created_in_forward=True))
        self._index[id(module)] = len(self.modules) - 1
        return len(self.modules) - 1

    def _types_of(self, args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> tuple[TensorType, ...]:
        """The types of the tensors in the arguments, including nested ones."""
        collected: list[TensorType] = []
        for value in args:
            self._collect(value, collected)
        if kwargs:
            for value in kwargs.values():
                self._collect(value, collected)
        return tuple(collected)

    def _collect(self, value: Any, collected: list[TensorType]) -> None:
        cls = value.__class__
        if cls in _PLAIN:
            return
        if isinstance(value, torch.Tensor):
            collected.append(self._type_of(value))
        elif isinstance(value, (list, tuple)):
            for item in value:
                self._collect(item, collected)
        elif isinstance(value, Mapping):
            for item in value.values():
                self._collect(item, collected)
        elif dataclasses.is_dataclass(value) and not isinstance(value, type):
            for field in dataclasses.fields(value):
                self._collect(getattr(value, field.name, None), collected)

    def _type_of(self, tensor: torch.Tensor) -> TensorType:
        if tensor.is_nested:
            return inventory.tensor_type(tensor)
        key = (tensor.shape, tensor.dtype)
        tensor_type = self._types.get(key)
        if tensor_type is None:
            tensor_type = self._types[key] = TensorType(inventory.sizes(tensor), inventory.dtype_name(tensor.dtype))
        return tensor_type


def _forward_owner(cls: type) -> type | None:
    """The class other than `nn.Module` that defines the `forward` of `cls` as a Python function, else None."""
    if issubclass(cls, torch.jit.ScriptModule):
        return None
    for owner in cls.__mro__:
        if owner is nn.Module:
            return None
        if "forward" in owner.__dict__:
            return owner if isinstance(owner.__dict__["forward"], types.FunctionType) else None
    return None
