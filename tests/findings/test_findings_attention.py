"""Attention written with einsum, matmul or bmm in any layout, live, traced and exported."""

from __future__ import annotations

import pytest
import torch
from finding_models import finding_of, in_document, values
from torch import nn

import assay

HEADS_FIRST = tuple(torch.ones(2, 3, 5, 16) for _ in range(3))
HEADS_LAST = tuple(torch.ones(2, 5, 3, 16) for _ in range(3))


class Einsum(nn.Module):
    """softmax over the last dimension of the scores, unless told otherwise."""

    def __init__(self, scores, output, dim=-1, values_first=False):
        super().__init__()
        self.scores, self.output, self.dim, self.values_first = scores, output, dim, values_first

    def forward(self, q, k, v):
        weights = (torch.einsum(self.scores, q, k) / 4).softmax(self.dim)
        return torch.einsum(self.output, *((v, weights) if self.values_first else (weights, v)))


LAYOUTS = {
    "bhqd": (Einsum("bhqd,bhkd->bhqk", "bhqk,bhkd->bhqd"), HEADS_FIRST),
    "dots": (Einsum("...qd,...kd->...qk", "...qk,...kd->...qd"), HEADS_FIRST),
    "bqhd": (Einsum("bqhd,bkhd->bhqk", "bhqk,bkhd->bqhd"), HEADS_LAST),
    "heads between": (Einsum("bqhd,bkhd->bqhk", "bqhk,bkhd->bqhd"), HEADS_LAST),
    "no arrow": (Einsum("aqhd,akhd->ahqk", "ahqk,akhd->aqhd"), HEADS_LAST),
    "values first": (Einsum("bhqd,bhkd->bhqk", "bhkd,bhqk->bhqd", values_first=True), HEADS_FIRST),
    "keys first": (Einsum("bhqd,bhkd->bhkq", "bhkq,bhkd->bhqd", dim=-2), HEADS_FIRST),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_einsum_attention(name):
    model, inputs = LAYOUTS[name]
    assert values(finding_of("C401", model, inputs)) | {"share_of_bytes": None} == {
        "attentions": 1,
        "score_bytes": 2 * 3 * 5 * 5 * 4,
        # The division and the softmax read and write the scores.
        "bytes_between_products": 4 * 2 * 3 * 5 * 5 * 4,
        "share_of_bytes": None,
    }


NEAR_MISSES = {
    "summed over queries": (Einsum("bhqd,bhkd->bhqk", "bhqk,bhqd->bhkd"), HEADS_FIRST),
    "softmax over queries": (Einsum("bhqd,bhkd->bhqk", "bhqk,bhkd->bhqd", dim=-2), HEADS_FIRST),
    "not summed": (Einsum("bhqd,bhkd->bhqk", "bhqk,bhkd->bhqkd"), HEADS_FIRST),
}


@pytest.mark.parametrize("name", NEAR_MISSES)
def test_near_misses_of_einsum_attention(name):
    assert finding_of("C401", *NEAR_MISSES[name]) is None


class Transposed(nn.Module):
    """values @ weights.T as in convolutional attention, or without the transposition, which is another function."""

    def __init__(self, transposed):
        super().__init__()
        self.transposed = transposed

    def forward(self, q, k, v):
        weights = torch.bmm(q.transpose(1, 2), k).softmax(-1)
        return torch.bmm(v, weights.transpose(1, 2) if self.transposed else weights)


@pytest.mark.parametrize("transposed", [True, False])
def test_weights_as_the_second_operand(transposed):
    maps = tuple(torch.ones(2, 16, 5) for _ in range(3))
    assert (finding_of("C401", Transposed(transposed), maps) is not None) == transposed


@pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")
@pytest.mark.parametrize("form", ["traced", "exported", "decomposed"])
def test_einsum_attention_in_other_forms(form, tmp_path):
    model, inputs = LAYOUTS["bqhd"]
    if form == "traced":
        document = assay.observe(torch.jit.trace(model, inputs), inputs)
    else:
        program = torch.export.export(model, inputs)
        torch.export.save(program.run_decompositions() if form == "decomposed" else program, tmp_path / "m.pt2")
        document = assay.observe(tmp_path / "m.pt2", trust=True)
    assert values(in_document("C401", document))["attentions"] == 1


def test_large_scores_are_advice_and_small_ones_a_note():
    model = LAYOUTS["bhqd"][0]
    assert finding_of("C401", model, HEADS_FIRST).severity == "note"
    large = tuple(torch.ones(2, 3, 128, 16) for _ in range(3))
    assert finding_of("C401", model, large).severity == "advice"


class Weights(nn.Module):
    """Attention that also returns what `also` makes of the scores and the weights, or computes and drops it."""

    def __init__(self, also, drop):
        super().__init__()
        self.also, self.drop = also, drop

    def forward(self, q, k, v):
        scores = q @ k.transpose(-1, -2)
        weights = (scores / 4).softmax(-1)
        output, more = weights @ v, self.also(scores, weights)
        return output if self.drop else (output, more)


@pytest.mark.parametrize(
    "also", [lambda s, w: w, lambda s, w: s, lambda s, w: w.mean(1), lambda s, w: (w * w.log()).sum()]
)
@pytest.mark.parametrize("drop", [True, False])
def test_weights_that_the_model_uses_otherwise_are_no_case_for_sdpa(also, drop):
    assert (finding_of("C401", Weights(also, drop), HEADS_FIRST) is not None) == drop
