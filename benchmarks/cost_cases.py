"""The cases: ops that are easy to miscount, and well-known models with their figures.

The ops are those of the tests, whose MACs are worked out there by hand, and two that the tests keep
elsewhere. The figure of a model is published, or a closed form of its sizes that is given here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from capture import Subject, resnet50
from harness import ROOT
from torch import nn

sys.path.insert(0, str(ROOT / "tests" / "analysis" / "cost"))

import test_cost_cases as tested
from counted import Calls

# --- ops


class Case(NamedTuple):
    """A model and its arguments, built on each use, with the MACs of one call."""

    name: str
    macs: float
    model: Callable[[], Any]
    inputs: Callable[[], Any]
    mark: str = ""

    def made(self) -> tuple[nn.Module, tuple[Any, ...]]:
        """The model in evaluation mode and its positional arguments."""
        torch.manual_seed(0)
        model, inputs = self.model(), self.inputs()
        module = model if isinstance(model, nn.Module) else Calls(_looked_up(model))
        if not any(True for _ in module.parameters()):
            module.register_parameter("unused", nn.Parameter(torch.empty(0)))  # calflops reads the device from it
        return module.eval(), inputs if isinstance(inputs, tuple) else (inputs,)


def _looked_up(function: Callable[..., Any]) -> Callable[..., Any]:
    """Call the function by name, as a forward method would, so that counters that replace it see the call."""
    for owner in (nn.functional, torch, torch.fft, torch.sparse):
        name = getattr(function, "__name__", "")
        if getattr(owner, name, None) is function:
            return lambda *args, **kwargs: getattr(owner, name)(*args, **kwargs)
    return function


TRANSFORM = "†"
OWN_OP = "‡"
MARKS = {
    TRANSFORM: "153,600 FLOPs by convention (2.5 N log2 N for a real transform), compared as half as many MACs.",
    OWN_OP: "A user's own op: `register_cost` supplies its formula to Assay; without one, its cost is unknown.",
}

RFFT2 = "rfft2"

tested.SDPA = _looked_up(tested.SDPA)


def _quantised() -> nn.Module:
    layers = nn.Sequential(nn.Linear(64, 64))
    return torch.ao.quantization.quantize_dynamic(layers, {nn.Linear}, dtype=torch.qint8)


@torch.library.custom_op("assaybench::product", mutates_args=())
def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """An op for which no counter has a formula."""
    return a @ b


def _product_with_formula() -> Callable[..., torch.Tensor]:
    from assay.analysis.cost import register_cost

    @register_cost("assaybench::product", override=True)
    def flops(kind: Any) -> int:
        (rows, length), (_, columns) = (operand.type.shape for operand in kind.inputs)
        return int(2 * rows * length * columns)

    return torch.ops.assaybench.product


def cases() -> list[Case]:
    """All cases, in the order of the tests."""
    by_hand = [Case(name, *figures) for name, figures in tested.CASES.items()]
    return [
        *(case._replace(macs=153_600 / 2, mark=TRANSFORM) if case.name == RFFT2 else case for case in by_hand),
        Case("dynamically quantised linear", 64**3, _quantised, lambda: torch.randn(2, 32, 64)),
        Case(
            "custom op",
            16 * 16 * 64,
            _product_with_formula,
            lambda: (torch.randn(16, 64), torch.randn(64, 16)),
            OWN_OP,
        ),
    ]


# --- models


class Known(NamedTuple):
    """A model with its arguments and its known figures."""

    make: Callable[[], Subject]
    call: str
    parameters: int
    macs: float
    how: str


TABLE = "torchvision's table"
PAPER = "its paper"
FORM = "closed form"

TOKENS = 512


def on_meta(config: str, auto: str, inputs: Callable[[], dict[str, Any]], **sizes: Any) -> Callable[[], Subject]:
    """A function that builds a transformers model without weights."""

    def make() -> Subject:
        import transformers

        with torch.device("meta"):
            chosen = getattr(transformers, config)(**sizes)
            model = getattr(transformers, auto).from_config(chosen, dtype=torch.bfloat16).eval()
            return Subject(model, (), inputs())

    return make


def _ids(length: int) -> Callable[[], dict[str, Any]]:
    return lambda: {"input_ids": torch.zeros(1, length, dtype=torch.long)}


def _image() -> dict[str, Any]:
    return {"pixel_values": torch.zeros(1, 3, 224, 224, dtype=torch.bfloat16)}


def _sound() -> dict[str, Any]:
    return {
        "input_features": torch.zeros(1, 80, 3000, dtype=torch.bfloat16),
        "decoder_input_ids": torch.zeros(1, 64, dtype=torch.long),
    }


def _decoder(config: str, **sizes: Any) -> Callable[[], Subject]:
    return on_meta(config, "AutoModelForCausalLM", _ids(TOKENS), **sizes)


def _vision(config: str, **sizes: Any) -> Callable[[], Subject]:
    return on_meta(config, "AutoModelForImageClassification", _image, num_labels=1000, **sizes)


def _llama(layers: int, hidden: int, heads: int, kv_heads: int, inner: int, vocabulary: int) -> dict[str, int]:
    return {
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "intermediate_size": inner,
        "vocab_size": vocabulary,
    }


def attended(queries: int, keys: int, width: int, layers: int = 1) -> int:
    """MACs of the scores and values of dense attention; `width` is the total width of the heads."""
    return 2 * layers * queries * keys * width


def encoder_macs(layers: int, tokens: int, width: int) -> int:
    """MACs of classic transformer layers: four projections, and an inner layer four times as wide."""
    return layers * tokens * 12 * width**2 + attended(tokens, tokens, width, layers)


def decoder_macs(sizes: dict[str, int], inners: int = 1, routed: int = 0) -> int:
    """MACs of Llama-like models: each token uses `inners` gated inner layers and a router with `routed` outputs."""
    layers, hidden, heads, kv_heads, inner, vocabulary = sizes.values()
    projections = 2 * hidden**2 + 2 * hidden * kv_heads * (hidden // heads)
    layer = TOKENS * (projections + inners * 3 * hidden * inner + hidden * routed)
    return layers * (layer + attended(TOKENS, TOKENS, hidden)) + TOKENS * hidden * vocabulary


def deepseek_macs() -> int:
    """MACs of DeepSeek-V3: latent attention; three dense layers, then 58 with 8 of 256 experts and a shared one."""
    hidden, heads, key, value = 7168, 128, 128 + 64, 128
    down = hidden * 1536 + hidden * (512 + 64)
    up = 1536 * heads * key + 512 * heads * (128 + value)
    attention = TOKENS * (down + up + heads * value * hidden) + TOKENS**2 * heads * (key + value)
    dense, sparse = 3 * hidden * 18432, 9 * 3 * hidden * 2048 + hidden * 256
    return 61 * attention + TOKENS * (3 * dense + 58 * sparse + hidden * 129280)


def whisper_macs(tokens: int = 64, frames: int = 1500, width: int = 384, layers: int = 4) -> int:
    """MACs of Whisper: two convolutions, the encoder over 30 s of audio, the decoder with cross-attention, head."""
    heard = 2 * frames * width * 80 * 3 + frames * width**2 * 3 + encoder_macs(layers, frames, width)
    cross = layers * 2 * width**2 * (tokens + frames) + attended(tokens, frames, width, layers)
    return heard + encoder_macs(layers, tokens, width) + cross + tokens * width * 51865


LLAMA_2_7B = _llama(32, 4096, 32, 32, 11008, 32000)
LLAMA_3_70B = _llama(80, 8192, 64, 8, 28672, 128256)
LLAMA_3_405B = _llama(126, 16384, 128, 8, 53248, 128256)
MIXTRAL = _llama(32, 4096, 32, 8, 14336, 32000)
SMALL = {"hidden_size": 384, "num_attention_heads": 6, "intermediate_size": 1536}
SEEN = "224x224 image"
READ = f"{TOKENS} tokens"

KNOWN: dict[str, Known] = {
    "ResNet-50": Known(resnet50, SEEN, 25_557_032, 4.089e9, TABLE),
    "ViT-B/16": Known(_vision("ViTConfig"), SEEN, 86_567_656, 17.564e9, TABLE),
    "Swin-T": Known(_vision("SwinConfig"), SEEN, 28_288_354, 4.491e9, TABLE),
    "ConvNeXt-T": Known(_vision("ConvNextConfig"), SEEN, 28_589_128, 4.456e9, TABLE),
    "DeiT-S": Known(_vision("ViTConfig", **SMALL), SEEN, 22_050_664, 4.6e9, PAPER),
    "BERT-base": Known(
        on_meta("BertConfig", "AutoModel", _ids(128)),
        "128 tokens",
        109_482_240,
        encoder_macs(12, 128, 768) + 768**2,
        FORM,
    ),
    "GPT-2": Known(
        on_meta("GPT2Config", "AutoModelForCausalLM", _ids(128)),
        "128 tokens",
        124_439_808,
        encoder_macs(12, 128, 768) + 128 * 768 * 50257,
        FORM,
    ),
    "Whisper-tiny": Known(
        on_meta("WhisperConfig", "AutoModelForSpeechSeq2Seq", _sound),
        "30 s, 64 tokens",
        37_760_640,
        whisper_macs(),
        FORM,
    ),
    "Llama-2-7B": Known(
        _decoder("LlamaConfig", **LLAMA_2_7B), READ, 6_738_415_616, decoder_macs(LLAMA_2_7B), FORM
    ),
    "Llama-3-70B": Known(
        _decoder("LlamaConfig", **LLAMA_3_70B), READ, 70_553_706_496, decoder_macs(LLAMA_3_70B), FORM
    ),
    "Llama-3.1-405B": Known(
        _decoder("LlamaConfig", **LLAMA_3_405B), READ, 405_853_388_800, decoder_macs(LLAMA_3_405B), FORM
    ),
    "Mixtral-8x7B": Known(
        _decoder("MixtralConfig", **MIXTRAL), READ, 46_702_792_704, decoder_macs(MIXTRAL, inners=2, routed=8), FORM
    ),
    "DeepSeek-V3": Known(_decoder("DeepseekV3Config"), READ, 671_026_404_352, deepseek_macs(), FORM),
}  # fmt: skip
