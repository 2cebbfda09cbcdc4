"""TorchScript archives: the tree and parameters from data.pkl, the graph from the source text. Nothing runs."""

from __future__ import annotations

import re

from assay.checkpoint.entries import Checkpoint, ModuleRow, ScriptFunction
from assay.checkpoint.formats.archive import ZipArchive
from assay.checkpoint.formats.script_code import Unreadable, functions_in
from assay.checkpoint.formats.torch_zip import describe, prefix_of
from assay.checkpoint.listing import list_tensors
from assay.checkpoint.pickle.walking import SCRIPTED
from assay.errors import ReadError

MOST_CODE = 16 << 20
"""Bytes of source text that are read in all."""
CONSTANTS = "CONSTANTS"
"""What the source text calls the tensors of constants.pkl."""

_MANGLED = re.compile(r"\.___torch_mangle_\d+")


def read(archive: ZipArchive) -> Checkpoint:
    """The checkpoint and graph in an archive of torch.jit.save."""
    path = archive.region.path
    found, machine = describe(archive)
    constants, _ = describe(archive, "constants.pkl", "constants/")
    named = found.tensors + [(f"{CONSTANTS}.c{name}", value) for name, value in constants.tensors]
    functions, notes = _functions(archive, f"{prefix_of(archive)}code/")
    return Checkpoint(
        "torchscript",
        path,
        list_tensors(path, named),
        found.facts,
        [ModuleRow(row.path, demangled(row.class_path)) for row in found.modules],
        functions,
        tuple(name for name in machine.foreign if not name.startswith(f"{SCRIPTED}.")),
        (*found.notes, *notes),
    )


def demangled(name: str) -> str:
    """A class's name as its author wrote it: `__torch__.torch.nn.modules.linear.___torch_mangle_0.Linear`."""
    return _MANGLED.sub("", name).removeprefix(f"{SCRIPTED}.")


def _functions(archive: ZipArchive, folder: str) -> tuple[list[ScriptFunction], list[str]]:
    """What every file of source text defines, and a note on those that could not be read."""
    found: list[ScriptFunction] = []
    notes: list[str] = []
    left = MOST_CODE
    for name in archive.members:
        if not name.startswith(folder) or not name.endswith(".py"):
            continue
        module = name[len(folder) : -len(".py")].replace("/", ".")
        try:
            text = archive.read(name, left)
            left -= len(text)
            found += functions_in(text.decode("utf-8"), module)
        except (ReadError, UnicodeError, Unreadable):
            notes.append(f"the code of {module} could not be read")
    return found, notes
