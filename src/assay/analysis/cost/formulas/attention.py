"""Attention. MACs = query-key pairs × (query head size + value head size).

All pairs are counted; `needed` counts only the pairs that a causal mask leaves visible. Grouped-query attention costs
as much as full attention, because every query head is multiplied with every key.
"""

from __future__ import annotations

from math import prod

from msgspec import Struct

from assay.analysis.cost.categories import ATTENTION, ELEMENT_WISE
from assay.analysis.cost.formulas.normalization import SOFTMAX
from assay.analysis.cost.reading import attribute, number, numel, operand, optional, rows
from assay.analysis.cost.registry import register
from assay.analysis.cost.rules import per_result
from assay.analysis.cost.work import FLOPS_PER_MAC, Uncountable, Work, contraction
from assay.document.rows import OpKind, TensorType

SCALE = 1
BACKWARD_POINTWISE = SCALE + 2 + 4
"""Ops per score: scale (1), exponentiate from the saved sums (2), gradient of the softmax (4)."""

TOP_LEFT, BOTTOM_RIGHT = 1, 2
"""Values of `custom_mask_type`: the corner from which a causal mask starts."""


class Scores(Struct, frozen=True):
    """A batch of query-key score matrices."""

    matrices: int
    queries: int
    keys: int
    head: int
    value_head: int
    corner: int = 0

    @property
    def pairs(self) -> int:
        """The number of query-key pairs of all matrices."""
        return self.matrices * self.queries * self.keys

    @property
    def needed_pairs(self) -> int:
        """The number of pairs that a causal mask leaves visible."""
        if not self.corner:
            return self.pairs
        shift = self.keys - self.queries if self.corner == BOTTOM_RIGHT else 0
        return self.matrices * causal_pairs(self.queries, self.keys, shift)


def causal_pairs(queries: int, keys: int, shift: int = 0) -> int:
    """The number of visible pairs: `causal_pairs(4, 4) == 10`; query i attends to keys 0 .. i + shift."""
    return _staircase(queries + shift, keys) - _staircase(shift, keys)


def _staircase(rows: int, widest: int) -> int:
    """The sum 1 + 2 + 3 + ... with one term per row, each at most `widest`."""
    rising = max(0, min(rows, widest))
    return rising * (rising + 1) // 2 + max(0, rows - widest) * widest


def _work(scores: Scores, head_products: int, value_products: int, per_score: float) -> Work:
    per_pair = head_products * scores.head + value_products * scores.value_head
    return Work(
        macs=scores.pairs * per_pair,
        pointwise=int(scores.pairs * per_score),
        needed=FLOPS_PER_MAC * scores.needed_pairs * per_pair,
    )


def _heads_first(kind: OpKind) -> Scores:
    """The scores of tensors with the layout ... x heads x length x size."""
    query, key, value = _triple(kind)
    matrices = prod(query.shape[:-2])
    corner = TOP_LEFT if attribute(kind, "is_causal", False) else 0
    return Scores(matrices, query.shape[-2], key.shape[-2], query.shape[-1], value.shape[-1], corner)


def _length_first(kind: OpKind) -> Scores:
    """The scores of tensors with the layout batch x length x heads x size; packed sequences are uncountable."""
    query, key, value = _triple(kind)
    if len(query.shape) != 4:
        raise Uncountable("packed sequences: their lengths are known only at run time")
    matrices = query.shape[0] * query.shape[2]
    return Scores(matrices, query.shape[1], key.shape[1], query.shape[-1], value.shape[-1], _corner(kind))


def _corner(kind: OpKind) -> int:
    if "custom_mask_type" in kind.attributes:
        return int(attribute(kind, "custom_mask_type", 0))
    return BOTTOM_RIGHT if attribute(kind, "is_causal", False) else 0


def _triple(kind: OpKind) -> tuple[TensorType, TensorType, TensorType]:
    return operand(kind, "query", "q"), operand(kind, "key", "k"), operand(kind, "value", "v")


def _per_score(kind: OpKind) -> int:
    masked = optional(kind, "attn_mask", "attn_bias", "bias") is not None
    dropped = number(kind, "dropout_p", 0) > 0
    return SCALE + SOFTMAX + masked + 2 * dropped


_SDPA = """
_scaled_dot_product_flash_attention _scaled_dot_product_flash_attention_for_cpu
_scaled_dot_product_efficient_attention _scaled_dot_product_cudnn_attention
_scaled_dot_product_fused_attention_overrideable
"""


@register(
    "scaled_dot_product_attention _scaled_dot_product_attention_math _scaled_dot_product_attention_math_for_mps "
    "_triton_scaled_dot_attention _cudnn_attention_forward",
    _SDPA,
    category=ATTENTION,
)
def attend(kind: OpKind) -> Work:
    """Two dot products per query-key pair: the score and the weighted value."""
    return _work(_heads_first(kind), 1, 1, _per_score(kind))


@register("higher_order::flex_attention", category=ATTENTION)
def attend_flexibly(kind: OpKind) -> Work:
    """Dense attention; if the capture counted the pairs that the block mask keeps, only these are needed."""
    work, scores = attend(kind), _heads_first(kind)
    pairs = kind.facts.get("score_pairs")
    if pairs is None:
        return work
    needed = FLOPS_PER_MAC * pairs * (scores.head + scores.value_head)
    return Work(work.macs, work.pointwise, needed=needed)


@register(
    "_flash_attention_forward _flash_attention_forward_no_dropout_inplace _efficient_attention_forward",
    category=ATTENTION,
)
def attend_length_first(kind: OpKind) -> Work:
    """Kernels whose tensors have the length before the heads."""
    return _work(_length_first(kind), 1, 1, _per_score(kind))


@register(
    "higher_order::flex_attention_backward _cudnn_attention_backward",
    *(f"{name}_backward" for name in _SDPA.split()),
    category=ATTENTION,
)
def attend_backward(kind: OpKind) -> Work:
    """Five dot products per pair: the score again, then the gradients of value, softmax, query and key."""
    return _work(_heads_first(kind), 3, 2, BACKWARD_POINTWISE)


@register("_flash_attention_backward _efficient_attention_backward", category=ATTENTION)
def attend_length_first_backward(kind: OpKind) -> Work:
    """The same five dot products, for tensors with the length before the heads."""
    return _work(_length_first(kind), 3, 2, BACKWARD_POINTWISE)


def multi_head(kind: OpKind, query: TensorType, key: TensorType, value: TensorType) -> Work:
    """The work of a fused multi-head attention: input projections, attention and output projection."""
    width = int(kind.attributes["embed_dim"])
    heads = int(attribute(kind, "num_head", 0) or attribute(kind, "num_heads", 1))
    tokens = [rows(one) for one in (query, key, value)]
    projections = width * width * (sum(tokens) + tokens[0])
    batch = query.shape[0] if len(query.shape) == 3 else 1
    head = width // heads
    scores = Scores(batch * heads, tokens[0] // batch, tokens[1] // batch, head, head)
    masked = optional(kind, "mask") is not None
    biases = width * (sum(tokens) + tokens[0])
    dense = contraction(projections, query.dtype, pointwise=biases)
    return dense + _work(scores, 1, 1, SCALE + SOFTMAX + masked)


@register("_native_multi_head_attention _triton_multi_head_attention", category=ATTENTION)
def multi_head_attention(kind: OpKind) -> Work:
    """The fused op of a multi-head attention module."""
    return multi_head(kind, *_triple(kind))


@register("_transformer_encoder_layer_fwd", category=ATTENTION)
def encoder_layer(kind: OpKind) -> Work:
    """Attention, two norms, two residual additions, and the feed-forward network with its activation."""
    source = operand(kind, "src")
    tokens = rows(source)
    wide = operand(kind, "ffn_weight_1")
    macs = tokens * (numel(wide) + numel(operand(kind, "ffn_weight_2")))
    hidden, activation = tokens * wide.shape[0], 5 if attribute(kind, "use_gelu", False) else 1
    pointwise = hidden * (1 + activation) + numel(source) * (1 + 2 * 8 + 2)
    return multi_head(kind, source, source, source) + contraction(macs, source.dtype, pointwise=pointwise)


# A bias for query, key and value, and a scale for the query.
register("_transform_bias_rescale_qkv", category=ELEMENT_WISE)(per_result(4))
