"""Ops and whole models whose energy is measured, each marked before any measurement: fitted to, or only tested on.

All are built from torch.nn or from configurations of transformers, with random weights and without downloads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from device_models import Decoder, convolutional
from energy_nets import (
    AudioCoder,
    CellLoop,
    DenseNet,
    Gathering,
    Mixer,
    MixtureOfExperts,
    OneTokenDecoder,
    PointCloud,
    Ranking,
    TwoTowers,
    UNet,
    vgg,
)
from torch import nn

from assay.timing.peaks.bursts import TimedDevice
from assay.timing.peaks.operations import operations

BF16, FP16, FP32 = torch.bfloat16, torch.float16, torch.float32
OP, FIT, TEST = "op", "fit", "test"
"""Ops and `fit` models are fitted to; `test` models never are."""


@dataclass(frozen=True)
class Size:
    """Picks the size of a dimension: the real one, or a small one to try a subject without a GPU."""

    tiny: bool

    def __call__(self, real: int, small: int) -> int:
        """The size to use."""
        return small if self.tiny else real


Built = tuple[nn.Module, tuple[Any, ...]]
Build = Callable[[Size], Built]


@dataclass(frozen=True)
class Subject:
    """One op or model to measure."""

    name: str
    use: str
    dtype: torch.dtype
    build: Build
    tf32: bool = False
    """Whether float32 products run in tf32."""


def _tokens(batch: int, length: int, s: Size, words: int = 1000) -> torch.Tensor:
    return torch.randint(0, words, (s(batch, 1), s(length, 8)))


def _pictures(batch: int, side: int, s: Size, small: int = 32) -> torch.Tensor:
    return torch.randn(s(batch, 1), 3, s(side, small), s(side, small))


def _hf(model: str, config: str, options: Callable[[Size], dict[str, Any]], inputs: Callable[[Size], Any]) -> Build:
    """A model of transformers from its configuration; `inputs` gives its positional inputs."""

    def build(s: Size) -> Built:
        import transformers

        made = getattr(transformers, model)(getattr(transformers, config)(**options(s)))
        given = inputs(s)
        return made, given if isinstance(given, tuple) else (given,)

    return build


def _bert(s: Size, layers: int = 12, width: int = 768) -> dict[str, Any]:
    return {
        "num_hidden_layers": s(layers, 1), "hidden_size": s(width, 64), "num_attention_heads": s(width // 64, 1),
        "intermediate_size": s(4 * width, 64), "vocab_size": s(30522, 1000),
    }  # fmt: skip


def _vit(s: Size) -> dict[str, Any]:
    return _small(s, num_hidden_layers=12) | {"image_size": s(224, 32)}


def _small(s: Size, **real: Any) -> dict[str, Any]:
    """`real` options, or a model of one small layer."""
    tiny = {"hidden_size": 64, "num_attention_heads": 1, "intermediate_size": 64, "num_hidden_layers": 1}
    return tiny if s.tiny else real


def _llama(s: Size) -> dict[str, Any]:
    return {
        "hidden_size": s(2048, 64), "intermediate_size": s(5632, 64), "num_hidden_layers": s(12, 1),
        "num_attention_heads": s(32, 2), "num_key_value_heads": s(8, 1), "vocab_size": s(32000, 1000),
        "use_cache": False,
    }  # fmt: skip


def _mixtral(s: Size) -> dict[str, Any]:
    return _llama(s) | {
        "hidden_size": s(1024, 64), "intermediate_size": s(2816, 64), "num_hidden_layers": s(6, 1),
        "num_attention_heads": s(16, 2), "num_local_experts": s(8, 2),
    }  # fmt: skip


def _mamba(s: Size) -> dict[str, Any]:
    return {"hidden_size": s(512, 32), "num_hidden_layers": s(4, 1), "vocab_size": 1000, "use_cache": False}


def _t5(s: Size) -> dict[str, Any]:
    return {
        "d_model": s(768, 64), "d_ff": s(2048, 64), "num_layers": s(12, 1), "num_heads": s(12, 1), "d_kv": 64,
        "use_cache": False,
    }  # fmt: skip


def _whisper(s: Size) -> dict[str, Any]:
    return {
        "d_model": s(512, 64), "encoder_layers": s(6, 1), "decoder_layers": s(6, 1), "use_cache": False,
        "encoder_attention_heads": s(8, 1), "decoder_attention_heads": s(8, 1),
        "encoder_ffn_dim": s(2048, 64), "decoder_ffn_dim": s(2048, 64), "max_source_positions": s(1500, 16),
    }  # fmt: skip


def _clip(s: Size) -> dict[str, Any]:
    part = _small(s, num_hidden_layers=12)
    return {"text_config": part, "vision_config": part | ({"image_size": 32, "patch_size": 16} if s.tiny else {})}


def _gpt2(s: Size) -> dict[str, Any]:
    return {"n_layer": s(12, 1), "n_embd": s(768, 64), "n_head": s(12, 1), "use_cache": False}


def _decoder(batch: int, length: int, width: int, blocks: int) -> Build:
    return lambda s: (Decoder(s(width, 64), s(width // 64, 1), s(blocks, 1)), (_tokens(batch, length, s),))


def _mlp(batch: int, width: int, layers: int) -> Build:
    def build(s: Size) -> Built:
        wide = s(width, 16)
        steps = [part for _ in range(s(layers, 2)) for part in (nn.Linear(wide, wide), nn.ReLU())]
        return nn.Sequential(*steps), (torch.randn(s(batch, 2), wide),)

    return build


FITTED = [
    Subject("GPT-2 size, 16 of 512, bf16", FIT, BF16, _decoder(16, 512, 768, 12)),
    Subject("VGG-16, batch 32, bf16", FIT, BF16, lambda s: (vgg(s(64, 4)), (_pictures(32, 224, s),))),
    Subject("decoder, 1 of 64, bf16", FIT, BF16, _decoder(1, 64, 1024, 16)),
    Subject(
        "RegNet, batch 64, bf16",
        FIT,
        BF16,
        _hf(
            "RegNetModel",
            "RegNetConfig",
            lambda s: {"depths": [2, 2, 2, 2]} if s.tiny else {},
            lambda s: _pictures(64, 224, s),
        ),
    ),
    Subject(
        "one-token decoder, batch 1, bf16",
        FIT,
        BF16,
        lambda s: (
            OneTokenDecoder(s(3072, 64), s(24, 1), s(8, 1), s(24, 1), s(512, 8), 1),
            (torch.randn(1, 1, s(3072, 64)),),
        ),
    ),
    Subject(
        "DistilBERT, 8 of 128, fp32",
        FIT,
        FP32,
        _hf(
            "DistilBertModel",
            "DistilBertConfig",
            lambda s: {"dim": s(768, 64), "n_heads": s(12, 1), "hidden_dim": s(3072, 64), "n_layers": s(6, 1)},
            lambda s: _tokens(8, 128, s),
        ),
    ),
    Subject(
        "GRU, 3 layers, bf16",
        FIT,
        BF16,
        lambda s: (
            nn.GRU(s(768, 8), s(768, 8), s(3, 2), batch_first=True),
            (torch.randn(s(32, 2), s(200, 4), s(768, 8)),),
        ),
    ),
    Subject("MLP, batch 8192, fp32", FIT, FP32, _mlp(8192, 2048, 6)),
    Subject("DenseNet, batch 32, fp16", FIT, FP16, lambda s: (DenseNet(s(24, 2)), (_pictures(32, 224, s),))),
    Subject("MLP, batch 16, fp16", FIT, FP16, _mlp(16, 512, 24)),
    Subject(
        "audio coder, batch 16, bf16",
        FIT,
        BF16,
        lambda s: (AudioCoder(s(64, 4)), (torch.randn(s(16, 1), 1, s(32768, 256)),)),
    ),
    Subject(
        "ALBERT, 32 of 256, fp16",
        FIT,
        FP16,
        _hf(
            "AlbertModel",
            "AlbertConfig",
            lambda s: _bert(s) | {"embedding_size": s(128, 16)},
            lambda s: _tokens(32, 256, s),
        ),
    ),
    Subject(
        "LSTMCell loop, fp32",
        FIT,
        FP32,
        lambda s: (CellLoop(s(512, 8)), (torch.randn(s(48, 3), s(64, 2), s(512, 8)),)),
    ),
    Subject(
        "two towers, batch 4096, fp32",
        FIT,
        FP32,
        lambda s: (
            TwoTowers(s(1 << 20, 64), s(64, 8)),
            (torch.randint(0, s(1 << 20, 64), (s(4096, 4), 40)), torch.randint(0, s(1 << 20, 64), (s(4096, 4), 10))),
        ),
    ),
    Subject(
        "point cloud, batch 32, fp32", FIT, FP32, lambda s: (PointCloud(), (torch.randn(s(32, 1), 3, s(4096, 16)),))
    ),
    Subject(
        "RegNet, batch 1, fp32",
        FIT,
        FP32,
        _hf(
            "RegNetModel",
            "RegNetConfig",
            lambda s: {"depths": [2, 2, 2, 2]} if s.tiny else {},
            lambda s: _pictures(1, 224, s),
        ),
    ),
    Subject(
        "Qwen2 size, 4 of 512, fp16",
        FIT,
        FP16,
        _hf(
            "Qwen2Model",
            "Qwen2Config",
            lambda s: (
                _llama(s)
                | {
                    "hidden_size": s(1536, 64),
                    "num_attention_heads": s(12, 2),
                    "num_key_value_heads": s(2, 1),
                    "num_hidden_layers": s(14, 1),
                }
            ),
            lambda s: _tokens(4, 512, s),
        ),
    ),
]

TESTED = [
    Subject(
        "ViT-B/16, batch 32, bf16", TEST, BF16, _hf("ViTModel", "ViTConfig", _vit, lambda s: _pictures(32, 224, s))
    ),
    Subject("ResNet-50, batch 64, bf16", TEST, BF16, lambda s: (convolutional(), (_pictures(64, 224, s, 64),))),
    Subject(
        "ConvNeXt-T, batch 32, bf16",
        TEST,
        BF16,
        _hf(
            "ConvNextModel",
            "ConvNextConfig",
            lambda s: {"depths": [1, 1, 1, 1]} if s.tiny else {},
            lambda s: _pictures(32, 224, s, 64),
        ),
    ),
    Subject(
        "Llama prefill, 2 of 1024, bf16",
        TEST,
        BF16,
        _hf("LlamaForCausalLM", "LlamaConfig", _llama, lambda s: _tokens(2, 1024, s)),
    ),
    Subject(
        "one-token decoder, batch 8, fp16",
        TEST,
        FP16,
        lambda s: (
            OneTokenDecoder(s(2048, 64), s(32, 1), s(8, 1), s(16, 1), s(2048, 8), s(8, 1)),
            (torch.randn(s(8, 1), 1, s(2048, 64)),),
        ),
    ),
    Subject(
        "LSTM, 2 layers, fp32",
        TEST,
        FP32,
        lambda s: (
            nn.LSTM(s(1024, 8), s(1024, 8), 2, batch_first=True),
            (torch.randn(s(64, 2), s(128, 4), s(1024, 8)),),
        ),
    ),
    Subject(
        "mixture of experts, 4 of 512, bf16",
        TEST,
        BF16,
        lambda s: (MixtureOfExperts(s(1024, 64), s(8, 2), s(6, 1)), (torch.randn(s(4, 1), s(512, 8), s(1024, 64)),)),
    ),
    Subject(
        "BERT-base, 32 of 128, fp16", TEST, FP16, _hf("BertModel", "BertConfig", _bert, lambda s: _tokens(32, 128, s))
    ),
    Subject(
        "T5-base, 8 of 256, bf16",
        TEST,
        BF16,
        _hf("T5Model", "T5Config", _t5, lambda s: (_tokens(8, 256, s), None, _tokens(8, 128, s))),
    ),
    Subject(
        "UNet, batch 8 of 64x64, bf16",
        TEST,
        BF16,
        lambda s: (UNet(s(320, 32)), (torch.randn(s(8, 1), 4, s(64, 16), s(64, 16)),)),
    ),
    Subject(
        "Mamba, 4 layers, 4 of 64, fp32",
        TEST,
        FP32,
        _hf("MambaModel", "MambaConfig", _mamba, lambda s: _tokens(4, 64, s)),
    ),
    Subject(
        "MLP-Mixer, batch 64, bf16",
        TEST,
        BF16,
        lambda s: (Mixer(s(224, 32), s(768, 32), s(12, 1)), (_pictures(64, 224, s),)),
    ),
    Subject(
        "MobileNetV2, batch 64, fp16",
        TEST,
        FP16,
        _hf("MobileNetV2Model", "MobileNetV2Config", lambda s: {}, lambda s: _pictures(64, 224, s, 64)),
    ),
    Subject(
        "ranking (DLRM), batch 8192, fp32",
        TEST,
        FP32,
        lambda s: (
            Ranking(s(26, 3), s(1 << 18, 16), s(128, 8)),
            (torch.randn(s(8192, 2), 13), torch.randint(0, s(1 << 18, 16), (s(8192, 2), s(26, 3)))),
        ),
    ),
    Subject(
        "Whisper-base, batch 8, fp16",
        TEST,
        FP16,
        _hf(
            "WhisperModel",
            "WhisperConfig",
            _whisper,
            lambda s: (torch.randn(s(8, 1), 80, s(3000, 32)), None, _tokens(8, 64, s)),
        ),
    ),
    Subject(
        "graph network, fp32",
        TEST,
        FP32,
        lambda s: (
            Gathering(s(128, 8), s(4, 1)),
            (torch.randn(s(1 << 16, 16), s(128, 8)), torch.randint(0, s(1 << 16, 16), (2, s(1 << 19, 32)))),
        ),
    ),
    Subject("ResNet-50, batch 16, fp32", TEST, FP32, lambda s: (convolutional(), (_pictures(16, 224, s, 64),))),
    Subject(
        "BERT-base, 1 of 64, fp32", TEST, FP32, _hf("BertModel", "BertConfig", _bert, lambda s: _tokens(1, 64, s))
    ),
    Subject(
        "CLIP-B/32, batch 32, fp16",
        TEST,
        FP16,
        _hf("CLIPModel", "CLIPConfig", _clip, lambda s: (_tokens(32, 77, s), _pictures(32, 224, s))),
    ),
    Subject("GPT-2, 8 of 256, fp32", TEST, FP32, _hf("GPT2Model", "GPT2Config", _gpt2, lambda s: _tokens(8, 256, s))),
    Subject(
        "ConvNeXt-T, batch 1, bf16",
        TEST,
        BF16,
        _hf(
            "ConvNextModel",
            "ConvNextConfig",
            lambda s: {"depths": [1, 1, 1, 1]} if s.tiny else {},
            lambda s: _pictures(1, 224, s, 64),
        ),
    ),
    Subject(
        "Swin-T, batch 32, fp16",
        TEST,
        FP16,
        _hf(
            "SwinModel",
            "SwinConfig",
            lambda s: {"depths": [1, 1], "num_heads": [1, 2], "embed_dim": 32, "image_size": 56} if s.tiny else {},
            lambda s: _pictures(32, 224, s, 56),
        ),
    ),
]


def subjects(where: TimedDevice) -> list[Subject]:
    """Every subject, in an order of which any beginning is a mix of ops, fitted and tested models."""
    ops = [
        Subject(one.name, OP, one.inputs[-1].dtype, lambda s, one=one: (one.module, one.inputs), one.tf32)  # type: ignore[misc]
        for one in operations(where)
    ]
    groups = (ops[::3] + ops[1::3] + ops[2::3], FITTED, TESTED)
    placed = [
        ((place + 1) / len(group), number, one)
        for number, group in enumerate(groups)
        for place, one in enumerate(group)
    ]
    return [one for _, _, one in sorted(placed, key=lambda each: each[:2])]
