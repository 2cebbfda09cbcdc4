"""Memory of real models compared with analytic peaks, torch's optimizers and saved tensors, and closed forms."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from torch import nn
from versions import require

from assay import observe
from assay.analysis.memory import key_value, key_value_of_two, memory_of
from assay.errors import UsageError

TORCH_OPTIMIZERS = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.1),
    "sgd-momentum": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "adam-amsgrad": lambda parameters: torch.optim.Adam(parameters, amsgrad=True),
    "adamax": torch.optim.Adamax,
    "nadam": torch.optim.NAdam,
    "radam": torch.optim.RAdam,
    "adagrad": torch.optim.Adagrad,
    "adadelta": torch.optim.Adadelta,
    "rmsprop": torch.optim.RMSprop,
    "rmsprop-momentum": lambda parameters: torch.optim.RMSprop(parameters, momentum=0.9),
    "adafactor": lambda parameters: torch.optim.Adafactor(parameters),
}


def mlp(*widths: int) -> nn.Sequential:
    layers = [nn.Linear(wide, narrow, bias=False) for wide, narrow in pairwise(widths)]
    return nn.Sequential(*layers)


@pytest.mark.parametrize("mode", ["real", "meta"])
def test_a_chain_of_layers_peaks_at_the_two_widest_neighbours(mode):
    widths, rows = (16, 64, 256, 32, 128), 8
    memory = memory_of(observe(mlp(*widths), torch.randn(rows, widths[0]), mode=mode)).inference
    sizes = [rows * 4 * width for width in widths]
    # The input is resident; an activation is live until the next one is created.
    assert memory.alive == [sizes[1], *(a + b for a, b in pairwise(sizes[1:]))]
    weights = sum(4 * a * b for a, b in pairwise(widths))
    assert memory.total.value == weights + sizes[0] + max(memory.alive)
    # 64 → 256 holds the widest pair: the peak is where the second layer makes its output.
    assert memory.peak.module == "1"


@pytest.mark.parametrize("name", TORCH_OPTIMIZERS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_optimizer_state_equals_that_of_torch_after_a_step(name, dtype):
    if name == "adafactor":
        require("torch", "2.5", "torch.optim.Adafactor")
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(16, 5), nn.LayerNorm(5)).to(dtype)
    predicted = memory_of(observe(model, torch.randn(2, 3, 4, 4, dtype=dtype), mode="meta"), optimizer=name)
    optimizer = TORCH_OPTIMIZERS[name](model.parameters())
    model(torch.randn(2, 3, 4, 4, dtype=dtype)).sum().backward()
    optimizer.step()
    kept = [
        value for state in optimizer.state.values() for value in state.values() if isinstance(value, torch.Tensor)
    ]
    assert predicted.optimizer.bytes.value == sum(value.numel() * value.element_size() for value in kept)


def test_the_state_of_muon_equals_that_of_torch_for_matrices():
    model = mlp(8, 6, 4)
    predicted = memory_of(observe(model, torch.randn(2, 8), mode="meta"), optimizer="muon").optimizer.bytes.value
    require("torch", "2.9", "torch.optim.Muon")
    optimizer = torch.optim.Muon(model.parameters())
    model(torch.randn(2, 8)).sum().backward()
    optimizer.step()
    kept = [value for state in optimizer.state.values() for value in state.values()]
    assert predicted == sum(value.numel() * value.element_size() for value in kept)


def test_frozen_parameters_have_neither_gradient_nor_state():
    model = mlp(8, 6, 4)
    model[0].requires_grad_(False)
    document = observe(model, torch.randn(2, 8), mode="meta", backward=True)
    memory = memory_of(document, optimizer="sgd-momentum")
    assert memory.gradients.value == memory.optimizer.bytes.value == 4 * 6 * 4
    assert memory.trained_parameters == 24


def test_all_parameters_count_as_trained_if_none_is_trainable():
    memory = memory_of(observe(mlp(8, 6).requires_grad_(False), torch.randn(2, 8), mode="meta"))
    assert memory.trained_parameters == 48
    assert any("as if all were" in note for note in memory.assumptions)


def test_master_weights_are_float32_copies_with_float32_state():
    document = observe(mlp(8, 6).bfloat16(), torch.randn(2, 8, dtype=torch.bfloat16), mode="meta")
    state = memory_of(document, optimizer="sgd-momentum", master_weights=True).optimizer
    assert (state.bytes.value, state.master.value, state.bytes_per_parameter) == (4 * 48, 4 * 48, 8.0)
    wide = observe(mlp(8, 6), torch.randn(2, 8), mode="meta")
    assert memory_of(wide, master_weights=True).optimizer.master.value == 0


def test_a_training_peak_includes_the_master_weights():
    inputs = torch.randn(2, 8, dtype=torch.bfloat16)
    document = observe(mlp(8, 6).bfloat16(), inputs, mode="meta", backward=True)
    plain, copied = (memory_of(document, optimizer="sgd", master_weights=copies).training for copies in (False, True))
    assert copied.total.value - plain.total.value == 4 * 48


def saved_by_torch(model: nn.Module, inputs: torch.Tensor) -> int:
    """Bytes of the unique storages that autograd saves, without parameters and inputs."""
    saved: dict[int, int] = {}
    kept = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        kept.append(storage)
        saved[storage._cdata] = storage.nbytes()
        return tensor

    own = {tensor.untyped_storage()._cdata for tensor in (*model.parameters(), *model.buffers(), inputs)}
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        model(inputs)
    return sum(size for address, size in saved.items() if address not in own)


@pytest.mark.parametrize("mode", ["real", "meta"])
@pytest.mark.parametrize(
    "middle",
    [[nn.ReLU()], [nn.GELU()], [nn.Sigmoid(), nn.LayerNorm(24)], [nn.Dropout(0.5), nn.Tanh()], [nn.Softmax(-1)]],
    ids=lambda layers: "-".join(type(layer).__name__ for layer in layers),
)
def test_saved_bytes_equal_those_of_autograd(middle, mode):
    model = nn.Sequential(nn.Linear(8, 24), *middle, nn.Linear(24, 16), nn.ReLU(), nn.Linear(16, 4)).train()
    inputs = torch.randn(5, 8)
    memory = memory_of(observe(model, inputs, mode=mode, backward=True))
    assert memory.saved.value == saved_by_torch(model, inputs) > 0
    assert memory.gradients.value == memory.parameters.value


def test_the_training_peak_includes_gradients_and_saved_tensors():
    model = nn.Sequential(nn.Linear(8, 24), nn.ReLU(), nn.Linear(24, 4))
    memory = memory_of(observe(model, torch.randn(64, 8), mode="meta", backward=True), optimizer="adam")
    assert memory.training.total.value > memory.inference.total.value + memory.optimizer.bytes.value
    assert memory.training.moving.value >= memory.saved.value
    assert memory.training.alive[-1] >= memory.gradients.value


def llama(length: int = 12, batch: int = 3, **more: object) -> object:
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 64, "num_attention_heads": 8, "num_key_value_heads": 2, "intermediate_size": 96}
    config = transformers.LlamaConfig(num_hidden_layers=3, vocab_size=100, bos_token_id=1, eos_token_id=2, **sizes)
    model = transformers.LlamaForCausalLM(config)
    return observe(model, {"input_ids": torch.ones(batch, length, dtype=torch.long)}, mode="meta", **more)


def test_the_cache_of_a_grouped_query_decoder_matches_its_closed_form():
    cache = key_value(llama())
    per_token = 2 * 3 * 2 * (64 // 8) * 4  # keys and values, layers, KV heads, head size, float32
    assert cache.per_token == per_token
    assert cache.at(3, 12).value == 3 * 12 * per_token
    assert cache.at(8, 32768).value == 8 * 32768 * per_token


def test_the_cache_of_gpt2_matches_its_closed_form():
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(n_layer=2, n_embd=32, n_head=4, vocab_size=50, bos_token_id=1, eos_token_id=2)
    model = transformers.GPT2LMHeadModel(config)
    document = observe(model, {"input_ids": torch.ones(2, 7, dtype=torch.long)}, mode="meta")
    assert key_value(document).per_token == 2 * 2 * 32 * 4


def test_two_lengths_separate_the_fixed_part_from_the_part_per_token():
    cache = key_value_of_two(llama(20, 1), llama(12, 3))
    assert (cache.per_token, cache.fixed) == (384, 0)
    assert "sliding window" in cache.how.assumptions[0]
    with pytest.raises(UsageError, match="two different lengths"):
        key_value_of_two(llama(12, 1), llama(12, 3))


@pytest.mark.parametrize("mode", ["real", "meta"])
def test_unfused_attention_in_training_is_an_assumption(mode):
    model = nn.MultiheadAttention(16, 2, batch_first=True)
    query = torch.randn(2, 6, 16)
    plain = {"query": query, "key": query, "value": query, "need_weights": False}
    document = observe(model, plain, mode=mode, backward=True)
    unfused = any("softmax" in kind.target for kind in document.training.kinds)
    assert any("unfused" in note for note in memory_of(document).assumptions) is unfused


def test_a_softmax_beside_fused_attention_is_not_unfused_attention():
    class Gated(nn.Module):
        def forward(self, x):
            return nn.functional.scaled_dot_product_attention(x, x, x) * x.softmax(-1)

    document = observe(nn.Sequential(nn.Linear(16, 16), Gated()), torch.randn(1, 2, 6, 16), backward=True)
    decomposed = sum("softmax" in kind.target for kind in document.training.kinds) > 2  # one, and its backward
    assert any("unfused" in note for note in memory_of(document).assumptions) is decomposed


def test_a_model_without_a_cache_has_none():
    document = observe(mlp(8, 6), torch.randn(2, 8), mode="meta")
    assert key_value(document) is None
    with pytest.raises(UsageError, match="did not return a KV cache"):
        key_value_of_two(document, document)
