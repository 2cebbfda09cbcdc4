"""`@capture_model`: no effect by default, and traces with module paths if captures are enabled."""

from __future__ import annotations

import json
import subprocess
import sys
import weakref

import pytest
import torch
from captures import active, events, facts, labels, traces
from torch import nn

import assay
from assay import capture_model
from assay.errors import UsageError

__all__ = ["active"]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear1 = nn.Linear(8, 4)
        self.linear2 = nn.Linear(4, 2)
        self.relu = nn.ReLU()
        self.ran = 0

    def forward(self, x):
        self.ran += 1
        return self.linear2(self.relu(self.linear1(x)))


def fresh(base=Net, **attributes):
    """A new subclass, so that decorating it does not affect other tests."""
    return type(base.__name__, (base,), {"__module__": __name__, **attributes})


X = torch.ones(3, 8)


# --- without captures: the same object


def test_without_captures_the_decorator_returns_its_argument():
    cls, plain = fresh(), nn.Module.__call__
    before = dict(vars(cls))
    model = cls()
    kept = dict(vars(model))

    def factory():
        return model

    assert capture_model(model_name="Other")(cls) is cls
    assert capture_model(cls) is cls
    assert capture_model()(model) is model
    assert capture_model(factory) is factory
    assert dict(vars(cls)) == before
    assert dict(vars(model)) == kept
    assert nn.Module.__call__ is plain
    assert cls.__call__ is plain


def test_without_captures_nothing_heavy_is_imported():
    program = (
        "import sys, assay\n"
        "def f(): return 1\n"
        "assert assay.capture_model(record_shapes=False)(f) is f\n"
        "heavy = {'torch', 'rich', 'numpy', 'textual'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("value", ["", "0", "false", "OFF"])
def test_captures_can_be_disabled_by_the_variable(active, monkeypatch, value):
    monkeypatch.setenv("ASSAY_CAPTURE", value)
    cls = capture_model(fresh())
    cls()(X)
    assert traces(active) == []


@pytest.mark.parametrize("target", [3, dict, {"a": 1}])
def test_an_object_that_is_not_a_model_is_refused(target):
    with pytest.raises(UsageError, match="expected a model class, a model, or a function"):
        capture_model()(target)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"schedule": None}, "'schedule' cannot be set"), ({"with_stac": True}, "unknown profiler option 'with_stac'")],
)
def test_options_are_checked_even_without_captures(options, message):
    with pytest.raises(UsageError, match=message):
        capture_model(**options)


# --- captured


def test_every_pass_is_a_trace_with_module_paths_and_shapes(active):
    model = capture_model(model_name="MyModel")(fresh())()
    expected = Net.forward(model, X)
    for _ in range(2):
        assert torch.equal(model(X), expected)
    assert traces(active) == ["MyModel_forward_001.json", "MyModel_forward_002.json"]
    path = active / "MyModel_forward_002.json"
    assert labels(path) == ["", "linear1", "relu", "linear2"]
    stored = facts(path)
    assert (stored.model_name, stored.pass_number, stored.model_class, stored.error) == ("MyModel", 2, "Net", None)
    assert {m.path: [stored.shapes[s] for s in m.shapes] for m in stored.modules} == {
        "": [((3, 8),)],
        "linear1": [((3, 8),)],
        "relu": [((3, 4),)],
        "linear2": [((3, 4),)],
    }
    whole = events(path)
    assert whole["traceName"] == path.name
    assert (whole["record_shapes"], whole["profile_memory"]) == (1, 1)
    ops = [event for event in whole["traceEvents"] if event["name"] == "aten::addmm"]
    assert [op["args"]["Input Dims"][1] for op in ops] == [[3, 8], [3, 4]]
    assert any(event["name"] == "[memory]" for event in whole["traceEvents"])


def test_labels_contain_the_ops_of_their_module(active):
    model = capture_model(fresh())()
    model(X)
    spans = events(active / "Net_forward_001.json")["traceEvents"]
    within = {event["name"]: (event["ts"], event["ts"] + event["dur"]) for event in spans if "dur" in event}
    for op, label in {"aten::relu": "assay:relu", "aten::addmm": "assay:linear2"}.items():
        assert within[label][0] <= within[op][0]
        assert within[op][1] <= within[label][1]


def test_settings_reach_the_profiler(active):
    model = capture_model(record_shapes=False, profile_memory=False, with_stack=True)(fresh())()
    model(X)
    whole = events(active / "Net_forward_001.json")
    names = {event["name"] for event in whole["traceEvents"]}
    assert "[memory]" not in names
    assert any(event.get("cat") == "python_function" for event in whole["traceEvents"])
    assert not any("Input Dims" in event.get("args", {}) for event in whole["traceEvents"])
    assert (whole["record_shapes"], whole["with_stack"]) == (0, 1)
    assert facts(active / "Net_forward_001.json").shapes == ()


def test_a_model_and_a_function_that_returns_one_are_captured(active):
    one, other = Net(), Net()
    assert capture_model(model_name="one")(one) is one

    @capture_model(model_name="made")
    def make(width):
        """Makes one."""
        return nn.Linear(8, width)

    assert (make.__name__, make.__doc__) == ("make", "Makes one.")
    made = make(5)
    assert type(made) is nn.Linear
    one(X)
    other(X)
    made(X)
    assert traces(active) == ["made_forward_001.json", "one_forward_001.json"]


def test_a_function_that_returns_no_model_causes_a_warning(active, capsys):
    assert capture_model(lambda: 3)() == 3
    assert "did not return a model" in capsys.readouterr().err


def test_instances_never_share_a_file(active):
    cls = capture_model(fresh())
    models = [cls(), cls()]
    for model in (*models, *models):
        model(X)
    assert traces(active) == [
        "Net-2_forward_001.json",
        "Net-2_forward_002.json",
        "Net_forward_001.json",
        "Net_forward_002.json",
    ]


def test_a_subclass_is_captured_once_under_its_own_name(active):
    capture_model(base := fresh())
    derived = type("Derived", (base,), {"forward": lambda self, x: base.forward(self, x) + 1})
    derived()(X)
    assert traces(active) == ["Derived_forward_001.json"]
    assert labels(active / "Derived_forward_001.json").count("") == 1


@pytest.mark.parametrize("through_super", [True, False])
def test_a_class_with_its_own_call_method(active, through_super):
    def call(self, x):
        return nn.Module.__call__(self, x) + 1 if through_super else self.forward(x) + 1

    cls = capture_model(fresh(__call__=call))
    model = cls()
    assert torch.equal(model(X), Net.forward(model, X) + 1)
    assert traces(active) == ["Net_forward_001.json"]
    assert "linear1" in labels(active / "Net_forward_001.json")


def test_unusual_names_of_children_are_preserved(active):
    odd = ['a"b', "é", "with space", "a/b", "back\\slash", "line\nend", "tab\t", "50%", "日本", "assay:x"]
    model = nn.Module()
    for name in odd:
        model.add_module(name, nn.Identity())
    model.forward = lambda x: [child(x) for child in model.children()][-1]
    capture_model(model_name="odd")(model)(X)
    assert labels(active / "odd_forward_001.json") == ["", *odd]


@pytest.mark.parametrize(
    ("name", "stem"),
    [("../../evil", "evil"), ("a b/ç", "a_b"), ("...", "model"), ("con", "_con"), ("x" * 300, "x" * 100)],
)
def test_a_model_name_is_never_a_path(active, name, stem):
    capture_model(model_name=name)(nn.Identity())(X)
    assert traces(active) == [f"{stem}_forward_001.json"]
    assert facts(active / f"{stem}_forward_001.json").model_name == name


def test_warmup_every_and_max_select_the_passes(active, monkeypatch):
    monkeypatch.setenv("ASSAY_TRACE_WARMUP", "2")
    monkeypatch.setenv("ASSAY_TRACE_EVERY", "3")
    monkeypatch.setenv("ASSAY_TRACE_MAX", "2")
    model = capture_model(fresh())()
    for _ in range(15):
        model(X)
    assert model.ran == 15
    assert traces(active) == ["Net_forward_003.json", "Net_forward_006.json"]


def test_pass_numbers_above_999(active, monkeypatch):
    monkeypatch.setenv("ASSAY_TRACE_WARMUP", "1000")
    model = capture_model(nn.Identity())
    for _ in range(1001):
        model(X)
    assert traces(active) == ["Identity_forward_1001.json"]


def test_traces_are_compressed_on_request(active, monkeypatch):
    monkeypatch.setenv("ASSAY_TRACE_GZIP", "1")
    capture_model(fresh())()(X)
    assert traces(active) == ["Net_forward_001.json.gz"]
    assert labels(active / "Net_forward_001.json.gz") == ["", "linear1", "relu", "linear2"]


def test_every_rank_writes_its_own_files(active, monkeypatch):
    model = capture_model(fresh())()
    for rank in ("0", "13"):
        monkeypatch.setenv("RANK", rank)
        model(X)
    assert traces(active) == ["Net_forward_001_rank0.json", "Net_forward_002_rank13.json"]
    assert facts(active / "Net_forward_002_rank13.json").rank == 13


@pytest.mark.parametrize("value", ["x", "0", "-1", "1.5"])
def test_a_setting_that_is_not_a_number_is_refused(active, monkeypatch, value):
    monkeypatch.setenv("ASSAY_TRACE_EVERY", value)
    with pytest.raises(UsageError, match="ASSAY_TRACE_EVERY"):
        capture_model(fresh())


def test_debug_output_explains_decisions(active, monkeypatch, capsys):
    monkeypatch.setenv("ASSAY_DEBUG", "1")
    monkeypatch.setenv("ASSAY_TRACE_EVERY", "2")
    model = capture_model(fresh())()
    model(X)
    model(X)
    err = capsys.readouterr().err
    assert "Net: decorated; traces of its calls go to" in err
    assert "Net_forward_001.json" in err
    assert "Net, pass 2: not traced (only one pass in 2 is traced)" in err


def test_captured_models_are_not_kept_alive(active):
    model = capture_model(fresh())()
    model(X)
    gone = weakref.ref(model)
    del model
    assert gone() is None


def test_the_public_names():
    assert {"capture", "capture_model"} <= set(assay.__all__)
    assert json.dumps(sorted(assay.__all__))
