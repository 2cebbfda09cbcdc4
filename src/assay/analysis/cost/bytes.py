"""Logical bytes an operation reads and writes.

Each storage counts once, a broadcast dimension once, a view not at all; a lookup reads the rows it
takes, not the table. A rule is a function from a kind to its `Traffic`; a formula names its rule.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod

from msgspec import Struct

from assay.analysis.cost.reading import all_results_numel, is_ragged, numel, optional
from assay.document.dtypes import nbytes
from assay.document.rows import Operand, OpKind, TensorType

PARAMETER_ROLES = frozenset({"parameter", "buffer"})
INDEX_DTYPE = "int64"


class Traffic(Struct, frozen=True):
    """Bytes moved: parameters and buffers apart from everything else."""

    read_parameters: int = 0
    read_activations: int = 0
    written: int = 0


TrafficRule = Callable[[OpKind], Traffic]
Touched = Mapping[str, int]
"""Elements touched of an operand, by its name; an operand that is absent is touched whole."""


def streamed(kind: OpKind) -> Traffic:
    """Every input read once and every output written once; the rule where nothing else is said."""
    return _traffic(kind, {}, {})


def unmoved(kind: OpKind) -> Traffic:
    """Nothing: metadata, allocation without a fill, control flow whose body counts itself."""
    return Traffic()


def overwritten(kind: OpKind) -> Traffic:
    """What is written in place is not read first: `copy_`, `fill_`, `normal_`."""
    return _traffic(kind, {one.name: 0 for one in kind.inputs if one.written}, {})


def template(kind: OpKind) -> Traffic:
    """Only the outputs: the inputs lend shape and dtype (`zeros_like`)."""
    return Traffic(written=streamed(kind).written)


def taken(*tables: str) -> TrafficRule:
    """A lookup: of each table only as much as comes out."""

    def rule(kind: OpKind) -> Traffic:
        return _traffic(kind, dict.fromkeys(tables, all_results_numel(kind)), {})

    return rule


def routed(kind: OpKind) -> Traffic:
    """A grouped product reads the matrices that rows were sent to: no more of them than there are rows."""
    left, right = optional(kind, "self"), optional(kind, "mat2")
    if left is None or right is None or len(left.shape) != 2 or len(right.shape) != 3:
        return streamed(kind)
    return _traffic(kind, {"mat2": min(left.shape[0], right.shape[0]) * prod(right.shape[1:])}, {})


def looked_up(table: str, index: str) -> TrafficRule:
    """A lookup of whole rows: as many as there are indices."""

    def rule(kind: OpKind) -> Traffic:
        rows, at = optional(kind, table), optional(kind, index)
        if rows is None or at is None:
            return streamed(kind)
        return _traffic(kind, {table: numel(at) * prod(rows.shape[1:])}, {})

    return rule


def scattered(extent: Callable[[OpKind], int], *, reads_target: bool) -> TrafficRule:
    """Written in place as far as the extent goes; out of place the target is copied whole."""

    def rule(kind: OpKind) -> Traffic:
        touched = {one.name: extent(kind) for one in kind.inputs if one.written}
        return _traffic(kind, touched if reads_target else dict.fromkeys(touched, 0), touched)

    return rule


def tensor_bytes(tensor: TensorType) -> int:
    """Bytes of the distinct elements of a tensor; indices too where it is sparse; none where it is ragged."""
    if is_ragged(tensor):
        return 0
    if tensor.nnz is None:
        return nbytes(distinct(tensor), tensor.dtype)
    return nbytes(tensor.nnz, tensor.dtype) + nbytes(_sparse_indices(tensor), INDEX_DTYPE)


def distinct(tensor: TensorType) -> int:
    """Elements at different addresses: a broadcast dimension counts once, overlapping windows once."""
    if tensor.strides is None:
        return numel(tensor)
    dims = zip(tensor.shape, tensor.strides, strict=True)
    return min(prod(size if stride else min(size, 1) for size, stride in dims), _span(tensor))


def _span(tensor: TensorType) -> int:
    """Elements from the first address to the last."""
    if tensor.strides is None or 0 in tensor.shape:
        return numel(tensor)
    return 1 + sum((size - 1) * abs(stride) for size, stride in zip(tensor.shape, tensor.strides, strict=True))


def _sparse_indices(tensor: TensorType) -> int:
    """Indices kept beside the values: coordinates for COO, columns and row starts for the rest."""
    if tensor.nnz is None:
        return 0
    if tensor.layout == "sparse_coo":
        return tensor.nnz * len(tensor.shape)
    by_column = tensor.layout in ("sparse_csc", "sparse_bsc")
    lines = tensor.shape[-1] if by_column else tensor.shape[-2]
    return tensor.nnz + prod(tensor.shape[:-2]) * (lines + 1)


def _traffic(kind: OpKind, read: Touched, written: Touched) -> Traffic:
    if _only_views(kind):
        return Traffic()
    groups: dict[int, list[Operand]] = {}
    for position, one in enumerate(kind.inputs):
        if not (one.written and one.name.startswith("out")):  # an `out=` tensor is not read
            groups.setdefault(_root(kind, position), []).append(one)
    parameters = activations = 0
    for group in groups.values():
        size = _storage_bytes([(one.type, read.get(one.name)) for one in group])
        if group[0].role in PARAMETER_ROLES:
            parameters += size
        else:
            activations += size
    return Traffic(parameters, activations, _written_bytes(kind, written))


def _only_views(kind: OpKind) -> bool:
    changed = any(one.written for one in (*kind.inputs, *kind.outputs))
    return bool(kind.outputs) and not changed and all(one.alias is not None for one in kind.outputs)


def _root(kind: OpKind, position: int) -> int:
    """The first input with the same storage."""
    alias = kind.inputs[position].alias
    return position if alias is None or alias >= position else _root(kind, alias)


def _storage_bytes(views: list[tuple[TensorType, int | None]]) -> int:
    """Bytes of several views of one storage.

    Where they lie in it is not recorded. Views that leave gaps (the thirds of a fused projection) fill
    one another's; views without gaps (a tensor and its transpose) are the same elements.
    """
    sizes = [_touched_bytes(tensor, touched) for tensor, touched in views]
    room = 0
    for (tensor, _), size in zip(views, sizes, strict=True):
        elements = 0 if is_ragged(tensor) else distinct(tensor)
        room = max(room, size * -(-_span(tensor) // elements) if elements else 0)
    return min(sum(sizes), room) if len(views) > 1 else sum(sizes)


def _touched_bytes(tensor: TensorType, touched: int | None) -> int:
    if touched is None:
        return tensor_bytes(tensor)
    return min(nbytes(touched, tensor.dtype), tensor_bytes(tensor))


def _written_bytes(kind: OpKind, touched: Touched) -> int:
    """Bytes of new outputs, and of each storage written in place."""
    size = sum(tensor_bytes(one.type) for one in kind.outputs if one.alias is None)
    changed = {position for position, one in enumerate(kind.inputs) if one.written}
    changed |= {one.alias for one in kind.outputs if one.written and one.alias is not None}
    groups: dict[int, list[Operand]] = {}
    for position in sorted(changed):
        groups.setdefault(_root(kind, position), []).append(kind.inputs[position])
    return size + sum(
        _storage_bytes([(one.type, touched.get(one.name)) for one in group]) for group in groups.values()
    )
