"""The ops in a TorchScript file's source code, read as text without running it."""

from __future__ import annotations

from assay.checkpoint.formats.torchscript import demangled_name
from assay.findings.analyzed import CodeOp
from assay.sources.opened import Opened

_OPERATIONS = ("torch.", "ops.")
"""Prefixes of op calls; other calls are of modules, or of functions in the file."""

_ERRORS = ("torch.format", "ops.prim.RaiseException")
"""Calls that only format or raise an error."""


def operations(opened: Opened) -> list[CodeOp]:
    """The op calls in a TorchScript file's code, in source order; empty for everything else."""
    if opened.checkpoint is None:
        return []
    return [
        (demangled_name(function.name), call.target, ", ".join(call.arguments))
        for function in opened.checkpoint.functions
        for call in function.calls
        if call.target.startswith(_OPERATIONS) and call.target not in _ERRORS
    ]
