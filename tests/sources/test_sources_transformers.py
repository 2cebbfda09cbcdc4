"""Inputs inferred from a transformers config, run with data on a small model of each family."""

from __future__ import annotations

import pytest
import torch
import transformers as hf
from opening import open_model

from assay.sources.inputs import find_inputs

TEXT = {
    "vocab_size": 60,
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 16,
}
LLAMA = {**TEXT, "num_key_value_heads": 1, "max_position_embeddings": 64}
BART = {
    "vocab_size": 60,
    "d_model": 16,
    **{
        f"{side}_{what}": size
        for side in ("encoder", "decoder")
        for what, size in (("layers", 1), ("attention_heads", 2), ("ffn_dim", 16))
    },
}
VISION = {"image_size": 32, "patch_size": 8, **{key: value for key, value in TEXT.items() if key != "vocab_size"}}
CONVS = {"conv_dim": (8, 8), "conv_stride": (5, 4), "conv_kernel": (10, 8), "num_feat_extract_layers": 2}
SPEECH = {
    **TEXT,
    **CONVS,
    "num_conv_pos_embeddings": 4,
    "num_conv_pos_embedding_groups": 2,
    "feat_extract_norm": "layer",
}
CLIP = {
    "text_config": {**TEXT, "max_position_embeddings": 20, "bos_token_id": 1, "eos_token_id": 2},
    "vision_config": VISION,
    "projection_dim": 8,
}
RESNET = {"embedding_size": 8, "hidden_sizes": [8, 8, 16, 16], "depths": [1, 1, 1, 1], "layer_type": "basic"}
DETR = {
    **BART,
    "num_queries": 5,
    "use_timm_backbone": False,
    "backbone": None,
    "backbone_config": {"model_type": "resnet", "out_features": ["stage4"], **RESNET},
}
WHISPER = {
    **BART,
    "num_mel_bins": 16,
    "max_source_positions": 30,
    "max_target_positions": 40,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
}
SEGFORMER = {
    "hidden_sizes": [8, 8, 16, 16],
    "depths": [1] * 4,
    "num_attention_heads": [1, 1, 2, 2],
    "decoder_hidden_size": 8,
}

IDS = "input_ids=1x128:int64[0,60]"
SHORT = "input_ids=1x64:int64[0,60]"
FAMILIES = {
    "BertModel": (TEXT, IDS),
    "RobertaModel": ({**TEXT, "max_position_embeddings": 50}, "input_ids=1x48:int64[0,60]"),
    "GPT2LMHeadModel": ({"vocab_size": 60, "n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 64}, SHORT),
    "LlamaForCausalLM": (LLAMA, SHORT),
    "Qwen2ForCausalLM": (LLAMA, SHORT),
    "MixtralForCausalLM": ({**LLAMA, "num_local_experts": 4}, SHORT),
    "MambaForCausalLM": ({**TEXT, "state_size": 4}, IDS),
    "T5ForConditionalGeneration": (
        {"vocab_size": 60, "d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 1, "num_heads": 2},
        f"{IDS}, decoder_{IDS}",
    ),
    "BartForConditionalGeneration": ({**BART, "max_position_embeddings": 64}, f"{SHORT}, decoder_{SHORT}"),
    "ViTForImageClassification": (VISION, "pixel_values=1x3x32x32:float32"),
    "ConvNextForImageClassification": (
        {"hidden_sizes": [8, 8, 16, 16], "depths": [1] * 4, "num_channels": 4},
        "pixel_values=1x4x224x224:float32",
    ),
    "SegformerForSemanticSegmentation": (SEGFORMER, "pixel_values=1x3x224x224:float32"),
    "DetrForObjectDetection": (DETR, "pixel_values=1x3x224x224:float32"),
    "VideoMAEModel": ({**VISION, "num_frames": 4, "tubelet_size": 2}, "pixel_values=1x4x3x32x32:float32"),
    "CLIPModel": (CLIP, "input_ids=1x20:int64[0,60], pixel_values=1x3x32x32:float32"),
    "WhisperForConditionalGeneration": (
        WHISPER,
        "input_features=1x16x60:float32, decoder_input_ids=1x40:int64[0,60]",
    ),
    "Wav2Vec2Model": (SPEECH, "input_values=1x16000:float32"),
    "ASTModel": ({**TEXT, "max_length": 64, "num_mel_bins": 32}, "input_values=1x64x32:float32"),
    "TimeSeriesTransformerModel": (
        {"prediction_length": 4, "context_length": 8, "lags_sequence": [1, 2], "num_time_features": 1, **BART},
        None,
    ),
}


def folder_of(name, fields, tmp_path):
    kind = getattr(hf, name)
    kind.config_class(**fields, architectures=[name]).save_pretrained(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", FAMILIES)
def test_a_small_model_of_each_family_runs_on_the_inferred_inputs(name, tmp_path):
    fields, expected = FAMILIES[name]
    opened = open_model(folder_of(name, fields, tmp_path))
    assert type(opened.module).__name__ == name
    inputs = find_inputs(None, opened, device="cpu")
    real = type(opened.module)(opened.model.config).eval()
    with torch.no_grad():
        real(*inputs.args, **inputs.kwargs)
    if expected is not None:
        assert inputs.how == f"inferred: {expected} from {type(opened.model.config).__name__}"


def test_inputs_of_a_live_model_are_inferred_like_those_of_a_folder(tmp_path):
    model = hf.GPT2Model(hf.GPT2Config(vocab_size=60, n_embd=16, n_layer=1, n_head=2, n_positions=64))
    inputs = find_inputs(None, open_model(model))
    assert inputs.kwargs["input_ids"].shape == (1, 64)
    assert inputs.kwargs["input_ids"].device.type == "cpu"


def test_image_placeholders_are_as_many_as_patches_and_avoided_in_the_text(tmp_path):
    config = hf.LlavaConfig(
        text_config={"model_type": "llama", **LLAMA},
        vision_config={"model_type": "clip_vision_model", **VISION},
        image_token_id=7,
    )
    config.save_pretrained(tmp_path)
    inputs = find_inputs(None, open_model(tmp_path))
    ids = inputs.kwargs["input_ids"][0]
    rows = (32 // 8) ** 2
    assert ids[1 : rows + 1].unique().tolist() == [7]
    assert ids[rows + 1 :].min() > 7
    assert ids.max() < 60


def test_on_meta_ids_have_values_and_pixels_do_not(tmp_path):
    opened = open_model(folder_of("CLIPModel", CLIP, tmp_path))
    inputs = find_inputs(None, opened)
    assert inputs.kwargs["input_ids"].device.type == "cpu"
    assert inputs.kwargs["pixel_values"].is_meta


def test_floats_follow_the_dtype_of_the_config(tmp_path):
    opened = open_model(folder_of("ViTForImageClassification", {**VISION, "dtype": "bfloat16"}, tmp_path))
    assert find_inputs(None, opened).kwargs["pixel_values"].dtype is torch.bfloat16
