"""Runs the statements and expressions of TorchScript's language on values; what is not listed here is refused.

Python's own attributes, methods and operators are never applied to a value: attributes exist only on modules,
objects, named tuples and enums of the file, and every operator is in a table.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

import torch

from assay.messages import one_line
from assay.sources.torchscript import operators, prim, scalars
from assay.sources.torchscript.branches import (
    assumed_truth,
    assumptions_made,
    computed_tests,
    likelier_branch,
)
from assay.sources.torchscript.lifetimes import Expiry
from assay.sources.torchscript.program import ENUM, NAMED_TUPLE, Function, ScriptClass, ScriptProgram
from assay.sources.torchscript.refusal import (
    MAX_ASSUMED_ROUNDS,
    MAX_CALLS,
    Endless,
    Exceeded,
    Failed,
    Refusal,
    StepBudget,
    checked_integer,
    leaves,
)
from assay.sources.torchscript.tensor_ops import TensorOps
from assay.sources.torchscript.values import Closure, EnumMember, Opaque, ScriptObject, named_tuple

if TYPE_CHECKING:
    from assay.sources.torchscript.modules import InterpretedModule

Scope = dict[str, Any]

FORWARD = re.compile(r"forward(__)?\d*")
"""Methods that are calls of their module: a traced module has `forward1` for its second call, and an overloaded
`forward` becomes `forward__0`."""

_NOT_RETURNED = object()
_CONSTANTS = {
    "inf": float("inf"),
    "nan": float("nan"),
    "infj": complex(0, float("inf")),
    "nanj": complex(0, float("nan")),
}
_FAILURES = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What an operator raises on plain values that it cannot be applied to."""


class Interpreter:
    """Runs the functions of one program."""

    def __init__(self, program: ScriptProgram, constants: Mapping[str, Any]) -> None:
        self.program = program
        self._budget = StepBudget(program.allowance)
        self.tensors = TensorOps(self._budget)
        self.constants = constants
        """The tensors that the code refers to as `CONSTANTS.c0`."""
        self._depth = 0
        self._branches: dict[ast.If, bool] = {}
        self._tests: dict[ast.Assign, ast.If] = {}
        self._endless: dict[ast.While, str] = {}
        """The loops that did not end in an earlier pass, each with its place; they run for one round."""
        self._places: list[tuple[Function, int]] = []
        self._known_functions: set[ast.FunctionDef] = set()
        self._expiry = Expiry({}, set())

    def __deepcopy__(self, memo: dict[int, Any]) -> Interpreter:
        """A copy of a model runs the same program."""
        return self

    def run(self, module: InterpretedModule, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a method of a module; the outermost call begins a pass."""
        function = self._class_of(module).methods.get(method)
        if function is None:
            self.stop(f"the method {method} of {self._class_of(module).original_name}, which is not in the file")
        if self._depth:
            return self.call(function, (module, *args), kwargs)
        self._budget.begin()
        self.tensors.begin()
        try:
            return self.call(function, (module, *args), kwargs)
        except BaseException:
            self._budget.fail()
            raise

    def call(self, function: Function, args: tuple[Any, ...], kwargs: Mapping[str, Any] = {}) -> Any:
        """The result of a function or method."""
        return self._body(function, function.node, self._bound(function, args, kwargs))

    def evaluate(self, node: ast.expr, scope: Scope) -> Any:
        """The value of an expression."""
        handler = _EXPRESSIONS.get(type(node))
        if handler is None:
            self.stop(f"an expression of kind {type(node).__name__}, which TorchScript does not write")
        return handler(self, node, scope)

    def stop(self, what: str) -> NoReturn:
        """Raise `Refusal` with the place in the file."""
        raise self._located(Refusal(what))

    def _located(self, error: Refusal) -> Refusal:
        """The same error with the place in the file."""
        where = "the code"
        if self._places:
            function, line = self._places[-1]
            where = f"{one_line(function.name)} (line {line} of {one_line(function.source.place)})"
        located = type(error)(f"{where} {error.verb}: {error}")
        located.__cause__ = error
        return located

    def _body(self, function: Function, node: ast.FunctionDef, scope: Scope) -> Any:
        if self._depth >= MAX_CALLS:
            raise self._located(Exceeded(f"more than {MAX_CALLS} nested calls"))
        if node not in self._known_functions:
            self._known_functions.add(node)
            self._expiry.add(node)
            self._tests |= computed_tests(node)
        self._depth += 1
        self._places.append((function, node.lineno))
        try:
            result = self._block(node.body, scope)
        except Refusal as error:
            raise (error if error.__cause__ is not None else self._located(error)) from error.__cause__ or error
        except RecursionError:
            self.stop("code that nests too deep")
        finally:
            self._places.pop()
            self._depth -= 1
        return None if result is _NOT_RETURNED else result

    def _bound(self, function: Function, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Scope:
        """The local variables with which a function begins."""
        parameters = function.node.args
        names = [each.arg for each in parameters.args]
        extra = parameters.vararg or parameters.kwarg or parameters.kwonlyargs or parameters.posonlyargs
        if extra or len(args) > len(names):
            raise TypeError(f"{function.name} takes {len(names)} arguments, got {len(args)}")
        scope: Scope = dict(zip(names, args, strict=False))
        first_default = len(names) - len(parameters.defaults)
        for position, name in enumerate(names[len(args) :], len(args)):
            if name in kwargs:
                scope[name] = kwargs[name]
            elif position >= first_default:
                scope[name] = self.evaluate(parameters.defaults[position - first_default], {})
            else:
                raise TypeError(f"{function.name} needs a value for {name}")
        unknown = [name for name in kwargs if name not in names]
        if unknown:
            raise TypeError(f"{function.name} has no parameter {unknown[0]}")
        return scope

    # Statements

    def _block(self, statements: list[ast.stmt], scope: Scope) -> Any:
        for statement in statements:
            self._step(statement.lineno)
            handler = _STATEMENTS.get(type(statement))
            if handler is None:
                self.stop(f"a statement of kind {type(statement).__name__}, which TorchScript does not write")
            result = handler(self, statement, scope)
            if result is not _NOT_RETURNED:
                return result
            for name in self._expiry.after.get(statement, ()):
                scope.pop(name, None)
        return _NOT_RETURNED

    def _step(self, line: int) -> None:
        if self._places:
            self._places[-1] = (self._places[-1][0], line)
        try:
            self._budget.spend()
        except Exceeded as error:
            raise self._located(error) from error

    def _assign(self, node: ast.Assign, scope: Scope) -> Any:
        branch = self._tests.get(node)
        if branch is None:
            value = self.evaluate(node.value, scope)
        else:
            with assumed_truth(self._likelier(branch)):
                value = self.evaluate(node.value, scope)
        for target in node.targets:
            self._bind(target, value, scope)
        return _NOT_RETURNED

    def _annotated(self, node: ast.AnnAssign, scope: Scope) -> Any:
        if node.value is not None:
            self._bind(node.target, self.evaluate(node.value, scope), scope)
        return _NOT_RETURNED

    def _bind(self, target: ast.expr, value: Any, scope: Scope) -> None:
        if isinstance(target, ast.Name):
            scope[target.id] = value
        elif isinstance(target, (ast.Tuple, ast.List)):
            items = self._items(value)
            if len(items) != len(target.elts):
                self.stop(f"{len(items)} values for {len(target.elts)} names")
            for each, item in zip(target.elts, items, strict=True):
                self._bind(each, item, scope)
        elif isinstance(target, ast.Attribute):
            self._set_attribute(self.evaluate(target.value, scope), target.attr, value)
        else:
            self.stop("an assignment to something that is not a name")

    def _items(self, value: Any) -> list[Any]:
        if isinstance(value, torch.Tensor):
            return list(self.tensors.run("unbind", (value,), {}))
        return list(value) if isinstance(value, (list, tuple)) else self.stop("unpacking of a value without items")

    def _expression(self, node: ast.Expr, scope: Scope) -> Any:
        self.evaluate(node.value, scope)
        return _NOT_RETURNED

    def _return(self, node: ast.Return, scope: Scope) -> Any:
        return None if node.value is None else self.evaluate(node.value, scope)

    def _if(self, node: ast.If, scope: Scope) -> Any:
        with assumed_truth(self._likelier(node)):
            taken = self._truth(node.test, scope)
        return self._block(node.body if taken else node.orelse, scope)

    def _likelier(self, node: ast.If) -> bool:
        """Which branch is assumed to be taken if the condition is unknown."""
        if node not in self._branches:
            self._branches[node] = likelier_branch(node)
        return self._branches[node]

    def _while(self, node: ast.While, scope: Scope) -> Any:
        rounds = 0
        while self._truth(node.test, scope):
            self._step(node.lineno)
            before = assumptions_made()
            try:
                result = self._block(node.body, scope)
            except Exceeded as error:
                if rounds and not isinstance(error, Endless):
                    self._stop_endless(node)
                raise
            if result is not _NOT_RETURNED:
                return result
            if node in self._endless:
                break
            rounds += assumptions_made() > before
            if rounds > MAX_ASSUMED_ROUNDS or (rounds and self._budget.is_half_spent):
                self._stop_endless(node)
        return _NOT_RETURNED

    def _stop_endless(self, node: ast.While) -> NoReturn:
        """Stop the pass at a loop; the next pass ends it after one round."""
        function = self._places[-1][0]
        self._places[-1] = (function, node.lineno)
        self._endless[node] = f"{one_line(function.name)} (line {node.lineno} of {one_line(function.source.place)})"
        raise self._located(Endless("the end of a loop depends on values that exist only with data"))

    @property
    def one_round_loops(self) -> tuple[str, ...]:
        """The loops that run for one round, because they do not end without data."""
        return tuple(f"{place}: one round of a loop whose end depends on data" for place in self._endless.values())

    def _for(self, node: ast.For, scope: Scope) -> Any:
        for item in self._iterated(self.evaluate(node.iter, scope)):
            self._step(node.lineno)
            self._bind(node.target, item, scope)
            result = self._block(node.body, scope)
            if result is not _NOT_RETURNED:
                return result
        return _NOT_RETURNED

    def _iterated(self, value: Any) -> Iterator[Any]:
        if isinstance(value, (range, str, dict)):
            return iter(value)
        return iter(self._items(value))

    def _truth(self, node: ast.expr, scope: Scope) -> bool:
        value = self.evaluate(node, scope)
        if not isinstance(value, (bool, int, float, torch.Tensor)):
            self.stop("a condition that is not a number")
        return bool(prim.BARE["bool"](self.tensors, value))

    def _with(self, node: ast.With, scope: Scope) -> Any:
        managers = []
        for item in node.items:
            manager = self.evaluate(item.context_expr, scope)
            entered = self._method(manager, "__enter__", (), {}) if isinstance(manager, ScriptObject) else None
            managers.append(manager)
            if item.optional_vars is not None:
                self._bind(item.optional_vars, entered, scope)
        result = self._block(node.body, scope)
        for manager in reversed(managers):
            if isinstance(manager, ScriptObject):
                self._method(manager, "__exit__", (None, None, None), {})
        return result

    def _define(self, node: ast.FunctionDef, scope: Scope) -> Any:
        used = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
        self._budget.spend(len(used) // 8)
        captured = {name: scope[name] for name in used if name in scope}
        scope[node.name] = Closure(node, captured, self._places[-1][0])
        return _NOT_RETURNED

    def _pass(self, node: ast.Pass, scope: Scope) -> Any:
        return _NOT_RETURNED

    # Expressions

    def _constant(self, node: ast.Constant, scope: Scope) -> Any:
        value = node.value
        if value is Ellipsis or isinstance(value, bytes):
            self.stop("a constant that TorchScript does not write")
        return checked_integer(value) if type(value) is int else value

    def _name(self, node: ast.Name, scope: Scope) -> Any:
        if node.id in scope:
            return scope.pop(node.id) if node in self._expiry.last_uses else scope[node.id]
        if node.id in _CONSTANTS:
            return _CONSTANTS[node.id]
        return self.stop(f"the name {one_line(node.id)}, which has no value")

    def _list(self, node: ast.List, scope: Scope) -> Any:
        return self._container([self.evaluate(item, scope) for item in node.elts])

    def _tuple(self, node: ast.Tuple, scope: Scope) -> Any:
        return self._container(tuple([self.evaluate(item, scope) for item in node.elts]))

    def _dict(self, node: ast.Dict, scope: Scope) -> Any:
        pairs = [
            (self.evaluate(key, scope) if key is not None else self.stop("an unpacked dictionary"), value)
            for key, value in zip(node.keys, node.values, strict=True)
        ]
        return self._container(scalars.CONTAINERS["dict"]([(key, self.evaluate(each, scope)) for key, each in pairs]))

    def _container(self, value: Any) -> Any:
        items = value.values() if isinstance(value, dict) else value
        if any(isinstance(item, (list, tuple, dict)) for item in items):
            self._budget.spend(leaves(value) // 8)
        return value

    def _negative(self, node: ast.UnaryOp, scope: Scope) -> Any:
        if not isinstance(node.op, ast.USub):
            self.stop("an operator that TorchScript does not write")
        if isinstance(node.operand, ast.Constant) and type(node.operand.value) is int:
            return checked_integer(-node.operand.value)  # the smallest integer has no positive counterpart
        value = self.evaluate(node.operand, scope)
        return -value if isinstance(value, (int, float, complex)) else self.stop("the negative of another value")

    def _subscript(self, node: ast.Subscript, scope: Scope) -> Any:
        container, index = self.evaluate(node.value, scope), self.evaluate(node.slice, scope)
        if isinstance(container, torch.nn.Module):
            return self._submodule(container, index)
        if isinstance(container, torch.Tensor):
            return self.tensors.run("select", (container, 0, index), {})
        if not isinstance(container, (list, tuple, dict, str)):
            self.stop("an index into a value without items")
        return self._plain(lambda: container[index], "an index")

    def _submodule(self, module: Any, index: Any) -> Any:
        children = list(module._modules.values())
        if isinstance(index, str):
            return (
                module._modules[index] if index in module._modules else self.stop("a submodule that does not exist")
            )
        return self._plain(lambda: children[index], "an index")

    def _attribute(self, node: ast.Attribute, scope: Scope) -> Any:
        path = _global_path(node, scope)
        return self._global(path) if path else self._get_attribute(self.evaluate(node.value, scope), node.attr)

    def _global(self, path: str) -> Any:
        """The function, class, enum member or constant of a dotted path."""
        if path.startswith("CONSTANTS."):
            name = path.partition(".")[2]
            return (
                self.constants[name] if name in self.constants else self.stop(f"{one_line(path)}, which is missing")
            )
        found = self.program.find(path)
        if found is None:
            owner, _, name = path.rpartition(".")
            enum = self.program.class_named(owner)
            if enum is not None and enum.base == ENUM and name in enum.values:
                return self.enum_member(enum, name)
            self.stop(f"{one_line(path)}, which is not in the file")
        return found

    def enum_member(self, enum: ScriptClass, name: str) -> EnumMember:
        """The member of an enum."""
        return EnumMember(enum.name, name, self.evaluate(enum.values[name], {}))

    def _get_attribute(self, value: Any, name: str) -> Any:
        if isinstance(value, torch.nn.Module):
            found = value.attribute(name)
            return self._class_constant(self._class_of(value), name) if found is MISSING else found
        if isinstance(value, ScriptObject):
            return value.fields[name] if name in value.fields else self._class_constant(value.cls, name)
        fields = getattr(value, "_fields", ()) if isinstance(value, tuple) else ()
        if name in fields:
            return value[fields.index(name)]
        if isinstance(value, EnumMember) and name in ("name", "value"):
            return value.name if name == "name" else value.value
        return self.stop(f"the attribute {one_line(name)} of {_kind(value)}")

    def _class_constant(self, cls: ScriptClass, name: str) -> Any:
        if name not in cls.values:
            self.stop(f"the attribute {one_line(name)} of {one_line(cls.original_name)}, which has no value")
        return self.evaluate(cls.values[name], {})

    def _set_attribute(self, owner: Any, name: str, value: Any) -> None:
        if isinstance(owner, torch.nn.Module):
            owner.set_attribute(name, value)
        elif isinstance(owner, ScriptObject):
            owner.fields[name] = value
        else:
            self.stop(f"an attribute of {_kind(owner)}")

    # Calls

    def _call(self, node: ast.Call, scope: Scope) -> Any:
        self._step(node.lineno)
        function = node.func
        if isinstance(function, ast.Name) and function.id not in scope:
            return self._call_bare(function.id, node, scope)
        if isinstance(function, ast.Name):
            target = scope[function.id]
        else:
            path = _global_path(function, scope) if isinstance(function, ast.Attribute) else ""
            if path.startswith(("torch.", "ops.")):
                args, kwargs = self._arguments(node, scope)
                return self._plain(lambda: operators.apply(self.tensors, path, args, kwargs), path)
            if path.endswith(".__new__"):
                return self._new(self.program.class_named(path.removesuffix(".__new__")))
            if isinstance(function, ast.Attribute) and not path:
                owner = self.evaluate(function.value, scope)
                return self._method(owner, function.attr, *self._arguments(node, scope))
            target = self._global(path) if path else self.evaluate(function, scope)
        args, kwargs = self._arguments(node, scope)
        if isinstance(target, Function):
            return self.call(target, args, kwargs)
        if isinstance(target, ScriptClass) and target.base == NAMED_TUPLE:
            return named_tuple(target, args)
        if isinstance(target, Closure):
            return self._body(target.outer, target.node, dict(target.scope))
        return self.stop(f"a call of {_kind(target)}")

    def _arguments(self, node: ast.Call, scope: Scope) -> tuple[tuple[Any, ...], dict[str, Any]]:
        args = tuple([self.evaluate(each, scope) for each in node.args])
        return args, {each.arg or "": self.evaluate(each.value, scope) for each in node.keywords}

    def _call_bare(self, name: str, node: ast.Call, scope: Scope) -> Any:
        if name in ("annotate", "unchecked_cast") and len(node.args) == 2:
            value = self.evaluate(node.args[1], scope)
            return prim.as_type(self.tensors, ast.unparse(node.args[0]), value)
        if name == "isinstance" and len(node.args) == 2:
            kinds = node.args[1].elts if isinstance(node.args[1], (ast.List, ast.Tuple)) else [node.args[1]]
            return prim.is_instance(self.evaluate(node.args[0], scope), [ast.unparse(kind) for kind in kinds])
        if name == "getattr" and len(node.args) == 2 and isinstance(node.args[1], ast.Constant):
            return self._get_attribute(self.evaluate(node.args[0], scope), str(node.args[1].value))
        if name == "uninitialized":
            return None
        if name == "fork":
            return self._fork(*self._arguments(node, scope)[0])
        function = prim.BARE.get(name)
        if function is None:
            self.stop(f"a call of {one_line(name)}, which is not a function of TorchScript")
        args, kwargs = self._arguments(node, scope)
        return self._plain(lambda: operators.apply_bare(self.tensors, function, args, kwargs), name)

    def _fork(self, target: Any, *args: Any) -> Any:
        """The result of a forked function, which runs at once."""
        if isinstance(target, Closure):
            return self._body(target.outer, target.node, dict(target.scope))
        return self.call(target, args) if isinstance(target, Function) else self.stop("a fork of something else")

    def _new(self, cls: ScriptClass | None) -> ScriptObject:
        return ScriptObject(cls) if cls is not None else self.stop("an object of a class that is not in the file")

    def _method(self, owner: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if isinstance(owner, torch.nn.Module):
            if FORWARD.fullmatch(name) and not kwargs:
                return owner(*args, **({} if name == "forward" else {METHOD: name}))
            return self.run(owner, name, args, kwargs)
        if isinstance(owner, ScriptObject) and name in owner.cls.methods:
            return self.call(owner.cls.methods[name], (owner, *args), kwargs)
        if isinstance(owner, torch.Tensor) and name == "tolist":
            return prim.as_list(self.tensors, owner)
        return self.stop(f"the method {one_line(name)} of {_kind(owner)}")

    def _plain(self, apply: Callable[[], Any], what: str) -> Any:
        """The result of `apply`; an error of Python's about plain values becomes one of the file's."""
        try:
            return apply()
        except _FAILURES as error:
            raise self._located(Failed(f"{one_line(what)}: {one_line(error)}")) from error

    def _class_of(self, module: Any) -> ScriptClass:
        cls = getattr(type(module), "script_class", None)
        return cls if isinstance(cls, ScriptClass) else self.stop("a module of another program")


METHOD = "script method"
"""The keyword argument with the method that a module is to run; no parameter can have this name."""
MISSING = object()
"""What a module returns for an attribute that it does not have."""


def _global_path(node: ast.Attribute, scope: Scope) -> str:
    """The dotted path of an attribute of something other than a local variable; empty if there is none."""
    names = [node.attr]
    value: ast.expr = node.value
    while isinstance(value, ast.Attribute):
        names.append(value.attr)
        value = value.value
    if not isinstance(value, ast.Name) or value.id in scope:
        return ""
    return ".".join((value.id, *reversed(names)))


def _kind(value: Any) -> str:
    if isinstance(value, Opaque):
        return value.what
    return f"a value of type {type(value).__name__}"


_Handler = Callable[[Interpreter, Any, Scope], Any]

_STATEMENTS: dict[type[ast.stmt], _Handler] = {
    ast.Assign: Interpreter._assign,
    ast.AnnAssign: Interpreter._annotated,
    ast.Expr: Interpreter._expression,
    ast.Return: Interpreter._return,
    ast.If: Interpreter._if,
    ast.While: Interpreter._while,
    ast.For: Interpreter._for,
    ast.With: Interpreter._with,
    ast.FunctionDef: Interpreter._define,
    ast.Pass: Interpreter._pass,
}

_EXPRESSIONS: dict[type[ast.expr], _Handler] = {
    ast.Constant: Interpreter._constant,
    ast.Name: Interpreter._name,
    ast.List: Interpreter._list,
    ast.Tuple: Interpreter._tuple,
    ast.Dict: Interpreter._dict,
    ast.UnaryOp: Interpreter._negative,
    ast.Subscript: Interpreter._subscript,
    ast.Attribute: Interpreter._attribute,
    ast.Call: Interpreter._call,
}
