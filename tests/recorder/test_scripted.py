"""Calls and ops inside TorchScript, compared with those of the same model in Python."""

from __future__ import annotations

import copy
import io
import threading
import warnings
from collections import Counter, defaultdict
from typing import Any

import pytest
import torch
from recorder.script_models import CASES, Chooses, Fails, Mixed, Tower
from torch import nn

import assay
from assay.analysis.script_calls import calls_inside_torchscript
from assay.document.document import Document
from assay.recorder import script_graphs, scripted

X = torch.linspace(-1, 1, 12).reshape(3, 4)

FORMS = {"traced": torch.jit.trace, "scripted": lambda model, *_, **__: torch.jit.script(model)}
OTHER_PATH = {"branches": "a trace has no loop", "other_methods": "a trace runs a direct `forward` as a function"}
"""Models of which a trace is another model."""

SAME_OPS = {
    **dict.fromkeys(("conv1d", "conv2d", "conv_transpose2d", "_convolution", "_convolution_mode"), "convolution"),
    "is_nonzero": "item",
}
"""Names of the same op, as Python, TorchScript and a trace call it."""


def in_form(name: str, form: str, stored: bool = True) -> nn.Module:
    """A model of `CASES` in TorchScript, from memory or as loaded from a file."""
    case = CASES[name]
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore", torch.jit.TracerWarning)
        model = FORMS[form](case.build(), case.args, check_trace=False)
    return reloaded(model) if stored else model


def reloaded(model: nn.Module) -> nn.Module:
    file = io.BytesIO()
    torch.jit.save(model, file)
    file.seek(0)
    return torch.jit.load(file)


def calls_of(document: Document) -> list[tuple[Any, ...]]:
    return [(document.modules[call.module].path, call.parent) for call in document.calls]


def types_of(document: Document) -> list[tuple[Any, ...]]:
    return [(call.inputs, call.outputs) for call in document.calls]


def ops_by_module(document: Document, phase: str = "forward") -> dict[str | None, list[str]]:
    """The ops of each module in order, without a `slice` of a whole dimension, which Python skips."""
    step = document if phase == "forward" else document.training
    ops = defaultdict(list)
    for op in step.ops:
        name = step.kinds[op.kind].target.split(".")[1]
        if op.phase == phase and not name.startswith("slice"):
            path = document.modules[document.calls[op.call].module].path if op.call >= 0 else None
            ops[path].append(SAME_OPS.get(name, name))
    return ops


def flops_by_module(document: Document) -> dict[str, int | None]:
    return {row.path: cost.total.flops for row, cost in zip(document.modules, document.cost.modules, strict=True)}


@pytest.mark.parametrize("stored", [False, True], ids=["memory", "file"])
@pytest.mark.parametrize("form", sorted(FORMS))
@pytest.mark.parametrize("name", sorted(CASES))
def test_calls_ops_and_flops_equal_those_of_the_model_in_python(name, form, stored):
    case = CASES[name]
    if form == "traced" and (not case.traceable or name in OTHER_PATH):
        pytest.skip("a trace of it is another model")
    live = assay.observe(case.build(), case.args)
    document = assay.observe(in_form(name, form, stored), case.args)
    assert document.run.failure is None
    assert document.run.assumptions == ()
    assert [row.path for row in document.modules] == [row.path for row in live.modules]
    assert calls_of(document) == calls_of(live)
    assert ops_by_module(document) == ops_by_module(live)
    assert flops_by_module(document) == flops_by_module(live)
    if form == "scripted":  # a trace drops inputs and outputs that nothing reads
        assert types_of(document) == types_of(live)


@pytest.mark.parametrize("name", sorted(CASES))
def test_the_backward_pass_is_attributed_as_in_python(name):
    case = CASES[name]
    live = assay.observe(case.build(), case.args, backward=True)
    document = assay.observe(in_form(name, "scripted"), case.args, backward=True)
    assert ops_by_module(document, "backward") == ops_by_module(live, "backward")


def test_a_saved_function_has_one_module():
    with torch.no_grad():
        document = assay.observe(reloaded(torch.jit.trace(lambda x: torch.relu(x) + 1, X)), X)
    assert calls_of(document) == [("", None)]
    assert ops_by_module(document) == {"": ["relu", "add"]}


def test_frozen_modules_run():
    frozen = torch.jit.freeze(torch.jit.script(CASES["perceptron"].build()))
    document = assay.observe(reloaded(frozen), torch.ones(3, 8))
    assert document.run.failure is None
    assert [document.kinds[op.kind].target.split(".")[1] for op in document.ops] == ["linear", "gelu", "linear"]


def test_scripted_modules_inside_a_model_in_python():
    document = assay.observe(Mixed().eval(), X)
    assert calls_of(document) == [
        ("", None),
        ("block", 0), ("block.0", 1), ("block.1", 1), ("head", 0),  # self.block(x), self.head(x)
        ("block", 0), ("block.0", 5), ("block.1", 5),  # self.block.forward(x)
        ("tower.lift", 0),  # self.tower.encode(x)
        ("tower.drop", 0),  # a part of a scripted module, called from Python
    ]  # fmt: skip
    assert calls_inside_torchscript(document) == {2, 3, 6, 7}
    assert ops_by_module(document)[""] == ["relu"]


def test_a_module_that_is_chosen_as_it_runs_is_part_of_its_caller():
    document = assay.observe(reloaded(torch.jit.script(nn.Sequential(Chooses(), nn.ReLU()))), X)
    parts = [("0.last", 1), ("0.last.lift", 2), ("0.last.drop", 2)]
    assert calls_of(document) == [("", None), ("0", 0), *parts, ("1", 0)]
    assert ops_by_module(document)["0"] == ["linear", "linear"]
    assert [note for note in document.run.assumptions if "'0'" in note]


def test_a_graph_that_cannot_be_marked_is_named_and_loses_no_op(monkeypatch):
    def refuse(*_: Any) -> Any:
        raise RuntimeError("unknown node")

    monkeypatch.setattr(script_graphs, "marked", refuse)
    document = assay.observe(nn.Sequential(nn.Tanh(), torch.jit.script(Tower())), X)
    assert calls_of(document) == [("", None), ("0", 0), ("1", 0)]
    assert ops_by_module(document) == {"0": ["tanh"], "1": ["linear", "linear"]}
    (note,) = document.run.assumptions
    assert "'1'" in note
    assert "unknown node" in note


def test_an_error_names_the_module_and_the_op():
    document = assay.observe(reloaded(torch.jit.script(Fails())), X)
    failure = document.run.failure
    assert (failure.module, failure.module_class, failure.op) == ("layers.1", "Linear", "aten.linear.default")
    assert "shapes cannot be multiplied" in failure.error
    assert "expected … x 5, got 3x4" in failure.error
    assert Counter(call.failed for call in document.calls) == {True: 3, False: 2}


def test_a_caught_error_does_not_displace_later_calls():
    class Catches(nn.Module):
        def __init__(self):
            super().__init__()
            self.fails = torch.jit.script(Fails())
            self.works = torch.jit.script(Tower())

        def forward(self, x):
            try:
                self.fails(x)
            except RuntimeError:
                return self.works(x)

    document = assay.observe(Catches(), X)
    assert document.run.failure is None
    assert calls_of(document)[-3:] == [("works", 0), ("works.lift", 6), ("works.drop", 6)]


@pytest.mark.parametrize("name", ["state", "residual", "forks"])
def test_the_model_is_unchanged(name):
    model = in_form(name, "scripted")
    assert model.forward is not None  # a scripted module keeps a method that was looked up
    before = [dict(module.__dict__) for module in model.modules()]
    code, state = model.inlined_graph.str(), copy.deepcopy(model.state_dict())
    document = assay.observe(model, CASES[name].args)
    assert document.run.failure is None
    assert [module.__dict__ for module in model.modules()] == before
    assert model.inlined_graph.str() == code
    assert all(torch.equal(value, state[key]) for key, value in model.state_dict().items())
    assert getattr(model, "calls", 0) == 0
    assert torch._C._get_graph_executor_optimize()


@pytest.mark.filterwarnings("ignore:Lite Interpreter is deprecated")
@pytest.mark.parametrize("stored", [False, True], ids=["memory", "file"])
def test_recorded_and_other_models_can_be_exported_as_before(stored):
    model = in_form("residual", "scripted", stored)
    assay.observe(model, CASES["residual"].args)
    for each in (model, in_form("residual", "scripted", stored=False)):  # functions such as batch_norm are shared
        assert each._save_to_buffer_for_lite_interpreter()
        assert torch.jit.freeze(each) is not None


def test_other_threads_run_the_module_as_it_is():
    class Listener:
        def __init__(self) -> None:
            self.seen: list[str] = []

        def begin(self, module, args):
            self.seen.append(module.original_name)

        def end(self, result):
            self.seen.append("end")

    model, listener = reloaded(torch.jit.script(Tower())), Listener()
    before = [dict(module.__dict__) for module in model.modules()]
    with scripted.MarkedModules(model.modules()).listening(listener):
        results: list[torch.Tensor] = []
        thread = threading.Thread(target=lambda: results.append(model(X)))
        thread.start()
        thread.join()
        assert listener.seen == []
        results.append(model(X))
    assert listener.seen == ["Linear", "end", "Linear", "end"]
    assert torch.equal(*results)
    assert [module.__dict__ for module in model.modules()] == before
