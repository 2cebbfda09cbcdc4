"""The warning of a verb whose forward pass stopped midway: the result is returned, and marked as partial."""

from __future__ import annotations

import warnings

from assay.document.document import Document, Failure
from assay.document.tree import path_text
from assay.errors import PartialWarning


def warn_if_partial(document: Document) -> None:
    """Warn the caller of a verb if its result covers only the ops before the pass stopped."""
    if document.run.failure is not None:
        # Level 3 is the code that called the verb.
        warnings.warn(f"partial result: {stopped_text(document.run.failure)}", PartialWarning, stacklevel=3)


def stopped_text(failure: Failure) -> str:
    """`the forward pass stopped in layer3.0 (Bottleneck): RuntimeError: …`."""
    return f"the forward pass stopped in {path_text(failure.module)} ({failure.module_class}): {failure.error}"
