"""Only `recorder/intercept.py` replaces `__call__` or `forward` of a class, or a function of torch."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import assay

ROOT = Path(assay.__file__).parent
METHODS = {"__call__", "forward"}
SETTERS = {"setattr", "delattr", "__setattr__", "__delattr__"}


def replaced(source: str) -> list[str]:
    """The replacements of these methods in a file, and assignments to whatever `torch` or `nn` holds."""
    return [ast.unparse(node) for node in ast.walk(ast.parse(source)) if _replaces(node)]


def _replaces(node: ast.AST) -> bool:
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, (ast.Store, ast.Del)):
        return node.attr in METHODS or _of_torch(node.value)
    if isinstance(node, ast.Call) and _name(node.func) in SETTERS:
        return any(isinstance(each, ast.Constant) and each.value in METHODS for each in node.args) or (
            bool(node.args) and _of_torch(node.args[0])
        )
    return False


def _of_torch(node: ast.expr) -> bool:
    return ast.unparse(node) in ("torch", "nn", "nn.Module", "torch.nn", "torch.nn.Module")


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def test_no_other_file_replaces_them():
    sources = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in ROOT.rglob("*.py")}
    assert len(sources) > 100
    assert {name: found for name, source in sources.items() if (found := replaced(source))} == {}


@pytest.mark.parametrize(
    "source",
    [
        "nn.Module.__call__ = f",
        "cls.forward = f",
        "setattr(cls, '__call__', f)",
        "setattr(owner, 'forward', f)",
        "setattr(nn.Module, name, f)",
        "type.__setattr__(cls, 'forward', f)",
        "torch.compile = f",
        "del cls.forward",
        "for cls.forward in (f, g): pass",
    ],
)
def test_a_replacement_is_found(source):
    assert replaced(source)
