"""Changes of dtypes, inputs and settings, and compilers."""

from __future__ import annotations

import copy
import os

import pytest
import torch
from change_nets import changed, net, outputs, runnable, transformers_model, worst
from torch import nn

from assay.trials.change import NotApplicable, named
from assay.trials.runnable import Runnable


def test_channels_last_changes_strides_only() -> None:
    base = net("resnet")
    other = changed(base, "channels_last")
    assert other.args[0].is_contiguous(memory_format=torch.channels_last)
    assert base.args[0].is_contiguous()
    assert other.model.conv.weight.is_contiguous(memory_format=torch.channels_last)
    with pytest.raises(NotApplicable, match="already"):
        changed(other, "channels_last")
    video = runnable(nn.Conv3d(2, 4, 3), torch.randn(1, 2, 5, 6, 7))
    assert changed(video, "channels_last").args[0].is_contiguous(memory_format=torch.channels_last_3d)


def test_autocast_computes_in_fewer_bits_and_ends() -> None:
    other = changed(net("decoder"), "bfloat16_autocast")
    assert outputs(other)[0].dtype == torch.bfloat16
    assert not torch.is_autocast_enabled("cpu")
    assert next(other.model.parameters()).dtype == torch.float32


def test_weights_become_bfloat16_and_complex_ones_stay() -> None:
    model = nn.Linear(4, 4)
    model.register_buffer("rotary", torch.ones(2, dtype=torch.complex64))
    other = changed(runnable(model, torch.randn(2, 4)), "bfloat16_weights")
    assert other.model.weight.dtype == other.args[0].dtype == torch.bfloat16
    assert other.model.rotary.dtype == torch.complex64
    for name in ("bfloat16_weights", "bfloat16_autocast", "float16_autocast"):
        with pytest.raises(NotApplicable, match="float32"):
            changed(other, name)


def test_inference_mode_is_entered_once() -> None:
    other = changed(net("lstm"), "inference_mode")
    assert outputs(other)[0].is_inference()
    with pytest.raises(NotApplicable):
        changed(other, "inference_mode")


def test_threads_are_set_within_a_pass_only() -> None:
    seen = []

    class Counts(nn.Module):
        def forward(self, x):
            seen.append(torch.get_num_threads())
            return x

    torch.set_num_threads(1)
    base = runnable(Counts(), torch.ones(2))
    values = list(named("threads").options(base))
    assert values == sorted({2, max(len(os.sched_getaffinity(0)) // 2, 1), len(os.sched_getaffinity(0))} - {1})
    changed(base, "threads", value=3)()
    assert seen == [3]
    assert torch.get_num_threads() == 1


def test_batch_finds_the_dimension_and_compares_the_first_rows() -> None:
    for value in named("batch").options(net("gpt2")):
        base = net("gpt2")
        larger = changed(base, "batch", value=value)
        assert larger.args[0].shape == (2 * value, 12)
        assert larger.items == value
        assert worst(base, larger) < 1e-5

    class Last(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn = nn.LSTM(4, 5)

        def forward(self, x):
            return self.rnn(x)

    base = runnable(Last(), torch.randn(7, 3, 4))
    larger = changed(base, "batch", value=2)
    assert larger.args[0].shape == (7, 6, 4)
    assert worst(base, larger) < 1e-6


def test_batch_is_refused_where_outputs_depend_on_it() -> None:
    class Mixes(nn.Module):
        def forward(self, x):
            return x + torch.arange(x.shape[0])[:, None] * x.mean(0) * x.shape[0]

    with pytest.raises(NotApplicable, match="batch dimension"):
        changed(runnable(Mixes(), torch.rand(3, 4) + 1), "batch")
    trained = net("resnet")
    trained.model.train()
    with pytest.raises(NotApplicable, match="training mode"):
        changed(trained, "batch")


def test_last_logits_are_those_of_the_last_position() -> None:
    base = Runnable(
        transformers_model("gpt2").eval(), (), {"input_ids": torch.randint(0, 100, (2, 9)), "use_cache": False}
    )
    other = changed(base, "last_logits")
    assert torch.allclose(outputs(other)[0], outputs(base)[0][:, -1:], atol=1e-6)
    assert worst(base, other) < 1e-6
    assert "logits_to_keep" not in base.kwargs
    with pytest.raises(NotApplicable, match="already"):
        changed(other, "last_logits")
    with pytest.raises(NotApplicable, match="loss"):
        changed(Runnable(base.model, (), {**base.kwargs, "labels": base.kwargs["input_ids"]}), "last_logits")


@pytest.mark.parametrize(("name", "share"), [("int8_weights", 0.35), ("int4_weights", 0.3)])
def test_weight_only_quantization_stores_less(name: str, share: float) -> None:
    def stored(model: nn.Module) -> int:
        return sum(each.numel() * each.element_size() for each in (*model.parameters(), *model.buffers()))

    base = runnable(nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 64)), torch.randn(4, 256))
    other = changed(base, name)
    assert stored(other.model) < share * stored(base.model)
    assert 0 < worst(base, other) < 0.15


def test_int8_weights_match_a_reference() -> None:
    base = runnable(nn.Linear(48, 10), torch.randn(4, 48))
    wrapped = changed(Runnable(nn.Sequential(base.model), base.args), "int8_weights")
    scale = base.model.weight.abs().amax(1, keepdim=True) / 127
    weight = (base.model.weight / scale).round() * scale
    with torch.no_grad():
        expected = base.args[0] @ weight.T + base.model.bias
    assert torch.allclose(outputs(wrapped)[0], expected, atol=1e-5)


def test_compiled_model_gives_the_same_outputs() -> None:
    base = net("vit")
    compiled = changed(base, "sdpa", "fuse_qkv", "compile")
    assert worst(base, compiled) < 1e-5
    assert worst(base, compiled) < 1e-5
    with pytest.raises(NotApplicable, match="already"):
        named("compile").apply(compiled)
    with pytest.raises(NotApplicable, match="compiled"):
        named("fold_batch_norm").apply(compiled)


def test_compile_without_a_compiler_is_not_applicable(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch._inductor.config as inductor

    torch._dynamo.reset()
    monkeypatch.setattr(inductor.cpp, "cxx", ("no-such-compiler",))
    monkeypatch.setattr(inductor, "force_disable_caches", True)
    with pytest.raises(NotApplicable, match="does not work on this machine") as refused:
        changed(net("lstm"), "compile")
    assert "\n" not in str(refused.value)
    torch._dynamo.reset()


@pytest.mark.parametrize("name", ["tf32", "cuda_graph", "compile_reduce_overhead", "sparse_24"])
def test_changes_for_gpus_are_refused_on_a_cpu(name: str) -> None:
    with pytest.raises(NotApplicable, match=r"CUDA|GPU"):
        changed(net("lstm"), name)


def test_base_is_not_shared_with_the_copy() -> None:
    base = net("resnet")
    kept = copy.deepcopy(base.model.state_dict())
    changed(base, "channels_last", "fold_batch_norm", "inplace_activations", "bfloat16_weights")
    assert all(torch.equal(kept[key], value) for key, value in base.model.state_dict().items())


def test_dry_passes_leave_statistics_and_the_random_state() -> None:
    base = net("unet")
    base.model.train()
    state = torch.get_rng_state()
    other = changed(base, "inplace_activations")
    assert torch.equal(torch.get_rng_state(), state)
    pairs = zip(base.model.buffers(), other.model.buffers(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)
