"""The parameters and buffers of two documents as rows, matched by name; those of moved modules with their modules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from assay import units
from assay.analysis.comparison.rows import ADDED, CHANGED, MOVED, REMOVED, SAME, ComparedTensor, TensorChange
from assay.document.document import Document
from assay.document.rows import Tensor
from assay.document.weights import TensorStatistics

Pair = tuple[int, int]


class _ReadTensor(NamedTuple):
    """A tensor, and the row with the statistics of its values."""

    facts: ComparedTensor
    row: TensorStatistics | None


class TensorComparer:
    """Compares the tensors of two documents.

    Args:
        before: The document before the change.
        after: The document after it.
        renamed: The modules listed under another path, as indices before and after, and whether they moved.
        unmatched: The modules that were removed, and those that were added.
    """

    def __init__(
        self,
        before: Document,
        after: Document,
        renamed: Mapping[Pair, bool],
        unmatched: tuple[Sequence[int], Sequence[int]],
    ) -> None:
        self._before, self._after = _tensors(before), _tensors(after)
        self._before_names, self._after_names = (_by_name(some) for some in (self._before, self._after))
        self._removed_modules, self._added_modules = _owned(before, unmatched[0]), _owned(after, unmatched[1])
        self._after_of: dict[int, int] = {}
        self._before_of: dict[int, int] = {}
        inside = _inside(before, after, renamed)
        self._moved = {pair for pair, moved in inside if self._match(pair) and moved}
        for index, tensor in enumerate(self._before):
            for name in tensor.facts.names:
                if name in self._after_names and self._match((index, self._after_names[name])):
                    break

    def rows(self) -> list[TensorChange]:
        """One row per tensor of either document."""
        removed: dict[int | None, list[int]] = {}
        place: int | None = None
        for index in range(len(self._before)):
            place = self._after_of.get(index, place)
            if index not in self._after_of:
                removed.setdefault(place, []).append(index)
        rows = [self._removed(index) for index in removed.get(None, ())]
        for index in range(len(self._after)):
            before = self._before_of.get(index)
            rows.append(self._added(index) if before is None else self._matched(before, index))
            rows += (self._removed(other) for other in removed.get(index, ()))
        return rows

    def _match(self, pair: Pair) -> bool:
        """Match two tensors; False if either is matched already."""
        before, after = pair
        if before in self._after_of or after in self._before_of:
            return False
        self._after_of[before], self._before_of[after] = after, before
        return True

    def _removed(self, index: int) -> TensorChange:
        facts = self._before[index].facts
        words = _tied_words("now", facts, self._after_names, self._after)
        return TensorChange(REMOVED, facts, None, words, covered=index in self._removed_modules)

    def _added(self, index: int) -> TensorChange:
        facts = self._after[index].facts
        words = _tied_words("was", facts, self._before_names, self._before)
        return TensorChange(ADDED, None, facts, words, covered=index in self._added_modules)

    def _matched(self, before: int, after: int) -> TensorChange:
        (one, row), (two, other) = self._before[before], self._after[after]
        equal = _values_equal(row, other)
        words = (*_differences(one, two), *(("other values",) if equal is False else ()))
        moved = (before, after) in self._moved and not set(one.names) & set(two.names)
        return TensorChange(
            state=CHANGED if words else MOVED if moved else SAME,
            before=one,
            after=two,
            changes=words,
            values_equal=equal,
            covered=not words and moved,
        )


def _tied_words(
    verb: str, facts: ComparedTensor, names: Mapping[str, int], tensors: Sequence[_ReadTensor]
) -> tuple[str, ...]:
    """The tensor of the other document that has one of its names among others: `now tied to embed.weight`."""
    others = (tensors[names[name]].facts.names for name in facts.names if name in names)
    tied = next((other for other in others if len(other) > 1), None)
    return () if tied is None else (f"{verb} tied to {tied[0]}",)


def _differences(old: ComparedTensor, new: ComparedTensor) -> Iterator[str]:
    """How a tensor differs from what it was."""
    if new.shape != old.shape:
        yield f"{units.shape(new.shape)}, not {units.shape(old.shape)}"
    if new.dtype != old.dtype:
        yield f"{new.dtype}, not {old.dtype}"
    if new.role != old.role and new.role and old.role:
        yield f"{new.role}, not {old.role}"
    if new.trainable != old.trainable and None not in (new.trainable, old.trainable):
        yield "trainable" if new.trainable else "frozen"
    if (len(new.names) > 1) != (len(old.names) > 1):
        yield "tied" if len(new.names) > 1 else "not tied"


def _values_equal(before: TensorStatistics | None, after: TensorStatistics | None) -> bool | None:
    """Whether all values are equal; None if that is unknown or they are of other types."""
    if before is None or after is None or not before.content or not after.content:
        return None
    if (before.dtype, before.shape) != (after.dtype, after.shape):
        return None
    return before.content == after.content


def _tensors(document: Document) -> list[_ReadTensor]:
    """The tensors of the model; those of the checkpoint if only that is known."""
    rows = document.weights.tensors if document.weights is not None else []
    if not document.knows_tensors:
        return [_read(ComparedTensor(row.names, row.dtype, row.shape, row.bytes), row) for row in rows]
    by_name = {name: row for row in reversed(rows) for name in row.names}
    return [
        _read(_of_model(tensor), next((by_name[name] for name in tensor.names if name in by_name), None))
        for tensor in document.tensors
    ]


def _of_model(tensor: Tensor) -> ComparedTensor:
    kind = tensor.type
    return ComparedTensor(tensor.names, kind.dtype, kind.shape, tensor.bytes, tensor.role, tensor.requires_grad)


def _read(facts: ComparedTensor, row: TensorStatistics | None) -> _ReadTensor:
    if row is None:
        return _ReadTensor(facts, None)
    return _ReadTensor(replace(facts, min=row.min, max=row.max, mean=row.mean, std=row.std), row)


def _by_name(tensors: Sequence[_ReadTensor]) -> dict[str, int]:
    return {name: index for index, tensor in enumerate(tensors) for name in tensor.facts.names}


def _owned(document: Document, modules: Iterable[int]) -> set[int]:
    """The tensors that these modules own."""
    return {tensor for index in modules for tensor in document.modules[index].tensors.values()}


def _inside(before: Document, after: Document, modules: Mapping[Pair, bool]) -> Iterator[tuple[Pair, bool]]:
    """The tensors with the same local names in pairs of modules, and whether the modules moved."""
    for (one, two), moved in modules.items():
        theirs = after.modules[two].tensors
        for name, index in before.modules[one].tensors.items():
            if name in theirs:
                yield (index, theirs[name]), moved
