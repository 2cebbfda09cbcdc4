"""A unified diff that makes the function in the user's file that loads a model return it with changes."""

from __future__ import annotations

import ast
import difflib
import os
import textwrap
from collections.abc import Sequence
from pathlib import Path

from assay.errors import UsageError
from assay.messages import one_line
from assay.sources.specifier import file_function
from assay.trials.change_code import definitions, import_lines, steps_code
from assay.trials.loading_code import inputs_code
from assay.trials.script import ChangedSubject

_FUTURE = "from __future__ import annotations\n"
_SUGGESTION = "write a script instead, for example -o out.py"

_FUNCTION = '''\
def apply_assay_changes(model):
    """The model in eval mode with changes that Assay tried: {names}."""
{imports}

{definitions}

    GENERATOR = torch.Generator().manual_seed(0)
    inputs = {inputs}
    device = next((tensor.device for tensor in (*model.parameters(), *model.buffers())), None)
    args, kwargs = torch.utils._pytree.tree_map_only(torch.Tensor, lambda tensor: tensor.to(device), inputs)
    runnable = Runnable(model.eval(), args, kwargs)
    for apply, values in {steps}:
        runnable = apply(runnable, *values)
    return runnable.model


'''


def patch_code(subject: ChangedSubject, specs: Sequence[str]) -> str:
    """The diff that adds `apply_assay_changes` to the user's file, and a call of it where the model is returned."""
    named = file_function(os.fspath(subject.source)) if isinstance(subject.source, (str, os.PathLike)) else None
    if named is None:
        raise UsageError(f"a patch needs a model given as file.py::function: {_SUGGESTION}")
    text = Path(named.where).read_text(encoding="utf-8")
    if "def apply_assay_changes(" in text:
        raise UsageError(f"{one_line(named.where)} has a function apply_assay_changes already: remove it first")
    function = _FUNCTION.format(
        names=", ".join(specs),
        imports=textwrap.indent("\n".join(import_lines(specs)), "    "),
        definitions=textwrap.indent(definitions(specs), "    "),
        inputs=inputs_code(None, subject.args, subject.kwargs, Path.cwd()),
        steps=steps_code(specs),
    )
    name = Path(named.where).name if os.path.isabs(named.where) else Path(named.where).as_posix()
    return _diff(text, _patched(text, named.name, function, named.where), name)


def _patched(text: str, name: str, function: str, where: str) -> str:
    """The file with the function, and with its result returned by the function that loads the model."""
    tree = ast.parse(text)
    loader = next((node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name), None)
    if loader is None:
        raise UsageError(f"{one_line(name)} in {one_line(where)} is not a plain function of the file: {_SUGGESTION}")
    value = _returned(loader, where)
    lines = text.splitlines(keepends=True)
    _insert(lines, value.end_lineno or value.lineno, value.end_col_offset or 0, ")")
    _insert(lines, value.lineno, value.col_offset, "apply_assay_changes(")
    first = min([loader.lineno, *(each.lineno for each in loader.decorator_list)])
    lines.insert(first - 1, function)
    if not any(isinstance(node, ast.ImportFrom) and node.module == "__future__" for node in tree.body):
        place = _after_docstring(tree)
        lines.insert(place, f"\n{_FUTURE}" if place else f"{_FUTURE}\n")
    return "".join(lines)


def _returned(loader: ast.FunctionDef, where: str) -> ast.expr:
    """The expression in the only return statement of the function itself."""
    returns = [node for node in _own_nodes(loader) if isinstance(node, ast.Return)]
    value = returns[0].value if len(returns) == 1 else None
    if value is None or isinstance(value, (ast.Tuple, ast.List, ast.Dict)):
        what = f"{one_line(loader.name)} in {one_line(where)}"
        raise UsageError(f"{what} does not return one model in one place: {_SUGGESTION}")
    return value


def _own_nodes(node: ast.AST) -> list[ast.AST]:
    """The nodes of a function, without those of functions and classes inside it."""
    inner = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
    children = [child for child in ast.iter_child_nodes(node) if not isinstance(child, inner)]
    return [each for child in children for each in (child, *_own_nodes(child))]


def _insert(lines: list[str], line: int, column: int, text: str) -> None:
    """Insert text at a position of the syntax tree, whose columns count bytes."""
    data = lines[line - 1].encode()
    lines[line - 1] = (data[:column] + text.encode() + data[column:]).decode()


def _after_docstring(tree: ast.Module) -> int:
    """The number of lines before the first statement that is not the docstring."""
    first = tree.body[0] if tree.body else None
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        return first.end_lineno or 0
    return 0 if first is None else min([first.lineno, *_decorator_lines(first)]) - 1


def _decorator_lines(node: ast.stmt) -> list[int]:
    return [each.lineno for each in getattr(node, "decorator_list", ())]


def _diff(before: str, after: str, name: str) -> str:
    lines = []
    for line in difflib.unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), f"a/{name}", f"b/{name}"
    ):
        lines.append(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n")
    return "".join(lines)
