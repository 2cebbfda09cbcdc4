"""Quantized models run with and without data, and cost the same; packed weights and quantized tensors need memory."""

from __future__ import annotations

import pytest
import torch
import torch.ao.quantization as quantization
from torch import nn
from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx

import assay

pytestmark = pytest.mark.filterwarnings("ignore")

ENGINE = "x86" if "x86" in torch.backends.quantized.supported_engines else "qnnpack"


class Small(nn.Module):
    """A quantized convolution, addition, pooling and linear layer between stubs."""

    def __init__(self):
        super().__init__()
        self.quant, self.dequant = quantization.QuantStub(), quantization.DeQuantStub()
        self.conv, self.bn, self.relu = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU()
        self.pool, self.fc = nn.AdaptiveAvgPool2d(1), nn.Linear(8, 4)
        self.plus = torch.ao.nn.quantized.FloatFunctional()

    def forward(self, x):
        x = self.relu(self.bn(self.conv(self.quant(x))))
        return self.dequant(self.fc(self.pool(self.plus.add(x, x)).flatten(1)))


def eager_static():
    model = Small().eval()
    model.qconfig = quantization.get_default_qconfig(ENGINE)
    prepared = quantization.prepare(quantization.fuse_modules(model, [["conv", "bn", "relu"]]))
    prepared(torch.randn(2, 3, 8, 8))
    return quantization.convert(prepared), torch.randn(2, 3, 8, 8)


def fx_static():
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(288, 4)).eval()
    prepared = prepare_fx(model, quantization.get_default_qconfig_mapping(ENGINE), (torch.randn(2, 3, 8, 8),))
    prepared(torch.randn(2, 3, 8, 8))
    return convert_fx(prepared), torch.randn(2, 3, 8, 8)


def dynamic():
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4)).eval()
    return quantization.quantize_dynamic(model, {nn.Linear}), torch.randn(2, 8)


def embedding():
    model = nn.Sequential(nn.Embedding(10, 8)).eval()
    model.qconfig = quantization.float_qparams_weight_only_qconfig
    return quantization.convert(quantization.prepare(model)), torch.randint(0, 10, (2, 5))


CASES = {"eager": eager_static, "fx": fx_static, "dynamic": dynamic, "embedding": embedding}
MACS = {
    "eager": 2 * 8 * 6 * 6 * 3 * 9 + 2 * 8 * 4,
    "fx": 2 * 8 * 6 * 6 * 3 * 9 + 2 * 288 * 4,
    "dynamic": 2 * 64 + 2 * 32,
    "embedding": 0,
}


@pytest.mark.parametrize("mode", ["auto", "meta"])
@pytest.mark.parametrize("name", CASES)
def test_a_quantized_model_runs_and_counts(name, mode):
    model, x = CASES[name]()
    with torch.no_grad():
        before = model(x)
    document = assay.observe(model, (x,), mode=mode)
    assert document.complete
    assert document.run.mode == ("real" if mode == "auto" else mode)
    assert document.cost.forward.macs == MACS[name]
    assert document.cost.coverage == 1
    with torch.no_grad():
        assert torch.equal(model(x), before)


@pytest.mark.parametrize("name", CASES)
def test_a_fake_pass_completes_or_is_refused_with_the_next_step(name):
    model, x = CASES[name]()
    document = assay.observe(model, (x,), mode="fake")
    assert document.run.mode == "fake"
    assert document.complete or "--real" in document.run.failure.error


@pytest.mark.parametrize("name", CASES)
def test_with_data_and_without_data_cost_the_same(name):
    model, x = CASES[name]()
    real, meta = (assay.observe(model, (x,), mode=mode).cost.forward for mode in ("real", "meta"))
    assert (real.flops, real.bytes, real.ops) == (meta.flops, meta.bytes, meta.ops)
