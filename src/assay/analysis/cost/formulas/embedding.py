"""Lookups: no arithmetic to read a row, one addition per element to pool or accumulate rows."""

from __future__ import annotations

from assay.analysis.cost.bytes import row_lookup
from assay.analysis.cost.categories import EMBEDDING
from assay.analysis.cost.reading import attribute, numel, operand, optional, result
from assay.analysis.cost.registry import register
from assay.analysis.cost.rules import free, per_operand
from assay.analysis.cost.work import Work
from assay.document.rows import OpKind

MEAN = 1
_ROWS = row_lookup("weight", "indices")
"""A lookup reads as many rows as there are indices."""

register("embedding quantized::embedding_byte quantized::embedding_4bit", category=EMBEDDING, traffic=_ROWS)(free)
register("embedding_dense_backward embedding_backward", category=EMBEDDING)(per_operand(1, "grad", "grad_output"))
register("embedding_sparse_backward", category=EMBEDDING)(free)


@register(
    "embedding_bag _embedding_bag _embedding_bag_forward_only quantized::embedding_bag_byte "
    "quantized::embedding_bag_4bit quantized::embedding_bag_byte_rowwise_offsets "
    "quantized::embedding_bag_4bit_rowwise_offsets quantized::embedding_bag_2bit_rowwise_offsets",
    category=EMBEDDING,
    traffic=_ROWS,
)
def embedding_bag(kind: OpKind) -> Work:
    """One op per element of each selected row, one more with sample weights, one per output element for a mean."""
    pooled = result(kind)
    rows = numel(operand(kind, "indices")) * pooled.shape[-1]
    weighted = rows if optional(kind, "per_sample_weights") else 0
    divided = numel(pooled) if attribute(kind, "mode", 0) == MEAN else 0
    return Work(pointwise=rows + weighted + divided)


@register(
    "_embedding_bag_dense_backward _embedding_bag_backward _embedding_bag_sparse_backward "
    "_embedding_bag_per_sample_weights_backward",
    category=EMBEDDING,
)
def embedding_bag_backward(kind: OpKind) -> Work:
    """One addition per element of each selected row."""
    return Work(pointwise=numel(operand(kind, "indices")) * operand(kind, "grad").shape[-1])
