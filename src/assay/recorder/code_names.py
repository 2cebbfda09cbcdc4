"""The names in the code of a function: which variables it reads and writes, and which attributes it may use."""

from __future__ import annotations

import dis
import functools
import types
from typing import NamedTuple


class CodeNames(NamedTuple):
    """The names in the code of a function and of the functions inside it."""

    loaded: frozenset[str]
    """Global variables it reads."""
    stored: frozenset[str]
    """Global variables it assigns or deletes."""
    imported: frozenset[str]
    """Modules it imports."""
    assigned: frozenset[str]
    """Attributes it assigns or deletes."""
    names: frozenset[str]
    """All names, attributes included, and texts, which may be names of attributes."""


@functools.lru_cache(8192)
def names_in(code: types.CodeType) -> CodeNames:
    """The names in `code` and in the code inside it."""
    used = {field: set[str]() for field in CodeNames._fields}
    used["names"].update(code.co_names, (each for each in code.co_consts if isinstance(each, str)))
    for step in dis.get_instructions(code):
        if step.opname in _NAME_OPCODES:
            used[_NAME_OPCODES[step.opname]].add(step.argval)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            for field, names in names_in(constant)._asdict().items():
                used[field] |= names
    return CodeNames(**{field: frozenset(names) for field, names in used.items()})


_NAME_OPCODES = {
    "LOAD_GLOBAL": "loaded",
    "IMPORT_NAME": "imported",
    **dict.fromkeys(("STORE_GLOBAL", "DELETE_GLOBAL"), "stored"),
    **dict.fromkeys(("STORE_ATTR", "DELETE_ATTR"), "assigned"),
}
