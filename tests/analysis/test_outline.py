"""The outline of a model: the same parameters as in torch, ties and shared modules, lossless folding."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from assay import observe
from assay.analysis.outline import Tie, outline
from assay.analysis.parameters import parameters


class Sharing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layer = nn.Linear(8, 8)
        self.first = nn.Sequential(layer, nn.ReLU())
        self.again = nn.Sequential(*[layer] * 3)
        self.head = nn.Linear(8, 8, bias=False)
        self.head.weight = layer.weight
        self.unused = nn.Linear(2, 2)

    def forward(self, x):
        return self.head(self.again(self.first(x)))


def blocks(count: int = 4) -> nn.Module:
    inner = [nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.ReLU()) for _ in range(count)]
    return nn.Sequential(*inner, nn.Linear(8, 2))


def lines_of(model: nn.Module, inputs: torch.Tensor, **options):
    document = observe(model, inputs)
    return document, {line.path: line for line in outline(document, document.cost, **options)}


def test_parameters_agree_with_torch_and_count_once():
    model = Sharing()
    model.unused.weight.requires_grad_(False)
    document, lines = lines_of(model, torch.randn(2, 8))
    totals = parameters(document)
    assert totals.count == lines[""].parameters == sum(p.numel() for p in model.parameters())
    assert totals.trainable == lines[""].trainable == sum(p.numel() for p in model.parameters() if p.requires_grad)
    assert totals.bytes == totals.by_dtype["float32"].bytes == 4 * totals.count
    assert sum(line.own_parameters for line in lines.values()) == totals.count
    assert totals.tied == [("first.0.weight", "head.weight")]


def test_tied_and_shared_parameters_are_marked_and_count_in_the_first_module():
    _, lines = lines_of(Sharing(), torch.randn(2, 8))
    assert lines["head"].ties == (Tie("weight", "first.0.weight"),)
    assert lines["head"].parameters == 0
    assert lines["first.0"].ties == ()
    assert (lines["first.0"].calls, lines["first.0"].parameters) == (4, 72)
    assert (lines["again.0"].same_as, lines["again.0"].name, lines["again.0"].run) == ("first.0", "0–2", 3)


def test_a_module_that_is_never_called_has_no_shape_and_no_cost():
    _, lines = lines_of(Sharing(), torch.randn(2, 8))
    assert (lines["unused"].calls, lines["unused"].output_shapes, lines["unused"].totals.ops) == (0, [], 0)
    assert lines["unused"].parameters == 6


def test_a_run_has_the_sums_of_its_members():
    model = blocks()
    _, folded = lines_of(model, torch.randn(5, 8))
    _, full = lines_of(model, torch.randn(5, 8), runs=False)
    assert [line.name for line in folded.values()] == ["(root)", "0–3", "0", "1–2", "4"]
    run = folded["0"]
    assert (run.run, run.modules, run.output_shapes) == (4, 4, ["5x8"])
    for path in ("0", "0.0"):
        equal = [full[str(number) + path[1:]] for number in range(4)]
        assert folded[path].parameters == sum(line.parameters for line in equal)
        assert folded[path].totals.flops == sum(line.totals.flops for line in equal)
    assert (folded["0.1"].run, folded["0.1"].modules) == (2, 8)
    assert sum(line.modules for line in folded.values()) == len(full) == len(list(model.modules()))
    assert sum(line.own_parameters for line in folded.values()) == sum(p.numel() for p in model.parameters())


def differing(change, **options):
    """The rows of the blocks of a model whose second block was changed."""
    model = blocks(5)
    change(model[1])
    _, lines = lines_of(model, torch.randn(5, 8), **options)
    return [(line.name, line.differs) for line in lines.values() if line.depth == 1]


def freeze(block):
    block.requires_grad_(False)


def widen(block):
    block[0], block[1] = nn.Linear(8, 6), nn.Linear(6, 8)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (freeze, "frozen"),
        (lambda block: block[0].bias.requires_grad_(False), "one parameter frozen"),
        (lambda block: block.__setitem__(1, nn.GELU()), "1 is GELU, not ReLU"),
        (lambda block: block.append(nn.Identity()), "also has 3"),
        (lambda block: block.__delitem__(2), "lacks 2"),
        (lambda block: setattr(block[1], "inplace", True), "1.inplace is True, not False"),
        (widen, "0.weight is 6x8, not 8x8 (and 4 more)"),
    ],
)
def test_a_block_that_differs_has_its_own_row_and_does_not_split_the_run(change, text):
    assert differing(change) == [("0, 2–4", ""), ("1", text), ("5", "")]
    assert differing(change, gaps=False) == [("0", ""), ("1", ""), ("2–4", ""), ("5", "")]


def test_the_odd_block_keeps_its_subtree():
    model = blocks(5)
    model[1][1] = nn.GELU()
    document, lines = lines_of(model, torch.randn(5, 8))
    assert [(path, line.class_name, line.modules) for path, line in lines.items()] == [
        ("", "Sequential", 1), ("0", "Sequential", 4), ("0.0", "Linear", 4), ("0.1", "ReLU", 8),
        ("1", "Sequential", 1), ("1.0", "Linear", 1), ("1.1", "GELU", 1), ("1.2", "ReLU", 1), ("5", "Linear", 1),
    ]  # fmt: skip
    assert sum(line.own_parameters for line in lines.values()) == sum(p.numel() for p in model.parameters())
    assert document.cost.forward.flops == sum(line.totals.flops for line in lines.values() if line.depth == 1)


def test_rows_with_several_output_shapes_are_marked_as_varying():
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.act = nn.ReLU()

        def forward(self, x):
            return self.act(x), self.act(x[:1])

    _, lines = lines_of(Twice(), torch.randn(3, 4))
    assert (lines["act"].varies, lines["act"].output_shapes, lines["act"].calls) == (True, ["3x4"], 2)
    assert lines[""].output_shapes == ["3x4", "1x4"]
    assert not lines[""].varies
