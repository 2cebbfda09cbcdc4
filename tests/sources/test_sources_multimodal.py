"""Inputs inferred for models of several modalities: every tower must run, as an independent hook sees it."""

from __future__ import annotations

import json

import pytest
import torch
import transformers as hf
from opening import open_model

import assay
from assay.errors import InputsError, UsageError
from assay.sources import inputs as inputs_module
from assay.sources.inputs import check_affordable, find_inputs
from assay.sources.resizing import resized

SMALL = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
TEXT = {**SMALL, "vocab_size": 200, "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 256}
LLAMA = {"model_type": "llama", **TEXT}
QWEN = {"model_type": "qwen2", **TEXT}
VISION = {**SMALL, "image_size": 32, "patch_size": 8}
SIGLIP = {"model_type": "siglip_vision_model", **VISION}
CLIP = {"model_type": "clip_vision_model", **VISION, "projection_dim": 16}
SECTIONED = {**TEXT, "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 3, 3]}}
GRIDDED = {"image_token_id": 150, "video_token_id": 151, "vision_start_token_id": 152, "vision_end_token_id": 153}
SOUND = {
    "num_mel_bins": 16,
    "d_model": 32,
    "encoder_layers": 2,
    "encoder_attention_heads": 2,
    "encoder_ffn_dim": 32,
    "max_source_positions": 40,
}
WHISPER = {
    **SOUND,
    "vocab_size": 200,
    "decoder_layers": 1,
    "decoder_attention_heads": 2,
    "decoder_ffn_dim": 32,
    "max_target_positions": 40,
    **dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id"), 1),
}
MODELS = {
    "LlavaForConditionalGeneration": (
        {"text_config": LLAMA, "vision_config": CLIP, "image_token_id": 150},
        {"vision_tower": 16},
    ),
    "LlavaNextForConditionalGeneration": (
        {"text_config": LLAMA, "vision_config": CLIP, "image_token_id": 150, "image_grid_pinpoints": [[32, 64]]},
        {"vision_tower": None},
    ),
    "Qwen2VLForConditionalGeneration": (
        {
            "text_config": SECTIONED,
            "vision_config": {"depth": 2, "embed_dim": 32, "hidden_size": 32, "num_heads": 2, "patch_size": 8},
            **GRIDDED,
        },
        {"visual": 64},
    ),
    "Qwen2_5_VLForConditionalGeneration": (
        {
            "text_config": SECTIONED,
            "vision_config": {
                "depth": 2,
                "hidden_size": 32,
                "out_hidden_size": 32,
                "num_heads": 2,
                "intermediate_size": 32,
                "patch_size": 8,
                "window_size": 64,
                "fullatt_block_indexes": [1],
            },
            **GRIDDED,
        },
        {"visual": 64},
    ),
    "Idefics3ForConditionalGeneration": (
        {"text_config": LLAMA, "vision_config": VISION, "image_token_id": 150, "scale_factor": 2},
        {"vision_model": 4, "connector": 4},
    ),
    "SmolVLMForConditionalGeneration": (
        {"text_config": LLAMA, "vision_config": VISION, "image_token_id": 150, "scale_factor": 2},
        {"vision_model": 4, "connector": 4},
    ),
    "PaliGemmaForConditionalGeneration": (
        {
            "text_config": {"model_type": "gemma", **TEXT},
            "vision_config": {**SIGLIP, "projection_dim": 32},
            "image_token_id": 150,
            "projection_dim": 32,
        },
        {"vision_tower": 16},
    ),
    "Gemma3ForConditionalGeneration": (
        {"text_config": TEXT, "vision_config": SIGLIP, "image_token_id": 150, "mm_tokens_per_image": 4},
        {"vision_tower": 4},
    ),
    "InternVLForConditionalGeneration": (
        {
            "text_config": QWEN,
            "vision_config": {**VISION, "image_size": [32, 32], "patch_size": [8, 8]},
            "image_token_id": 150,
        },
        {"vision_tower": 4},
    ),
    "Mistral3ForConditionalGeneration": (
        {
            "text_config": {"model_type": "mistral", **TEXT},
            "vision_config": {"model_type": "pixtral", **VISION, "head_dim": 16, "image_size": 1540},
            "image_token_id": 150,
        },
        {"vision_tower": None},
    ),
    "Blip2ForConditionalGeneration": (
        {
            "text_config": {"model_type": "opt", **TEXT, "ffn_dim": 32, "word_embed_proj_dim": 32},
            "vision_config": VISION,
            "qformer_config": {**SMALL, "vocab_size": 60, "encoder_hidden_size": 32},
            "num_query_tokens": 5,
            "image_token_id": 150,
        },
        {"vision_model": 5, "qformer": 5},
    ),
    "CLIPModel": (
        {"text_config": {**TEXT, "max_position_embeddings": 20}, "vision_config": VISION, "projection_dim": 16},
        {"vision_model": None, "text_model": None},
    ),
    "Siglip2Model": (
        {
            "text_config": {**TEXT, "max_position_embeddings": 16},
            "vision_config": {**SMALL, "patch_size": 4, "num_patches": 256},
        },
        {"vision_model": None, "text_model": None},
    ),
    "WhisperForConditionalGeneration": (WHISPER, {"encoder": None, "decoder": None}),
    "Qwen2AudioForConditionalGeneration": (
        {"text_config": QWEN, "audio_config": SOUND, "audio_token_id": 150},
        {"audio_tower": 20},
    ),
    "VoxtralForConditionalGeneration": (
        {
            "text_config": LLAMA,
            "audio_config": {**SMALL, "num_mel_bins": 16, "max_source_positions": 40, "intermediate_size": 128},
            "audio_token_id": 150,
        },
        {"audio_tower": 10},
    ),
}
"""By class: its config, and the towers with the number of placeholder tokens in the text, None if it is not fixed."""


def built(name):
    kind = getattr(hf, name)
    torch.manual_seed(0)
    return kind(kind.config_class(**MODELS[name][0])).eval()


def called(model, inputs):
    """The paths of the modules that run with data."""
    paths = set()
    for path, child in model.named_modules():
        child.register_forward_pre_hook(lambda *_, path=path: paths.add(path))
    with torch.no_grad():
        model(*inputs.args, **inputs.kwargs)
    return paths


@pytest.mark.parametrize("name", MODELS)
def test_every_tower_runs_on_the_inferred_inputs(name):
    model = built(name)
    inputs = find_inputs(None, open_model(model))
    paths = called(model, inputs)
    for tower, tokens in MODELS[name][1].items():
        assert any(tower in path.split(".") for path in paths), f"{tower} did not run on {inputs.how}"
        if tokens is not None:
            assert (inputs.kwargs["input_ids"] == 150).sum() == tokens


def test_the_description_states_the_placeholders():
    inputs = find_inputs(None, open_model(built("LlavaForConditionalGeneration")))
    assert inputs.how == (
        "inferred: input_ids=1x145:int64[0,151], pixel_values=1x3x32x32:float32 from LlavaConfig with 16 image tokens"
    )


def test_an_upper_limit_of_the_image_size_is_not_taken_for_the_size():
    inputs = find_inputs(None, open_model(built("Mistral3ForConditionalGeneration")))
    assert inputs.kwargs["pixel_values"].shape[-2:] == (224, 224)


def test_a_batch_has_as_many_placeholders_as_patches():
    model = built("Qwen2VLForConditionalGeneration")
    inputs = resized(find_inputs(None, open_model(model)), batch=3)
    assert inputs.kwargs["pixel_values"].shape[0] == 3 * 256
    assert inputs.kwargs["image_grid_thw"].tolist() == [[1, 16, 16]] * 3
    assert any("visual" in path for path in called(model, inputs))


@pytest.mark.parametrize("length", [70, 400])
def test_a_text_of_another_length_keeps_its_placeholders(length):
    model = built("Qwen2VLForConditionalGeneration")
    inputs = resized(find_inputs(None, open_model(model)), seq=length)
    assert inputs.kwargs["input_ids"].shape == (1, length)
    assert (inputs.kwargs["input_ids"] == 150).sum() == 64
    assert any("visual" in path for path in called(model, inputs))


def test_a_text_shorter_than_its_placeholders_is_refused():
    inputs = find_inputs(None, open_model(built("Qwen2VLForConditionalGeneration")))
    with pytest.raises(UsageError, match=r"seq=20 is too short: the first 65 tokens"):
        resized(inputs, seq=20)


def test_without_data_the_placeholders_match_and_nothing_is_assumed():
    document = assay.observe(built("VoxtralForConditionalGeneration"), mode="meta")
    assert document.complete
    assert document.run.assumptions == ()


def saved_resnet(folder, **processor):
    sizes = {"embedding_size": 8, "hidden_sizes": [8, 8], "depths": [1, 1], "layer_type": "basic"}
    hf.ResNetConfig(**sizes, architectures=["ResNetModel"]).save_pretrained(folder)
    for name, settings in processor.items():
        (folder / f"{name}.json").write_text(json.dumps(settings))
    return find_inputs(None, open_model(folder)).kwargs["pixel_values"].shape


@pytest.mark.parametrize(
    "settings",
    [
        {"size": {"height": 96, "width": 80}},
        {"crop_size": {"height": 96, "width": 80}, "size": {"shortest_edge": 256}},
        {"image_processor": {"image_processor_type": "Some", "size": {"height": 96, "width": 80}}},
    ],
)
def test_the_size_in_the_processors_settings_is_used(tmp_path, settings):
    assert saved_resnet(tmp_path, preprocessor_config=settings) == (1, 3, 96, 80)


def test_damaged_settings_of_a_processor_are_ignored(tmp_path):
    assert saved_resnet(tmp_path) == (1, 3, 224, 224)
    (tmp_path / "preprocessor_config.json").write_text("{")
    assert saved_resnet(tmp_path) == (1, 3, 224, 224)


def test_an_enormous_pass_on_inferred_inputs_is_refused(monkeypatch):
    inputs = find_inputs(None, open_model(built("CLIPModel")))
    products = 2 * 20 * 32 * 32  # of the texts' queries alone
    assert inputs.flops > products
    check_affordable(inputs)
    monkeypatch.setattr(inputs_module, "AFFORDABLE_FLOPS", 1000)
    with pytest.raises(InputsError, match=r"more than the limit of 1\S* ?kFLOP: give smaller ones with --inputs"):
        check_affordable(inputs)
    check_affordable(resized(inputs, batch=2))
    with pytest.raises(InputsError, match=r"--inputs, or use --meta"):
        assay.observe(built("CLIPModel"))
    assert assay.observe(built("CLIPModel"), mode="meta").complete
    assert find_inputs(None, open_model(built("CLIPModel")), device="meta").flops == 0
