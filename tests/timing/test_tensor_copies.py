"""Copies of an op's inputs share storages as the originals do, so that a replay runs what the model ran."""

from __future__ import annotations

import copy
import warnings

import pytest
import torch
from torch import nn

from assay.api.options import RunOptions
from assay.api.profile.profiled import prepare
from assay.recorder import inventory
from assay.recorder.watch import record_pass
from assay.sources.open import open_source
from assay.timing.op_clock import OpKeeper
from assay.timing.tensor_copies import copied


def storage_of(tensor):
    return tensor.untyped_storage().data_ptr()


def flattened_lstm():
    """An LSTM whose weights are views of one storage, as cuDNN lays them out."""
    lstm = nn.LSTM(4, 8, num_layers=2)
    weights = list(lstm.parameters())
    flat = torch.randn(sum(weight.numel() for weight in weights))
    begin = 0
    for weight in weights:
        weight.data = flat[begin : begin + weight.numel()].view_as(weight)
        begin += weight.numel()
    return lstm


def test_the_kept_weights_of_an_lstm_share_one_storage_and_replay_without_warnings():
    lstm, x = flattened_lstm(), torch.randn(3, 1, 4)
    before = copy.deepcopy(lstm.state_dict())
    pointers = [weight.data_ptr() for weight in lstm.parameters()]
    ready = prepare(open_source(lstm), x, RunOptions("real"))
    keeper = OpKeeper(range(100))
    inputs = ready.inputs
    record_pass(lstm, inventory.members(lstm), inputs.args, inputs.kwargs, ready.setting(), keeper.call)
    weights = list(lstm.parameters())
    replays = [kept for kept in keeper.kept.values() if str(kept.func).startswith("aten.lstm")]
    assert len(replays) == 1
    kept = replays[0].args[2]
    assert {storage_of(one) for one in kept}.isdisjoint({storage_of(one) for one in weights})
    assert len({storage_of(one) for one in kept}) == 1
    for copy_, weight in zip(kept, weights, strict=True):
        assert torch.equal(copy_, weight)
        assert (copy_.storage_offset(), copy_.stride()) == (weight.storage_offset(), weight.stride())
        assert not copy_.requires_grad
    with warnings.catch_warnings(record=True) as caught, torch.no_grad():
        warnings.simplefilter("always")
        output = replays[0]()
        expected = lstm(x)
    assert not caught
    assert torch.equal(output[0], expected[0])
    assert [weight.data_ptr() for weight in lstm.parameters()] == pointers
    assert all(torch.equal(value, before[name]) for name, value in lstm.state_dict().items())


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.randn(3, 4),
        lambda: torch.randn(4, 3).T,
        lambda: torch.randn(1, 5).expand(7, 5),
        lambda: torch.randn(10)[2:9:3],
        lambda: torch.randn(()),
        lambda: torch.empty(0, 3),
        lambda: torch.randn(3, dtype=torch.complex64).conj(),
        lambda: torch.randn(3, dtype=torch.complex64).conj().imag,
        lambda: torch.randint(0, 2, (5,)).bool(),
        lambda: nn.Parameter(torch.randn(2, dtype=torch.bfloat16)),
        lambda: torch.randn(100_001, dtype=torch.float64)[70_001:70_005],
    ],
    ids=range(11),
)
def test_a_copy_has_the_values_and_the_layout_of_the_original(make):
    tensor = make()
    (found,) = copied((tensor,))
    assert torch.equal(found, tensor)
    assert (found.dtype, found.shape, found.stride()) == (tensor.dtype, tensor.shape, tensor.stride())
    assert (found.is_conj(), found.is_neg()) == (tensor.is_conj(), tensor.is_neg())
    assert not found.requires_grad
    assert not tensor.numel() or storage_of(found) != storage_of(tensor)


def test_a_small_view_does_not_copy_a_large_storage():
    large = torch.arange(1_000_000, dtype=torch.float32)
    first, second = copied((large[500_000:500_010], {"x": [large[500_005:500_020]]}))
    (again,) = second["x"]
    assert storage_of(first) == storage_of(again)
    assert first.untyped_storage().nbytes() < 2_000
    assert torch.equal(first, large[500_000:500_010])
    first[5] = -1.0  # the copies overlap where the originals do
    assert again[0] == -1.0
    assert large[500_005] == 500_005


@pytest.mark.filterwarnings("ignore:.*quantize_per_tensor:UserWarning")
def test_tensors_without_a_storage_of_their_own_are_cloned():
    sparse = torch.eye(3).to_sparse()
    quantized = torch.quantize_per_tensor(torch.randn(3), 0.1, 0, torch.qint8)
    found = copied([sparse, quantized, "text", None, 3])
    assert torch.equal(found[0].to_dense(), torch.eye(3))
    assert torch.equal(found[1].dequantize(), quantized.dequantize())
    assert found[2:] == ["text", None, 3]


def test_inference_tensors_are_copied():
    with torch.inference_mode():
        tensor = torch.randn(3)
    assert torch.equal(copied(tensor), tensor)
