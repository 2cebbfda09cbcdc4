"""Workspaces inside ops: formulas against what torch's own profiler saw allocated, and names where none is known."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from assay import observe
from assay.analysis.memory import memory_of
from assay.document.provenance import Counted, Modelled
from assay.views.text.memory import report
from assay.views.text.report import as_text

ONEDNN = torch.backends.mkldnn.is_available()


class Outputs(nn.Module):
    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, x):
        return self.network(x)[0]


def allocated(run):
    """Peak bytes that torch's profiler saw allocated."""
    run()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        run()
    events = [event for event in profile.profiler.kineto_results.events() if event.name() == "[memory]"]
    live = peak = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        live += event.nbytes()
        peak = max(peak, live)
    return peak


CASES = {
    "lstm": (lambda: nn.LSTM(64, 128), torch.float32),
    "lstm, batch first": (lambda: nn.LSTM(64, 128, 2, batch_first=True), torch.float32),
    "lstm, wide input": (lambda: nn.LSTM(64, 32, 2, bidirectional=True), torch.float32),
    "lstm, both directions": (lambda: nn.LSTM(64, 128, 2, bidirectional=True), torch.float32),
    "lstm, projected": (lambda: nn.LSTM(64, 128, 2, proj_size=32), torch.float32),
    "lstm, float64": (lambda: nn.LSTM(64, 128, 2, bidirectional=True), torch.float64),
    "gru": (lambda: nn.GRU(64, 128, 2), torch.float32),
    "gru, batch first": (lambda: nn.GRU(640, 128, batch_first=True), torch.float32),
    "gru, both directions": (lambda: nn.GRU(64, 128, 2, bidirectional=True), torch.float32),
    "rnn": (lambda: nn.RNN(64, 128, 2), torch.float32),
    "rnn, relu, both directions": (
        lambda: nn.RNN(64, 128, 2, nonlinearity="relu", bidirectional=True),
        torch.float64,
    ),
}


@pytest.mark.skipif(not ONEDNN, reason="the formulas for LSTMs are those of oneDNN")
@pytest.mark.filterwarnings("ignore:LSTM with projections")
@pytest.mark.parametrize("case", CASES)
def test_the_peak_of_a_recurrent_op_is_what_torch_allocates(case):
    build, dtype = CASES[case]
    model = Outputs(build()).to(dtype).eval()
    x = torch.randn(48, 32, model.network.input_size, dtype=dtype)

    def run():
        with torch.no_grad():
            model(x)

    memory = memory_of(observe(model, x, mode="real"))
    assert memory.inference.moving.value == pytest.approx(allocated(run), rel=0.06)
    assert isinstance(memory.inference.moving.how, Modelled)
    assert memory.inference.peak.by_role["workspace"] > 0
    assert memory.inference.peak.largest[0].role == "workspace"
    assert not memory.workspace_unknown


@pytest.mark.skipif(not ONEDNN, reason="the formulas for LSTMs are those of oneDNN")
@pytest.mark.parametrize("mode", ["real", "fake"])
@pytest.mark.parametrize("case", ["lstm", "lstm, batch first", "lstm, both directions"])
def test_the_peak_of_a_recurrent_training_step_is_what_torch_allocates(case, mode):
    model = Outputs(CASES[case][0]()).train()
    x = torch.randn(48, 32, 64)

    def step():
        output = model(x)
        output.backward(torch.ones_like(output))
        model.zero_grad(set_to_none=True)

    document = observe(model, x, mode=mode, backward=True)
    assert memory_of(document, device="cpu").training.moving.value == pytest.approx(allocated(step), rel=0.06)


def test_on_shapes_alone_the_workspace_is_unknown_and_named():
    document = observe(nn.GRU(8, 8), torch.randn(4, 2, 8), mode="meta")
    memory = memory_of(document)
    assert memory.workspace_unknown == ("torch.gru",)
    assert isinstance(memory.inference.moving.how, Counted)
    assert memory_of(document, device="cpu").workspace_unknown == ()
    assert memory_of(document, device="cuda:0").workspace_unknown == ("torch.gru",)


def test_a_packed_sequence_has_an_unknown_workspace():
    class Packed(nn.Module):
        def __init__(self):
            super().__init__()
            self.network = nn.GRU(8, 8)

        def forward(self, x):
            return self.network(nn.utils.rnn.pack_padded_sequence(x, [4, 2]))[0].data

    assert memory_of(observe(Packed(), torch.randn(4, 2, 8), mode="real")).workspace_unknown == ("torch.gru",)


def test_ops_of_libraries_are_named_and_others_are_not():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3), nn.Flatten(), nn.Linear(16, 2))
    document = observe(model, torch.randn(1, 3, 6, 6), mode="real")
    memory = memory_of(document)
    assert memory.workspace_unknown == ("torch.conv2d",)
    assert isinstance(memory.inference.total.how, Counted)
    assert "workspace unknown, and not included: torch.conv2d" in as_text(report(memory, document))
    document = observe(nn.Linear(4, 2), torch.randn(1, 4), mode="real")
    plain = memory_of(document)
    assert plain.workspace_unknown == ()
    assert "workspace unknown" not in as_text(report(plain, document))


@pytest.mark.parametrize(("dropout", "unknown"), [(0.0, False), (0.5, True)])
def test_attention_has_a_workspace_only_without_a_fused_kernel(dropout, unknown):
    class Attention(nn.Module):
        def forward(self, x):
            return nn.functional.scaled_dot_product_attention(x, x, x, dropout_p=dropout)

    names = memory_of(observe(Attention(), torch.randn(1, 2, 4, 8), mode="real")).workspace_unknown
    assert bool(names) is unknown


def test_the_formula_is_stated():
    document = observe(nn.GRU(8, 8), torch.randn(4, 2, 8), mode="real")
    text = as_text(report(memory_of(document), document))
    assert "workspace modelled for the CPU: torch.gru: gates, outputs and stacked outputs" in text
