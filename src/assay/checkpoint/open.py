"""Opens a checkpoint at any path, directory or URL and lists its tensors."""

from __future__ import annotations

import os
from functools import partial

from assay.checkpoint.entries import Checkpoint
from assay.checkpoint.files import METADATA, Files, folder_names
from assay.checkpoint.formats import recognise, shards
from assay.checkpoint.formats.recognise import INDEX, Recognised
from assay.errors import ReadError, TrustError
from assay.messages import one_line


def open_checkpoint(path: str | os.PathLike[str], *, lenient: bool = False, files: Files | None = None) -> Checkpoint:
    """The tensors of the checkpoint at `path`: a file, directory or URL. No code from it is run.

    Args:
        path: The checkpoint.
        lenient: Accept a safetensors file with extra bytes after its last tensor.
        files: Cache that keeps files open, so that reading the tensors later does not reopen them.

    Returns:
        Its tensors with their byte ranges, and its metadata.

    Raises:
        ReadError: It cannot be read, is damaged, or is not a checkpoint.
    """
    location, files = os.fspath(path), files or Files()
    names = folder_names(location)
    if names is not None:
        return open_folder(location, names, files, lenient=lenient)
    with files.region(location) as region:
        return open_recognised(recognise.recognise(region), files, lenient=lenient)


def open_folder(path: str, names: list[str], files: Files, *, lenient: bool = False) -> Checkpoint:
    """The checkpoint in the directory `path`, which contains the files `names`."""
    if METADATA in names:
        from assay.checkpoint.formats import distributed

        return _not_empty(distributed.read(path, files))
    reader = partial(_open_single, files=files, lenient=lenient)
    return _not_empty(shards.read_folder(path, names, reader, files))


def open_recognised(recognised: Recognised, files: Files, *, lenient: bool = False) -> Checkpoint:
    """The checkpoint in a recognised file, or in the shards that it lists."""
    if recognised.kind == INDEX:
        reader = partial(_open_single, files=files, lenient=lenient)
        return _not_empty(shards.read_index(recognised.region, reader))
    return _not_empty(recognise.read(recognised, lenient=lenient))


def _not_empty(checkpoint: Checkpoint) -> Checkpoint:
    """The checkpoint; `ReadError` with what it contains instead, if it has neither tensors nor modules."""
    if checkpoint.entries or checkpoint.modules or checkpoint.failures or not checkpoint.holds:
        return checkpoint
    code = "".join(f"; {note}" for note in checkpoint.notes)
    error = TrustError if checkpoint.globals else ReadError
    raise error(f"{one_line(checkpoint.path)} has no tensors: it is {checkpoint.holds}{code}")


def holds_checkpoint(names: list[str]) -> bool:
    """Whether a directory that contains the files `names` is a checkpoint."""
    return METADATA in names or shards.holds_shards(names)


def _open_single(path: str, files: Files, *, lenient: bool) -> Checkpoint:
    with files.region(path) as region:
        return recognise.read(recognise.recognise(region), lenient=lenient)
