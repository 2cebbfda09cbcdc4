"""A `--device` or `--dtype` that cannot be used: every command reports it alike, in one line and with exit code 2."""

from __future__ import annotations

from importlib import import_module

import pytest
import torch

import assay
from assay.api import observe
from assay.api.explore import terminal
from assay.cli.main import COMMANDS
from assay.errors import UsageError

NO_DEVICE = "cuda:99"
"""A device that no machine has."""

MODEL = """
from torch import nn

def load_model():
    return nn.Sequential(nn.Linear(4, 4), nn.ReLU())
"""


def _runs_models(command: str) -> bool:
    module, attribute = COMMANDS[command][0].split(":")
    names = {parameter.name for parameter in getattr(import_module(module), attribute).params}
    return {"model", "device", "dtype"} <= names


RUNNING = [command for command in COMMANDS if _runs_models(command)]
VARIANTS = {
    **{command: [command] for command in RUNNING},
    "explore --stats": ["explore", "--stats"],
    "extract": ["extract", "--dir", "out"],
    "analyze": ["analyze", "--dir", "out"],
    "analyze --inference": ["analyze", "--inference", "--dir", "out"],
    "analyze --profile": ["analyze", "--profile", "--dir", "out"],
    "report": ["report", "-o", "out.html"],
    "report --no-measure": ["report", "--no-measure", "-o", "out.html"],
    "cost --vary": ["cost", "--vary", "batch"],
    "memory --batch-search": ["memory", "--fit", "H100", "--batch-search"],
    "check --meta": ["check", "--meta"],
}
"""Each command that runs a model, also with the options that make it run the model in another way."""


@pytest.fixture
def last_line(cli, in_place, monkeypatch):
    """Runs a variant on a small model with these options; returns the exit code and the last line on stderr."""
    monkeypatch.setattr(terminal, "check_terminal", lambda theme: None)
    (in_place / "m.py").write_text(MODEL)

    def call(variant: str, *options: str) -> tuple[int, str]:
        result = cli(*VARIANTS[variant], "m.py::load_model", "--inputs", "2x4:float32", *options)
        return result.code, result.err.splitlines()[-1]

    return call


def test_every_command_that_runs_a_model_is_covered():
    assert sorted(RUNNING) == [
        "analyze",
        "check",
        "cost",
        "explore",
        "extract",
        "memory",
        "modules",
        "ops",
        "profile",
        "report",
        "summary",
    ]


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_device_that_is_missing_is_named(last_line, variant):
    code, line = last_line(variant, "--device", NO_DEVICE)
    assert code == 2
    assert line.startswith(f"assay: error: cannot run on device '{NO_DEVICE}': ")


@pytest.mark.parametrize("variant", [variant for variant in VARIANTS if not variant.startswith("cost")])
def test_a_device_that_does_not_exist_is_named(last_line, variant):
    line = "assay: error: unknown device 'gpu': expected cpu, cuda, cuda:1, mps or xpu"
    assert last_line(variant, "--device", "gpu") == (2, line)


@pytest.mark.parametrize("variant", ["profile", "analyze --inference", "analyze --profile"])
def test_a_device_without_data_cannot_be_measured(last_line, variant):
    line = "assay: error: cannot measure on device 'meta', which has no data: expected cpu, cuda, mps or xpu"
    assert last_line(variant, "--device", "meta") == (2, line)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(("dtype", "problem"), [("int8", "cannot run in dtype"), ("float12", "unknown dtype")])
def test_a_dtype_that_is_not_floating_point_is_refused(last_line, variant, dtype, problem):
    expected = "float32, float64, float16, bfloat16, float8_e4m3fn, float8_e5m2, complex64, complex128"
    line = f"assay: error: {problem} '{dtype}': expected one of {expected}"
    assert last_line(variant, "--dtype", dtype) == (2, line)


@pytest.mark.parametrize("dtype", ["bf16", "torch.bfloat16", "bfloat16"])
@pytest.mark.parametrize("verb", ["observe", "profile", "vary"])
def test_a_dtype_can_be_named_in_short(verb, dtype):
    options = {"vary": {"over": "batch"}, "profile": {"passes": 1, "warmup": 0, "seconds": 0.0}}.get(verb, {})
    assert getattr(assay, verb)(torch.nn.Linear(4, 4), torch.zeros(2, 4), dtype=dtype, **options)


@pytest.mark.parametrize("device", [NO_DEVICE, "hpu", "privateuseone"])
@pytest.mark.parametrize("verb", ["observe", "profile", "vary", "check", "cost", "memory", "summary", "analyze"])
def test_every_function_reports_a_missing_device_alike(verb, device):
    with pytest.raises(UsageError, match=f"^cannot run on device '{device}': "):
        getattr(assay, verb)(torch.nn.Linear(4, 4), torch.zeros(2, 4), device=device)


@pytest.mark.parametrize("device", ["mps", "xla", "mtia", "cuda:1"])
def test_a_missing_device_is_answered_with_those_that_exist(monkeypatch, device):
    monkeypatch.setattr(observe, "_device_counts", lambda: {"cpu": 1, "cuda": 1, "mps": 0, "xpu": 2})
    monkeypatch.setattr(torch, "empty", _fail)
    with pytest.raises(UsageError) as caught:
        observe._check_device(device)
    assert str(caught.value) == (
        f"cannot run on device '{device}': not available on this machine with torch {torch.__version__}: "
        "expected cpu, cuda, xpu:0 or xpu:1"
    )


def test_an_existing_device_that_fails_keeps_the_reason_of_torch(monkeypatch):
    monkeypatch.setattr(observe, "_device_counts", lambda: {"cpu": 1, "cuda": 1})
    monkeypatch.setattr(torch, "empty", _fail)
    with pytest.raises(UsageError, match=r"^cannot run on device 'cuda:0': device is busy$"):
        observe._check_device("cuda:0")


def _fail(*args, **kwargs):
    raise RuntimeError("device is busy")
