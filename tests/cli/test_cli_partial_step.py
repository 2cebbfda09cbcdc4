"""A requested training step that stops makes the result partial in every command and verb."""

from __future__ import annotations

import json

import pytest

import assay
from assay.cli.main import run

MODEL = """
import torch
from torch import nn


class Broken(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, gradient):
        raise RuntimeError("no gradient here")


class Backward(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        return self.last(Broken.apply(self.first(x)))


class Training(nn.Linear):
    def __init__(self):
        super().__init__(8, 8)

    def forward(self, x):
        if torch.is_grad_enabled() and self.training:
            raise RuntimeError("no training here")
        return super().forward(x)


class NoParameters(nn.Module):
    def forward(self, x):
        return x + 1
"""
REASONS = {
    "Backward": "no gradient here",
    "Training": "no training here",
    "NoParameters": "returned no tensor that requires grad",
}
QUICK = "--passes 1 --warmup 0 --seconds 0.1 --no-system --no-energy"
COMMANDS = (
    "cost",
    "cost --by kind",
    "cost --device H100",
    "memory",
    "memory --fit 24GiB",
    "check",
    f"profile {QUICK}",
)


@pytest.fixture(autouse=True)
def models(in_place, monkeypatch):
    (in_place / "steps.py").write_text(MODEL)
    monkeypatch.syspath_prepend(str(in_place))
    return in_place


def arguments(command: str, model: str, *options: str) -> list[str]:
    return [*command.split(), f"steps.py::{model}", "--inputs", "2x8", "--backward", *options]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("model", REASONS)
def test_every_command_gives_the_reason_and_exits_with_4(models, capsys, command, model):
    assert run(arguments(command, model, "--format", "json", "-o", "out.json", "--save", "doc.assay.json")) == 4
    message = next(line for line in capsys.readouterr().err.splitlines() if "incomplete" in line)
    assert message.startswith("assay: incomplete: the training step stopped in module (root)")
    assert REASONS[model] in message
    assert not (models / "out.json").exists()
    assert not (models / "doc.assay.json").exists()
    assert (models / "doc.partial.assay.json").exists()
    result = json.loads((models / "out.partial.json").read_bytes())
    assert result["partial"] is True
    if command != "cost --device H100":
        assert REASONS[model] in result["failure"]["error"]


def test_analyze_lists_the_step_as_missing(models, capsys):
    assert (
        run(arguments(f"analyze --inference {QUICK.partition(' --no-system')[0]}", "Backward", "--dir", "files")) == 4
    )
    assert "incomplete: the training step stopped in module (root) (Backward)" in capsys.readouterr().err
    assert all(".partial." in file.name for file in (models / "files").iterdir())


def test_the_title_names_the_step_and_totals_of_the_forward_pass_are_complete(models, capsys):
    assert run(arguments("cost", "Backward")) == 4
    out = capsys.readouterr().out
    assert "(partial: training step stopped in (root))" in out.splitlines()[0]
    assert "100 % of" in out


def test_memory_gives_the_reason_and_does_not_answer_for_inference(models, capsys):
    assert run(arguments("memory", "Backward", "--fit", "24GiB")) == 4
    captured = capsys.readouterr()
    peak = next(line for line in captured.out.splitlines() if line.startswith("training: peak"))
    assert "the training step stopped: RuntimeError: no gradient here" in peak
    assert "unknown whether it fits: the training step stopped" in captured.err
    assert "24GiB" not in captured.out


@pytest.mark.parametrize("model", REASONS)
def test_scaling_formulas_of_a_step_that_stops_are_an_error(models, capsys, model):
    assert run(arguments("cost", model, "--vary", "batch")) != 0
    assert REASONS[model] in capsys.readouterr().err


@pytest.mark.parametrize("verb", [assay.observe, assay.cost, assay.memory, assay.check])
def test_verbs_warn(models, verb):
    with pytest.warns(assay.PartialWarning, match="partial result: the training step stopped in .root. .Backward."):
        result = verb("steps.py::Backward", "2x8", backward=True)
    if verb is assay.check:
        assert result.partial


def test_without_backward_the_same_model_is_complete(models, capsys):
    assert run(["cost", "steps.py::Backward", "--inputs", "2x8"]) == 0
    assert "partial" not in capsys.readouterr().out
