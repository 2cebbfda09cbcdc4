"""Wrong arguments of public functions: one line that names the value and what was expected, before anything runs."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import assay
from assay.errors import UsageError


class NeverRuns(nn.Module):
    def forward(self, x):
        raise AssertionError("the model ran")


MODEL, X = NeverRuns(), torch.zeros(2, 4)


def wrong(function, *args, **options):
    """The test case of calling `function` with these arguments, and `expected` in the message."""
    expected = options.pop("expected")
    return pytest.param(functools.partial(function, *args, **options), expected, id=expected)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        wrong(assay.save, MODEL, "x.assay.json", expected="cannot save NeverRuns"),
        wrong(assay.save, assay.Document(), None, expected="path must be a string or a Path"),
        wrong(assay.load, b"{}", expected="null characters, got b'{}'"),
        wrong(assay.load, "a\0b", expected=r"got 'a\x00b'"),
        wrong(assay.Monitor, period_s=0, expected="positive number of seconds, got 0"),
        wrong(assay.Monitor, period_s="fast", expected="positive number of seconds, got 'fast'"),
        wrong(assay.observe, MODEL, X, device=3, expected="device must be a string such as 'cuda:0', got 3"),
        wrong(assay.observe, MODEL, X, dtype=torch.half, expected="'bfloat16', got torch.float16"),
        wrong(assay.cost, MODEL, X, backward="foo", expected="backward must be True or False, got 'foo'"),
        wrong(assay.observe, MODEL, X, train=2, expected="train must be True or False, got 2"),
        wrong(assay.summary, MODEL, X, depth="2", expected="depth must be an integer of at least 0, got '2'"),
        wrong(assay.roofline, MODEL, None, X, expected="device must be a string such as 'H100', got None"),
        wrong(assay.check, MODEL, X, progress=True, expected="progress must be a function, got True"),
        wrong(assay.vary, MODEL, X, over=3, expected="over must be a list, got 3"),
        wrong(assay.vary, MODEL, X, points=[1, 2], expected="points must map sizes to values"),
        wrong(assay.vary, MODEL, X, points={"batch": 3}, expected="points of batch must be a list, got 3"),
        wrong(assay.vary, MODEL, X, points={"batch": ["a"]}, expected="points of batch must be a positive integer"),
        wrong(assay.read_traces, 3, expected="a trace must be a valid path, got 3"),
        wrong(assay.read_traces, "x.json", workers=0, expected="workers must be a positive integer, got 0"),
        wrong(assay.compare_traces, [None], "x.json", expected="a trace must be a valid path, got None"),
        wrong(assay.capture, 3, expected="cannot capture 3: expected a torch.nn.Module"),
        wrong(assay.capture, MODEL, 3, expected="dir must be a valid path, got 3"),
        wrong(assay.capture, MODEL, model_name=3, expected="model_name must be a string such as 'Net', got 3"),
        wrong(assay.extract_unique_modules, NeverRuns, None, 3, expected="output_path must be a valid path"),
        wrong(assay.extract_pytorch_ops, 3, NeverRuns, expected="modules_json_path must be a valid path"),
        wrong(assay.energy_meter, "gpu", expected="unknown device 'gpu': expected cpu or cuda"),
        wrong(assay.measure_energy, 3, expected="run must be a function, got 3"),
        wrong(assay.measure_energy, print, repeats=0, expected="repeats must be a positive integer"),
        wrong(assay.measure_machine, "cpu", on_step=3, expected="on_step must be a function, got 3"),
        wrong(assay.profile, MODEL, X, passes=1.5, expected="passes must be a positive integer, got 1.5"),
        wrong(assay.profile, MODEL, X, warmup=None, expected="warmup must be an integer of at least 0, got None"),
        wrong(assay.profile, MODEL, X, threads=1.5, expected="threads must be"),
        wrong(assay.profile, MODEL, X, thread_counts=3, expected="thread_counts must be a list, got 3"),
        wrong(assay.profile, MODEL, X, grid=3, expected="grid must be a string such as 'FR', got 3"),
        wrong(assay.profile, MODEL, X, price="free", expected="price must be a number of at least 0, got 'free'"),
        wrong(assay.profile, MODEL, X, pue=None, expected="pue must be a number of at least 1, got None"),
        wrong(assay.analyze, MODEL, X, seconds="2", expected="seconds must be a number of at least 0, got '2'"),
        wrong(assay.analyze, MODEL, X, on_step=3, expected="on_step must be a function"),
    ],
)
def test_a_wrong_argument_is_a_usage_error_in_one_line(call, expected):
    with pytest.raises(UsageError) as raised:
        call()
    assert expected in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.fixture
def checkpoint(tmp_path):
    save_file({"w": torch.zeros(3)}, tmp_path / "m.safetensors")
    return tmp_path / "m.safetensors"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("workers", 0),
        ("workers", "2"),
        ("workers", True),
        ("sqnr_db", "high"),
        ("sqnr_db", float("nan")),
        ("engine", ["threads"]),
        ("filter", 3),
        ("resume", 3),
        ("progress", 3),
    ],
)
def test_a_wrong_argument_of_analyze_weights_is_named(checkpoint, name, value):
    with pytest.raises(UsageError, match=f"^{name} must be "):
        assay.analyze_weights(checkpoint, **{name: value})


def test_numbers_of_numpy_are_numbers(checkpoint):
    assert assay.analyze_weights(checkpoint, workers=np.int64(1), sqnr_db=np.float32(30)).tensors


def test_a_document_recorded_on_a_torch_device_can_be_saved(tmp_path):
    document = assay.observe(nn.Linear(4, 4), X, device=torch.device("cpu"))
    assay.save(document, tmp_path / "d.assay.json")
    assert assay.load(tmp_path / "d.assay.json").machine.device == "cpu"


@pytest.mark.parametrize("read", [assay.read_trace, assay.parse_model_trace])
def test_the_path_of_a_trace_must_be_a_path(read):
    with pytest.raises(UsageError, match="must be a string or a Path, got 3"):
        read(3)


def test_a_cost_formula_must_be_a_function():
    with pytest.raises(UsageError, match="must be a function"):
        assay.register_cost("assayarguments::op")(3)
