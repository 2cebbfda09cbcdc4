"""Optional packages (torch, transformers), imported only when a source needs them."""

from __future__ import annotations

import contextlib
import importlib
import re
import sys
import traceback
from collections.abc import Iterator
from typing import Any

from assay.errors import AssayError, ReadError
from assay.messages import error_line

EXTRAS = {"torch": "torch", "transformers": "hf"}


def need(package: str) -> Any:
    """The imported package; if it cannot be imported, the error names what to install or repair."""
    with usable(package):
        return importlib.import_module(package)


@contextlib.contextmanager
def usable(package: str) -> Iterator[None]:
    """A block that imports `package` or parts of it; if that fails, the error names the package to repair."""
    try:
        yield
    except AssayError:
        raise
    except Exception as error:
        broken, why = _broken(error) or package, error_line(error)
        if broken == package:
            raise ReadError(required_message(package, error)) from error
        raise ReadError(
            f"{package} cannot be used because {broken} is broken ({why}): reinstall or uninstall {broken}"
        ) from error


def required_message(package: str, error: Exception) -> str:
    """The message that `package` cannot be imported, with what to install."""
    remedy = f"pip install torch-assay[{EXTRAS[package]}]"
    return f"{package} is required but cannot be imported ({error_line(error)}): run {remedy}"


def _broken(error: BaseException | None) -> str | None:
    """The installed package whose code raised the error, from the deepest frame inside another one; else None."""
    package = None
    while error is not None:
        for frame in traceback.extract_tb(error.__traceback__):
            match = _INSTALLED.search(frame.filename)
            package = match["package"] if match and match["package"] != _OWN else package
        error = error.__cause__ or error.__context__
    return package


_OWN = "assay"
_INSTALLED = re.compile(r"[/\\](?:site|dist)-packages[/\\](?P<package>\w+)")


def is_module(value: object) -> bool:
    """Whether `value` is an `nn.Module`; always False if torch was never imported."""
    return "torch" in sys.modules and isinstance(value, sys.modules["torch"].nn.Module)


def is_tensor(value: object) -> bool:
    """Whether `value` is a tensor; always False if torch was never imported."""
    return "torch" in sys.modules and isinstance(value, sys.modules["torch"].Tensor)
