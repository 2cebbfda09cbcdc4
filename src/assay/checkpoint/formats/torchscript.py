"""TorchScript archives: modules and parameters from data.pkl, the graph from the source. No code is run."""

from __future__ import annotations

import re

from assay.checkpoint.entries import Checkpoint, ModuleRow
from assay.checkpoint.formats.archive import ZipArchive
from assay.checkpoint.formats.script_code import CodeBudget, ScriptCode, Unreadable, code_in
from assay.checkpoint.formats.torch_zip import describe, prefix_of
from assay.checkpoint.listing import list_tensors
from assay.checkpoint.pickle.walking import SCRIPTED
from assay.document.roles import CONSTANT
from assay.errors import ReadError

CONSTANTS = "CONSTANTS"
"""The name by which the source refers to the tensors of constants.pkl."""

_MANGLED = re.compile(r"\.___torch_mangle_\d+")


def read(archive: ZipArchive) -> Checkpoint:
    """The checkpoint and graph in an archive written by torch.jit.save."""
    path = archive.region.path
    code, notes = _code(archive, f"{prefix_of(archive)}code/")
    contents, machine = describe(archive, scripted=code.declared)
    constants, other = describe(archive, "constants.pkl", "constants/")
    named_constants = [(f"{CONSTANTS}.c{name}", value) for name, value in constants.tensors]
    roles = contents.roles | dict.fromkeys((name for name, _ in named_constants), CONSTANT)
    return Checkpoint(
        "torchscript",
        path,
        list_tensors(path, contents.tensors + named_constants, roles),
        contents.facts,
        [ModuleRow(row.path, demangled_name(row.class_path)) for row in contents.modules],
        code.functions,
        tuple(name for name in machine.foreign | other.foreign if not name.startswith(f"{SCRIPTED}.")),
        (*contents.notes, *notes),
    )


def demangled_name(name: str) -> str:
    """The original class name: drops the prefix `__torch__.` and parts such as `.___torch_mangle_0`."""
    return _MANGLED.sub("", name).removeprefix(f"{SCRIPTED}.")


def _code(archive: ZipArchive, folder: str) -> tuple[ScriptCode, list[str]]:
    """The contents of all source files, and notes on files that could not be read."""
    code = ScriptCode([], {})
    notes: list[str] = []
    budget = CodeBudget(archive.region.size)
    for name in archive.members:
        if not name.startswith(folder) or not name.endswith(".py"):
            continue
        module = name[len(folder) : -len(".py")].replace("/", ".")
        try:
            _, tree = budget.parse(archive.read(name, budget.file_bytes))
            read = code_in(tree, module)
            code.functions.extend(read.functions)
            code.declared.update(read.declared)
        except (ReadError, Unreadable):
            notes.append(f"the code of {module} could not be read")
    return code, notes
