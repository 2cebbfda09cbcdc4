"""A checkpoint in several files: the shards listed in an index, or all the shards in a directory."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from msgspec.structs import replace

from assay.checkpoint.entries import Checkpoint, Entry
from assay.checkpoint.files import Files, Region, inside
from assay.checkpoint.listing import NameBudget
from assay.checkpoint.remote import is_url
from assay.errors import ReadError
from assay.messages import one_line, plural

MAX_INDEX_BYTES = 24 << 20
INDEX = re.compile(r"\.index(?:\.[\w-]+)?\.json$")
_SHARD_NAMES = (
    r"\.safetensors$",
    r"\.(?:bin|pt|pth|ckpt)$",
    r"\.gguf$",
    r"\.pt2$",
    r"\.(?:pkl|pickle|distcp)$",
    r"\.np[yz]$",
)
"""File names of shards; the first pattern that matches a file of a directory is used."""
_STANDARD = (
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
)
"""The files that transformers loads from a directory: the first of these that it contains."""
_LISTED = 5
_MAX_FAILURES = 20
"""Shards that are named if they cannot be read."""
_NOT_WEIGHTS = re.compile(r"^(?:training_args|optimizer|scheduler|rng_state.*|scaler)\.\w+$")
"""Files that trainers write next to a model's weights."""

_NUMBERED = re.compile(r"(.*)-[0-9]{5}-of-([0-9]{5})(\.\w+)")
_MAX_NUMBERED = 10_000

OpenShard = Callable[[str], Checkpoint]


def read_index(region: Region, reader: OpenShard) -> Checkpoint:
    """The shards listed in an index; missing or damaged ones are listed in `failures` and the rest is read."""
    path = region.path
    if region.size > MAX_INDEX_BYTES:
        raise ReadError(
            f"{one_line(path)} is rejected: the index has {region.size} bytes, the limit is {MAX_INDEX_BYTES}"
        )
    from assay.checkpoint.formats.safetensors import parse_json

    index = parse_json(path, region.read(0, region.size), "it")
    weight_map = index.get("weight_map")
    if not isinstance(weight_map, dict) or not all(isinstance(file, str) for file in weight_map.values()):
        raise ReadError(f"{one_line(path)} is not an index of shards: it has no weight_map of tensors to file names")
    if not weight_map:
        raise ReadError(f"{one_line(path)} is an index of no shards: its weight_map is empty")
    folder = path.rpartition("/")[0] if is_url(path) else os.path.dirname(path) or os.curdir
    files = _unique({name: inside(folder, name) for name in dict.fromkeys(weight_map.values())})
    counts = Counter(weight_map.values())
    checkpoint = _read_all(path, files, reader, lambda name: f": {plural(counts[name], 'tensor')} not read")
    metadata = index.get("metadata")
    return _compared(checkpoint, weight_map, metadata if isinstance(metadata, dict) else {})


def _unique(files: dict[str, str]) -> dict[str, str]:
    """The files without those that are named again, as `./model.safetensors`."""
    names = {path if is_url(path) else os.path.normpath(path): name for name, path in reversed(files.items())}
    return {name: files[name] for name in reversed(names.values())}


def read_folder(path: str, names: list[str], reader: OpenShard, files: Files) -> Checkpoint:
    """The weights in a directory: the file of a standard name, those in an index, else all that look like shards."""
    indices = sorted((name for name in names if INDEX.search(name)), key=lambda name: "safetensors" not in name)
    chosen = next((name for name in (*_STANDARD, *indices) if name in names), None)
    if chosen in indices:
        with files.region(inside(path, chosen)) as region:
            return read_index(region, reader)
    weights = [chosen] if chosen is not None else _with_missing(_shards(names))
    if all(name.endswith(".distcp") for name in weights) and weights:
        raise ReadError(f"{one_line(path)} is a distributed checkpoint without its .metadata file: copy that too")
    if not weights:
        expected = (
            "config.json or .metadata, or files ending in .safetensors, .bin, .pt, .gguf, .pt2, .pkl, .npy or .npz"
        )
        raise ReadError(f"{one_line(path)} is a directory without a model: expected {expected}")
    paths = {name: inside(path, name) for name in weights}
    is_single = len(paths) == 1
    checkpoint = reader(paths[weights[0]]) if is_single else _read_all(path, paths, reader, lambda name: "")
    return _with_note(checkpoint, [name for name in names if name not in weights])


def _shards(names: list[str]) -> list[str]:
    """The files of a directory that look like the shards of one checkpoint."""
    for kind in _SHARD_NAMES:
        matches = [name for name in names if re.search(kind, name)]
        if matches:
            return [name for name in matches if not _NOT_WEIGHTS.match(name)] or matches
    return []


def _with_missing(names: list[str]) -> list[str]:
    """The names with those of numbered shards, as `model-00002-of-00003.safetensors`, that are not among them."""
    expected = dict.fromkeys(names)
    for start, count, end in {match.groups() for match in map(_NUMBERED.fullmatch, names) if match}:
        if int(count) <= _MAX_NUMBERED:
            expected |= dict.fromkeys(f"{start}-{at:05}-of-{count}{end}" for at in range(1, int(count) + 1))
    return sorted(expected)


def holds_shards(names: Iterable[str]) -> bool:
    """Whether a directory that contains the files `names` has weights."""
    return any(INDEX.search(name) or any(re.search(kind, name) for kind in _SHARD_NAMES) for name in names)


def _with_note(checkpoint: Checkpoint, names: list[str]) -> Checkpoint:
    """The checkpoint with a note on other files in its directory that look like weights but were not read."""
    looks = [name for name in names if any(re.search(kind, name) for kind in _SHARD_NAMES)]
    others = [name for name in looks if not _NOT_WEIGHTS.match(name)]
    if not others:
        return checkpoint
    listed = ", ".join(one_line(name) for name in others[:_LISTED]) + (", ..." if len(others) > _LISTED else "")
    return replace(
        checkpoint, notes=(*checkpoint.notes, f"other weight files in the directory were not read: {listed}")
    )


def _read_all(path: str, files: dict[str, str], reader: OpenShard, loss_of: Callable[[str], str]) -> Checkpoint:
    """The shards in `files` as one checkpoint; `loss_of` describes what is lost if a shard cannot be read."""
    read: list[Checkpoint] = []
    failures: list[str] = []
    unnamed = 0
    budget = NameBudget(path)
    for name, location in files.items():
        try:
            if not is_url(location) and not os.path.exists(location):
                raise ReadError(f"shard {one_line(name)} is missing")
            read.append(reader(location))
        except ReadError as error:
            if len(failures) < _MAX_FAILURES:
                failures.append(f"{error}{loss_of(name)}")
            else:
                unnamed += 1
            continue
        for entry in read[-1].entries:
            budget.add(entry.names[0])
    if not read:
        raise ReadError(f"{one_line(path)}: cannot read any of its {plural(len(files), 'shard')}; {failures[0]}")
    if unnamed:
        failures.append(f"{plural(unnamed, 'more shard')} of {len(files):,} missing or unreadable")
    return _joined(path, read, failures)


def _joined(path: str, read: list[Checkpoint], failures: list[str]) -> Checkpoint:
    entries: list[Entry] = []
    metadata: dict[str, Any] = {}
    for part in read:
        entries += _moved(part.entries, len(entries))
        metadata.update(part.metadata)
    formats = dict.fromkeys(part.format for part in read)
    names = Counter(name for entry in entries for name in entry.names)
    notes = [note for part in read for note in part.notes]
    duplicates = [name for name, count in names.items() if count > 1]
    if duplicates:
        notes.append(f"more than one file has {plural(len(duplicates), 'tensor')}, such as {one_line(duplicates[0])}")
    return Checkpoint(
        next(iter(formats)),
        path,
        entries,
        metadata,
        [row for part in read for row in part.modules],
        globals=tuple(dict.fromkeys(name for part in read for name in part.globals)),
        notes=tuple(dict.fromkeys(notes)),
        failures=tuple(failures),
    )


def _moved(entries: list[Entry], by: int) -> Iterable[Entry]:
    """The entries of one shard, with their references to each other shifted by `by`."""
    if not by:
        return entries
    return [
        entry
        if entry.shares_storage_with is None
        else replace(entry, shares_storage_with=entry.shares_storage_with + by)
        for entry in entries
    ]


def _compared(checkpoint: Checkpoint, weight_map: dict[str, str], metadata: dict[str, Any]) -> Checkpoint:
    """The checkpoint, with the differences between the index and its shards in `failures` and `notes`."""
    stored = {name for entry in checkpoint.entries for name in entry.names}
    failures, notes = list(checkpoint.failures), list(checkpoint.notes)
    absent = [name for name in weight_map if name not in stored]
    if absent and not failures:
        count = plural(len(absent), "tensor")
        failures.append(f"the index lists {count} that no shard contains, such as {one_line(absent[0])}")
    extra = sum(name not in weight_map for name in stored)
    if extra:
        notes.append(f"the shards contain {plural(extra, 'tensor')} that the index does not list")
    merged = {**checkpoint.metadata, **metadata}
    return replace(checkpoint, metadata=merged, notes=tuple(notes), failures=tuple(failures))
