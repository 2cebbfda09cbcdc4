"""Rules about memory: each fires on a model with the problem and not on a near miss."""

from __future__ import annotations

import pytest
import torch
from finding_models import finding_of, in_document, values
from torch import nn

import assay

IMAGE = torch.ones(4, 4, 64, 64)


def test_activations_saved_for_backward():
    model = nn.Sequential(*(nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), nn.Sigmoid()) for _ in range(4)))
    finding = finding_of("M101", model, IMAGE, backward=True)
    size = IMAGE.numel() * 4
    # Each sigmoid saves its output, which is also the input that the next convolution saves.
    assert values(finding)["saved_bytes"] == 4 * size
    assert values(finding)["parameter_bytes"] == sum(p.numel() * 4 for p in model.parameters())
    assert finding_of("M101", model, IMAGE) is None
    assert finding_of("M101", nn.Linear(1024, 1024), torch.ones(512, 1024), backward=True) is None


class Head(nn.Module):
    def __init__(self, last):
        super().__init__()
        self.embed, self.head, self.last = nn.Embedding(8192, 8), nn.Linear(8, 8192, bias=False), last

    def forward(self, ids):
        x = self.embed(ids)
        return self.head(x[:, -1:] if self.last else x)


def test_logits_for_every_position():
    ids = torch.ones(1, 64, dtype=torch.long)
    finding = finding_of("M102", Head(last=False), ids)
    assert values(finding)["logit_bytes"] == 64 * 8192 * 4
    assert values(finding)["share_of_peak"] == pytest.approx(8192 / 8200)
    assert finding_of("M102", Head(last=True), ids) is None


@pytest.fixture(scope="module")
def llama():
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=64,
        vocab_size=64,
    )
    return transformers.LlamaForCausalLM(config).eval()


def test_a_kv_cache_compared_with_the_parameters(llama):
    finding = finding_of("M103", llama, torch.ones(1, 6, dtype=torch.long))
    per_token = 2 * 2 * 2 * 8 * 4  # keys and values, layers, heads, head size, bytes
    size = sum(p.numel() * 4 for p in llama.parameters())
    assert values(finding)["bytes_per_token"] == per_token
    assert values(finding)["tokens_as_large_as_parameters"] == round(size / per_token)
    assert finding_of("M103", nn.Linear(2, 2), torch.ones(1, 2)) is None


def test_a_kv_cache_that_includes_an_encoder_is_not_reported():
    transformers = pytest.importorskip("transformers")
    config = transformers.T5Config(d_model=16, d_ff=16, num_layers=1, num_heads=2, d_kv=8, vocab_size=32)
    ids = torch.ones(1, 4, dtype=torch.long)
    document = assay.observe(transformers.T5Model(config), {"input_ids": ids, "decoder_input_ids": ids})
    assert document.run.cache is not None
    assert in_document("M103", document) is None


@pytest.mark.parametrize(("inplace", "fires"), [(False, True), (True, False)])
def test_activation_functions_that_could_run_in_place(inplace, fires):
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.relu, self.pool = nn.Conv2d(4, 32, 1), nn.ReLU(inplace), nn.AdaptiveAvgPool2d(1)

        def forward(self, x):
            return self.pool(self.relu(self.conv(x)))

    finding = finding_of("M104", Block(), IMAGE)
    assert (finding is not None) == fires
    if fires:
        wide = 4 * 32 * 64 * 64 * 4
        pooled = 4 * 32 * 4
        assert values(finding) == {"peak_bytes": 2 * wide, "peak_in_place_bytes": wide + pooled}


def test_an_input_that_is_read_again_cannot_be_overwritten():
    class Residual(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(4, 32, 1)

        def forward(self, x):
            y = self.conv(x)
            return (torch.relu(y) * y).sum()

    assert finding_of("M104", Residual(), IMAGE) is None


@pytest.mark.parametrize(("width", "fires"), [(18_000, True), (1_000, False)])
def test_optimizer_state_of_a_large_model(width, fires):
    model = nn.Linear(width, width, bias=False, device="meta")
    finding = finding_of("M105", model, torch.ones(1, width))
    assert (finding is not None) == fires
    if fires:
        size = width * width * 4
        # AdamW keeps two moments, and a four-byte step counter per tensor.
        assert values(finding) == {"state_bytes": 2 * size + 4, "gradient_bytes": size, "parameter_bytes": size}


class Masked(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.register_buffer("mask", torch.ones(size, size))

    def forward(self, x):
        return self.layer(x)


def test_large_buffers():
    finding = finding_of("M106", Masked(1024), torch.ones(1, 8))
    assert values(finding)["buffer_bytes"] == 4 << 20
    assert finding.tensors == ("mask",)
    assert finding_of("M106", Masked(64), torch.ones(1, 8)) is None
    assert finding_of("M106", nn.BatchNorm1d(8), torch.ones(2, 8)) is None
