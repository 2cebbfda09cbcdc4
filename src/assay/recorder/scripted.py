"""Shows the calls of modules inside TorchScript, which runs them without calling them from Python.

While it is listened to, a scripted module runs its methods from marked copies of their graphs (`script_graphs`). The
graphs of the module and its file stay as they are.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from typing import Any, NamedTuple, Protocol

import torch
from torch import nn

from assay.messages import error_line
from assay.recorder import script_graphs


class Listener(Protocol):
    """Receives the calls inside TorchScript in order; after an error, the calls that were running do not end."""

    def begin(self, module: nn.Module, args: tuple[Any, ...]) -> object:
        """Called before `module` runs; `args` are those that contain tensors."""

    def end(self, result: tuple[Any, ...]) -> object:
        """Called after the innermost module returned; `result` is empty if it contains no tensor."""


Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]
"""Returns a wrapper around a `forward`; both take the module first."""


class MarkedModules:
    """The scripted modules of a model; a marked form of a method is made when it is first called, and kept."""

    def __init__(self, modules: Iterable[nn.Module]) -> None:
        self.unmarked_in: list[nn.Module] = []
        """Modules that call a module that TorchScript chooses as it runs; such a call is not shown."""
        self.failed: list[tuple[nn.Module, str]] = []
        """Modules whose graph could not be marked, and the reason; no call inside them is shown."""
        self._methods = [
            (module, name, _Method(self, module, name))
            for module in modules
            if isinstance(module, torch.jit.ScriptModule)
            for name in module._c._method_names()
        ]
        for module, name, _ in reversed(self._methods):
            with contextlib.suppress(RuntimeError):  # a graph that torch cannot prepare fails when it runs
                script_graphs.optimise(module, name)

    @contextlib.contextmanager
    def listening(self, listener: Listener, wrap_forward: Wrap = lambda forward: forward) -> Iterator[None]:
        """Show the calls inside the scripted modules to `listener` in the block, if this thread makes them.

        `wrap_forward` is applied to each `forward` of a scripted module that Python can call.
        """
        owner = threading.get_ident()
        with contextlib.ExitStack() as stack:
            for module, name, method in self._methods:
                run = partial(_run, method, listener, owner)
                wrapped = wrap_forward(run) if name == "forward" else run
                stack.enter_context(_instance_attribute(module, name, partial(wrapped, module)))
            yield


class _Method:
    """A method of a scripted module and its marked form."""

    def __init__(self, owner: MarkedModules, module: torch.jit.ScriptModule, name: str) -> None:
        self.original = module._c._get_method(name)
        self._owner, self._module, self._name = owner, module, name
        self._function: Any = None
        self._modules: list[nn.Module] | None = None

    def run(self, listener: Listener, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The method's result, while `listener` receives the calls inside it."""
        values = _bound(self.original.schema.arguments[1:], args, kwargs)
        if self._modules is None:
            self._modules = self._mark()
        if self._function is None or values is None:
            return self.original(*args, **kwargs)
        _running.stack.append(_Run(self._modules, listener))
        try:
            return self._function(self._module, *values)
        finally:
            _running.stack.pop()

    def _mark(self) -> list[nn.Module]:
        """Make the marked function and return the modules in it; there is no function if that fails."""
        try:
            graph, modules, unmarked_in = script_graphs.marked(self._module, self._name, _marks())
            self._function = torch._C._create_function_from_graph(self._name, graph)
        except RuntimeError as error:  # torch raises it for whatever it cannot do with a graph
            self._owner.failed.append((self._module, error_line(error)))
            return []
        self._owner.unmarked_in.extend(unmarked_in)
        return modules


def _run(method: _Method, listener: Listener, owner: int, _: nn.Module, *args: Any, **kwargs: Any) -> Any:
    own_thread = threading.get_ident() == owner
    return method.run(listener, args, kwargs) if own_thread else method.original(*args, **kwargs)


def _bound(parameters: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any] | None:
    """The value of each parameter in order, with defaults; None if the arguments do not match the parameters."""
    values = list(args)
    rest = dict(kwargs)
    for parameter in parameters[len(args) :]:
        if parameter.name in rest:
            values.append(rest.pop(parameter.name))
        elif parameter.has_default_value():
            values.append(parameter.default_value)
    return values if len(values) == len(parameters) and not rest else None


@contextlib.contextmanager
def _instance_attribute(module: nn.Module, name: str, value: Any) -> Iterator[None]:
    """Set an attribute of the Python object only, where a scripted module also keeps methods it has looked up."""
    attributes = module.__dict__
    missing = object()
    original = attributes.get(name, missing)
    attributes[name] = value
    try:
        yield
    finally:
        if original is missing:
            attributes.pop(name, None)  # it may have been restored already
        else:
            attributes[name] = original


class _Run(NamedTuple):
    """A run of a marked function."""

    modules: list[nn.Module]
    listener: Listener


class _Running(threading.local):
    """The marked functions that this thread is running, innermost last."""

    def __init__(self) -> None:
        self.stack: list[_Run] = []


_running = _Running()


def _begin(number: int, args: Any) -> None:
    run = _running.stack[-1]
    run.listener.begin(run.modules[number], args)


def _end(result: Any) -> None:
    _running.stack[-1].listener.end(result)


@cache
def _marks() -> script_graphs.Marks:
    """Graphs that call `_begin` and `_end`, and one that asks whether a tensor is defined, as autograd does."""
    for function, types in ((_begin, {"number": int, "args": Any}), (_end, {"result": Any})):
        function.__annotations__ = {**types, "return": None}  # TorchScript does not read annotations that are strings
        torch.jit.ignore(function)
    unit = torch.jit.CompilationUnit()
    unit.define(
        "def begin(number: int, args: Any) -> None:\n    _begin(number, args)\n"
        "def end(result: Any) -> None:\n    _end(result)\n"
        "def present(value: Optional[Tensor]) -> Optional[Tensor]:\n"
        "    return value if value is not None and torch.ops.prim.AutogradAnyNonZero(value) else None\n",
        {"_begin": _begin, "_end": _end, "torch": torch}.get,
    )
    return script_graphs.Marks(unit.begin.graph, unit.end.graph, unit.present.graph)
