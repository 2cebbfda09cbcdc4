"""Values of a TorchScript program that are neither tensors nor plain Python values."""

from __future__ import annotations

import ast
from collections import namedtuple
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from assay.sources.torchscript.program import Function, ScriptClass
from assay.sources.torchscript.refusal import refuse


@dataclass(eq=False)
class ScriptObject:
    """An instance of a class of the archive that is not a module."""

    cls: ScriptClass
    fields: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class EnumMember:
    """A member of an enum of the archive; members are equal if class and name are."""

    cls: str
    name: str
    value: Any = field(compare=False)


class Opaque(NamedTuple):
    """A value that cannot be interpreted, such as packed weights; using it is an error."""

    what: str


class ModuleTensor(NamedTuple):
    """A parameter or buffer of the module in whose list it stands, such as `_flat_weights`."""

    name: str


class Closure(NamedTuple):
    """A function defined inside another one, for `fork`."""

    node: ast.FunctionDef
    scope: Mapping[str, Any]
    outer: Function


def named_tuple(cls: ScriptClass, values: tuple[Any, ...]) -> Any:
    """An instance of a named tuple of the archive."""
    if len(values) != len(cls.fields):
        refuse(f"{cls.original_name} has {len(cls.fields)} fields, got {len(values)}")
    name = cls.original_name.rpartition(".")[2]
    return namedtuple(name, cls.fields, rename=True)(*values)
