"""Writing `unique_modules.json` and `pytorch_ops.json` into a directory: both or neither."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

from assay import atomic
from assay.document.document import Document
from assay.errors import WriteError
from assay.views.json.files import MODULES_NAME, OPS_NAME, ModulesFile, OpsFile, encode

_LONGEST_NAME = 100
"""Well below the limit of file systems, which leaves space for a suffix."""


def write_uniques(directory: Path, modules: ModulesFile, ops: OpsFile) -> tuple[Path, Path]:
    """Write the two files into `directory`, which is created if missing, and return their paths."""
    atomic.make_directory(directory)
    _write_together(directory, {MODULES_NAME: encode(modules), OPS_NAME: encode(ops)})
    return directory / MODULES_NAME, directory / OPS_NAME


def default_directory(document: Document) -> Path:
    """`./<ModelClassName>`, with characters that are not letters, digits or underscores replaced."""
    plain = re.sub(r"[^0-9A-Za-z_]", "_", document.model_class)[:_LONGEST_NAME]
    return Path(plain or "model")


def check_directory(directory: Path) -> None:
    """Raise `WriteError` if `directory` cannot be created or written into; nothing is created."""
    present = directory.absolute()
    while not present.exists() and present != present.parent:
        present = present.parent
    if not present.is_dir():
        raise WriteError(f"cannot write into {directory}: {present} is not a directory")
    if not os.access(present, os.W_OK | os.X_OK):
        raise WriteError(f"cannot write into {directory}: permission denied for {present}")


def _write_together(directory: Path, contents: Mapping[str, bytes]) -> None:
    """Write all of `contents` under temporary names first, so that a full disk leaves existing files intact."""
    for name in contents:
        if (directory / name).is_dir():
            raise WriteError(f"cannot write {directory / name}: it is a directory")
    try:
        with tempfile.TemporaryDirectory(dir=directory, prefix=".assay-") as staging:
            for name, data in contents.items():
                atomic.write_bytes(Path(staging, name), data)
            for name in contents:
                os.replace(Path(staging, name), directory / name)
    except OSError as error:
        raise WriteError(f"cannot write into {directory}: {error.strerror or error}") from error
