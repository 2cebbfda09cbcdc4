"""Results that nothing uses are found; results that are returned, kept, written or read by Python are not."""

from __future__ import annotations

import pytest
import torch
from finding_models import finding_of, in_document, paths, values
from machine_documents import timed
from torch import nn

import assay

X = torch.randn(4, 32, generator=torch.Generator().manual_seed(0))


class Branches(nn.Module):
    """A body and a second branch; `use` decides what happens to the second branch."""

    def __init__(self, use):
        super().__init__()
        self.body, self.aux = nn.Linear(32, 32), nn.Linear(32, 32)
        self.register_buffer("state", torch.zeros(4, 32))
        self.use = [use]
        self.kept = None

    def forward(self, x):
        y = self.body(x)
        return self.use[0](self, y, self.aux(y).softmax(-1))


def keep(model, y, aux):
    model.kept = aux
    return y


def write(model, y, aux):
    model.state.copy_(aux)
    return y


def overwrite_and_return(model, y, aux):
    y.add_(aux)
    return y


@pytest.mark.parametrize("mode", ["real", "meta", "fake"])
def test_a_discarded_branch(mode):
    document = assay.observe(Branches(lambda m, y, aux: y), X, mode=mode)
    finding = in_document("S107", document)
    assert paths(document, finding) == ["", "aux"]
    assert values(finding)["unused_operations"] == 2
    assert values(finding)["share_of_flops"] > 0.4


def test_the_gain_is_the_time_of_the_branch():
    document = timed(assay.observe(Branches(lambda m, y, aux: y), X), {"aten.linear": 0.25, "aten.softmax": 0.5})
    gain = in_document("S107", document).gain
    assert gain.amount.value == pytest.approx(0.75)
    assert gain.share.value == pytest.approx(0.75)


@pytest.mark.parametrize(
    "use",
    [
        lambda m, y, aux: y + aux,
        lambda m, y, aux: {"out": y, "aux": (aux,)},
        lambda m, y, aux: y + float(aux.sum()),
        lambda m, y, aux: y if aux.sum() > 0 else -y,
        lambda m, y, aux: y + len(aux.tolist()),
        lambda m, y, aux: y + torch.from_numpy(aux.numpy()),
        lambda m, y, aux: y[aux > 0],
        lambda m, y, aux: torch.cat([y, aux[:1]]),
        lambda m, y, aux: y + aux.view(-1)[:1],
        lambda m, y, aux: y + aux.max(-1).indices.unsqueeze(1),
        keep,
        write,
        overwrite_and_return,
    ],
)
def test_results_that_are_used(use):
    assert finding_of("S107", Branches(use), X) is None


def test_random_numbers_and_small_remainders_are_not_reported():
    def draws(m, y, aux):
        torch.rand(64, 64)
        return y + aux

    class Shape(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(256, 256)

        def forward(self, x):
            torch.arange(4)
            return self.layer(x)

    assert finding_of("S107", Branches(draws), X) is None
    assert finding_of("S107", Shape(), torch.ones(64, 256)) is None
    assert finding_of("S107", Branches(lambda m, y, aux: (y.repeat(8, 8), y + aux)[1]), X) is None


def test_a_large_copy_without_arithmetic_counts_too():
    finding = finding_of("S107", Branches(lambda m, y, aux: (y.repeat(64, 64), y + aux)[1]), X)
    assert values(finding)["unused_operations"] == 1
    assert values(finding)["flops"] == 0


def test_a_kernel_that_was_not_recorded_may_have_read_anything():
    def unseen(m, y, aux):
        out = torch.empty_like(y)
        return y + out

    assert finding_of("S107", Branches(unseen), X) is None


def test_an_expert_without_rows_is_not_waste():
    class Experts(nn.Module):
        def __init__(self):
            super().__init__()
            self.experts = nn.ModuleList(nn.Linear(32, 32) for _ in range(4))

        def forward(self, x):
            y = torch.zeros_like(x)
            for index, expert in enumerate(self.experts):
                rows = (torch.arange(4) % 2 == index).nonzero()[:, 0]
                y.index_add_(0, rows, expert(x[rows]))
            return y

    assert finding_of("S107", Experts(), X) is None
