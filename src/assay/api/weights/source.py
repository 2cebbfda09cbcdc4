"""Whose tensors are analysed: those in files, or those of a model in memory; and how their bytes are read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from assay.api.weights.live import LIVE, live_checkpoint
from assay.checkpoint.entries import Checkpoint, ModuleRow
from assay.checkpoint.reading import RangeReader
from assay.checkpoint.remote import is_url
from assay.document.rows import Module
from assay.errors import ReadError
from assay.sources.opened import Opened

if TYPE_CHECKING:
    from assay.checkpoint.statistics.chunks import Chunk


class TensorSource(Struct, frozen=True):
    """A checkpoint and the way to its bytes."""

    checkpoint: Checkpoint
    read: Callable[[Chunk], Any]
    """Gives a buffer with the bytes of a chunk without a view."""

    @property
    def in_memory(self) -> bool:
        """Whether the tensors are those of a model in this process."""
        return self.checkpoint.format == LIVE

    @property
    def runs_code(self) -> bool:
        """Whether loading it for real would run code that it brings."""
        return not self.in_memory and bool(self.checkpoint.modules) and not is_url(self.checkpoint.path)

    @property
    def modules(self) -> list[Module]:
        """The tree of a pickled or scripted model, as rows of a document."""
        return _tree(self.checkpoint.modules)


def tensors_of(opened: Opened, *, lenient: bool = False) -> TensorSource:
    """The tensors of what was opened: those stored in files where there are some. Nothing from a file runs."""
    if opened.stored is not None:
        checkpoint = opened.stored(lenient=True) if lenient else opened.checkpoint
        assert checkpoint is not None
        return TensorSource(checkpoint, RangeReader(opened.files))
    if opened.origin.kind == "config":
        raise ReadError(f"{opened.origin.location} holds a config without weights: there are no values to read")
    return TensorSource(*live_checkpoint(opened.module))


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
