"""Running exported programs: a live one, or one loaded from a trusted file."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from assay.document.document import Document
from assay.messages import one_line
from assay.sources.needs import need
from assay.sources.opened import Model
from assay.sources.usercode import guarded


def loaded(path: str) -> Model:
    """Load the program in a `.pt2` file as a model; torch may run code from the file."""
    torch = need("torch")
    with guarded(f"loading {one_line(path)}"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns about its own internals
        return model_of(torch.export.load(path))


def model_of(program: Any) -> Model:
    """The model of a `torch.export.ExportedProgram`, as a tree of modules that can be called."""
    torch = need("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            module = torch.export.unflatten(program)
        except (
            AssertionError,
            RuntimeError,
        ):  # up to torch 2.5, if the root is a class of torch itself
            module = program.module()
    return Model(
        module,
        inputs=program.example_inputs,
        inputs_from="the program's example inputs",
        classes=_classes(program),
    )


def with_classes(document: Document, classes: Mapping[str, tuple[str, str]]) -> Document:
    """`document` with the original class of each module, by path, in place of torch's stand-in classes."""
    if not classes:
        return document
    rows = [
        replace(row, class_name=classes[row.path][0], class_path=classes[row.path][1]) if row.path in classes else row
        for row in document.modules
    ]
    return replace(document, modules=rows)


def _classes(program: Any) -> dict[str, tuple[str, str]]:
    """Name and path of the class of each module that the program's ops ran in, by the module's path."""
    classes: dict[str, tuple[str, str]] = {}
    for node in program.graph.nodes:
        for path, kind in (node.meta.get("nn_module_stack") or {}).values():
            class_path = kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__qualname__}"
            classes.setdefault(_plain(path), (class_path.rpartition(".")[2], class_path))
    return classes


def _plain(path: str) -> str:
    """`path` without the call number (`layer@1`) and the root's placeholder."""
    return path.partition("@")[0].removeprefix("L['self'].").removeprefix("L__self__.")
