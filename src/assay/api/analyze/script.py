"""The ops in a TorchScript file's source code, read as text without running it."""

from __future__ import annotations

from assay.checkpoint.entries import Checkpoint
from assay.checkpoint.formats.torchscript import demangled_name
from assay.findings.analyzed import CodeOp

_OPERATIONS = ("torch.", "ops.")
"""Prefixes of op calls; other calls are of modules, or of functions in the file."""

_ERRORS = ("torch.format", "ops.prim.RaiseException")
"""Calls that only format or raise an error."""


def operations(checkpoint: Checkpoint) -> list[CodeOp]:
    """The op calls in a TorchScript file's code, in source order; empty for other files."""
    return [
        (demangled_name(function.name), call.target, ", ".join(call.arguments))
        for function in checkpoint.functions
        for call in function.calls
        if call.target.startswith(_OPERATIONS) and call.target not in _ERRORS
    ]
