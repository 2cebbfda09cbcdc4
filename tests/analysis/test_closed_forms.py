"""MACs of whole language models, without weights, compared exactly with closed forms derived by hand."""

from __future__ import annotations

import pytest
import torch
from versions import require

from assay import observe

transformers = pytest.importorskip("transformers")

TOKENS = (2, 96)


def captured(config, auto=transformers.AutoModelForCausalLM, **inputs):
    with torch.device("meta"):
        model = auto.from_config(config, dtype=torch.bfloat16)
    ids = torch.zeros(TOKENS, dtype=torch.long)
    document = observe(model, {"input_ids": ids, **inputs})
    assert document.run.failure is None
    assert document.run.mode == "meta"
    assert document.cost.coverage == 1.0
    return document


def macs(document):
    """MACs without the rotary tables, which some versions of transformers compute as a matrix product."""
    rows = zip(document.modules, document.cost.modules, strict=True)
    tables = sum(cost.own.macs for module, cost in rows if module.class_name.endswith("RotaryEmbedding"))
    return document.cost.forward.macs - tables


def attention(batch, length, heads, width_qk, width_v):
    """MACs of dense attention: every query with every key, once for the scores and once for the values."""
    return batch * heads * length * length * (width_qk + width_v)


def llama(layers, hidden, heads, kv_heads, inner, vocabulary):
    batch, length = TOKENS
    width = hidden // heads
    projections = 2 * hidden * hidden + 2 * hidden * kv_heads * width
    layer = batch * length * (projections + 3 * hidden * inner) + attention(batch, length, heads, width, width)
    return layers * layer + batch * length * hidden * vocabulary


@pytest.mark.parametrize(
    "sizes",
    [(2, 64, 4, 2, 96, 100), (80, 8192, 64, 8, 28672, 128256), (126, 16384, 128, 8, 53248, 128256)],
    ids=["tiny", "70B", "405B"],
)
def test_llama(sizes):
    layers, hidden, heads, kv_heads, inner, vocabulary = sizes
    config = transformers.LlamaConfig(
        num_hidden_layers=layers,
        hidden_size=hidden,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        intermediate_size=inner,
        vocab_size=vocabulary,
    )
    document = captured(config)
    assert macs(document) == llama(*sizes)
    assert document.run.cache.bytes == 2 * 2 * layers * kv_heads * (hidden // heads) * TOKENS[0] * TOKENS[1]


def test_gpt2():
    batch, length = TOKENS
    document = captured(transformers.GPT2Config())
    layer = batch * length * 12 * 768 * 768 + attention(batch, length, 12, 64, 64)
    assert macs(document) == 12 * layer + batch * length * 768 * 50257


def test_bert():
    batch, length = TOKENS
    document = captured(transformers.BertConfig(), transformers.AutoModel)
    layer = batch * length * 12 * 768 * 768 + attention(batch, length, 12, 64, 64)
    pooler = batch * 768 * 768
    assert macs(document) == 12 * layer + pooler


def test_mixtral_counts_only_the_routed_experts():
    batch, length = TOKENS
    config = transformers.MixtralConfig(
        num_hidden_layers=3,
        hidden_size=64,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=96,
        vocab_size=100,
        num_local_experts=8,
        num_experts_per_tok=2,
    )
    require("transformers", "5.0", "one product for all experts")
    document = captured(config)
    projections = 2 * 64 * 64 + 2 * 64 * 32
    experts = 2 * 3 * 64 * 96 + 64 * 8
    layer = batch * length * (projections + experts) + attention(batch, length, 4, 16, 16)
    assert macs(document) == 3 * layer + batch * length * 64 * 100


def test_deepseek_v3_at_full_size():
    batch, length = TOKENS
    require("transformers", "5.0", "one product for all experts")
    document = captured(transformers.DeepseekV3Config())
    hidden, heads, nope, rope, value = 7168, 128, 128, 64, 128
    projections = (
        hidden * 1536
        + 1536 * heads * (nope + rope)
        + hidden * (512 + rope)
        + 512 * heads * (nope + value)
        + heads * value * hidden
    )
    attended = attention(batch, length, heads, nope + rope, value)
    dense = 3 * hidden * 18432
    sparse = (8 + 1) * 3 * hidden * 2048 + hidden * 256
    layers = 61 * (batch * length * projections + attended) + batch * length * (3 * dense + 58 * sparse)
    assert macs(document) == layers + batch * length * hidden * 129280
