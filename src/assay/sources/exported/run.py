"""Exported programs made to run, for those who trust their file: loading one lets torch run what is in it."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

from msgspec.structs import replace

from assay.document.document import Document
from assay.messages import brief
from assay.sources.needs import need
from assay.sources.open import Opened
from assay.sources.usercode import guarded

HOW = "the file's example inputs"


class Running(NamedTuple):
    """A program that can be called."""

    opened: Opened
    inputs: tuple[tuple[Any, ...], dict[str, Any]] | None
    """The arguments and keywords it was exported with; None where the file has none."""
    classes: Mapping[str, tuple[str, str]]
    """The name and path of each module's class, by the module's path: in the program all have the same."""


def runnable(opened: Opened) -> Running:
    """The program as a tree of modules that can be called."""
    torch = need("torch")
    with guarded(f"loading {brief(opened.origin.location)}"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns of its own internals here
        program = torch.export.load(opened.origin.location)
        module = torch.export.unflatten(program)
    read = opened.document.modules if opened.document is not None else []
    return Running(
        dataclasses.replace(opened, module=module, document=None),
        program.example_inputs,
        {module.path: (module.class_name, module.class_path) for module in read},
    )


def with_classes(document: Document, classes: Mapping[str, tuple[str, str]]) -> Document:
    """The document whose modules have the classes that the file names."""
    if not classes:
        return document
    return replace(
        document,
        modules=[
            replace(module, class_name=classes[module.path][0], class_path=classes[module.path][1])
            if module.path in classes
            else module
            for module in document.modules
        ],
    )
