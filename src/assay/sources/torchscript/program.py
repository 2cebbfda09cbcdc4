"""The classes and functions of a TorchScript archive by qualified name; a source file is parsed when needed."""

from __future__ import annotations

import ast
from typing import Any, NamedTuple

from assay.checkpoint.formats.archive import ZipArchive
from assay.checkpoint.formats.script_code import CodeBudget, Unreadable, allowance
from assay.checkpoint.formats.torch_zip import prefix_of
from assay.checkpoint.formats.torchscript import demangled_name
from assay.errors import ReadError
from assay.messages import one_line
from assay.sources.torchscript.refusal import refuse

MODULE, NAMED_TUPLE, ENUM = "Module", "NamedTuple", "Enum"


class Source(NamedTuple):
    """A source file."""

    place: str
    """The member of the archive, such as `__torch__/net.py`."""
    text: tuple[str, ...]
    """Its lines."""

    def lines(self, node: ast.stmt) -> str:
        """The text of a definition."""
        return "".join(self.text[node.lineno - 1 : node.end_lineno])


class Function(NamedTuple):
    """A function or method."""

    name: str
    """Its name for messages: `Net.forward`."""
    node: ast.FunctionDef
    source: Source


class ScriptClass(NamedTuple):
    """A class of the archive."""

    name: str
    """Its qualified name: `__torch__.net.Net`."""
    base: str
    """`Module`, `NamedTuple`, `Enum`, `ModuleInterface`, or empty for a plain class."""
    methods: dict[str, Function]
    fields: tuple[str, ...]
    """Declared attributes, in order."""
    values: dict[str, ast.expr]
    """Constants, and the members of an enum."""
    parameters: frozenset[str]
    buffers: frozenset[str]
    node: ast.ClassDef
    source: Source

    def __deepcopy__(self, memo: dict[int, Any]) -> ScriptClass:
        """A copy of a model has the same classes."""
        return self

    @property
    def original_name(self) -> str:
        """The class's name in the source: `net.Net`."""
        return demangled_name(self.name)


class ScriptProgram:
    """All code of an archive."""

    def __init__(self, archive: ZipArchive) -> None:
        self._archive = archive
        self._folder = f"{prefix_of(archive)}code/"
        self._budget = CodeBudget(archive.region.size)
        self.allowance = allowance(archive.region.size)
        """How much longer than a small one its code may run."""
        self._parsed: dict[str, dict[str, ScriptClass | Function]] = {}

    def find(self, name: str) -> ScriptClass | Function | None:
        """The class or function of this qualified name."""
        module, _, own = name.rpartition(".")
        return self._definitions(module).get(own)

    def class_named(self, name: str) -> ScriptClass | None:
        """The class of this qualified name."""
        found = self.find(name)
        return found if isinstance(found, ScriptClass) else None

    def _definitions(self, module: str) -> dict[str, ScriptClass | Function]:
        if module not in self._parsed:
            self._parsed[module] = self._read(module)
        return self._parsed[module]

    def _read(self, module: str) -> dict[str, ScriptClass | Function]:
        member = f"{self._folder}{module.replace('.', '/')}.py"
        if member not in self._archive.members:
            return {}
        place = member.removeprefix(self._folder)
        try:
            text, tree = self._budget.parse(self._archive.read(member, self._budget.file_bytes))
        except Unreadable as error:
            raise ReadError(f"the code in {one_line(place)} {error}") from error
        source = Source(place, tuple(text.splitlines(keepends=True)))
        found: dict[str, ScriptClass | Function] = {}
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                found[node.name] = _class(node, f"{module}.{node.name}", source)
            elif isinstance(node, ast.FunctionDef):
                found[node.name] = Function(node.name, node, source)
        return found


def _class(node: ast.ClassDef, name: str, source: Source) -> ScriptClass:
    bases = [base.id for base in node.bases if isinstance(base, ast.Name)]
    methods = {
        each.name: Function(f"{node.name}.{each.name}", each, source)
        for each in node.body
        if isinstance(each, ast.FunctionDef)
    }
    fields: list[str] = []
    values: dict[str, ast.expr] = {}
    lists: dict[str, frozenset[str]] = {}
    for each in node.body:
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
            fields.append(each.target.id)
            if each.value is not None:
                values[each.target.id] = each.value
        elif isinstance(each, ast.Assign) and len(each.targets) == 1:
            _assigned(each.targets[0], each.value, fields, values, lists)
        elif not isinstance(each, (ast.FunctionDef, ast.Pass)):
            refuse(f"{source.place} has a statement in a class that TorchScript does not write")
    none: frozenset[str] = frozenset()
    parameters, buffers = lists.get("__parameters__", none), lists.get("__buffers__", none)
    return ScriptClass(
        name, bases[0] if bases else "", methods, tuple(fields), values, parameters, buffers, node, source
    )


def _assigned(
    target: ast.expr,
    value: ast.expr,
    fields: list[str],
    values: dict[str, ast.expr],
    lists: dict[str, frozenset[str]],
) -> None:
    """Note an assignment in a class body: a list of names, a field whose name is not an identifier, or a constant."""
    if isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant):
        fields.append(str(target.slice.value))
    elif isinstance(target, ast.Name) and target.id.startswith("__") and isinstance(value, ast.List):
        lists[target.id] = frozenset(str(item.value) for item in value.elts if isinstance(item, ast.Constant))
    elif isinstance(target, ast.Name):
        values[target.id] = value
