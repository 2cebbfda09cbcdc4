"""`assay.open`: what a source points at, opened and not yet run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from assay.sources.open import open_source
from assay.sources.opened import Opened


def open(model: Any, *, model_args: Mapping[str, Any] | None = None, trust: bool = False) -> Opened:
    """What `model` points at, recognised but not run: its `module`, `document` or `checkpoint`, read on first use.

    Args:
        model: A live module, an object or container that holds modules, a `torch.export.ExportedProgram`, a function
            or class that builds a model, `"file.py::function"`, `"package.module:name"`, a folder with a
            `config.json`, a checkpoint (file, folder or URL), a TorchScript, pickled or `.pt2` file, or a document.
        model_args: Keyword arguments for the function or class that builds the model.
        trust: Allow code from a file to run. Without it, no file can run anything.
    """
    return open_source(model, model_args=model_args, trust=trust)
