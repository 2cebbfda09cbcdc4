"""What findings about computation, structure and memory are worth, worked out by hand from made-up times."""

from __future__ import annotations

import pytest
import torch
from msgspec.structs import replace
from timed_documents import DEVICE, NS, found, saved, timed
from torch import nn
from torch.nn import functional as F

import assay
from assay.document.provenance import Measured, Modelled, Unknown

IMAGE = torch.ones(2, 3, 8, 8)
ROWS = torch.ones(256, 1024)
ROW_BYTES = ROWS.numel() * 4


class Calls(nn.Module):
    """A module whose forward calls a function, with layers that the function can use."""

    def __init__(self, function, **layers):
        super().__init__()
        self.function = [function]
        for name, layer in layers.items():
            self.add_module(name, layer)

    def forward(self, *inputs):
        return self.function[0](self, *inputs)


def folding():
    return assay.observe(nn.Sequential(nn.Conv2d(3, 64, 3), nn.BatchNorm2d(64), nn.ReLU()).eval(), IMAGE)


def test_folding_saves_the_time_of_the_norms():
    document = timed(folding(), {"aten.conv2d": 90.0, "aten.batch_norm": 6.0, "aten.relu": 4.0})
    finding = found("S203", document)
    assert saved(finding) == ("time", pytest.approx(6.0), pytest.approx(0.06))
    assert isinstance(finding.gain.amount.how, Measured)
    assert "6.0 % of the time" in finding.title
    assert "bytes" not in finding.title
    assert finding.evidence["time_s"].value == pytest.approx(6.0)
    assert finding.severity == "advice"


def test_folding_that_saves_next_to_nothing_is_a_note():
    assert found("S203", timed(folding(), {"aten.conv2d": 99.0, "aten.batch_norm": 1.0})).severity == "note"


def test_without_times_the_gain_is_unknown_or_from_the_roofline():
    finding = found("S203", folding())
    assert saved(finding) == ("time", None, None)
    assert isinstance(finding.gain.amount.how, Unknown)
    assert "time" not in finding.title
    modelled = found("S203", folding(), DEVICE)
    bytes_of_norm = finding.evidence["bytes_saved"].value
    assert saved(modelled)[:2] == ("time", pytest.approx(bytes_of_norm * NS))
    assert isinstance(modelled.gain.amount.how, Modelled)
    assert "time_s" not in modelled.evidence


def pointwise(*layers):
    return assay.observe(nn.Sequential(nn.Linear(1024, 1024, bias=False), *layers), ROWS)


def chain(gelu, sigmoid):
    seconds = {"aten.linear": 30 * (gelu + sigmoid), "aten.gelu": gelu, "aten.sigmoid": sigmoid}
    return timed(pointwise(nn.GELU(), nn.Sigmoid()), seconds)


def test_fusing_saves_what_a_chain_takes_above_its_ends():
    document = chain(0.02, 0.01)
    finding = found("C203", document, replace(DEVICE, tflops={"fp32": 1.0}))
    # One kernel reads the input of GELU and writes the output of the sigmoid.
    assert saved(finding)[1] == pytest.approx(0.03 - 2 * ROW_BYTES * NS)
    assert finding.title.startswith("2 pointwise ops, 3.2 % of the time, can be fused into 1 kernel")
    # Without limits of the machine: two of the four passes over memory vanish.
    assert saved(found("C203", document))[1] == pytest.approx(0.03 / 2)


def test_a_chain_in_a_cache_is_faster_than_the_roofline():
    assert saved(found("C203", chain(2e-7, 1e-7), DEVICE))[1] == pytest.approx(3e-7 / 2)


@pytest.mark.parametrize(
    ("model", "operations"),
    [
        (nn.Sequential(nn.GELU(), nn.Sigmoid(), nn.Tanh()), 3),
        (nn.Sequential(nn.GELU(), nn.ReLU(inplace=True)), 2),
        (Calls(lambda m, x: torch.tanh(x) * torch.sigmoid(x)), 3),
        (nn.Sequential(nn.LayerNorm(1024), nn.GELU()), 2),
        (nn.GELU(), None),
        (Calls(lambda m, x: (y := torch.tanh(x), torch.sigmoid(y))), None),
        (Calls(lambda m, x: torch.sigmoid(y := torch.tanh(x)) @ y.T), None),
        (Calls(lambda m, x: torch.sigmoid(torch.tanh(x)[:, :512])), None),
    ],
    ids=["three", "in place", "two branches", "norm", "alone", "returned", "read twice", "only a part"],
)
def test_chains_of_pointwise_ops(model, operations):
    finding = found("C203", assay.observe(model, ROWS))
    assert (finding.evidence["operations"].value if finding else None) == operations


def test_copies_cost_their_time():
    model = Calls(lambda m, x: x.t().contiguous() @ x)
    document = timed(assay.observe(model, ROWS), {"aten.matmul": 9.0, "aten.contiguous": 1.0})
    finding = found("C204", document)
    assert saved(finding)[1:] == (pytest.approx(1.0), pytest.approx(0.1))
    assert finding.title.startswith("copies take 10.0 % of the time")


def attention():
    qkv = [torch.ones(2, 8, 64, 16) for _ in range(3)]
    return assay.observe(Calls(lambda m, q, k, v: ((q @ k.transpose(-2, -1)) / 4).softmax(-1) @ v), tuple(qkv))


def test_sdpa_saves_the_ops_between_the_products():
    seconds = {"aten.matmul": 40.0, "aten.div": 5.0, "aten.softmax": 15.0}
    finding = found("C401", timed(attention(), seconds))
    assert saved(finding)[1:] == (pytest.approx(20.0), pytest.approx(0.2))
    assert "20.0 % of the time between the two matmuls" in finding.title


def test_merging_saves_in_proportion_to_flops():
    model = nn.Sequential(nn.Linear(8, 32, bias=False), nn.Linear(32, 4, bias=False))
    finding = found("C103", timed(assay.observe(model, torch.ones(2, 8)), {"aten.linear": 1.0}))
    assert saved(finding)[2] == pytest.approx(1 - (8 * 4) / (8 * 32 + 32 * 4))


def test_reading_an_input_once_saves_its_bytes():
    model = nn.Sequential(Calls(lambda m, x: m.a(x) + m.b(x), a=nn.Linear(1024, 8), b=nn.Linear(1024, 8)))
    document = assay.observe(model, ROWS)
    assert saved(found("C104", document))[1] is None
    assert saved(found("C104", document, DEVICE))[1] == pytest.approx(ROW_BYTES * NS)


def test_casts_cost_their_time():
    document = assay.observe(Calls(lambda m, x: x.to(torch.bfloat16).to(torch.float32) @ x.T), ROWS)
    finding = found("C105", timed(document, {"aten.to": 1.0, "aten.matmul": 6.0}))
    assert saved(finding)[1:] == (pytest.approx(2.0), pytest.approx(0.25))


def test_the_heaviest_modules_are_those_that_take_the_time():
    model = nn.Sequential(*(nn.Linear(8, 8) for _ in range(11)), nn.Linear(8, 512), nn.Conv1d(1, 1, 1))
    document = assay.observe(Calls(lambda m, x: m.n[12](m.n[:12](x)[:, None]), n=model), torch.ones(2, 8))
    finding = found("C201", timed(document, {"aten.linear": 1.0, "aten.conv1d": 50.0}))
    assert [document.modules[index].path for index in finding.modules] == ["n.12"]
    assert "of the time is in 1 of 13" in finding.title


def test_reading_weights_costs_time_only_where_memory_is_the_bottleneck():
    document = assay.observe(nn.Linear(1024, 1024, bias=False), torch.ones(1, 1024))
    assert saved(found("C202", document))[1] is None
    assert saved(found("C202", timed(document, {"aten.linear": 1.0}), DEVICE))[2] == pytest.approx(1024 / 1026)


def test_small_ops_cost_the_time_between_them():
    document = assay.observe(Calls(lambda m, x: sum(x + step for step in range(400))), torch.ones(2, 8))
    assert saved(found("C205", document))[1] is None
    finding = found("C205", timed(document, {"aten.add": 1.0}, between=200.0))
    assert saved(finding)[1:] == (pytest.approx(200.0), pytest.approx(0.2))


def test_float64_costs_half_its_time():
    model = Calls(lambda m, x: m.l(x) + (x.double() * 2).sum(), l=nn.Linear(1024, 8))
    finding = found("C206", timed(assay.observe(model, ROWS), {"aten.mul": 1.0, "aten.linear": 3.0}))
    assert saved(finding)[1] == pytest.approx(0.5)
    assert finding.severity == "warning"


def test_convolutions_cost_what_they_take_above_the_limits():
    deep = nn.Conv2d(64, 64, 3, padding=1, groups=64, bias=False)
    document = assay.observe(nn.Sequential(deep, nn.Conv2d(64, 64, 1, bias=False)), torch.ones(1, 64, 16, 16))
    slow = timed(document, {"aten.conv2d": 1.0})
    finding = found("C303", slow, DEVICE)
    flops = 2 * 9 * 64 * 256  # above the bytes, at 1 GFLOP/s
    assert saved(finding)[1] == pytest.approx(1.0 - flops * NS)
    assert finding.severity == "advice"
    assert finding.title.startswith("1 grouped convolution with 50.0 % of the time")


def test_large_kernels_cost_what_a_stack_of_small_ones_saves():
    document = assay.observe(nn.Conv2d(8, 8, 9, padding=4, bias=False), torch.ones(1, 8, 16, 16))
    assert saved(found("C304", timed(document, {"aten.conv2d": 1.0})))[2] == pytest.approx(1 - 4 * 9 / 81)


@pytest.mark.parametrize("code", ["C301", "C302"])
def test_padding_saves_at_most_what_is_above_the_limits(code):
    layer, x = (nn.Linear(64, 8200, bias=False), torch.ones(4, 64))
    layer, x = (nn.Linear(64, 70, bias=False).bfloat16(), x.bfloat16()) if code == "C301" else (layer, x)
    finding = found(code, timed(assay.observe(layer, x), {"aten.linear": 1.0}), DEVICE)
    assert 0.9 < saved(finding)[1] < 1.0
    assert saved(found(code, assay.observe(layer, x)))[1] is None


def test_saved_activations_are_worth_memory():
    model = nn.Sequential(*(nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), nn.Sigmoid()) for _ in range(4)))
    finding = found("M101", assay.observe(model, torch.ones(4, 4, 64, 64), backward=True))
    of, amount, share = saved(finding)
    assert (of, amount) == ("memory", finding.evidence["saved_bytes"].value)
    assert 0 < share < 1


def test_running_in_place_is_worth_memory():
    model = nn.Sequential(nn.Conv2d(4, 32, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1))
    image = torch.ones(4, 4, 64, 64)
    finding = found("M104", assay.observe(model, image))
    wide, pooled = 4 * 32 * 64 * 64 * 4, 4 * 32 * 4
    resident = sum(p.numel() * 4 for p in model.parameters()) + image.numel() * 4
    assert saved(finding) == ("memory", wide - pooled, pytest.approx((wide - pooled) / (2 * wide + resident)))
    tiny = found("M104", assay.observe(model, torch.ones(1, 4, 2, 2)))
    assert tiny is None or tiny.severity == "note"


def test_buffers_unused_parameters_and_biases_are_worth_bytes():
    class Holder(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.spare = nn.Linear(8, 8), nn.Linear(512, 512, bias=False)
            self.register_buffer("mask", torch.ones(1024, 1024))

        def forward(self, x):
            return self.layer(x)

    document = assay.observe(Holder(), torch.ones(1, 8))
    used, spare, mask = (8 * 8 + 8) * 4, 512 * 512 * 4, 1024 * 1024 * 4
    assert saved(found("S101", document)) == ("bytes", spare, pytest.approx(spare / (used + spare)))
    assert saved(found("M106", document)) == ("bytes", mask, pytest.approx(mask / (mask + used + spare)))
    biased = nn.Sequential(nn.Linear(8, 1024), nn.BatchNorm1d(1024)).eval()
    assert saved(found("S204", assay.observe(biased, torch.ones(2, 8))))[:2] == ("bytes", 1024 * 4)


def test_few_unused_bytes_are_a_note():
    class Spare(nn.Module):
        def __init__(self, size):
            super().__init__()
            self.layer, self.spare = nn.Linear(8, 8), nn.Parameter(torch.ones(size))

        def forward(self, x):
            return self.layer(x)

    severities = [found("S101", assay.observe(Spare(size), torch.ones(1, 8))).severity for size in (16, 4096)]
    assert severities == ["note", "warning"]


def test_steps_of_a_cell_cost_what_they_take_above_the_limits():
    class Stepped(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell = nn.GRUCell(8, 8)

        def forward(self, x):
            state = torch.zeros(x.shape[1], 8)
            for step in x:
                state = self.cell(step, state)
            return state

    document = timed(assay.observe(Stepped(), torch.ones(12, 2, 8)), {"aten.gru_cell": 1.0})
    of, amount, share = saved(found("S105", document, DEVICE))
    assert (of, share) == ("time", pytest.approx(amount / 12))
    assert 11 < amount < 12


def test_dropout_of_a_functional_call_has_no_price():
    finding = found("S201", assay.observe(Calls(lambda m, x: F.dropout(x, 0.5, True)), ROWS))
    assert finding.gain is None
