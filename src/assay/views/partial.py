"""How views mark the results of a forward pass that stopped midway: in the title, at every total and in JSON."""

from __future__ import annotations

from typing import Any

import msgspec

from assay.document.document import Document
from assay.document.tree import path_text

MARK = "(partial)"


def marked_title(title: str, document: Document) -> str:
    """`ResNet: one forward pass (partial: stopped in layer3.0)` for a pass that stopped, else `title`."""
    failure = document.run.failure
    return title if failure is None else f"{title} (partial: stopped in {path_text(failure.module)})"


def marked_total(label: str, document: Document) -> str:
    """`MACs (partial)` for a pass that stopped, else `label`."""
    return label if document.complete else f"{label} {MARK}"


def partial_keys(document: Document) -> dict[str, Any]:
    """The keys `partial` and `failure` for JSON; none for a pass that completed."""
    failure = document.run.failure
    return {} if failure is None else {"partial": True, "failure": msgspec.to_builtins(failure)}
