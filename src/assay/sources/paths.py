"""Opening files, directories and URLs, each kind in its own way. No code from a file runs without trust."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NoReturn

from assay import host, units
from assay.checkpoint.entries import Checkpoint
from assay.checkpoint.files import Files, folder_names
from assay.checkpoint.formats import recognise as formats
from assay.checkpoint.formats.archive import ZipArchive
from assay.checkpoint.formats.recognise import Recognised, recognise
from assay.checkpoint.open import holds_checkpoint, open_folder, open_recognised
from assay.checkpoint.remote import is_url
from assay.document import files as documents
from assay.document.document import Document, Origin
from assay.errors import ReadError, TrustError, UsageError
from assay.messages import ALLOW_CODE, as_utf8, one_line
from assay.sources import config, stored, traces
from assay.sources.opened import Model, Opened, raise_not_run

CONFIG = "config.json"


def open_path(path: str, *, trust: bool) -> Opened:
    """Open a path or URL, recognised by its bytes; it is opened once, and each part is read when needed."""
    files = Files()
    names = folder_names(path)
    if names is not None:
        return _open_folder(path, names, files, trust=trust)
    with files.region(path) as region:
        recognised = recognise(region)
        return _OPENERS.get(recognised.kind, _open_weights)(recognised, files, trust)


def _open_folder(path: str, names: list[str], files: Files, *, trust: bool) -> Opened:
    read, has_checkpoint = partial(open_folder, path, names, files), holds_checkpoint(names)
    if CONFIG in names and not is_url(path):
        return _of_config(path, read if has_checkpoint else None, files, trust=trust)
    if not has_checkpoint and traces.holds_traces(path, names, files):
        return _of_traces(path, files)
    if not has_checkpoint:
        read()  # raises an error that lists what is missing
    return _of_weights(path, read, files)


def _of_config(path: str, stored: Callable[..., Checkpoint] | None, files: Files, *, trust: bool) -> Opened:
    origin = Origin("config", path, os.path.basename(os.path.abspath(path)))
    build = partial(config.build, path, trust=trust)
    load = None if stored is None else partial(_with_weights, stored, build)
    return Opened(origin, build, stored=stored, load=load, files=files)


def _with_weights(stored: Callable[..., Checkpoint], build: Callable[..., Model]) -> Model:
    """The model with its weights in memory; raises `UsageError` if they do not fit."""
    checkpoint = stored()
    needed, free = sum(entry.bytes for entry in checkpoint.entries), host.free_memory()
    if needed > free:
        raise UsageError(
            f"the weights in {one_line(checkpoint.path)} take {units.size(needed)}, but only {units.size(free)} of "
            "memory is free: use meta mode to run on shapes only"
        )
    return build(weights=True)


def _open_config(recognised: Recognised, files: Files, trust: bool) -> Opened:
    path = recognised.region.path
    if is_url(path):
        raise ReadError(f"{one_line(path)} is a config at a URL, but a model needs a local config: download it")
    folder = os.path.dirname(path) or os.curdir
    names = folder_names(folder) or []
    has_checkpoint = os.path.basename(path) == CONFIG and holds_checkpoint(names)
    read = partial(open_folder, folder, names, files) if has_checkpoint else None
    return _of_config(path, read, files, trust=trust)


def _open_document(recognised: Recognised, files: Files, trust: bool) -> Opened:
    region = recognised.region
    origin = _origin("document", region.path)

    def saved() -> Document:
        return documents.decode(region.read(0, region.size), region.path)

    return Opened(origin, partial(raise_not_run, origin), saved=saved, files=files)


def _open_exported(recognised: Recognised, files: Files, trust: bool) -> Opened:
    from assay.sources.exported.read import read
    from assay.sources.exported.run import loaded

    origin = _origin("exported", recognised.region.path)
    assert recognised.archive is not None
    return Opened(
        origin,
        partial(_run_local, loaded, recognised.region.path) if trust else partial(raise_not_run, origin),
        saved=partial(read, recognised.archive),
        stored=partial(open_recognised, recognised, files),
        files=files,
        runs=trust,
    )


def _open_scripted(recognised: Recognised, files: Files, trust: bool) -> Opened:
    """Open TorchScript: its code is interpreted on shapes, or run if the file is trusted."""
    from assay.sources.torchscript.read import read

    archive = recognised.archive
    assert archive is not None
    opened = _open_code(recognised, files, trust)
    if trust:
        return replace(opened, build=partial(_loaded_script, opened.build, archive))
    untrusted = partial(_raise_interpreted, opened.origin.location)
    return replace(opened, build=partial(read, archive), load=untrusted, interpreted=True)


def _loaded_script(load: Callable[[], Model], archive: ZipArchive) -> Model:
    """The model that torch loads from an archive of TorchScript, which also states its traced inputs."""
    from assay.sources.torchscript.read import read, with_traced_inputs

    def interpreted() -> Any:
        try:
            return read(archive).module
        except ReadError:  # torch may load files that cannot be interpreted
            return model.module

    model = load()
    return with_traced_inputs(model, archive)._replace(interpreted_form=interpreted)


def _open_code(recognised: Recognised, files: Files, trust: bool) -> Opened:
    """Open a file that may contain a model and whose loading runs code, which needs trust."""
    opened = _open_weights(recognised, files, trust)
    origin = _origin("scripted" if recognised.kind == formats.TORCHSCRIPT else "pickled", recognised.region.path)
    load = partial(stored.load, kind=recognised.kind)
    build = partial(_run_local, load, recognised.region.path) if trust else partial(_untrusted, opened)
    return replace(opened, origin=origin, build=build)


def _run_local(load: Callable[[str], Model], path: str) -> Model:
    """Load the model at `path`, which must not be a URL."""
    if is_url(path):
        raise ReadError(f"{one_line(path)} is at a URL, but code runs only from local files: download it")
    return load(path)


def _untrusted(opened: Opened) -> Model:
    """Raise: the file contains only weights, or loading it would run code."""
    path = opened.origin.location
    try:
        checkpoint = opened.checkpoint
    except TrustError as error:  # it has no tensors, but code that may build a model
        raise TrustError(f"{error}: {ALLOW_CODE}") from error
    if checkpoint is not None and checkpoint.entries and not checkpoint.modules and not checkpoint.globals:
        raise ReadError(f"{one_line(path)} {stored.WEIGHTS_ONLY}")
    _raise_untrusted(path)


def _raise_interpreted(path: str) -> NoReturn:
    raise TrustError(f"{one_line(path)} was read without running its code, and this needs to run it: {ALLOW_CODE}")


def _raise_untrusted(path: str) -> NoReturn:
    raise TrustError(f"opening {one_line(path)} would run code from it: {ALLOW_CODE}")


def _open_weights(recognised: Recognised, files: Files, trust: bool) -> Opened:
    return _of_weights(recognised.region.path, partial(open_recognised, recognised, files), files)


def _of_weights(path: str, read: Callable[..., Checkpoint], files: Files) -> Opened:
    return Opened(_origin("file", path), partial(_without_code, path), stored=read, files=files)


def _without_code(path: str) -> Model:
    raise ReadError(f"{one_line(path)} {stored.WEIGHTS_ONLY}")


def _open_trace(recognised: Recognised, files: Files, trust: bool) -> Opened:
    return _of_traces(recognised.region.path, files)


def _of_traces(path: str, files: Files) -> Opened:
    """Open the trace at `path`, or all traces in that directory."""
    if is_url(path):
        raise ReadError(f"{one_line(path)} is a trace at a URL: download it")
    build, read = partial(traces.raise_no_model, path), partial(traces.read, path)
    return Opened(_origin("trace", path), build, traced=read, files=files)


def _origin(kind: str, path: str) -> Origin:
    shown = as_utf8(path)
    return Origin(kind, shown, os.path.basename(shown.rstrip("/\\")))


_CODE = (formats.TORCH_ZIP, formats.TORCH_TAR, formats.TORCH_LEGACY, formats.PICKLE)
_OPENERS: dict[str, Callable[[Recognised, Files, bool], Opened]] = {
    formats.DOCUMENT: _open_document,
    formats.CONFIG: _open_config,
    formats.PT2: _open_exported,
    formats.TORCHSCRIPT: _open_scripted,
    formats.TRACE: _open_trace,
    **dict.fromkeys(_CODE, _open_code),
}
"""How each kind of file is opened; all other kinds contain only weights."""
