"""The operations in TorchScript's source text: read as text, with nothing run."""

from __future__ import annotations

from assay.checkpoint.entries import Checkpoint
from assay.checkpoint.formats.torchscript import demangled
from assay.findings.analyzed import CodeOp

_OPERATIONS = ("torch.", "ops.")
"""How calls of operations begin; others are calls of modules and of functions of the file."""

_ERRORS = ("torch.format", "ops.prim.RaiseException")
"""Calls that only report what went wrong."""


def operations(checkpoint: Checkpoint) -> list[CodeOp]:
    """The calls of operations in a TorchScript file's code, in the order of the text; none for other files."""
    return [
        (demangled(function.name), call.target, ", ".join(call.arguments))
        for function in checkpoint.functions
        for call in function.calls
        if call.target.startswith(_OPERATIONS) and call.target not in _ERRORS
    ]
