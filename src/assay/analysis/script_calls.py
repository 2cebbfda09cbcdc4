"""Which module calls TorchScript made: no clock around Python calls sees them."""

from __future__ import annotations

from assay.document.document import Document


def calls_inside_torchscript(document: Document) -> frozenset[int]:
    """The calls, as indices into `Document.calls`, of scripted modules by scripted modules.

    The outermost call of a scripted module is not among them: Python made it.
    """
    scripted = [document.modules[call.module].scripted for call in document.calls]
    return frozenset(
        index
        for index, call in enumerate(document.calls)
        if call.parent is not None and scripted[index] and scripted[call.parent]
    )
