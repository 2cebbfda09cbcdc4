"""End to end in a separate process: a model in a file, the two files written for it, and everything that can fail."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from clocks import HANG_S
from jsonschema import Draft202012Validator

from assay.views.json.schema import schema

MODELS = """
import sys
import time

import torch
from torch import nn


def load_model():
    return nn.Sequential(
        nn.Conv2d(3, 64, 3, padding=1),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.Conv2d(64, 64, 3, padding=1),
        nn.BatchNorm2d(64),
        nn.ReLU(),
    )


def get_inputs():
    return torch.randn(1, 3, 32, 32)


def five_channels():
    return torch.randn(1, 5, 32, 32)


def raises():
    raise ValueError("no weights here")


def no_model():
    return 3


class Slow(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)

    def forward(self, x):
        x = self.first(x)
        print("in forward", file=sys.stderr, flush=True)
        time.sleep(600)
        return x


def four():
    return torch.zeros(1, 4)
"""


@pytest.fixture(autouse=True)
def _models(in_place: Path) -> None:
    (in_place / "my_model.py").write_text(MODELS)


def left(directory: Path) -> list[str]:
    """Files that a command left behind, without the model's own file."""
    return sorted(path.name for path in directory.iterdir() if path.name not in ("my_model.py", "__pycache__"))


def test_extract_writes_both_files_as_described(process, in_place):
    result = process("extract", "--model-path", "my_model.py::load_model", "--inputs-path", "my_model.py::get_inputs")
    assert (result.returncode, result.stderr) == (
        0,
        "assay: recorded in evaluation mode (the model was in training mode); --as-is runs it in its own mode\n"
        "assay: 7 modules, 5 unique; 6 ops, 4 unique\n",
    )
    modules, ops = (json.loads(Path(in_place, name).read_text()) for name in result.stdout.split())
    for name, file in (("modules", modules), ("ops", ops)):
        Draft202012Validator(json.loads(schema(name))).validate(file)
    metadata = modules["metadata"]
    assert (metadata["load_fn_location"], metadata["load_fn_name"]) == (
        "my_model.py:load_model",
        "load_model",
    )
    assert (metadata["model_class"], metadata["total_modules"], metadata["unique_modules"]) == (
        "Sequential",
        7,
        5,
    )
    assert sum(len(entry["occurrences"]) for entry in modules["modules"]) == 7
    conv = modules["modules"][1]
    assert conv["input_shapes"] == ["1x3x32x32"]
    assert conv["parameters"].items() >= {"in_channels": 3, "kernel_size": [3, 3], "padding": [1, 1]}.items()
    assert [(op["op_name"], op["count"]) for op in ops["ops"]] == [
        ("torch.conv2d", 1),
        ("torch.batch_norm", 2),
        ("torch.relu", 2),
        ("torch.conv2d", 1),
    ]
    assert ops["ops"][0]["attributes"].items() >= {"stride": [1, 1], "padding": [1, 1], "groups": 1}.items()
    assert ops["ops"][0]["source_module_id"] == conv["id"]


def test_a_saved_document_gives_the_same_list_without_the_model(process, in_place):
    first = process("ops", "my_model.py::load_model", "--save", "d.assay.json", "--format", "json")
    assert first.returncode == 0
    assert "assay: inputs inferred" in first.stderr
    Draft202012Validator(json.loads(schema("document"))).validate(json.loads((in_place / "d.assay.json").read_text()))
    (in_place / "my_model.py").unlink()
    again = process("ops", "d.assay.json", "--format", "json")
    assert (again.returncode, again.stdout) == (0, first.stdout)


@pytest.mark.parametrize(
    ("model", "inputs", "code", "words"),
    [
        ("nowhere.py::load_model", None, 3, "nowhere.py"),
        ("my_model.py::nothing", None, 3, "nothing"),
        ("my_model.py::raises", None, 3, "ValueError: no weights here"),
        ("my_model.py::no_model", None, 3, "int"),
        ("my_model.py::load_model", "my_model.py::nothing", 3, "nothing"),
        ("my_model.py::load_model", "my_model.py::raises", 3, "ValueError: no weights here"),
        ("x" * 100_000, None, 3, "xxx"),
        ("", None, 2, ""),
    ],
    ids=[
        "no-file",
        "no-function",
        "raises",
        "no-model",
        "no-inputs",
        "inputs-raise",
        "long-name",
        "empty-name",
    ],
)
def test_an_unreadable_model_is_one_line_and_leaves_nothing(process, in_place, model, inputs, code, words):
    options = ["--inputs-path", inputs] if inputs else []
    result = process("extract", "--model-path", model, *options, "--dir", "out")
    first = result.stderr.splitlines()[0]
    assert (result.returncode, result.stdout) == (code, "")
    assert first.startswith("assay: error: ")
    assert words in first
    assert len(first) < 3000
    assert "Traceback" not in result.stderr
    assert left(in_place) == []


def test_the_users_own_frames_follow_the_line(process):
    errors = process("modules", "my_model.py::raises").stderr
    assert 'raise ValueError("no weights here")' in errors
    assert "assay/cli" not in errors


def test_wrong_inputs_give_an_incomplete_result(process, in_place):
    result = process("extract", "my_model.py::load_model", "--inputs", "my_model.py::five_channels", "--dir", "out")
    assert result.returncode == 4
    assert "stopped in module 0 (Conv2d)" in result.stderr
    for name in ("unique_modules.partial.json", "pytorch_ops.partial.json"):
        provenance = json.loads((in_place / "out" / name).read_text())["metadata"]["provenance"]
        assert (provenance["complete"], provenance["failure"]["module"]) == (False, "0")


def test_an_unwritable_directory_is_refused(process, in_place):
    result = process("extract", "my_model.py::load_model", "--dir", "my_model.py/out")
    assert result.returncode == 3
    assert result.stderr.startswith("assay: error: cannot write into my_model.py/out")
    assert left(in_place) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write everywhere")
def test_a_directory_without_permission_is_refused(process, in_place):
    (in_place / "closed").mkdir(mode=0o500)
    result = process("extract", "my_model.py::load_model", "--dir", "closed")
    assert result.returncode == 3
    assert list((in_place / "closed").iterdir()) == []


def test_an_interrupt_in_forward_ends_with_130_and_leaves_nothing(environment, in_place):
    child = subprocess.Popen(
        [sys.executable, "-m", "assay", "extract", "-q", "my_model.py::Slow", "--inputs", "my_model.py::four"],
        env=environment,
        cwd=in_place,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A shell that runs the suite in the background ignores the signal, and children inherit that.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
    with child:
        assert child.stderr.readline() == "in forward\n"
        child.send_signal(signal.SIGINT)
        out, errors = child.communicate(timeout=HANG_S)
    assert (child.returncode, out, errors) == (130, "", "assay: interrupted\n")
    assert left(in_place) == []
