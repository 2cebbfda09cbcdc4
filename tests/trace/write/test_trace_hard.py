"""Captures in the situations that break profilers: errors, nesting, other profilers, odd modules."""

from __future__ import annotations

import json

import pytest
import torch
from captures import active, events, facts, labels, traces
from torch import nn
from torch.autograd import profiler as autograd_profiler
from torch.utils.checkpoint import checkpoint

import assay
from assay import capture_model

__all__ = ["active"]

X = torch.ones(2, 4)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
        self.last = nn.Linear(4, 1)

    def forward(self, x):
        return self.last(self.inner(x))


def captured(model, *args, name="net"):
    """The one trace of one call."""
    return capture_model(model_name=name)(model)(*args)


# --- errors


class Fails(Net):
    def __init__(self, error):
        super().__init__()
        self.error, self.ran = error, 0

    def forward(self, x):
        self.ran += 1
        self.inner(x)
        raise self.error


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_an_error_is_raised_unchanged_and_the_trace_is_written(active, kind):
    error = kind("mine")
    model = Fails(error)
    capture_model(model_name="net")(model)
    for _ in range(2):
        with pytest.raises(kind) as raised:
            model(X)
        assert raised.value is error
    assert model.ran == 2
    assert traces(active) == ["net_forward_001.json", "net_forward_002.json"]
    assert facts(active / "net_forward_001.json").error == kind.__name__
    assert labels(active / "net_forward_002.json") == ["", "inner", "inner.0", "inner.1"]


@pytest.mark.parametrize("register", ["register_forward_hook", "register_forward_pre_hook"])
def test_a_hook_that_raises_closes_its_span(active, register):
    model = Net()

    def hook(*_):
        raise RuntimeError("hook")

    handle = getattr(model.inner, register)(hook)
    with pytest.raises(RuntimeError, match="hook"):
        captured(model, X)
    handle.remove()
    model(X)
    spans = {
        event["name"]: event
        for event in events(active / "net_forward_001.json")["traceEvents"]
        if event["name"].startswith("assay:")
    }
    root, inner = spans["assay:."], spans["assay:inner"]
    assert inner["ts"] + inner["dur"] <= root["ts"] + root["dur"]
    assert "finished" not in inner.get("args", {})
    assert labels(active / "net_forward_002.json") == ["", "inner", "inner.0", "inner.1", "last"]


# --- one trace for one pass


def test_a_captured_model_inside_another_is_part_of_its_trace(active):
    capture_model(model_name="part")(inner := Net())
    captured(nn.Sequential(inner, nn.ReLU()), X)
    assert traces(active) == ["net_forward_001.json"]
    assert labels(active / "net_forward_001.json") == ["", "0", "0.inner", "0.inner.0", "0.inner.1", "0.last", "1"]


def test_nothing_is_captured_inside_a_skipped_pass(active, monkeypatch):
    capture_model(model_name="part")(inner := Net())
    monkeypatch.setenv("ASSAY_TRACE_WARMUP", "5")
    captured(nn.Sequential(inner), X)
    assert traces(active) == []
    inner(X)
    assert traces(active) == ["part_forward_001.json"]


def test_a_model_that_calls_itself(active):
    class Recursive(nn.Module):
        def forward(self, x, depth=3):
            return self(x + 1, depth - 1) if depth else x

    out = captured(Recursive(), X)
    assert torch.equal(out, X + 3)
    assert labels(active / "net_forward_001.json") == [""] * 4


def test_a_module_with_two_names_and_modules_created_in_forward(active):
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.one = nn.Linear(4, 4)
            self.two = self.one

        def forward(self, x):
            for _ in range(3):
                x = nn.ReLU()(x)
            return self.two(self.one(x))

    captured(Odd(), X)
    path = active / "net_forward_001.json"
    assert labels(path) == ["", "(ReLU)", "(ReLU)#1", "(ReLU)#2", "one", "one"]
    shared = next(module for module in facts(path).modules if module.path == "one")
    assert shared.aliases == ("two",)
    assert len(shared.shapes) == 2


def test_forward_called_directly_belongs_to_the_caller(active):
    class Direct(Net):
        def forward(self, x):
            return self.last.forward(self.inner(x))

    model = Direct()
    expected = model.forward(X)
    assert torch.equal(captured(model, X), expected)
    path = active / "net_forward_001.json"
    assert labels(path) == ["", "inner", "inner.0", "inner.1"]
    assert sum(event["name"] == "aten::addmm" for event in events(path)["traceEvents"]) == 2


def test_a_generator_is_passed_on_untouched(active):
    class Yields(Net):
        def forward(self, x):
            yield self.inner(x)
            yield self.last(self.inner(x))

    model = Yields()
    out = captured(model, X)
    assert [tuple(part.shape) for part in out] == [(2, 4), (2, 1)]
    path = active / "net_forward_001.json"
    assert labels(path) == [""]
    assert "later" in facts(path).notes[0]


def test_a_checkpointed_layer_runs_again_in_backward(active):
    class Saves(Net):
        def forward(self, x):
            return self.last(checkpoint(self.inner, x, use_reentrant=False))

    model = Saves()
    with assay.capture(model, model_name="net") as capture:
        model(X.clone().requires_grad_()).sum().backward()
    assert labels(capture.path).count("inner") == 2


# --- the user's own profilers


def test_the_users_profiler_gets_the_labels_and_stays_complete(active):
    model = capture_model(model_name="net")(Net())
    with autograd_profiler.profile(use_kineto=True) as own:
        model(X)
        torch.ones(2) + 1
    names = [event.name for event in own.function_events]
    assert {"assay:.", "assay:inner.0", "assay:last", "aten::addmm", "aten::add"} <= set(names)
    assert traces(active) == []
    model(X)
    assert traces(active) == ["net_forward_002.json"]


@pytest.mark.parametrize("decorated_first", [True, False])
def test_a_schedule_that_warms_up_keeps_its_steps(active, tmp_path, decorated_first):
    model = Net()
    if decorated_first:
        capture_model(model_name="net")(model)
    written = tmp_path / "own.json"
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU],
        schedule=torch.profiler.schedule(wait=1, warmup=1, active=1),
        on_trace_ready=lambda own: own.export_chrome_trace(str(written)),
    ) as own:
        for step in range(3):
            if step == 1 and not decorated_first:
                capture_model(model_name="net")(model)
            model(X)
            own.step()
    spans = json.loads(written.read_text())["traceEvents"]
    assert sum(event["name"] == "aten::addmm" for event in spans) == 2
    assert sum(event["name"].startswith("assay:") for event in spans) == 5
    assert traces(active) == (["net_forward_001.json"] if decorated_first else [])


def test_a_profiler_started_inside_a_pass_wins(active):
    class Profiles(Net):
        def forward(self, x):
            out = self.inner(x)
            with autograd_profiler.profile(use_kineto=True) as self.own:
                return self.last(out)

    model = Profiles()
    expected = model.last(model.inner(X))
    assert torch.equal(captured(model, X), expected)
    assert "aten::addmm" in [event.name for event in model.own.function_events]
    assert traces(active) == []


# --- blocks


def test_a_block_contains_forward_backward_and_step(tmp_path):
    plain = nn.Module.__call__
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with assay.capture(model, tmp_path / "out") as capture:
        model(X).sum().backward()
        optimizer.step()
    assert nn.Module.__call__ is plain
    assert capture.path == tmp_path / "out" / "Net_forward_001.json"
    assert capture.problem is None
    whole = events(capture.path)["traceEvents"]
    names = {event["name"] for event in whole}
    assert {"Optimizer.step#SGD.step", "AddmmBackward0"} <= names
    forward = {e["args"]["Sequence number"] for e in whole if e["name"] == "aten::addmm" and "args" in e}
    backward = {e["args"]["Sequence number"] for e in whole if e["name"] == "AddmmBackward0"}
    assert len(backward) == 2
    assert backward <= forward
    assert {event["ph"] for event in whole if event.get("cat") == "fwdbwd"} == {"s", "f"}
    assert facts(capture.path).covers == "block"
    assert sum(layer.own_ns for layer in capture.layers) <= capture.captured.took_ns


def test_the_table_of_a_block_has_every_layer(tmp_path):
    block = assay.capture(model := Net(), tmp_path)
    assert (block.captured, block.path, block.layers, block.table()) == (None, None, (), "")
    with block as entered:
        model(X)
    assert entered is block
    shown = block.table()
    assert all(layer.path in shown for layer in block.layers)
    assert "(outside any layer)" in shown


def test_blocks_are_numbered_and_never_overwrite(tmp_path):
    model = Net()
    for _ in range(2):
        with assay.capture(model, tmp_path):
            model(X)
    with assay.capture(Net(), tmp_path):
        pass
    assert traces(tmp_path) == ["Net-2_forward_001.json", "Net_forward_001.json", "Net_forward_002.json"]


def test_a_block_inside_a_block_is_part_of_it(tmp_path):
    model, other = Net(), nn.Linear(4, 4)
    with assay.capture(model, tmp_path) as outer, assay.capture(other, tmp_path) as inner:
        model(other(X))
    assert inner.path is None
    assert "another capture" in inner.problem
    assert labels(outer.path) == ["(Linear)", "", "inner", "inner.0", "inner.1", "last"]


def test_a_block_that_fails_writes_its_trace_and_raises_the_error(tmp_path):
    with pytest.raises(ZeroDivisionError), assay.capture(Net(), tmp_path) as capture:
        _ = 1 / 0
    assert facts(capture.path).error == "ZeroDivisionError"


def test_a_block_requires_a_model(tmp_path):
    with pytest.raises(assay.AssayError, match=r"expected a torch\.nn\.Module"):
        assay.capture("net", tmp_path)


def test_times_of_layers_add_up_to_the_pass(active):
    with assay.capture(model := Net(), model_name="net") as capture:
        model(X)
    layers = {layer.path: layer for layer in capture.layers}
    assert sum(layer.own_ns for layer in layers.values()) == layers[""].total_ns
    assert layers["inner"].total_ns == sum(layers[path].own_ns for path in ("inner", "inner.0", "inner.1"))
    assert {path: layer.calls for path, layer in layers.items()} == dict.fromkeys(layers, 1)
