"""Logical bytes that an op reads and writes.

Each storage counts once and a broadcast dimension counts once; a view costs nothing. A lookup reads the selected
rows, not the whole table. A rule is a function from a kind to its `Traffic`; each formula has one.
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
    """Bytes moved; reads of parameters and buffers are separate from other reads."""

    read_parameters: int = 0
    read_activations: int = 0
    written: int = 0


TrafficRule = Callable[[OpKind], Traffic]
Touched = Mapping[str, int]
"""The number of elements accessed, by operand name; operands that are not listed are accessed whole."""


def streamed(kind: OpKind) -> Traffic:
    """Every input is read once and every output written once; the default rule."""
    return _traffic(kind, {}, {})


def no_traffic(kind: OpKind) -> Traffic:
    """No traffic: metadata, allocation without a fill, control flow whose body is counted separately."""
    return Traffic()


def overwritten(kind: OpKind) -> Traffic:
    """Inputs written in place are not read: `copy_`, `fill_`, `normal_`."""
    return _traffic(kind, {one.name: 0 for one in kind.inputs if one.written}, {})


def outputs_only(kind: OpKind) -> Traffic:
    """Only outputs are written; inputs only provide shape and dtype (`zeros_like`)."""
    return Traffic(written=streamed(kind).written)


def gathered(*tables: str) -> TrafficRule:
    """A rule for lookups: of each named table, only as many elements are read as the output has."""

    def rule(kind: OpKind) -> Traffic:
        return _traffic(kind, dict.fromkeys(tables, all_results_numel(kind)), {})

    return rule


def routed(kind: OpKind) -> Traffic:
    """A grouped product reads only the matrices that rows are routed to: at most as many as there are rows."""
    left, right = optional(kind, "self"), optional(kind, "mat2")
    if left is None or right is None or len(left.shape) != 2 or len(right.shape) != 3:
        return streamed(kind)
    return _traffic(kind, {"mat2": min(left.shape[0], right.shape[0]) * prod(right.shape[1:])}, {})


def row_lookup(table: str, index: str) -> TrafficRule:
    """A rule for lookups of whole rows: as many rows of the table are read as there are indices."""

    def rule(kind: OpKind) -> Traffic:
        rows, indices = optional(kind, table), optional(kind, index)
        if rows is None or indices is None:
            return streamed(kind)
        return _traffic(kind, {table: numel(indices) * prod(rows.shape[1:])}, {})

    return rule


def scattered(extent: Callable[[OpKind], int], *, reads_target: bool) -> TrafficRule:
    """A rule for scatters: in place, `extent` elements of the target are written; otherwise it is copied whole."""

    def rule(kind: OpKind) -> Traffic:
        touched = {one.name: extent(kind) for one in kind.inputs if one.written}
        return _traffic(kind, touched if reads_target else dict.fromkeys(touched, 0), touched)

    return rule


def tensor_bytes(tensor: TensorType) -> int:
    """Bytes of the distinct elements of a tensor, plus the indices if it is sparse; 0 if it is ragged."""
    if is_ragged(tensor):
        return 0
    if tensor.nnz is None:
        return nbytes(distinct(tensor), tensor.dtype)
    return nbytes(tensor.nnz, tensor.dtype) + nbytes(_sparse_indices(tensor), INDEX_DTYPE)


def distinct(tensor: TensorType) -> int:
    """The number of elements at different addresses: broadcast dimensions and overlapping windows count once."""
    if tensor.strides is None:
        return numel(tensor)
    dims = zip(tensor.shape, tensor.strides, strict=True)
    return min(prod(size if stride else min(size, 1) for size, stride in dims), _span(tensor))


def _span(tensor: TensorType) -> int:
    """The number of elements from the first to the last address."""
    if tensor.strides is None or 0 in tensor.shape:
        return numel(tensor)
    return 1 + sum((size - 1) * abs(stride) for size, stride in zip(tensor.shape, tensor.strides, strict=True))


def _sparse_indices(tensor: TensorType) -> int:
    """The number of indices stored with the values: coordinates for COO; columns and row starts otherwise."""
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
    """The position of the first input with the same storage."""
    alias = kind.inputs[position].alias
    return position if alias is None or alias >= position else _root(kind, alias)


def _storage_bytes(views: list[tuple[TensorType, int | None]]) -> int:
    """Bytes accessed through several views of one storage.

    The offsets of views are not recorded, so two assumptions are made. Views with gaps (the thirds of a fused
    projection) fill each other's gaps; views without gaps (a tensor and its transpose) are the same elements.
    """
    sizes = [_touched_bytes(tensor, touched) for tensor, touched in views]
    capacity = 0
    for (tensor, _), size in zip(views, sizes, strict=True):
        elements = 0 if is_ragged(tensor) else distinct(tensor)
        capacity = max(capacity, size * -(-_span(tensor) // elements) if elements else 0)
    return min(sum(sizes), capacity) if len(views) > 1 else sum(sizes)


def _touched_bytes(tensor: TensorType, touched: int | None) -> int:
    if touched is None:
        return tensor_bytes(tensor)
    return min(nbytes(touched, tensor.dtype), tensor_bytes(tensor))


def _written_bytes(kind: OpKind, touched: Touched) -> int:
    """Bytes of new outputs and of each storage written in place."""
    size = sum(tensor_bytes(one.type) for one in kind.outputs if one.alias is None)
    changed = {position for position, one in enumerate(kind.inputs) if one.written}
    changed |= {one.alias for one in kind.outputs if one.written and one.alias is not None}
    groups: dict[int, list[Operand]] = {}
    for position in sorted(changed):
        groups.setdefault(_root(kind, position), []).append(kind.inputs[position])
    return size + sum(
        _storage_bytes([(one.type, touched.get(one.name)) for one in group]) for group in groups.values()
    )
