"""What is weighed: a checkpoint wherever it lies, and how the bytes of its tensors are had."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from assay.checkpoint.entries import Checkpoint, ModuleRow
from assay.checkpoint.open import open_checkpoint
from assay.checkpoint.reading import Reader
from assay.checkpoint.remote import is_url
from assay.document.rows import Module
from assay.errors import UsageError
from assay.sources.needs import is_module

if TYPE_CHECKING:
    from assay.checkpoint.statistics.chunks import Chunk


class Source(Struct, frozen=True):
    """A checkpoint and the way to its bytes."""

    kind: str
    """`file`, or `live` for a module in this process."""
    checkpoint: Checkpoint
    read: Callable[[Chunk], Any]
    """Gives a buffer with the bytes of a chunk without a view."""

    @property
    def runs_code(self) -> bool:
        """Whether loading it for real would run code that it brings."""
        return self.kind == "file" and bool(self.checkpoint.modules) and not is_url(self.checkpoint.path)

    @property
    def modules(self) -> list[Module]:
        """The tree of a pickled or scripted model, as rows of a document."""
        return _tree(self.checkpoint.modules)


def open_source(source: Any, *, lenient: bool = False) -> Source:
    """What `source` holds: a path, a URL, or a live module. Nothing from a file runs."""
    if is_module(source):
        from assay.api.weights.live import open_live

        return open_live(source)
    if not isinstance(source, (str, os.PathLike)):
        raise UsageError(f"a {type(source).__name__} was given: a path, a URL or an nn.Module is wanted")
    return Source("file", open_checkpoint(source, lenient=lenient), SpanReader())


class SpanReader:
    """Reads chunks of files. It can be sent to other processes; what it knows of files stays behind."""

    def __init__(self) -> None:
        self._reader = Reader()

    def __call__(self, chunk: Chunk) -> bytes:
        return self._reader.read(chunk.file, chunk.offset, chunk.bytes, chunk.coded)


def _tree(rows: Sequence[ModuleRow]) -> list[Module]:
    places = {row.path: index for index, row in reversed(list(enumerate(rows)))}
    return [
        Module(row.path, row.class_path.rpartition(".")[2], row.class_path, _parent(row.path, places)) for row in rows
    ]


def _parent(path: str, places: dict[str, int]) -> int | None:
    """The nearest module above `path` that there is."""
    while path:
        path = path.rpartition(".")[0]
        if path in places:
            return places[path]
    return None
