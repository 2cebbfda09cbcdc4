"""The operations in TorchScript's source text: read as text, with nothing run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from assay.checkpoint.formats.torchscript import demangled
from assay.checkpoint.open import open_checkpoint
from assay.errors import ReadError
from assay.sources.kinds import kind_of

Written = tuple[str, str, str]
"""The function it stands in, the operation, its arguments."""

_OPERATIONS = ("torch.", "ops.")
"""How calls of operations begin; others are calls of modules and of functions of the file."""

_ERRORS = ("torch.format", "ops.prim.RaiseException")
"""Calls that only say what went wrong."""


def operations(source: Any) -> list[Written]:
    """The calls of operations in the code of a TorchScript file, in the order of the text; none of other files."""
    if not _is_script(source):
        return []
    return [
        (demangled(function.name), call.target, ", ".join(call.arguments))
        for function in open_checkpoint(source).functions
        for call in function.calls
        if call.target.startswith(_OPERATIONS) and call.target not in _ERRORS
    ]


def _is_script(source: Any) -> bool:
    if not isinstance(source, (str, os.PathLike)) or not Path(source).is_file():
        return False
    try:
        return kind_of(Path(source)) == "scripted"
    except ReadError:
        return False
