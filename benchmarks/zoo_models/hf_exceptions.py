"""Corrections to the small configuration by model type, where the general shrinking does not work."""

from __future__ import annotations

from typing import Any

from zoo_models.shrink import HEADS, WIDTH

_SECTIONED = {"rope_type": "default", "rope_theta": 10_000.0, "mrope_section": [2, 3, 3]}
_SECTIONED_TEXT = {"text_config": {"rope_parameters": _SECTIONED}}
_RESNET = {"model_type": "resnet", "embedding_size": 8, "hidden_sizes": [16, 32, 64, 128], "depths": [1, 1, 1, 1]}
_OWN_BACKBONE = {"use_timm_backbone": False, "backbone": None, "use_pretrained_backbone": False}
_ONE_MAP = {**_OWN_BACKBONE, "backbone_config": {**_RESNET, "out_features": ["stage4"]}}
_MORE_MAPS = {**_OWN_BACKBONE, "backbone_config": {**_RESNET, "out_features": ["stage2", "stage3", "stage4"]}}
_FORECAST = {"prediction_length": 4, "context_length": 8, "num_time_features": 1, "input_size": 1}
_PLACEHOLDERS = {"image_token_id": 24, "video_token_id": 25}
_CODEC = {"upsample_groups": WIDTH, "num_filters": 8, "codebook_size": 32}

EXCEPTIONS: dict[str, dict[str, Any]] = {
    "informer": _FORECAST,
    "time_series_transformer": _FORECAST,
    "qwen2_vl": _SECTIONED_TEXT,
    "qwen2_vl_text": {"rope_parameters": _SECTIONED},
    "qwen2_5_vl": _SECTIONED_TEXT,
    "qwen2_5_vl_text": {"rope_parameters": _SECTIONED},
    "qwen2_5_omni_thinker": _SECTIONED_TEXT,
    "paddleocr_vl": _SECTIONED_TEXT,
    "detr": _ONE_MAP,
    "conditional_detr": _ONE_MAP,
    "dab-detr": _ONE_MAP,
    "table-transformer": _ONE_MAP,
    "deformable_detr": _MORE_MAPS,
    "mimi": _CODEC,
    "csm": {"codec_config": _CODEC},
    "pocket_tts_audio_tokenizer": _CODEC,
    "gpt_neo": {"attention_types": [[["global", "local"], 1]]},
    "esm": {"vocab_size": 33, "pad_token_id": 1, "mask_token_id": 32},
    "mamba2": {"num_heads": 2 * HEADS, "n_groups": 2, "chunk_size": 8},
    "reformer": {
        "axial_pos_embds_dim": [16, 48],
        "axial_pos_shape": [8, 8],
        "attn_layers": ["local", "lsh"],
        "num_buckets": 4,
        "lsh_attn_chunk_length": 8,
        "local_attn_chunk_length": 8,
    },
    "falcon_h1": {"mamba_n_heads": HEADS, "mamba_d_head": 32, "mamba_d_ssm": 4 * 32, "mamba_n_groups": 1},
    "glm5_next_text": {"index_topk": 16},
    "glm5_next": {"text_config": {"index_topk": 16}},
    "layoutlmv3": {"coordinate_size": 8, "shape_size": 16, "input_size": 64},
    "lilt": {"hidden_size": 96, "num_attention_heads": 4},
    "xlstm": {"num_heads": HEADS, "qk_dim_factor": 1.0, "mlstm_round_up_to_multiple_of": 8},
    "xmod": {"default_language": "en_XX"},
    "patchtst": {"num_input_channels": 2},
    "patchtsmixer": {"num_input_channels": 2},
    "kimi_linear": {"num_experts_per_token": 2},
    "longcat_flash": {"ffn_hidden_size": 128, "expert_ffn_hidden_size": 32, "zero_expert_num": 2, "moe_topk": 2},
    "sam": {"vision_config": {"output_channels": WIDTH, "num_pos_feats": WIDTH // 2}},
    "sam_hq": {"vision_config": {"output_channels": WIDTH, "num_pos_feats": WIDTH // 2}},
    "step3p7": {"text_config": {"sliding_window": 16}},
    "aria": {"projector_patch_to_query_dict": {4: 4}},
    "gemma3": {"mm_tokens_per_image": 4},
    "t5gemma2": {"encoder": {"mm_tokens_per_image": 4}},
    "vipllava": {"vision_feature_layers": [-1, -2]},
    "voxtral": {"audio_token_id": 24},
    "minicpm_ocr": _PLACEHOLDERS,
    "minicpmv4_6": _PLACEHOLDERS,
    "minicpmv4_7": _PLACEHOLDERS,
    "deepseek_vl_hybrid": {"high_res_vision_config": {"global_attn_indexes": [0]}},
    "kimi_k25": {"projection_hidden_size": WIDTH},
    "muse_glimmer": {"out_hidden_size": 4 * WIDTH},
    "llava_next": {"image_grid_pinpoints": [[64, 128], [128, 64]]},
    "phi4_multimodal": {"audio_config": {"audio_token_id": 25, "ext_pw_out_channel": WIDTH}},
    "llama4": {
        "vision_config": {
            "intermediate_size": 4 * WIDTH,
            "projector_input_dim": WIDTH,
            "projector_output_dim": WIDTH,
            "vision_output_dim": WIDTH,
        }
    },
    "mllama": {
        "vision_config": {"intermediate_layers_indices": [0, 1], "vision_output_dim": 3 * WIDTH},
        "text_config": {"cross_attention_layers": [1]},
    },
}
