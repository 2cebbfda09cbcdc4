"""Exported programs as models that run: a live one, or one from a file that the user trusts."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from assay.document.document import Document
from assay.messages import brief
from assay.sources.needs import need
from assay.sources.opened import Model
from assay.sources.usercode import guarded


def loaded(path: str) -> Model:
    """The program in a `.pt2` file; loading it lets torch run what is in it."""
    torch = need("torch")
    with guarded(f"loading {brief(path)}"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns of its own internals here
        return model_of(torch.export.load(path))


def model_of(program: Any) -> Model:
    """A `torch.export.ExportedProgram` as a tree of modules that can be called."""
    torch = need("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = torch.export.unflatten(program)
    return Model(module, inputs=program.example_inputs, classes=_classes(program))


def with_classes(document: Document, classes: Mapping[str, tuple[str, str]]) -> Document:
    """The document whose modules have the classes they were exported from."""
    if not classes:
        return document
    rows = [
        replace(row, class_name=classes[row.path][0], class_path=classes[row.path][1]) if row.path in classes else row
        for row in document.modules
    ]
    return replace(document, modules=rows)


def _classes(program: Any) -> dict[str, tuple[str, str]]:
    """The class of each module that a program's operations were called in, by the module's path."""
    found: dict[str, tuple[str, str]] = {}
    for node in program.graph.nodes:
        for path, kind in (node.meta.get("nn_module_stack") or {}).values():
            where = kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__qualname__}"
            found.setdefault(_plain(path), (where.rpartition(".")[2], where))
    return found


def _plain(path: str) -> str:
    """A path without the number of the call (`layer@1`) and the root's placeholder."""
    return path.partition("@")[0].removeprefix("L['self'].").removeprefix("L__self__.")
