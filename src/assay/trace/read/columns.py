"""A trace as columns: numpy arrays for events, lists for what their small numbers stand for."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
"""Rows that the scanner holds before they are taken."""


@dataclass(frozen=True)
class Track:
    """A thread or stream: what the file calls its process and itself."""

    process: str
    thread: str
    name: str = ""


@dataclass
class Columns:
    """All spans of a trace and what hangs on them; arrays are named as the scanner names them."""

    path: str
    arrays: dict[str, NDArray[Any]]
    rows: int
    """How many spans there are."""
    names: list[str]
    categories: list[str]
    tracks: list[Track]
    shapes: list[bytes]
    stacks: list[bytes]
    root: dict[str, str]
    """The file's other keys, their values as JSON text."""
    skipped: dict[str, int]
    events: int
    complete: bool
    notes: list[str] = field(default_factory=list)

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.arrays[name]

    @cached_property
    def roles(self) -> NDArray[np.int8]:
        """What each name is."""
        roles = [role_of(category, name) for category, name in zip(self.categories, self.names, strict=True)]
        return np.array(roles, dtype=np.int8)

    def forget(self, *names: str) -> None:
        """Give back the memory of arrays whose work is done; a name stands for all that begin with it."""
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
        """Put the rows of `block` behind those that are there."""
        for name, values in block.items():
            size = self._sizes.get(name, 0)
            array = self._arrays.setdefault(name, np.empty(0, dtype=values.dtype))
            if size + len(values) > len(array):
                array.resize(2 * (size + len(values)), refcheck=False)
            array[size : size + len(values)] = values
            self._sizes[name] = size + len(values)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The columns, as long as they are."""
        for name, array in self._arrays.items():
            array.resize(self._sizes[name], refcheck=False)
        return self._arrays


def scan(path: str | os.PathLike[str], progress: Progress | None = None, engine: Any = None) -> Columns:
    """The columns of the trace at `path`; what could not be read is counted in them."""
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
        notes.append("the file ends before its JSON does")
    if tables["unfinished"]:
        notes.append(f"{tables['unfinished']:,} spans had not finished when the trace was written")
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
    found = []
    for key in keys:
        process, _, thread = key.partition(SEPARATOR)
        text = named.get((process, thread), b"")
        found.append(Track(plain(process, quoted=True), plain(thread, quoted=True), plain(text, quoted=True)))
    return found
