"""TorchScript and pickled modules: files whose reading runs their code, opened only when trusted."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from assay.errors import ReadError, TrustError
from assay.messages import brief, kind_name
from assay.sources.importing import current_directory
from assay.sources.kinds import WEIGHTS_ONLY
from assay.sources.needs import is_module, need
from assay.sources.usercode import guarded


def read(path: Path, kind: str, *, trust: bool) -> Any:
    """The module in `path`, a file of `kind` `scripted`, `saved` or `pickled`."""
    torch = need("torch")
    if not trust:
        if kind == "saved" and _only_weights(torch, path):
            raise ReadError(f"{brief(path)} {WEIGHTS_ONLY}")
        raise TrustError(
            f"opening {brief(path)} would run code from it: pass --trust (trust=True) if you trust its maker"
        )
    with guarded(f"loading {brief(path)}"), current_directory():
        value = _READERS[kind](torch, path)
    return _module_in(value, path)


def _module_in(value: Any, path: Path) -> Any:
    """The module that a file held: alone, or as the only one in a dictionary with other things."""
    if is_module(value):
        return value
    if isinstance(value, Mapping):
        inside = [item for item in value.values() if is_module(item)]
        if len(inside) == 1:
            return inside[0]
        if not inside:
            raise ReadError(f"{brief(path)} {WEIGHTS_ONLY}")
    raise ReadError(f"{brief(path)} holds a {kind_name(value)}, and one torch.nn.Module was wanted")


def _only_weights(torch: Any, path: Path) -> bool:
    """Whether torch's own restricted reader, which runs no code from the file, can read all of it."""
    try:
        torch.load(path, map_location="meta", weights_only=True)
    except pickle.UnpicklingError:
        return False
    except (RuntimeError, OSError, EOFError, ValueError, KeyError) as error:
        raise ReadError(f"{brief(path)} is damaged: {brief(error)}") from error
    return True


def _script(torch: Any, path: Path) -> Any:
    return torch.jit.load(str(path), map_location="cpu")


def _saved(torch: Any, path: Path) -> Any:
    return torch.load(path, map_location="cpu", weights_only=False)


def _pickled(torch: Any, path: Path) -> Any:
    with path.open("rb") as file:
        return pickle.load(file)  # noqa: S301 - only reached when the user said to trust the file


_READERS: dict[str, Callable[[Any, Path], Any]] = {"scripted": _script, "saved": _saved, "pickled": _pickled}
