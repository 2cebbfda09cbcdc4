"""Folders with a config.json and weights, as transformers and others save them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import save_file

_SMALL = {"num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 32, "intermediate_size": 48}
_TEXT = {**_SMALL, "vocab_size": 100, "max_position_embeddings": 64, "bos_token_id": 1, "eos_token_id": 2}
_GROUPED = {**_TEXT, "num_key_value_heads": 1}


def bert() -> Any:
    """A BERT with a masked-language head, whose decoder is tied to its embeddings."""
    return transformers.BertForMaskedLM(transformers.BertConfig(**_TEXT))


def llama() -> Any:
    """A Llama with an output projection of its own."""
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**_GROUPED))


def gpt2() -> Any:
    """A GPT-2, whose output projection is tied to its embeddings."""
    sizes = {"n_embd": 32, "n_layer": 2, "n_head": 2, "vocab_size": 100, "n_positions": 64}
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes, bos_token_id=1, eos_token_id=2))


def vit() -> Any:
    """A ViT that classifies images."""
    return transformers.ViTForImageClassification(transformers.ViTConfig(**_SMALL, image_size=32, patch_size=8))


def t5() -> Any:
    """A T5, whose three embeddings are tied."""
    sizes = {"d_model": 32, "d_kv": 16, "d_ff": 64, "num_layers": 2, "num_heads": 2, "vocab_size": 100}
    return transformers.T5ForConditionalGeneration(transformers.T5Config(**sizes, decoder_start_token_id=0))


def mixtral() -> Any:
    """A Mixtral, whose experts transformers 5 merges into two tensors per layer."""
    sizes = {"num_local_experts": 4, "num_experts_per_tok": 2}
    return transformers.MixtralForCausalLM(transformers.MixtralConfig(**_GROUPED, **sizes))


def write(folder: Path, model: Any, tensors: Mapping[str, torch.Tensor], **fields: Any) -> Path:
    """A folder with the model's config, with these fields changed, and these tensors."""
    folder.mkdir()
    config = {**json.loads(model.config.to_json_string(use_diff=False)), "architectures": [type(model).__name__]}
    (folder / "config.json").write_text(json.dumps({**config, **fields}))
    save_file({name: each.contiguous().clone() for name, each in tensors.items()}, folder / "model.safetensors")
    return folder


def saved(folder: Path, model: Any, form: str) -> Path:
    """A folder with the model as `save_pretrained` writes it, in shards, or as `pytorch_model.bin`."""
    if form != "bin":
        model.save_pretrained(folder, **({"max_shard_size": "20KB"} if form == "sharded" else {}))
        return folder
    model.config.architectures = [type(model).__name__]
    model.config.save_pretrained(folder)
    torch.save(model.state_dict(), folder / "pytorch_model.bin")
    return folder
