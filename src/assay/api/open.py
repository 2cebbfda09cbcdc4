"""`assay.open`: recognise a model, checkpoint or document without running it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from assay.sources.open import open_source
from assay.sources.opened import Opened


def open(model: Any, *, model_args: Mapping[str, Any] | None = None, trust: bool = False) -> Opened:
    """Recognise what `model` refers to, without running the model.

    Args:
        model: A live module, an object or container that holds modules, a `torch.export.ExportedProgram`, a function
            or class that builds a model, `"file.py::function"`, `"package.module:name"`, a directory with a
            `config.json`, a checkpoint (file, directory or URL), a state dict in memory, a TorchScript, pickled or
            `.pt2` file, or a document (an object or a file). What a previous `assay.open` returned is accepted, too.
        model_args: Keyword arguments for the function or class that builds the model. Default: no arguments.
        trust: Allow code stored in a pickled, TorchScript or `.pt2` file to run. By default it never runs.

    Returns:
        The opened source, whose parts are read on first use: `model` (the model in memory with its config and stored
        inputs; `module` is its `nn.Module`), `document` and `checkpoint`.

    Raises:
        UsageError: `model` is not one of the above, or `model_args` do not fit.
        ReadError: A file cannot be read, or does not hold a model.
        UserCodeError: The function or class that builds the model raised an exception.
    """
    return open_source(model, model_args=model_args, trust=trust)
