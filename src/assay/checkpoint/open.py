"""Any file, folder or URL that holds a checkpoint, opened as the list of its tensors."""

from __future__ import annotations

import os
from functools import partial

from assay.checkpoint.entries import Checkpoint
from assay.checkpoint.files import METADATA, Files, folder_names
from assay.checkpoint.formats import recognise, shards
from assay.checkpoint.formats.recognise import INDEX, Recognised


def open_checkpoint(path: str | os.PathLike[str], *, lenient: bool = False, files: Files | None = None) -> Checkpoint:
    """What `path` holds; raises `ReadError` in one line. Nothing from it runs.

    `lenient` accepts a safetensors file with bytes that belong to no tensor. Files stay open in `files`, so that
    reading the tensors afterwards opens none again.
    """
    place, files = os.fspath(path), files or Files()
    names = folder_names(place)
    if names is not None:
        return open_folder(place, names, files, lenient=lenient)
    with files.region(place) as region:
        return open_recognised(recognise.recognise(region), files, lenient=lenient)


def open_folder(path: str, names: list[str], files: Files, *, lenient: bool = False) -> Checkpoint:
    """The checkpoint in a folder that holds files of these names."""
    if METADATA in names:
        from assay.checkpoint.formats import distributed

        return distributed.read(path, files)
    return shards.read_folder(path, names, partial(_open_single, files=files, lenient=lenient), files)


def open_recognised(found: Recognised, files: Files, *, lenient: bool = False) -> Checkpoint:
    """The checkpoint in a recognised file, or in the shards that it names."""
    if found.kind == INDEX:
        return shards.read_index(found.region, partial(_open_single, files=files, lenient=lenient))
    return recognise.read(found, lenient=lenient)


def holds_checkpoint(names: list[str]) -> bool:
    """Whether a folder with files of these names holds a checkpoint."""
    return METADATA in names or shards.holds_shards(names)


def _open_single(path: str, files: Files, *, lenient: bool) -> Checkpoint:
    with files.region(path) as region:
        return recognise.read(recognise.recognise(region), lenient=lenient)
