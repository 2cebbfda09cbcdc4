"""Files, folders and URLs: what lies there, and how each kind is opened. Nothing from a file runs without trust."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from assay.checkpoint.entries import Checkpoint
from assay.checkpoint.files import Files, folder_names
from assay.checkpoint.formats import recognise as formats
from assay.checkpoint.formats.recognise import Recognised, recognise
from assay.checkpoint.open import holds_checkpoint, open_folder, open_recognised
from assay.checkpoint.remote import is_url
from assay.document import files as documents
from assay.document.document import Origin
from assay.errors import ReadError, TrustError
from assay.messages import brief
from assay.sources import config as configs
from assay.sources import stored
from assay.sources.opened import Model, Opened, not_run, own_config

CONFIG = "config.json"


def open_path(path: str, *, trust: bool) -> Opened:
    """What lies at a path or URL, judged by its bytes; opened once, and read when a part of it is needed."""
    files = Files()
    names = folder_names(path)
    if names is not None:
        return _open_folder(path, names, files, trust=trust)
    with files.region(path) as region:
        found = recognise(region)
        return _OPENERS.get(found.kind, _open_weights)(path, found, files, trust)


def _open_folder(path: str, names: list[str], files: Files, *, trust: bool) -> Opened:
    stored = partial(open_folder, path, names, files) if holds_checkpoint(names) else None
    if CONFIG in names and not is_url(path):
        return _of_config(path, stored, files, trust=trust)
    if stored is None:
        stored = partial(open_folder, path, names, files)
        stored()  # raises what a folder without weights lacks
    return _of_weights(path, stored, files)


def _of_config(path: str, stored: Callable[..., Checkpoint] | None, files: Files, *, trust: bool) -> Opened:
    origin = Origin("config", path, os.path.basename(os.path.abspath(path)))
    build, load = (partial(_configured, path, trust=trust, weights=weights) for weights in (False, True))
    return Opened(origin, build, stored=stored, load=load if stored is not None else None, files=files)


def _configured(path: str, *, trust: bool, weights: bool) -> Model:
    return Model(*configs.build(path, trust=trust, weights=weights))


def _open_config(path: str, found: Recognised, files: Files, trust: bool) -> Opened:
    folder = os.path.dirname(path) or os.curdir
    names = folder_names(folder) or []
    beside = os.path.basename(path) == CONFIG and holds_checkpoint(names)
    return _of_config(path, partial(open_folder, folder, names, files) if beside else None, files, trust=trust)


def _open_document(path: str, found: Recognised, files: Files, trust: bool) -> Opened:
    origin = Origin("document", path, os.path.basename(path))
    data = found.region.read(0, found.region.size)
    return Opened(origin, partial(not_run, origin), saved=partial(documents.decode, data, path), files=files)


def _open_exported(path: str, found: Recognised, files: Files, trust: bool) -> Opened:
    from assay.sources.exported.read import read
    from assay.sources.exported.run import loaded

    origin = Origin("exported", path, os.path.basename(path))
    assert found.archive is not None
    return Opened(
        origin,
        partial(loaded, path) if trust else partial(not_run, origin),
        saved=partial(read, found.archive),
        stored=partial(open_recognised, found, files),
        files=files,
    )


def _open_code(path: str, found: Recognised, files: Files, trust: bool) -> Opened:
    """TorchScript and pickles: they may hold a model, and loading them runs their code."""
    opened = _of_weights(path, partial(open_recognised, found, files), files)
    origin = Origin("scripted" if found.kind == formats.TORCHSCRIPT else "pickled", path, os.path.basename(path))
    build = partial(_loaded, path, found.kind) if trust else partial(_untrusted, opened)
    return replace(opened, origin=origin, build=build)


def _loaded(path: str, kind: str) -> Model:
    module = stored.load(path, kind)
    return Model(module, own_config(module))


def _untrusted(opened: Opened) -> Model:
    path, held = opened.origin.location, opened.checkpoint
    if held is not None and held.entries and not held.modules and not held.globals:
        raise ReadError(f"{brief(path)} {stored.WEIGHTS_ONLY}")
    raise TrustError(
        f"opening {brief(path)} would run code from it: pass --trust (trust=True) if you trust its author"
    )


def _open_weights(path: str, found: Recognised, files: Files, trust: bool) -> Opened:
    return _of_weights(path, partial(open_recognised, found, files), files)


def _of_weights(path: str, read: Callable[..., Checkpoint], files: Files) -> Opened:
    origin = Origin("file", path, os.path.basename(path.rstrip("/\\")))
    return Opened(origin, partial(_without_code, path), stored=read, files=files)


_OPENERS: dict[str, Callable[[str, Recognised, Files, bool], Opened]] = {
    formats.DOCUMENT: _open_document,
    formats.CONFIG: _open_config,
    formats.PT2: _open_exported,
    formats.TORCHSCRIPT: _open_code,
    formats.TORCH_ZIP: _open_code,
    formats.TORCH_TAR: _open_code,
    formats.TORCH_LEGACY: _open_code,
    formats.PICKLE: _open_code,
}
"""How each kind of file is opened; all others hold weights alone."""


def _without_code(path: str) -> Model:
    raise ReadError(f"{brief(path)} {stored.WEIGHTS_ONLY}")
