"""The door: any file, folder or URL that holds a checkpoint."""

from __future__ import annotations

import os
from functools import partial

from assay.checkpoint.entries import Checkpoint
from assay.checkpoint.files import folder_names, open_region
from assay.checkpoint.formats import distributed, shards
from assay.checkpoint.formats.recognise import HEAD, is_json, open_single
from assay.checkpoint.remote import is_url


def open_checkpoint(path: str | os.PathLike[str], *, lenient: bool = False) -> Checkpoint:
    """What `path` holds, the format told from the bytes; raises `ReadError` in one line. Nothing from it runs."""
    place = os.fspath(path)
    reader = partial(open_single, lenient=lenient)
    names = folder_names(place)
    if names is None:
        return shards.read_index(place, reader) if _is_index(place) else reader(place)
    if distributed.METADATA in names:
        return distributed.read(place)
    return shards.read_folder(place, names, reader)


def _is_index(path: str) -> bool:
    if not is_url(path) and not os.path.exists(path):
        return False
    with open_region(path) as region:
        return is_json(region.read(0, min(HEAD, region.size)))
