"""The tensors to analyse, in files, a live model or a state dict, and the function that reads their bytes."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from assay.api.weights.live import LIVE, Reader, live_checkpoint, state_checkpoint
from assay.checkpoint.entries import Checkpoint, ModuleRow
from assay.checkpoint.reading import RangeReader
from assay.checkpoint.remote import is_url
from assay.document.rows import Module
from assay.errors import ReadError
from assay.sources.opened import Opened


class TensorSource(Struct, frozen=True):
    """A checkpoint with the function that reads its bytes."""

    checkpoint: Checkpoint
    read: Reader

    @property
    def in_memory(self) -> bool:
        """Whether the tensors belong to a model or state dict in this process."""
        return self.checkpoint.format == LIVE

    @property
    def runs_code(self) -> bool:
        """Whether the file holds one module, which torch can load, and which runs code stored in it."""
        is_one = len(self._outermost) == 1 and "." not in self.root
        return not self.in_memory and is_one and not is_url(self.checkpoint.path)

    @property
    def root(self) -> str:
        """The name of the first outermost module, such as `model` in a file of `{"model": module}`; may be empty."""
        return next(iter(self._outermost), "")

    @property
    def _outermost(self) -> list[str]:
        return [module.path for module in self.modules if module.parent is None]

    @property
    def modules(self) -> list[Module]:
        """The module tree of a pickled or scripted model, as rows of a document."""
        return _tree(self.checkpoint.modules)


def tensors_of(opened: Opened, *, lenient: bool = False) -> TensorSource:
    """The tensors of an opened source, from its files if it has any; code in a file is never run."""
    if opened.stored is not None:
        checkpoint = opened.stored(lenient=True) if lenient else opened.checkpoint
        assert checkpoint is not None
        return TensorSource(checkpoint, RangeReader(opened.files))
    if opened.state is not None:
        return TensorSource(*state_checkpoint(opened.state))
    if opened.origin.kind == "config":
        raise ReadError(f"{opened.origin.location} has a config but no weights: give a checkpoint")
    return TensorSource(*live_checkpoint(opened.module))


def _tree(rows: Sequence[ModuleRow]) -> list[Module]:
    indices = {row.path: index for index, row in reversed(list(enumerate(rows)))}
    return [
        Module(row.path, row.class_path.rpartition(".")[2], row.class_path, _parent(row.path, indices))
        for row in rows
    ]


def _parent(path: str, indices: dict[str, int]) -> int | None:
    """The index of the nearest existing module above `path`."""
    while path:
        path = path.rpartition(".")[0]
        if path in indices:
            return indices[path]
    return None
