"""Parses TorchScript source into functions and the calls they make; nothing is run."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator

from msgspec import Struct

from assay.checkpoint.entries import ScriptCall, ScriptFunction
from assay.document.roles import BUFFER, PARAMETER

MAX_CODE_BYTES = 2 << 20
"""Limit, in bytes, for all source files of a small archive: five times those of a traced GPT-2 of 48 layers."""
MAX_FILE_BYTES = 512 << 10
"""Limit, in bytes, for one source file."""
MAX_TOKENS = 150_000
"""Limit for all source files of a small archive: twice those of that GPT-2; syntax trees take up to 1,200 bytes per
token."""
MAX_DEPTH = 150
"""Limit for nested expressions: far above what TorchScript writes, far below what the stack allows."""
_TOKEN = re.compile(
    r"""("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')|([(\[{])|([)\]}])|([,\n])|(elif\b)|([^\w\s])|(not |lambda)"""
)


def allowance(size: int) -> float:
    """How much more code than a small archive one of this size, in bytes, may have, and how much longer it may run.

    What a file can cost is limited by what it contains: a traced Llama of 126 layers has 200,000 tokens, and weights.
    """
    return min(4.0, 1 + size / (16 << 20))


_TOO_DEEP = "nests too deep"
_DECLARATIONS = {"__parameters__": PARAMETER, "__buffers__": BUFFER}


class ScriptCode(Struct, frozen=True):
    """The contents of a source file."""

    functions: list[ScriptFunction]
    """Its functions and methods, in order."""
    declared: dict[str, dict[str, str]]
    """The role of each parameter and buffer of its classes, by the qualified name of the class."""


class Unreadable(Exception):
    """The source is not TorchScript, or exceeds a limit; the message continues "the code in net.py"."""


_ESCAPE = r"\\([/0])([)-7])([)-7])"
_LETTERS = re.compile(rf"\\\\|(?:{_ESCAPE})+")


class CodeBudget:
    """What may still be read and parsed of the source files of an archive of `size` bytes."""

    def __init__(self, size: int) -> None:
        self._bytes, self._most = (int(limit * allowance(size)) for limit in (MAX_CODE_BYTES, MAX_TOKENS))
        self._tokens = self._most

    @property
    def file_bytes(self) -> int:
        """The limit for the next file."""
        return min(self._bytes, MAX_FILE_BYTES)

    def parse(self, data: bytes) -> tuple[str, ast.Module]:
        """The text of a source file and its syntax tree."""
        self._bytes -= len(data)
        try:
            text = _source_text(data)
            count = _tokens(text, self._tokens)
            if count > self._tokens:
                raise Unreadable(f"is too long: all code of this file may have {self._most:,} tokens")
            self._tokens -= count
            with warnings.catch_warnings():
                # Python prints them as if the user had written the code.
                warnings.simplefilter("ignore")
                return text, ast.parse(text)
        except (MemoryError, RecursionError) as error:
            raise Unreadable(_TOO_DEEP) from error
        except (SyntaxError, ValueError) as error:
            raise Unreadable("is not TorchScript") from error


def _source_text(data: bytes) -> str:
    """The text of a source file; torch writes the bytes of letters beyond ASCII with negative octal digits."""
    text = data.decode("utf-8")
    return _LETTERS.sub(_letters, text) if "\\" in text else text


def _letters(match: re.Match[str]) -> str:
    digits = [[ord(digit) - ord("0") for digit in found] for found in re.findall(_ESCAPE, match[0])]
    if not any(min(each) < 0 for each in digits):
        return match[0]
    data = bytes((64 * high + 8 * middle + low) & 0xFF for high, middle, low in digits)
    return data.decode("utf-8", "replace")


def code_in(tree: ast.Module, module: str) -> ScriptCode:
    """The functions, methods and classes that a source file defines."""
    try:
        functions = [_function(node, prefix, method=prefix != module) for prefix, node in _definitions(tree, module)]
    except RecursionError as error:
        raise Unreadable(_TOO_DEEP) from error
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    return ScriptCode(functions, {f"{module}.{node.name}": _declared(node) for node in classes})


def _tokens(text: str, limit: int) -> int:
    """The number of tokens, at most one more than `limit`; `Unreadable` if they nest too deep for a recursive parser.

    Depth is counted as tokens per open bracket.
    """
    levels = [0]
    count = 0
    for count, match in enumerate(_TOKEN.finditer(text), 1):
        kind = match.lastindex
        if kind == 2:
            levels[-1] += 1
            levels.append(0)
        elif kind == 3 and len(levels) > 1:
            levels.pop()
        elif kind == 4:
            levels[-1] = 0 if match[4] == "," or len(levels) == 1 else levels[-1]
        elif kind != 1:
            levels[-1] += 1
        if len(levels) > MAX_DEPTH or levels[-1] > MAX_DEPTH or sum(levels) > 2 * MAX_DEPTH:
            raise Unreadable(_TOO_DEEP)
        if count > limit:
            break
    if text.count("elif") > MAX_DEPTH:
        raise Unreadable(_TOO_DEEP)
    return count


def _definitions(tree: ast.Module, module: str) -> Iterator[tuple[str, ast.FunctionDef]]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield module, node
        elif isinstance(node, ast.ClassDef):
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef):
                    yield f"{module}.{node.name}", inner


def _declared(node: ast.ClassDef) -> dict[str, str]:
    """The role of each attribute in the lists of parameters and buffers, `__parameters__ = ["weight", "bias"]`."""
    roles: dict[str, str] = {}
    for statement in node.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.List):
            for name in _names(statement.targets):
                if name in _DECLARATIONS:
                    items = (item for item in statement.value.elts if isinstance(item, ast.Constant))
                    roles.update((str(item.value), _DECLARATIONS[name]) for item in items)
    return roles


def _function(node: ast.FunctionDef, prefix: str, *, method: bool) -> ScriptFunction:
    arguments = tuple(argument.arg for argument in node.args.args)
    reader = _Reader(arguments[0] if arguments and method else "")
    reader.block(node.body)
    return ScriptFunction(f"{prefix}.{node.name}", arguments, tuple(reader.calls))


class _Reader:
    """Collects the calls of one function in order of evaluation."""

    def __init__(self, self_name: str) -> None:
        self.calls: list[ScriptCall] = []
        self._paths = {self_name: "self"} if self_name else {}
        """Local variables that refer to the module or a submodule: `_0` is `self.layers.0`."""

    def block(self, statements: list[ast.stmt]) -> None:
        """Collect the calls of `statements` in order; bodies of branches and loops once each."""
        for statement in statements:
            if isinstance(statement, ast.Assign):
                self._assign(statement)
                continue
            for field in ("test", "iter", "value", "items"):
                inner = getattr(statement, field, None)
                for expression in inner if isinstance(inner, list) else [inner]:
                    if isinstance(expression, ast.withitem):
                        self._operand(expression.context_expr)
                    elif isinstance(expression, ast.expr):
                        self._operand(expression)
            self.block(getattr(statement, "body", []))
            self.block(getattr(statement, "orelse", []))

    def _assign(self, statement: ast.Assign) -> None:
        value = statement.value
        names = tuple(_names(statement.targets))
        path = self._path(value)
        if path is not None:
            self._paths.update(dict.fromkeys(names, path))
        elif isinstance(value, ast.Call):
            self._call(value, names)
        else:
            self._operand(value)

    def _path(self, node: ast.expr) -> str | None:
        """The module path of an expression (`self.fc` for `s.fc` or a getattr); None if it has none."""
        if isinstance(node, ast.Name):
            return self._paths.get(node.id)
        owner: ast.expr
        if isinstance(node, ast.Attribute):
            owner, name = node.value, node.attr
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "getattr":
            if len(node.args) != 2 or not isinstance(node.args[1], ast.Constant):
                return None
            owner, name = node.args[0], str(node.args[1].value)
        else:
            return None
        path = self._path(owner)
        return None if path is None else f"{path}.{name}"

    def _call(self, node: ast.Call, outputs: tuple[str, ...] = ()) -> str:
        target = self._operand(node.func)
        arguments = [self._operand(argument) for argument in node.args]
        arguments += [f"{item.arg}={self._operand(item.value)}" for item in node.keywords]
        self.calls.append(ScriptCall(target, tuple(arguments), outputs))
        return f"%{len(self.calls) - 1}"

    def _operand(self, node: ast.expr) -> str:
        """A short text for an expression; calls inside it are collected first and appear as `%number`."""
        path = self._path(node)
        if path is not None:
            return path
        if isinstance(node, ast.Call):
            return self._call(node)
        if isinstance(node, ast.Name):
            return node.id
        if isinstance(node, ast.Constant):
            return repr(node.value)[:80]
        if isinstance(node, ast.Attribute):
            return f"{self._operand(node.value)}.{node.attr}"
        inner = [self._operand(child) for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
        text = ", ".join(inner)
        return f"[{text[:400]}]" if isinstance(node, (ast.List, ast.Tuple)) else f"({text[:400]})"


def _names(targets: list[ast.expr]) -> Iterator[str]:
    for target in targets:
        for node in ast.walk(target):
            if isinstance(node, ast.Name):
                yield node.id
