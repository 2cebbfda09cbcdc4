"""Rules about language models: tied tables, and logits of positions that are not used."""

from __future__ import annotations

import pytest
import torch
from finding_models import finding_of, values
from timed_documents import found, saved, timed
from torch import nn
from torch.nn import functional as F

import assay

IDS = torch.ones(1, 64, dtype=torch.long)
VOCABULARY, WIDTH = 20_000, 64


class Language(nn.Module):
    def __init__(self, tied):
        super().__init__()
        self.embed, self.head = nn.Embedding(VOCABULARY, WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)
        if tied:
            self.head.weight = self.embed.weight

    def forward(self, ids):
        return self.head(self.embed(ids)[:, -1:])


class Borrowed(nn.Module):
    """The table is tied without a second name: by calling F.linear with it."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)

    def forward(self, ids):
        return F.linear(self.embed(ids)[:, -1:], self.embed.weight)


@pytest.mark.parametrize("model", [Language(tied=True), Borrowed()], ids=["two names", "one name"])
def test_a_tied_table_is_not_to_be_tied(model):
    finding = finding_of("S103", model, IDS)
    assert finding.severity == "note"
    assert "tied" not in finding.advice
    assert "output projection tied" in finding.title
    assert values(finding)["embedding_parameters"] == VOCABULARY * WIDTH


def test_a_table_beside_an_output_projection():
    assert finding_of("S103", Language(tied=False), IDS).severity == "advice"
    lookup = nn.Sequential(nn.Embedding(VOCABULARY, WIDTH), nn.Linear(WIDTH, 2))
    finding = finding_of("S103", lookup, IDS)
    assert "tied to the output projection" in finding.advice
    size = VOCABULARY * WIDTH * 4
    assert saved(finding) == ("bytes", size / 2, pytest.approx(size / 2 / (size + (WIDTH * 2 + 2) * 4)))


class Decoder(nn.Module):
    def __init__(self, before=lambda x: x, after=lambda y: y, classes=VOCABULARY):
        super().__init__()
        self.embed, self.head = nn.Embedding(classes, 8), nn.Linear(8, classes, bias=False)
        self.before, self.after = [before], [after]

    def forward(self, ids):
        return self.after[0](self.head(self.before[0](self.embed(ids))))


UNUSED = {
    "last": lambda y: y[:, -1],
    "last, kept dimension": lambda y: y[:, -1:, :],
    "first": lambda y: y[:, 0],
    "soft cap before": lambda y: (torch.tanh(y / 30) * 30)[:, -1],
    "cast before": lambda y: y.double()[:, -1],
    "argmax": lambda y: y[:, -1].argmax(-1),
    "sampled": lambda y: F.softmax(y[:, -1] / 0.7, -1).topk(5).values,
}
USED = {
    "returned": lambda y: y,
    "both": lambda y: (y[:, -1], y),
    "loss": lambda y: F.cross_entropy(y.view(-1, y.shape[-1]), IDS.view(-1)),
    "shifted loss": lambda y: F.cross_entropy(y[:, :-1].reshape(-1, y.shape[-1]), IDS[:, 1:].reshape(-1)),
    "two positions": lambda y: y[:, -2:],
    "mean": lambda y: y.mean(1),
}


@pytest.mark.parametrize("name", UNUSED)
def test_logits_of_which_one_position_is_used(name):
    finding = finding_of("M102", Decoder(after=UNUSED[name]), IDS)
    assert finding.severity == "advice"
    assert "only one position is used" in finding.title
    assert values(finding)["positions"] == 64


@pytest.mark.parametrize("name", USED)
def test_logits_of_which_several_positions_are_used(name):
    finding = finding_of("M102", Decoder(after=USED[name]), IDS)
    assert finding is not None
    assert finding.severity == "note"


def test_a_position_selected_before_the_head_is_fine():
    assert finding_of("M102", Decoder(before=lambda x: x[:, -1:]), IDS) is None
    assert finding_of("M102", Decoder(before=lambda x: x[:, -1]), IDS) is None


def test_a_small_head_is_not_reported():
    assert finding_of("M102", Decoder(after=UNUSED["last"], classes=100), IDS) is None
    assert finding_of("M102", Decoder(after=USED["returned"], classes=2000), IDS) is None


def test_unused_positions_cost_their_share_of_the_head_and_of_what_follows():
    document = assay.observe(Decoder(after=UNUSED["soft cap before"]), IDS)
    seconds = {"aten.embedding": 36.0, "aten.linear": 61.0, "aten.div": 1.0, "aten.tanh": 1.0, "aten.mul": 1.0}
    finding = found("M102", timed(document, seconds))
    assert saved(finding)[1:] == (pytest.approx(64 * 63 / 64), pytest.approx(0.64 * 63 / 64))
    assert "64.0 % of the time" in finding.title


def test_a_product_with_the_table_is_a_head_too():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(VOCABULARY, 8)

        def forward(self, ids):
            return (self.embed(ids) @ self.embed.weight.T)[:, -1]

    assert finding_of("M102", Tied(), IDS).severity == "advice"
