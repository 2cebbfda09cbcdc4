"""Changes that need a CUDA device; skipped without one."""

from __future__ import annotations

import pytest
import torch
from change_nets import NETS, changed, net, runnable, worst
from torch import nn

from assay.trials.change import NotApplicable

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


@pytest.fixture(autouse=True)
def _float32_convolutions(monkeypatch: pytest.MonkeyPatch) -> None:
    """TF32, the default of convolutions, differs by about 1e-3 between kernels."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)


@pytest.mark.parametrize("name", NETS)
def test_graphs_replay_with_new_inputs(name: str) -> None:
    base = net(name, "cuda")
    try:
        graphed = changed(base, "cuda_graph")
    except NotApplicable as error:
        pytest.skip(str(error))  # such as models of transformers that read a mask on the host
    assert worst(base, graphed) == 0
    base.args = graphed.args = tuple(each.flip(0) for each in base.args)
    assert worst(base, graphed) == 0


@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize("change", ["fold_batch_norm", "channels_last", "sdpa", "fuse_qkv", "batch", "tf32"])
def test_outputs_on_a_gpu(change: str, name: str) -> None:
    base = net(name, "cuda")
    try:
        other = changed(base, change)
    except NotApplicable:
        return
    assert worst(base, other) < (1e-2 if change == "tf32" else 1e-4)


@pytest.mark.parametrize("change", ["int8_weights", "int4_weights"])
def test_weights_of_few_bits_on_a_gpu(change: str) -> None:
    model = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 64)).cuda().bfloat16()
    base = runnable(model, torch.randn(4, 256, device="cuda", dtype=torch.bfloat16))
    assert worst(base, changed(base, change)) < 0.15


def test_stack_with_a_graph() -> None:
    base = net("resnet", "cuda")
    stacked = changed(base, "fold_batch_norm", "channels_last", "bfloat16_autocast", "inference_mode", "cuda_graph")
    assert worst(base, stacked) < 0.05


def test_reduce_overhead() -> None:
    base = net("decoder", "cuda")
    compiled = changed(base, "compile_reduce_overhead")
    for _ in range(3):
        assert worst(base, compiled) < 1e-4


def test_sparse_weights_are_used_only_if_they_are_sparse() -> None:
    layer = nn.Linear(256, 256).cuda().half()
    base = runnable(nn.Sequential(layer), torch.randn(64, 256, device="cuda", dtype=torch.half))
    with pytest.raises(NotApplicable, match="sparse"):
        changed(base, "sparse_24")
    with torch.no_grad():
        layer.weight.view(256, 64, 4)[..., 2:] = 0
    assert worst(base, changed(base, "sparse_24")) < 1e-2
