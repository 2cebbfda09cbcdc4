"""Matching the tensors of a checkpoint to those of a model, whose names and shapes may differ."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from math import prod
from typing import NamedTuple, Protocol

from assay.analysis.parameters import elements
from assay.document.document import Document
from assay.document.rows import Tensor
from assay.document.weights import TensorStatistics
from assay.document.weights_fit import ShapeConflict, WeightsFit

MAX_PREFIX = 2
"""Components of a name that a checkpoint may have more or fewer than the model."""
MAX_PARTS = 1 << 14
"""A tensor that would be made of more parts is not searched for missing ones."""


class Stored(Protocol):
    """A tensor in a file: an entry of a checkpoint, or its statistics."""

    @property
    def names(self) -> tuple[str, ...]:
        """Its names."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The size of each dimension."""


class StoredTarget(NamedTuple):
    """What a stored name stands for in a model."""

    names: tuple[str, ...]
    """Tensors of the model, several if the stored one is split."""
    converted: bool = False
    """Whether values are merged, split or reshaped, so that shapes differ."""


class Naming(NamedTuple):
    """How a model names the tensors that its files should contain."""

    expected: frozenset[str]
    """The names that files should contain; non-persistent buffers are not among them."""
    target: Callable[[str], StoredTarget] = lambda name: StoredTarget((name,))
    """What a stored name stands for in the model."""
    optional: re.Pattern[str] | None = None
    """Tensors that files may lack."""
    ignored: re.Pattern[str] | None = None
    """Stored tensors that the model leaves out."""
    quantization: str = ""
    """The quantization method that the config names."""


class StoredMatch(NamedTuple):
    """The stored tensors of each tensor of a model."""

    parts: list[tuple[int, ...]]
    """For each tensor of the model, its indices among the stored tensors: none, one, equal copies, or its parts."""
    fit: WeightsFit

    def names_of(self, tensors: Sequence[Tensor], stored: Sequence[Stored]) -> dict[int, tuple[str, ...]]:
        """The model's names of each stored tensor that holds exactly one tensor; copies of a tied one keep apart."""
        names: dict[int, tuple[str, ...]] = {}
        for tensor, parts in zip(tensors, self.parts, strict=True):
            if parts and all(prod(stored[part].shape) == elements(tensor.type) for part in parts):
                names[parts[0]] = (*names.get(parts[0], ()), *tensor.names)
        return names


def rows_of_model(document: Document) -> list[TensorStatistics]:
    """The stored tensors; if they were compared with a model, those that it has, unequal copies of one only once.

    All of them if the files hold the model in another form, or none of its tensors.
    """
    rows, fit = document.weights.tensors if document.weights is not None else [], document.weights_fit
    if fit is None or fit.quantization:
        return rows
    lacking = {*fit.missing, *fit.unread}
    names = {name for tensor in document.tensors for name in tensor.names}
    names |= {part for name, parts in fit.stored_as.items() if name not in lacking for part in parts}
    names -= {copy for tied in fit.untied for copy in tied[1:]}
    return [row for row in rows if row.names[0] in names] or rows


def match_stored(
    tensors: Sequence[Tensor], stored: Sequence[Stored], naming: Naming, path: str = "", *, partial: bool = False
) -> StoredMatch:
    """The stored tensors that belong to each of the model's `tensors`, and how the two differ.

    If the files were read only in `partial`, they may contain what was not found.
    """
    rows = {name: row for row, tensor in enumerate(tensors) for name in tensor.names}
    parts: list[list[int]] = [[] for _ in tensors]
    loose: list[int] = []
    converted: set[int] = set()
    for at, each in enumerate(stored):
        targets = [naming.target(name) for name in each.names]
        found = dict.fromkeys(rows[name] for target in targets for name in target.names if name in rows)
        for row in found:
            parts[row].append(at)
        if not found:
            loose.append(at)
        elif any(target.converted for target in targets):
            converted.add(at)
    prefix, moved = _with_prefix(tensors, stored, [row for row, each in enumerate(parts) if not each], loose)
    for at, row in moved.items():
        parts[row].append(at)
    extra = [stored[at].names[0] for at in loose if at not in moved]
    final = [tuple(each) for each in parts]
    incomplete = dict(_incomplete(tensors, stored, final, converted))
    missing = tuple(tensors[row].names[0] for row in sorted({*_absent(tensors, final, naming), *incomplete}))
    lacked = {tensors[row].names[0]: names for row, names in incomplete.items()}
    fit = WeightsFit(
        path,
        () if partial else missing,
        {} if partial else lacked,
        missing if partial else (),
        tuple(_conflicts(tensors, stored, final, converted, incomplete)),
        (),
        tuple(name for name in extra if naming.ignored is None or not naming.ignored.search(name)),
        _stored_as(tensors, stored, final),
        prefix,
        naming.quantization,
    )
    return StoredMatch(final, fit)


def _with_prefix(
    tensors: Sequence[Tensor], stored: Sequence[Stored], lacking: Sequence[int], loose: Sequence[int]
) -> tuple[str, dict[int, int]]:
    """The one prefix that gives at least half of the `loose` stored tensors the name and shape of a `lacking` one."""
    wanted = {(name, tensors[row].type.shape): row for row in lacking for name in tensors[row].names}
    bare: dict[tuple[str, tuple[int, ...]], list[tuple[str, int]]] = {}
    for (name, shape), row in wanted.items():
        for prefix, rest in _cut(name):
            bare.setdefault((rest, shape), []).append((f"-{prefix}", row))
    pairs = [
        (prefix, at, row)
        for at in loose
        for name in stored[at].names
        for prefix, row in (
            *bare.get((name, stored[at].shape), ()),
            *(
                (f"+{prefix}", wanted[rest, stored[at].shape])
                for prefix, rest in _cut(name)
                if (rest, stored[at].shape) in wanted
            ),
        )
    ]
    best, votes = Counter(prefix for prefix, *_ in pairs).most_common(1)[0] if pairs else ("", 0)
    if 2 * votes < len(loose):  # a few names that agree by chance are no prefix
        return "", {}
    return best, {at: row for prefix, at, row in pairs if prefix == best}


def _cut(name: str) -> Iterable[tuple[str, str]]:
    """The name without its first component, and without its first two, each with what was cut off."""
    parts = name.split(".")
    for count in range(1, min(MAX_PREFIX, len(parts) - 1) + 1):
        yield ".".join(parts[:count]) + ".", ".".join(parts[count:])


def _absent(tensors: Sequence[Tensor], parts: Sequence[Sequence[int]], naming: Naming) -> Iterable[int]:
    for row, (tensor, own) in enumerate(zip(tensors, parts, strict=True)):
        names = [name for name in tensor.names if name in naming.expected]
        if not own and names and not (naming.optional and any(map(naming.optional.search, names))):
            yield row


def _incomplete(
    tensors: Sequence[Tensor], stored: Sequence[Stored], parts: Sequence[Sequence[int]], converted: set[int]
) -> Iterable[tuple[int, tuple[str, ...]]]:
    """Tensors that are stacked from equal parts, one per number in their names, and the parts that are not stored."""
    for row, (tensor, own) in enumerate(zip(tensors, parts, strict=True)):
        shapes, whole = {stored[part].shape for part in own}, elements(tensor.type) or 0
        count = whole // (prod(min(shapes)) or 1) if len(shapes) == 1 else 0
        if len(own) < count <= MAX_PARTS and tensor.type.shape[0] <= count and converted.issuperset(own):
            lacked = _gaps([stored[part].names[0] for part in own], tensor.type.shape[0])
            if len(own) + len(lacked) == count:
                yield row, lacked


def _gaps(names: Sequence[str], count: int) -> tuple[str, ...]:
    """The names that a series of `count` numbers lacks: `x.1.b` for `x.0.a`, `x.1.a` and `x.0.b` if it is 2."""
    split = [name.split(".") for name in names]
    varying = [at for at, each in enumerate(zip(*split, strict=False)) if len(set(each)) > 1]
    numbers = [at for at in varying if all(parts[at].isdecimal() for parts in split)]
    if len(numbers) != 1:
        return ()
    (at,) = numbers
    kinds = dict.fromkeys((".".join(parts[:at]), ".".join(parts[at + 1 :])) for parts in split)
    every = (f"{before}.{number}.{after}" for number in range(count) for before, after in kinds)
    known = set(names)
    return tuple(name for name in every if name not in known)


def _conflicts(
    tensors: Sequence[Tensor],
    stored: Sequence[Stored],
    parts: Sequence[Sequence[int]],
    converted: Collection[int],
    incomplete: Collection[int],
) -> Iterable[ShapeConflict]:
    """Tensors of another shape than those stored for them; parts must add up, unless others share them."""
    uses = Counter(part for own in parts for part in own)
    for row, (tensor, own) in enumerate(zip(tensors, parts, strict=True)):
        shapes = [stored[part].shape for part in own]
        if row in incomplete or all(shape == tensor.type.shape for shape in shapes):
            continue
        adds_up = sum(map(prod, shapes)) == elements(tensor.type) or any(uses[part] > 1 for part in own)
        if not adds_up or not all(part in converted for part in own):
            yield ShapeConflict(tensor.names[0], tensor.type.shape, shapes[0])


def _stored_as(
    tensors: Sequence[Tensor], stored: Sequence[Stored], parts: Sequence[Sequence[int]]
) -> dict[str, tuple[str, ...]]:
    pairs = zip(tensors, parts, strict=True)
    names = ((tensor.names, tuple(stored[part].names[0] for part in own)) for tensor, own in pairs)
    return {own[0]: found for own, found in names if found and not set(found) <= set(own)}
