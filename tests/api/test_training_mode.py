"""The mode of a model: recorded and shown per module, evaluation by default, its own mode on request."""

from __future__ import annotations

import json

import pytest
import torch
from torch import nn

import assay
from assay.analysis.training_mode import own_modes
from assay.api.explore.subjects import explorer_subject
from assay.api.options import RunOptions
from assay.cli.main import run
from assay.errors import UsageError
from assay.views.text.totals import mode_text

X = torch.ones(2, 3, 8, 8)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Conv2d(3, 3, 3), nn.BatchNorm2d(3), nn.Dropout(0.5)) for _ in range(2)
        )

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


def mixed() -> Net:
    """A model in evaluation mode with one BatchNorm and one Dropout left in training mode."""
    model = Net().eval()
    model.blocks[0][1].train()
    model.blocks[1][2].train()
    return model


def _active(document):
    """The modules in which BatchNorm used the batch, or Dropout dropped values."""
    return {
        document.modules[document.module_of(op)].path
        for op in document.ops
        if document.kinds[op.kind].attributes.get("training") or document.kinds[op.kind].attributes.get("train")
    }


def _snapshot(model):
    return {name: value.clone() for name, value in model.state_dict().items()}, [m.training for m in model.modules()]


def _is_unchanged(model, before):
    values, modes = before
    now = model.state_dict()
    return all(torch.equal(now[name], values[name]) for name in values) and modes == [
        module.training for module in model.modules()
    ]


def test_every_module_keeps_its_own_mode_in_the_document():
    model = mixed()
    document = assay.observe(model, X)
    assert [row.training for row in document.modules] == [module.training for module in model.modules()]
    assert not _active(document), "evaluation mode is the default"
    assert own_modes(document) == {"(root)": "evaluation", "blocks.0.1": "training", "blocks.1.2": "training"}


def test_as_is_runs_every_module_in_its_own_mode():
    model = mixed()
    before = _snapshot(model)
    document = assay.observe(model, X, as_is=True)
    assert _active(document) == {"blocks.0.1", "blocks.1.2"}
    assert (document.run.as_is, document.run.training) == (True, False)
    assert _is_unchanged(model, before)
    everything = assay.observe(Net().train(), X, as_is=True)
    assert _active(everything) == {"blocks.0.1", "blocks.0.2", "blocks.1.1", "blocks.1.2"}
    assert everything.run.training


@pytest.mark.parametrize("other", ["train", "backward"])
def test_as_is_excludes_training_mode(other):
    with pytest.raises(UsageError, match=f"as_is and {other} exclude each other"):
        assay.observe(Net(), X, as_is=True, **{other: True})


@pytest.mark.parametrize(
    ("model", "as_is", "text"),
    [
        (lambda: Net().eval(), False, "in evaluation mode"),
        (Net, False, "in evaluation mode (the model was in training mode)"),
        (mixed, False, "in evaluation mode (the model was in evaluation mode, except blocks.0.1, blocks.1.2 in "
                       "training mode)"),
        (mixed, True, "in its own mode (evaluation mode, except blocks.0.1, blocks.1.2 in training mode)"),
    ],
)  # fmt: skip
def test_the_mode_is_written_in_words(model, as_is, text):
    document = assay.observe(model(), X, as_is=as_is)
    assert mode_text(document) == text
    assert text in " ".join(str(assay.summary(document)).split())


def test_the_summary_marks_the_modules_that_differ():
    rows = {row.path: row.mode for row in assay.summary(mixed(), X).rows}
    assert {path: mode for path, mode in rows.items() if mode} == {"blocks.0.1": "training", "blocks.1.2": "training"}


def test_commands_print_the_mode_and_take_as_is(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.py").write_text(
        "from torch import nn\ndef load():\n    model = nn.Sequential(nn.Dropout(), nn.Dropout()).eval()\n"
        "    model[1].train()\n    return model\n"
    )
    assert run(["modules", "m.py::load", "--inputs", "2x3"]) == 0
    note = capfd.readouterr().err
    assert "recorded in evaluation mode (the model was in evaluation mode, except 1 in training mode)" in note
    assert run(["cost", "m.py::load", "--inputs", "2x3", "--as-is", "--format", "json"]) == 0
    output = capfd.readouterr()
    assert "recorded" not in output.err
    provenance = json.loads(output.out)["provenance"]
    assert (provenance["as_is"], provenance["own_modes"]) == (True, {"(root)": "evaluation", "1": "training"})


def test_layers_left_in_training_mode_are_found_and_not_folded():
    findings = {finding.code: finding for finding in assay.check(mixed(), X).findings}
    modules = assay.observe(mixed(), X).modules
    assert [modules[index].path for index in findings["S205"].modules] == ["blocks.0.1", "blocks.1.2"]
    assert [modules[index].path for index in findings["S203"].modules] == ["blocks.1.1"]
    as_is = {finding.code for finding in assay.check(mixed(), X, as_is=True).findings}
    assert "S205" in as_is
    assert not {"S201", "S202"} & as_is, "one finding per cause"


@pytest.mark.parametrize(
    ("layer", "found"),
    [
        (nn.LSTM(4, 4, 2, dropout=0.5), True),
        (nn.LSTM(4, 4, 2), False),
        (nn.Dropout(0.5), True),
        (nn.Dropout(0.0), False),
    ],
)
def test_a_layer_matters_if_its_output_depends_on_the_mode(layer, found):
    model = nn.Sequential(layer).eval()
    layer.train()
    codes = {finding.code for finding in assay.check(model, torch.ones(3, 2, 4)).findings}
    assert ("S205" in codes) == found


def test_a_model_in_training_mode_is_noted_and_judged_as_it_was_recorded():
    findings = {finding.code: finding for finding in assay.check(Net(), X).findings}
    assert len(findings["S206"].modules) == 4
    assert "S203" in findings, "the pass was recorded in evaluation mode"
    assert "S206" not in {finding.code for finding in assay.check(Net().eval(), X).findings}


@pytest.mark.parametrize("model", [Net, lambda: Net().eval(), lambda: nn.Sequential(nn.BatchNorm2d(3).eval())])
def test_a_model_in_one_mode_or_with_frozen_layers_has_no_such_finding(model):
    assert "S205" not in {finding.code for finding in assay.check(model(), X).findings}


def test_statistics_for_the_explorer_leave_the_model_as_it_was():
    model = mixed()
    before = _snapshot(model)
    subject = explorer_subject(model, X, RunOptions(as_is=True), stats=True)
    assert subject.document.timing is not None
    assert _is_unchanged(model, before)


def test_explore_with_stats_leaves_the_model_as_it_was(monkeypatch):
    explore = __import__("assay.api.explore", fromlist=["explore"])
    monkeypatch.setattr(explore, "check_terminal", lambda *_: None)
    monkeypatch.setattr(explore, "run_explorer", lambda subject: None)
    model = Net()
    before = _snapshot(model)
    explore.explore_with_stats(model, X)
    assert _is_unchanged(model, before)


def test_a_profile_restores_parameters_that_forward_overwrites():
    class Clipped(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x):
            with torch.no_grad():
                self.layer.weight.mul_(0.5)
            return self.layer(x)

    model = Clipped().eval()
    before = _snapshot(model)
    assay.profile(model, torch.ones(8, 4), passes=1, warmup=0, sweeps=[("batch", [1])], system=True, energy=False)
    assert _is_unchanged(model, before)
