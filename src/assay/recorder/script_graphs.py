"""Graphs of TorchScript methods in which every call of a submodule's `forward` is marked.

TorchScript runs the code of all submodules as one graph. Here the graph of a method is copied, and the graphs of the
methods it calls are inserted between two marks, so that a call can be observed while TorchScript runs the ops.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import torch
from torch import nn

_FORWARD = re.compile(r"forward(__)?\d*")
"""Methods that are calls of their module: a traced module has `forward1` for its second call, and an overloaded
`forward` becomes `forward__0`."""

_CONTAINERS = frozenset({"OptionalType", "ListType", "TupleType", "DictType", "UnionType"})
_OPTIONAL_TENSOR = torch._C.OptionalType(torch._C.TensorType.get())
_PLAIN = frozenset({"NoneType", "IntType", "FloatType", "BoolType", "StringType"})


class Marks(NamedTuple):
    """Graphs of functions to insert at the beginning and the end of each call."""

    begin: Any
    """Takes the number of the module and a tuple of those arguments that are or contain tensors."""
    end: Any
    """Takes a tuple of the result, empty if that contains no tensor."""
    present: Any
    """Returns the tensor it is given; None for one that is undefined, as unused results of some operators are."""


class MarkedGraph(NamedTuple):
    """A method's graph with marks; its first input is the module."""

    graph: Any
    modules: list[nn.Module]
    """By the numbers in the marks."""
    unmarked_in: list[nn.Module]
    """Modules that call a module that TorchScript chooses as it runs; what such a call does is not marked."""


def marked(module: torch.jit.ScriptModule, method: str, marks: Marks) -> MarkedGraph:
    """The marked graph of a method of `module`."""
    result = MarkedGraph(None, [], [])
    return result._replace(graph=_Marking(marks, result.modules, result.unmarked_in).graph(module, method))


def optimise(module: torch.jit.ScriptModule, method: str) -> None:
    """Let torch prepare a method, and what it calls, for execution as it does outside a recording.

    It prepares each function once and keeps the result. If that first happened while optimisation is off, functions
    that other models share would stay without inlined calls, and could not be exported for the lite interpreter.
    """
    schema = module._c._get_method(method).schema
    graph = torch._C.Graph()
    inputs = []
    for kind in (module._c._type(), *(argument.type for argument in schema.arguments[1:])):
        inputs.append(graph.addInput())
        inputs[-1].setType(kind)
    call = graph.create("prim::CallMethod", inputs, 1)
    call.s_("name", method)
    graph.appendNode(call)
    call.output().setType(schema.returns[0].type)
    graph.registerOutput(call.output())
    with torch.jit.optimized_execution(True):
        torch._C._jit_pass_inline(graph)


class _Marking(NamedTuple):
    """Builds marked graphs, and collects the modules in them."""

    marks: Marks
    modules: list[nn.Module]
    unmarked_in: list[nn.Module]

    def graph(self, module: Any, method: str) -> Any:
        """The marked graph of a method and of all methods that it calls."""
        graph = module._c._get_method(method).graph.copy()
        _run_forks_at_once(graph)
        _read_sizes_directly(graph)
        for node in graph.findAllNodes("prim::CallMethod"):
            self._insert(graph, node, module)
        return graph

    def _insert(self, graph: Any, node: Any, module: Any) -> None:
        """Replace a node that calls a method of a submodule by the graph of that method."""
        name, (target, *args) = node.s("name"), node.inputs()
        called = _module_of(target, next(graph.inputs()), module)
        if called is None or not called._c._has_method(name):
            if target.type().kind() == "InterfaceType":
                self.unmarked_in.append(module)
            return
        callee = self.graph(called, name)
        with graph.insert_point_guard(node):
            if target.type().kind() == "InterfaceType":
                target = _node(graph, "prim::unchecked_cast", [target], called._c._type())
            is_call = _FORWARD.fullmatch(name) is not None
            if is_call:
                number = graph.insertConstant(len(self.modules))
                self.modules.append(called)
                graph.insertGraph(self.marks.begin, [number, self._tensors_among(graph, args)])
            (result,) = graph.insertGraph(callee, [target, *args])
            if is_call:
                graph.insertGraph(self.marks.end, [self._tensors_among(graph, [result])])
        node.output().replaceAllUsesWith(result)
        node.destroy()

    def _tensors_among(self, graph: Any, values: list[Any]) -> Any:
        """A tuple of the values that are tensors or containers of tensors; other objects may have no Python form."""
        parts = [part for value in values if _holds_tensors(value.type()) for part in self._parts(graph, value)]
        return _node(graph, "prim::TupleConstruct", parts, torch._C.TupleType([part.type() for part in parts]))

    def _parts(self, graph: Any, value: Any) -> list[Any]:
        """The items of a tuple, and of the tuples in it; without undefined tensors, which have no Python form."""
        kind = value.type()
        if kind.kind() == "TupleType":
            unpack = graph.insertNode(graph.create("prim::TupleUnpack", [value], len(kind.elements())))
            items = list(unpack.outputs())
            for item, item_type in zip(items, kind.elements(), strict=True):
                item.setType(item_type)
            return [part for item in items for part in self._parts(graph, item)]
        return graph.insertGraph(self.marks.present, [value]) if kind.isSubtypeOf(_OPTIONAL_TENSOR) else [value]


def _module_of(value: Any, root_value: Any, root: Any) -> Any:
    """The module that `value` is, found by names and indices from `root`; None if it is not a known submodule."""
    steps: list[str | int] = []
    while value.debugName() != root_value.debugName():
        node = value.node()
        if node.kind() == "prim::GetAttr":
            steps.append(node.s("name"))
        elif node.kind() == "prim::ModuleContainerIndex" and node.inputsAt(1).node().kind() == "prim::Constant":
            steps.append(node.inputsAt(1).toIValue())
        else:
            return None
        value = node.inputsAt(0)
    module = root
    for step in reversed(steps):
        children = module._modules if isinstance(step, str) else dict(enumerate(module._modules.values()))
        if step not in children:
            return None
        module = children[step]
    return module


def _holds_tensors(kind: Any) -> bool:
    """Whether a type is a tensor or a container in which all of that kind are, or are plain values."""
    if kind.kind() == "TensorType":
        return True
    parts = kind.containedTypes() if kind.kind() in _CONTAINERS else []
    return any(map(_holds_tensors, parts)) and all(_holds_tensors(part) or part.kind() in _PLAIN for part in parts)


def _run_forks_at_once(graph: Any) -> None:
    """Run the body of each `torch.jit.fork` where it begins; only its result still passes through another thread."""
    for fork in graph.findAllNodes("prim::fork"):
        body = fork.g("Subgraph").copy()
        _run_forks_at_once(body)
        with graph.insert_point_guard(fork):
            (result,) = graph.insertGraph(body, list(fork.inputs()))
        unchanged = torch._C.Graph()
        value = unchanged.addInput()
        value.setType(result.type())
        unchanged.registerOutput(value)
        fork.removeAllInputs()
        fork.addInput(result)
        fork.g_("Subgraph", unchanged)


def _read_sizes_directly(graph: Any) -> None:
    """Skip the tensors into which a trace packs every size, only to read the size from them again."""
    for node in graph.findAllNodes("aten::Int"):
        packed = node.inputsAt(0).node()
        if packed.kind() == "prim::NumToTensor" and packed.input().type().kind() == "IntType":
            node.output().replaceAllUsesWith(packed.input())
            node.destroy()


def _node(graph: Any, kind: str, inputs: list[Any], result_type: Any) -> Any:
    """The output of a new node at the insertion point."""
    output = graph.insertNode(graph.create(kind, inputs, 1)).output()
    output.setType(result_type)
    return output
