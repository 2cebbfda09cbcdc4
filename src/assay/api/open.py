"""`assay.open`: what a source points at, opened and not yet run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from assay.sources.open import Opened, open_model


def open(model: Any, *, model_args: Mapping[str, Any] | None = None, trust: bool = False) -> Opened:
    """What `model` points at: a live module, a `file.py::function`, a config directory, a file."""
    return open_model(model, model_args=model_args, trust=trust)
