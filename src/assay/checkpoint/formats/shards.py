"""A checkpoint in several files: by its index, or all the shards of a folder."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from msgspec.structs import replace

from assay.checkpoint.entries import Checkpoint, Entry
from assay.checkpoint.files import Files, Region, inside
from assay.checkpoint.remote import is_url
from assay.errors import ReadError
from assay.messages import brief

LARGEST_INDEX = 24 << 20
INDEX = re.compile(r"\.index(?:\.[\w-]+)?\.json$")
_KINDS = (r"\.safetensors$", r"\.(?:bin|pt|pth|ckpt)$", r"\.gguf$", r"\.pt2$", r"\.(?:pkl|pickle|distcp)$")
"""What shards are called; the first kind that a folder has is taken."""
_LISTED = 5
_NOT_WEIGHTS = re.compile(r"^(?:training_args|optimizer|scheduler|rng_state.*|scaler)\.\w+$")
"""Files that trainers put beside a model's weights."""

OpenShard = Callable[[str], Checkpoint]


def read_index(region: Region, reader: OpenShard) -> Checkpoint:
    """All shards that an index names; a shard that is missing or damaged is a failure, and the rest is kept."""
    path = region.path
    if region.size > LARGEST_INDEX:
        raise ReadError(
            f"{brief(path)} is refused: an index of {region.size} bytes, at most {LARGEST_INDEX} are read"
        )
    from assay.checkpoint.formats.safetensors import parse_json

    index = parse_json(path, region.read(0, region.size), "it")
    places = index.get("weight_map")
    if not isinstance(places, dict) or not all(isinstance(place, str) for place in places.values()):
        raise ReadError(f"{brief(path)} is JSON without a weight_map: not a checkpoint or an index of one")
    folder = path.rpartition("/")[0] if is_url(path) else os.path.dirname(path) or os.curdir
    files = {name: inside(folder, name) for name in dict.fromkeys(places.values())}
    wanted = Counter(places.values())
    checkpoint = _read_all(path, files, reader, lambda name: f": {_tensors(wanted[name])} not read")
    metadata = index.get("metadata")
    return _compared(checkpoint, places, metadata if isinstance(metadata, dict) else {})


def read_folder(path: str, names: list[str], reader: OpenShard, files: Files) -> Checkpoint:
    """A folder's index where it has one, else all its shards."""
    indices = [name for name in names if INDEX.search(name)]
    if indices:
        chosen = next((name for name in indices if "safetensors" in name), indices[0])
        with files.region(inside(path, chosen)) as region:
            return read_index(region, reader)
    for kind in _KINDS:
        found = [name for name in names if re.search(kind, name)]
        weights = [name for name in found if not _NOT_WEIGHTS.match(name)] or found
        if weights:
            places = {name: inside(path, name) for name in weights}
            alone = len(places) == 1
            whole = reader(places[weights[0]]) if alone else _read_all(path, places, reader, lambda name: "")
            return _with_others(whole, [name for name in names if name not in weights])
    raise ReadError(
        f"{brief(path)} is a folder without a model: no config.json, .safetensors, .bin, .pt, .gguf or .metadata"
    )


def holds_shards(names: Iterable[str]) -> bool:
    """Whether a folder with files of these names holds weights."""
    return any(INDEX.search(name) or any(re.search(kind, name) for kind in _KINDS) for name in names)


def _with_others(whole: Checkpoint, names: list[str]) -> Checkpoint:
    """The checkpoint with a note of other files in its folder that look like weights and were not read."""
    others = [name for name in names if any(re.search(kind, name) for kind in _KINDS)]
    if not others:
        return whole
    listed = ", ".join(brief(name) for name in others[:_LISTED]) + (", ..." if len(others) > _LISTED else "")
    return replace(whole, notes=(*whole.notes, f"not read, for they are no part of it: {listed}"))


def _read_all(path: str, files: dict[str, str], reader: OpenShard, lost: Callable[[str], str]) -> Checkpoint:
    """The shards in `files` as one checkpoint; `lost` says what a shard's failure costs."""
    read: list[Checkpoint] = []
    failures: list[str] = []
    for name, place in files.items():
        try:
            read.append(reader(place))
        except ReadError as error:
            there = is_url(place) or os.path.exists(place)
            failures.append(f"{error}{lost(name)}" if there else f"shard {brief(name)} is missing{lost(name)}")
    if not read:
        raise ReadError(f"{brief(path)}: none of its {len(files)} shards can be read; {failures[0]}")
    return _joined(path, read, failures)


def _joined(path: str, read: list[Checkpoint], failures: list[str]) -> Checkpoint:
    entries: list[Entry] = []
    metadata: dict[str, Any] = {}
    for part in read:
        entries += _moved(part.entries, len(entries))
        metadata.update(part.metadata)
    formats = dict.fromkeys(part.format for part in read)
    names = Counter(name for entry in entries for name in entry.names)
    twice = [name for name, count in names.items() if count > 1]
    failures += [f"tensor {brief(name)} is in more than one shard" for name in twice[:20]]
    return Checkpoint(
        next(iter(formats)),
        path,
        entries,
        metadata,
        [row for part in read for row in part.modules],
        globals=tuple(dict.fromkeys(name for part in read for name in part.globals)),
        notes=tuple(dict.fromkeys(note for part in read for note in part.notes)),
        failures=tuple(failures),
    )


def _moved(entries: list[Entry], by: int) -> Iterable[Entry]:
    """Entries of one shard, whose references to each other now count from the whole list."""
    if not by:
        return entries
    return [
        entry
        if entry.shares_storage_with is None
        else replace(entry, shares_storage_with=entry.shares_storage_with + by)
        for entry in entries
    ]


def _compared(checkpoint: Checkpoint, places: dict[str, str], metadata: dict[str, Any]) -> Checkpoint:
    """The checkpoint with what its index says and its shards do not hold, or the other way round."""
    held = {name for entry in checkpoint.entries for name in entry.names}
    failures, notes = list(checkpoint.failures), list(checkpoint.notes)
    absent = [name for name in places if name not in held]
    if absent and not failures:
        failures.append(f"the index names {_tensors(len(absent))} that no shard holds, such as {brief(absent[0])}")
    extra = sum(name not in places for name in held)
    if extra:
        notes.append(f"the shards hold {_tensors(extra)} that the index does not name")
    merged = {**checkpoint.metadata, **metadata}
    return replace(checkpoint, metadata=merged, notes=tuple(notes), failures=tuple(failures))


def _tensors(count: int) -> str:
    return f"{count} tensor{'s' if count != 1 else ''}"
