"""Shrink a transformers configuration: few layers, narrow widths, a short vocabulary.

Most model types go through the tables below; what does not fit them stands in `hf_exceptions`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from transformers import PretrainedConfig

LAYERS = 2
VOCABULARY = 256
POSITIONS = 128
WIDTH = 64
HEADS = 4
HEAD = WIDTH // HEADS

_LAYERS = (
    "num_hidden_layers num_layers n_layer n_layers encoder_layers decoder_layers depth num_decoder_layers "
    "num_encoder_layers conf_num_hidden_layers encoder_num_hidden_layers decoder_num_hidden_layers layers "
    "resampler_depth num_blocks text_layers mit_num_hidden_layers num_timestamp_prediction_layers"
)
_HEADS = (
    "num_attention_heads num_heads n_head n_heads encoder_attention_heads decoder_attention_heads "
    "attention_heads num_key_value_heads conf_num_attention_heads encoder_num_attention_heads "
    "decoder_num_attention_heads resampler_n_heads mit_num_attention_heads prompt_num_attention_heads "
    "linear_num_value_heads swa_num_attention_heads swa_num_key_value_heads linear_num_heads index_n_heads "
    "mamba_n_heads"
)
_HEAD_WIDTHS = (
    "head_dim d_kv dim_head d_head resampler_head_dim v_head_dim qk_nope_head_dim qk_rope_head_dim "
    "linear_key_head_dim linear_value_head_dim linear_head_dim global_head_dim swa_head_dim rotary_dim"
)
_WIDTHS = (
    "hidden_size d_model n_embd dim embed_dim embedding_size hidden_dim projection_dim out_hidden_size "
    "encoder_hidden_size decoder_hidden_size word_embed_proj_dim text_hidden_size vision_hidden_size "
    "encoder_hidden_dim pooler_hidden_size emb_dim image_text_hidden_size text_embed_dim output_dim_projection "
    "hidden_size_global mit_hidden_size memory_attention_hidden_size output_hidden_size condition_dim "
    "attention_hidden_size pooler_output_size fusion_hidden_size num_pos_feats_width kv_lora_rank q_lora_rank "
    "hidden_size_per_layer_input lru_width input_embedding_size depth_hidden_size cross_attention_hidden_size "
    "encoder_embed_dim audio_hidden_size adapter_rank"
)
_INNER_WIDTHS = (
    "intermediate_size ffn_dim encoder_ffn_dim decoder_ffn_dim d_ff n_inner mlp_dim moe_intermediate_size "
    "d_inner dim_ff dim_feedforward shared_expert_intermediate_size shared_intermediate_size ffn_hidden_size "
    "decoder_intermediate_size encoder_linear_units decoder_linear_units mit_intermediate_size "
    "projector_hidden_size encoder_intermediate_size intermediate_size_mlp "
    "moe_shared_expert_intermediate_size projection_intermediate_size"
)
_VOCABULARIES = (
    "vocab_size input_vocab_size output_vocab_size vocab_size_per_layer_input entity_vocab_size text_vocab_size "
    "n_vocab_text src_vocab_size tgt_vocab_size"
)
_EXPERTS = "num_experts num_local_experts n_routed_experts moe_num_experts"
_CHOSEN_EXPERTS = "num_experts_per_tok num_experts_per_token moe_topk moe_k top_k_experts"
_POSITIONS = "max_position_embeddings n_positions n_ctx"

_SMALL: dict[str, int] = {
    **dict.fromkeys(_HEADS.split(), HEADS),
    **dict.fromkeys(_HEAD_WIDTHS.split(), HEAD),
    **dict.fromkeys(_WIDTHS.split(), WIDTH),
    **dict.fromkeys(_INNER_WIDTHS.split(), 2 * WIDTH),
    **dict.fromkeys(_VOCABULARIES.split(), VOCABULARY),
    **dict.fromkeys(_EXPERTS.split(), 4),
    **dict.fromkeys(_CHOSEN_EXPERTS.split(), 2),
    **dict.fromkeys(_POSITIONS.split(), POSITIONS),
    "linear_num_key_heads": 2,
    "n_group": 1,
    "topk_group": 1,
    "num_expert_group": 1,
    "n_shared_experts": 1,
    "first_k_dense_replace": 1,
    "num_dense_layers": 1,
    "max_window_layers": 1,
    "sliding_window": 16,
    "image_size": 64,
    "num_queries": 10,
    "mamba_d_state": 16,
    "mamba_d_head": 32,
    "state_size": 16,
    "index_topk": 4,
    "num_kv_shared_layers": 0,
    "num_adapter_layers": 1,
    "num_nextn_predict_layers": 0,
    "mem_len": 16,
}
_PER_LAYER = (
    "layer_types",
    "mlp_layer_types",
    "layers_block_type",
    "no_rope_layers",
    "indexer_types",
    "moe_layer_freq",
)
"""Names of lists with one item per layer; they are shortened so that each kind of layer stays."""
_SPECIAL_TOKEN_ENDS = ("_token_id", "_token_index")
_SECTIONS = (HEAD // 8, 3 * HEAD // 16, 3 * HEAD // 16)
"""The parts of half a head for rotary positions over time, height and width."""
_KEEP = 24
"""Special token ids below this stay; the rest move below it and stay distinct."""


def shrink(default: PretrainedConfig) -> dict[str, Any]:
    """The constructor arguments that make a small sibling of `default`, its sub-configurations included."""
    given = {key: value for key, value in vars(default).items() if not key.startswith("_")}
    layers, per_layer = _layers(given)
    small: dict[str, Any] = dict(per_layer)
    small.update({name: layers for name in _LAYERS.split() if _is_count(given.get(name))})
    for name, value in given.items():
        if isinstance(value, PretrainedConfig):
            small[name] = {"model_type": value.model_type, **shrink(value)}
        elif name == "head_dim" and value is None:
            small[name] = HEAD
        elif name in ("depths", "num_block_repeats") and isinstance(value, (list, tuple)):
            small[name] = [1] * len(value)
        elif name == "embed_dim" and isinstance(given.get("num_heads"), (list, tuple)) and _is_count(value):
            small[name] = HEAD // 2 * given["num_heads"][0]
        elif name in _SMALL and _is_count(value):
            small[name] = min(value, _SMALL[name]) if value > 0 else value
        elif isinstance(value, Mapping) and "mrope_section" in value:
            small[name] = {**value, "mrope_section": list(_SECTIONS)}
    small.update(_heads(given))
    small.update(_special_tokens(given))
    return small


def merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """`base` updated with `changes`, recursively."""
    result = dict(base)
    for name, value in changes.items():
        both = isinstance(value, Mapping) and isinstance(result.get(name), Mapping)
        result[name] = merged(result[name], value) if both else value
    return result


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _layers(given: Mapping[str, Any]) -> tuple[int, dict[str, list[Any]]]:
    """The number of layers to keep, and the per-layer lists shortened to it."""
    lists = {name: list(given[name]) for name in _PER_LAYER if isinstance(given.get(name), (list, tuple))}
    if not lists:
        return LAYERS, {}
    rows = list(zip(*lists.values(), strict=False))
    first = [rows.index(row) for row in dict.fromkeys(rows)]
    chosen = sorted(set(first[:4]) | set(range(min(LAYERS, len(rows))))) if rows else []
    return max(len(chosen), 1), {name: [values[i] for i in chosen] for name, values in lists.items()}


def _heads(given: Mapping[str, Any]) -> dict[str, int]:
    """Grouped key and value heads stay grouped."""
    heads, groups = given.get("num_attention_heads"), given.get("num_key_value_heads")
    grouped = _is_count(heads) and _is_count(groups) and 0 < groups < heads
    return {"num_key_value_heads": 1 if groups == 1 else HEADS // 2} if grouped else {}


def _special_tokens(given: Mapping[str, Any]) -> dict[str, int]:
    """Special token ids moved into the small vocabulary; distinct ids stay distinct."""
    names = [name for name in given if name.endswith(_SPECIAL_TOKEN_ENDS) and _is_count(given[name])]
    large = sorted({given[name] for name in names if given[name] >= VOCABULARY})
    moved = {token: _KEEP + place for place, token in enumerate(large)}
    return {name: moved[given[name]] for name in names if given[name] in moved}
