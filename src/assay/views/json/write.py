"""Writing `unique_modules.json` and `pytorch_ops.json` into a directory: both or neither."""

from __future__ import annotations

import re
from pathlib import Path

from assay import atomic
from assay.document.document import Document
from assay.views.json.files import MODULES_NAME, OPS_NAME, encode, modules_file, ops_file

_LONGEST_NAME = 100
"""Well below the limit of file systems, which leaves space for a suffix."""


def write_uniques(directory: Path, document: Document, *, overwrite: bool = True) -> list[Path]:
    """Write the two files into `directory`, which is created if missing, and return their paths.

    The files of a pass that stopped are called `unique_modules.partial.json` and `pytorch_ops.partial.json`.
    """
    partial = document.stopped
    modules_name = atomic.partial_path(Path(MODULES_NAME)).name if partial else MODULES_NAME
    contents = {
        MODULES_NAME: encode(modules_file(document)),
        OPS_NAME: encode(ops_file(document, modules_name)),
    }
    return atomic.write_results(directory, contents, partial=partial, overwrite=overwrite)


def unique_paths(directory: Path) -> list[Path]:
    """The paths of the two files of a complete pass."""
    return [directory / MODULES_NAME, directory / OPS_NAME]


def default_directory(model_class: str) -> Path:
    """`./<ModelClassName>`, with characters that are not letters, digits or underscores replaced."""
    plain = re.sub(r"[^0-9A-Za-z_]", "_", model_class)[:_LONGEST_NAME]
    return Path(plain or "model")
