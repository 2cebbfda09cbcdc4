"""The warning of a verb whose forward pass or training step stopped: the result is returned, marked as partial."""

from __future__ import annotations

import warnings

from assay.document.document import Document
from assay.document.tree import path_text
from assay.errors import PartialWarning


def warn_if_partial(document: Document) -> None:
    """Warn the caller of a verb if its result lacks the ops after the one where a requested pass stopped."""
    if document.stopped:
        # Level 3 is the code that called the verb.
        warnings.warn(f"partial result: {stopped_text(document)}", PartialWarning, stacklevel=3)


def stopped_text(document: Document) -> str:
    """`the forward pass stopped in layer3.0 (Bottleneck): RuntimeError: …`, or why the code could not be read."""
    failure = document.failure
    assert failure is not None
    if failure.unread:
        return failure.error
    place = f"{path_text(failure.module)} ({failure.module_class})"
    return f"the {document.stopped_pass} stopped in {place}: {failure.error}"
