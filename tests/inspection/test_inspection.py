"""Inspecting a live model: the details are right, and the model is neither run nor changed."""

from __future__ import annotations

import inspect
import math
import random
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import assay
from assay.errors import ReadError
from assay.inspection import LiveInspector, detail


class Hostile(nn.Module):
    """A module that raises an error if any of its code runs."""

    setting = "of the class"

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.arange(6.0).reshape(2, 3))
        self.register_buffer("seen", torch.tensor([1, 2, 3]))
        self.register_parameter("bias", None)
        self.mask = torch.ones(2, dtype=torch.bool)
        self.raising = Raising()
        self.name = "[bold]x[/bold]\x1b[31m" + "y" * 10_000
        self.loop = [1]
        self.loop.append(self.loop)
        self.huge = 10**6000
        self.child = nn.ReLU()

    @property
    def trap(self):
        raise AssertionError("a property ran")

    def forward(self, x):
        return x  # the line to find

    def __repr__(self):
        raise AssertionError("__repr__ ran")


class Raising:
    def __init__(self):
        self.inside = 3

    def __repr__(self):
        raise AssertionError("__repr__ ran")

    __str__ = __repr__

    def __getattr__(self, name):
        raise AssertionError(f"__getattr__ ran for {name}")


def test_all_attributes_are_listed_and_nothing_runs():
    found = {each.name: each for each in LiveInspector(nn.Sequential(Hostile())).attributes("0")}
    kinds = {name: found[name].kind for name in ("weight", "bias", "seen", "child", "mask", "training", "setting")}
    assert list(kinds.values()) == ["parameter", "parameter", "buffer", "module", "value", "value", "value"]
    facts = found["weight"].tensor
    assert (facts.shape, facts.dtype, facts.device, facts.bytes, facts.requires_grad) == (
        (2, 3),
        "float32",
        "cpu",
        24,
        True,
    )
    assert found["mask"].tensor.dtype == "bool"
    assert found["bias"].text == "None"
    assert found["setting"].text == "'of the class'"
    assert (found["trap"].type, found["trap"].text) == ("property", "not run")
    assert found["raising"].text == "Raising(inside=3)"
    assert found["huge"].text.startswith("an integer of ")
    assert len(found["name"].text) <= 200
    assert "\x1b" not in found["name"].text
    assert found["loop"].text == "[1, [1, [1, …]]]"
    assert "forward" not in found
    assert not any(name.startswith("_") for name in found)


def test_hooks_are_listed_if_there_are_any():
    model = nn.Linear(1, 1)
    model.register_forward_hook(print)
    assert [each.name for each in LiveInspector(model).attributes("") if each.name.startswith("_")] == [
        "_forward_hooks"
    ]


def test_a_subclass_of_a_plain_type_is_written_by_its_base_class():
    class Loud(str):
        def __repr__(self):
            raise AssertionError

        __getitem__ = __len__ = __iter__ = __repr__

    model = nn.Identity()
    model.word = Loud("quiet")
    [word] = [each for each in LiveInspector(model).attributes("") if each.name == "word"]
    assert (word.type, word.text) == ("Loud", "'quiet'")


# --- source


def test_the_source_is_that_of_the_file():
    found = LiveInspector(nn.Sequential(Hostile())).source("0")
    assert found.text == inspect.getsource(Hostile)
    assert (found.file, found.forward_file) == (__file__, __file__)
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    assert lines[found.line - 1] == "class Hostile(nn.Module):"
    assert lines[found.forward_line - 1].strip() == "def forward(self, x):"
    assert "the line to find" in found.forward_text


def test_inherited_and_patched_forwards_are_shown():
    class Child(Hostile):
        pass

    assert "the line to find" in LiveInspector(Child()).source("").forward_text
    model = Child()

    def other(x):
        return x + 1  # patched

    model.forward = other
    assert "patched" in LiveInspector(model).source("").forward_text


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_missing_source_gives_the_reason():
    names = {"nn": nn}
    exec("class Typed(nn.Module):\n    def forward(self, x):\n        return x", names)  # noqa: S102
    with pytest.raises(ReadError, match="Typed"):
        LiveInspector(names["Typed"]()).source("")
    with pytest.raises(ReadError, match="TorchScript"):
        LiveInspector(torch.jit.script(nn.Sequential(nn.ReLU()))).source("0")
    generated = torch.fx.symbolic_trace(nn.Sequential(nn.ReLU()))
    assert "def forward" in LiveInspector(generated).source("").forward_text


# --- tensors


def detail_of(tensor):
    model = nn.Identity()
    model.register_buffer("t", tensor)
    return LiveInspector(model).tensor("", "t")


TENSORS = {
    "float32": torch.randn(37, 5),
    "bfloat16": torch.randn(1000).bfloat16(),
    "float16": torch.randn(1000).half() * 1000,
    "int64": torch.randint(-9, 9, (7, 3, 2)),
    "bool": torch.rand(300) > 0.7,
    "scalar": torch.tensor(3.0),
    "one value": torch.full((5, 5), -2.0),
    "transposed": torch.randn(6, 9, 4).transpose(0, 2),
    "channels last": torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
    "with NaN": torch.tensor([1.0, math.nan, math.inf, -math.inf, 0.0, 3.0, 0.0]),
    "float8": torch.randn(100).to(torch.float8_e5m2),
}


@pytest.mark.parametrize("chunk", [1 << 22, 7])
@pytest.mark.parametrize("kind", TENSORS)
def test_the_statistics_match_numpy(kind, chunk, monkeypatch):
    monkeypatch.setattr(detail, "CHUNK", chunk)
    tensor = TENSORS[kind]
    numbers = tensor.double().numpy()
    finite = numbers[np.isfinite(numbers)]
    found = detail_of(tensor)
    assert [found.min, found.max, found.mean, found.std] == pytest.approx(
        [finite.min(), finite.max(), finite.mean(), finite.std()], rel=1e-9, abs=1e-12
    )
    assert [found.nan, found.inf] == [np.isnan(numbers).sum(), np.isinf(numbers).sum()]
    assert found.zeros == (finite == 0).sum()
    assert sum(found.counts) == finite.size
    assert len(found.edges) == len(found.counts) + 1
    if finite.min() < finite.max():
        assert list(found.counts) == np.histogram(finite, bins=40)[0].tolist()
    assert np.array_equal(found.values, numbers.reshape(-1)[:64], equal_nan=True)
    assert found.problem == ""


def test_tensors_without_values_give_the_reason():
    for tensor, why in [
        (torch.empty(3, device="meta"), "meta"),
        (torch.empty(0, 4), "empty"),
        (torch.ones(2, dtype=torch.complex64), "complex"),
        (torch.eye(2).to_sparse(), "sparse"),
    ]:
        found = detail_of(tensor)
        assert why in found.problem
        assert [found.min, found.max, found.mean, found.nan] == [None] * 4
    nothing = detail_of(torch.full((3,), math.nan))
    assert (nothing.nan, nothing.min, nothing.problem) == (3, None, "no finite values")
    assert "initialized" in LiveInspector(nn.LazyLinear(3)).tensor("", "weight").problem


def test_inspecting_changes_nothing():
    model = nn.Sequential(nn.Linear(4, 4), Hostile())
    before = {name: (value.clone(), value._version) for name, value in model.state_dict(keep_vars=True).items()}
    dicts = [dict(module.__dict__) for module in model.modules()]
    states = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()
    inspector = LiveInspector(model)
    for path in ("", "0", "1"):
        inspector.attributes(path)
        inspector.source(path)
        inspector.forward_calls(path)
    inspector.tensor("0", "weight")
    for name, value in model.state_dict(keep_vars=True).items():
        assert torch.equal(value, before[name][0])
        assert value._version == before[name][1]
        assert value.grad is None
    assert [dict(module.__dict__) for module in model.modules()] == dicts
    assert torch.equal(torch.get_rng_state(), states[0])
    assert (random.getstate(), np.random.get_state()[1].tolist()) == states[1:]


# --- paths


def test_modules_are_found_by_every_path():
    shared = nn.Linear(2, 2)
    model = nn.Sequential(nn.ModuleList([shared, nn.ModuleDict({"k": shared})]), shared)
    model[0].register_module("up", model)
    model._modules["a.b"] = nn.Sequential(nn.Tanh())
    inspector = LiveInspector(model)
    for path in ("0.0", "0.1.k", "1", "0.up.1", "0.up.0.up.0.0"):
        assert inspector.tensor(path, "weight").values == tuple(shared.weight.flatten().tolist())
    assert [each.name for each in inspector.attributes("a.b") if each.kind == "module"] == ["0"]
    assert any(each.name == "training" for each in inspector.attributes("a.b.0"))
    for path in ("2", "0.9", "1.weight", "a.c"):
        with pytest.raises(ReadError, match="no module"):
            inspector.attributes(path)
    with pytest.raises(ReadError, match="no tensor"):
        inspector.tensor("1", "nothing")


def test_very_long_and_deep_names():
    model = nn.Sequential()
    model.add_module("x" * 10_000, nn.Linear(1, 1))
    assert LiveInspector(model).tensor("x" * 10_000, "bias").values == (model[0].bias.item(),)
    deep = inner = nn.Sequential()
    for _ in range(2000):
        inner.append(nn.Sequential())
        inner = inner[0]
    inner.append(nn.Linear(1, 1))
    assert LiveInspector(deep).tensor(".".join(["0"] * 2001), "bias").values


def test_objects_that_contain_modules():
    class Pipeline:
        scheduler = "ddim"

        def __init__(self):
            self.unet = nn.Linear(2, 2)
            self.steps = 5

    inspector = LiveInspector(Pipeline())
    found = {each.name: (each.kind, each.text) for each in inspector.attributes("")}
    assert found == {"unet": ("module", "Linear"), "steps": ("value", "5"), "scheduler": ("value", "'ddim'")}
    assert inspector.tensor("unet", "weight").facts.shape == (2, 2)
    assert "class Pipeline" in inspector.source("").text
    assert inspector.forward_calls("") == []


# --- calls


def test_recorded_calls_as_plain_data():
    model = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Tanh()))
    with assay.record_forward_stats(model):
        model(torch.ones(3, 2))
        model(torch.full((3, 2), math.inf))
    with torch.no_grad():
        model[0].weight.fill_(math.nan)
    with assay.record_forward_stats(model):
        model(torch.ones(3, 2))
    inspector = LiveInspector(model)
    good, mixed, bad = inspector.forward_calls("1.0")
    assert (good.nan, good.first_bad) == (False, None)
    assert bad.first_bad == "0"
    assert good.outputs[0].facts.shape == (3, 2)
    assert good.outputs[0].max == model[1][0].forward_stats[0].out_max
    assert good.time_s == model[1][0].forward_stats[0].time_s
    assert mixed.inf is False
    assert inspector.forward_calls("0")[0].inputs[0].name == "args[0]"
