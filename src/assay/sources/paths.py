"""Files, folders and URLs: what lies there, and how each kind is opened. Nothing from a file runs without trust."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from assay import host, units
from assay.checkpoint.entries import Checkpoint
from assay.checkpoint.files import Files, folder_names
from assay.checkpoint.formats import recognise as formats
from assay.checkpoint.formats.recognise import Recognised, recognise
from assay.checkpoint.open import holds_checkpoint, open_folder, open_recognised
from assay.checkpoint.remote import is_url
from assay.document import files as documents
from assay.document.document import Document, Origin
from assay.errors import ReadError, TrustError, UsageError
from assay.messages import brief
from assay.sources import config, stored
from assay.sources.opened import Model, Opened, not_run

CONFIG = "config.json"


def open_path(path: str, *, trust: bool) -> Opened:
    """What lies at a path or URL, judged by its bytes; opened once, and read when a part of it is needed."""
    files = Files()
    names = folder_names(path)
    if names is not None:
        return _open_folder(path, names, files, trust=trust)
    with files.region(path) as region:
        found = recognise(region)
        return _OPENERS.get(found.kind, _open_weights)(found, files, trust)


def _open_folder(path: str, names: list[str], files: Files, *, trust: bool) -> Opened:
    read, there = partial(open_folder, path, names, files), holds_checkpoint(names)
    if CONFIG in names and not is_url(path):
        return _of_config(path, read if there else None, files, trust=trust)
    if not there:
        read()  # raises what a folder without weights lacks
    return _of_weights(path, read, files)


def _of_config(path: str, stored: Callable[..., Checkpoint] | None, files: Files, *, trust: bool) -> Opened:
    origin = Origin("config", path, os.path.basename(os.path.abspath(path)))
    build = partial(config.build, path, trust=trust)
    load = None if stored is None else partial(_with_weights, stored, build)
    return Opened(origin, build, stored=stored, load=load, files=files)


def _with_weights(stored: Callable[..., Checkpoint], build: Callable[..., Model]) -> Model:
    """The model with its weights in memory, unless they do not fit there."""
    checkpoint = stored()
    needed, free = sum(entry.bytes for entry in checkpoint.entries), host.free_memory()
    if needed > free:
        raise UsageError(
            f"the weights in {brief(checkpoint.path)} take {units.size(needed)}, and {units.size(free)} of memory is "
            "free: use --meta (mode='meta') to run on shapes alone"
        )
    return build(weights=True)


def _open_config(found: Recognised, files: Files, trust: bool) -> Opened:
    path = found.region.path
    if is_url(path):
        raise ReadError(f"{brief(path)} is a config behind a URL, and models are built from local ones: download it")
    folder = os.path.dirname(path) or os.curdir
    names = folder_names(folder) or []
    beside = os.path.basename(path) == CONFIG and holds_checkpoint(names)
    return _of_config(path, partial(open_folder, folder, names, files) if beside else None, files, trust=trust)


def _open_document(found: Recognised, files: Files, trust: bool) -> Opened:
    region = found.region
    origin = _origin("document", region.path)

    def saved() -> Document:
        return documents.decode(region.read(0, region.size), region.path)

    return Opened(origin, partial(not_run, origin), saved=saved, files=files)


def _open_exported(found: Recognised, files: Files, trust: bool) -> Opened:
    from assay.sources.exported.read import read
    from assay.sources.exported.run import loaded

    origin = _origin("exported", found.region.path)
    assert found.archive is not None
    return Opened(
        origin,
        partial(_run_local, loaded, origin.location) if trust else partial(not_run, origin),
        saved=partial(read, found.archive),
        stored=partial(open_recognised, found, files),
        files=files,
        runs=trust,
    )


def _open_code(found: Recognised, files: Files, trust: bool) -> Opened:
    """TorchScript and pickles: they may hold a model, and loading them runs their code."""
    opened = _open_weights(found, files, trust)
    origin = _origin("scripted" if found.kind == formats.TORCHSCRIPT else "pickled", found.region.path)
    load = partial(stored.load, kind=found.kind)
    build = partial(_run_local, load, origin.location) if trust else partial(_untrusted, opened)
    return replace(opened, origin=origin, build=build)


def _run_local(load: Callable[[str], Model], path: str) -> Model:
    if is_url(path):
        raise ReadError(f"{brief(path)} is behind a URL, and code runs from local files alone: download it")
    return load(path)


def _untrusted(opened: Opened) -> Model:
    path, held = opened.origin.location, opened.checkpoint
    if held is not None and held.entries and not held.modules and not held.globals:
        raise ReadError(f"{brief(path)} {stored.WEIGHTS_ONLY}")
    raise TrustError(
        f"opening {brief(path)} would run code from it: pass --trust (trust=True) if you trust its author"
    )


def _open_weights(found: Recognised, files: Files, trust: bool) -> Opened:
    return _of_weights(found.region.path, partial(open_recognised, found, files), files)


def _of_weights(path: str, read: Callable[..., Checkpoint], files: Files) -> Opened:
    return Opened(_origin("file", path), partial(_without_code, path), stored=read, files=files)


def _without_code(path: str) -> Model:
    raise ReadError(f"{brief(path)} {stored.WEIGHTS_ONLY}")


def _origin(kind: str, path: str) -> Origin:
    return Origin(kind, path, os.path.basename(path.rstrip("/\\")))


_CODE = (formats.TORCHSCRIPT, formats.TORCH_ZIP, formats.TORCH_TAR, formats.TORCH_LEGACY, formats.PICKLE)
_OPENERS: dict[str, Callable[[Recognised, Files, bool], Opened]] = {
    formats.DOCUMENT: _open_document,
    formats.CONFIG: _open_config,
    formats.PT2: _open_exported,
    **dict.fromkeys(_CODE, _open_code),
}
"""How each kind of file is opened; all others hold weights alone."""
