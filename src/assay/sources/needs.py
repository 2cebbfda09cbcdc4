"""The optional packages a source needs, imported only when it does."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from assay.errors import ReadError
from assay.messages import said

EXTRAS = {"torch": "torch", "transformers": "hf"}


def need(package: str) -> Any:
    """The imported package, or an error that says what to install."""
    try:
        return importlib.import_module(package)
    except (ImportError, OSError, RuntimeError) as error:
        remedy = f"pip install torch-assay[{EXTRAS[package]}]"
        raise ReadError(f"this needs {package}, which cannot be imported ({said(error)}): {remedy}") from error


def is_module(value: object) -> bool:
    """Whether `value` is an `nn.Module`; where torch was never imported nothing is one."""
    loaded = sys.modules.get("torch")
    return loaded is not None and isinstance(value, loaded.nn.Module)


def is_tensor(value: object) -> bool:
    """Whether `value` is a tensor; where torch was never imported nothing is one."""
    loaded = sys.modules.get("torch")
    return loaded is not None and isinstance(value, loaded.Tensor)
