"""A trace as columns: numpy arrays of events, and lists of the texts that the arrays refer to by index."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.messages import plural
from assay.trace.read.categories import Role, role_of
from assay.trace.read.marks import joined_marks
from assay.trace.read.opening import Pieces, Progress
from assay.trace.read.scanner import scanner
from assay.trace.read.texts import plain

Ints = NDArray[np.int64]
SmallInts = NDArray[np.int32]
Flags = NDArray[np.bool_]

SEPARATOR = b"\x1f"
_TAKE_ROWS = 1 << 14
"""The number of rows the scanner buffers before they are moved into the columns."""


@dataclass(frozen=True)
class Track:
    """A thread or stream, with its process and thread id as written in the file."""

    process: str
    thread: str
    name: str = ""


@dataclass
class Columns:
    """All spans of a trace and their attributes; `arrays` has the scanner's column names."""

    path: str
    arrays: dict[str, NDArray[Any]]
    rows: int
    """The number of spans."""
    names: list[str]
    categories: list[str]
    tracks: list[Track]
    shapes: list[bytes]
    stacks: list[bytes]
    root: dict[str, str]
    """The file's other top-level keys, with their values as JSON text."""
    skipped: dict[str, int]
    events: int
    complete: bool
    notes: list[str] = field(default_factory=list)

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.arrays[name]

    @cached_property
    def roles(self) -> NDArray[np.int8]:
        """The role of each entry of `names`."""
        roles = [role_of(category, name) for category, name in zip(self.categories, self.names, strict=True)]
        return np.array(roles, dtype=np.int8)

    def forget(self, *names: str) -> None:
        """Free the arrays whose names start with any of `names`."""
        for name in [each for each in self.arrays if each.startswith(names)]:
            del self.arrays[name]

    def with_role(self, *roles: Role) -> Ints:
        """The rows of spans with one of these roles."""
        chosen = np.isin(self.roles, roles)
        return np.flatnonzero(chosen[self.arrays["name"]])


class GrowingColumns:
    """Columns that grow in place: the system moves their pages instead of copying them."""

    def __init__(self) -> None:
        self._arrays: dict[str, NDArray[Any]] = {}
        self._sizes: dict[str, int] = {}

    def add(self, block: dict[str, NDArray[Any]]) -> None:
        """Append the rows of `block`."""
        for name, values in block.items():
            size = self._sizes.get(name, 0)
            array = self._arrays.setdefault(name, np.empty(0, dtype=values.dtype))
            if size + len(values) > len(array):
                array.resize(2 * (size + len(values)), refcheck=False)
            array[size : size + len(values)] = values
            self._sizes[name] = size + len(values)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The columns, trimmed to their actual length."""
        for name, array in self._arrays.items():
            array.resize(self._sizes[name], refcheck=False)
        return self._arrays


def scan(path: str | os.PathLike[str], progress: Progress | None = None, engine: Any = None) -> Columns:
    """The columns of the trace at `path`; unreadable events are counted in `skipped`."""
    scanning = (engine or scanner).Scanner()
    gathered = GrowingColumns()
    pieces = Pieces(path, progress)
    for piece in pieces:
        scanning.feed(piece, False)
        if scanning.rows() >= _TAKE_ROWS:
            gathered.add(scanning.take())
    scanning.feed(b"", True)
    gathered.add(scanning.take())
    return _columns(str(path), gathered.arrays(), scanning.tables(), pieces.problem)


def _columns(path: str, arrays: dict[str, NDArray[Any]], tables: dict[str, Any], problem: str) -> Columns:
    names = [text.partition(SEPARATOR) for text in tables["names"]]
    notes = [problem] if problem else []
    if not tables["complete"]:
        notes.append("the file is incomplete: its JSON ends early")
    if tables["unfinished"]:
        notes.append(f"{plural(tables['unfinished'], 'span')} had not finished when the trace was written")
    columns = Columns(
        path=path,
        arrays=arrays,
        rows=0,
        names=[plain(name) for _, _, name in names],
        categories=[plain(category) for category, _, _ in names],
        tracks=_tracks(tables["tracks"], tables["labels"]),
        shapes=tables["shapes"],
        stacks=tables["stacks"],
        root={plain(key): plain(value, quoted=False) for key, value in tables["root"]},
        skipped=dict(tables["skipped"]),
        events=sum(tables["phases"].values()),
        complete=bool(tables["complete"]) and not problem,
        notes=notes,
    )
    columns.notes += joined_marks(columns.arrays, columns.skipped)
    columns.rows = len(columns["start"])
    return columns


def _tracks(keys: list[bytes], labels: list[tuple[bytes, bytes, bytes, bytes]]) -> list[Track]:
    named = {(process, thread): text for kind, process, thread, text in labels if kind == b"thread_name"}
    tracks = []
    for key in keys:
        process, _, thread = key.partition(SEPARATOR)
        text = named.get((process, thread), b"")
        tracks.append(Track(plain(process, quoted=True), plain(thread, quoted=True), plain(text, quoted=True)))
    return tracks
