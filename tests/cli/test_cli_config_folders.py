"""Folders with config.json and weights on the command line, also where transformers cannot build the model."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import folders
import pytest

import assay
from assay.analysis.parameters import parameters
from assay.api.explore.subjects import explorer_subject

COMMANDS = {
    "check": ["check", "net"],
    "analyze": ["analyze", "net", "--dir", "out"],
    "report": ["report", "net", "-o", "page.html"],
}
REASONS = {
    "unknown": ({"model_type": "llama9", "architectures": ["Llama9"]}, "upgrade transformers"),
    "code": ({"model_type": "own", "architectures": ["Own"], "auto_map": {"AutoModel": "own.Own"}}, "--trust"),
    "raises": ({"num_attention_heads": 0}, "give file.py::function"),
    "damaged": ({"architectures": 5}, "must be a list"),
    "endless": ({"num_hidden_layers": 10**9}, "num_hidden_layers is 1,000,000,000, the limit is 10,000"),
    "missing": ({}, "pip install torch-assay[hf]"),
}


@pytest.fixture(params=REASONS)
def broken(request, in_place, monkeypatch):
    """A folder whose model cannot be built, and a part of the line that names the reason or the remedy."""
    fields, text = REASONS[request.param]
    folders.write(in_place / "net", folders.llama(), folders.llama().state_dict(), **fields)
    if request.param == "missing":
        monkeypatch.setitem(sys.modules, "transformers", None)
    return text


@pytest.mark.parametrize("command", COMMANDS)
def test_the_weights_are_shown_with_the_reason_why_the_tree_is_missing(broken, cli, command) -> None:
    done = cli(*COMMANDS[command])
    assert done.code == 0
    shown = done.out if command == "analyze" else done.err
    lines = [line for line in done.err.splitlines() if broken in line]
    assert len(lines) == (command != "analyze")
    assert broken in " ".join(shown.split())
    assert "Traceback" not in done.err


def test_json_names_the_reason_too(broken, cli) -> None:
    done = cli("check", "net", "--format", "json")
    assert done.code == 0
    (note,) = json.loads(done.out)["notes"]
    assert broken in note


def test_the_explorer_shows_the_tensors_and_the_reason(broken) -> None:
    subject = explorer_subject("net")
    assert subject.tensors_in_tree
    assert broken in subject.notes[0]
    assert len(subject.document.tensors) == len(folders.llama().state_dict())


def test_params_needs_no_config(broken, cli) -> None:
    done = cli("params", "net", "--format", "jsonl")
    assert done.code == 0
    assert len(done.out.splitlines()) == len(folders.llama().state_dict())
    assert done.err == ""


def test_the_document_of_an_analysis_names_the_reason(broken, cli, in_place) -> None:
    cli("analyze", "net", "--dir", "out")
    assert broken in assay.load(in_place / "out" / "analysis.assay.json").run.assumptions[0]


def test_a_model_and_its_weights_are_joined(in_place, cli) -> None:
    tensors = dict(folders.llama().state_dict())
    del tensors["model.norm.weight"]
    model = folders.llama()
    folders.write(in_place / "net", model, {**tensors, "foo.weight": tensors["lm_head.weight"]})
    count = sum(each.numel() for each in model.parameters())
    done = cli("check", "net", "--format", "json", "--save", "net.assay.json")
    assert done.code == 0
    titles = [each["title"] for each in json.loads(done.out)["findings"] if each["code"] == "W301"]
    assert titles == [
        "1 tensor of the model is not in the files: model.norm.weight",
        "1 stored tensor that the model does not have: foo.weight",
    ]
    saved = explorer_subject("net.assay.json")
    assert parameters(saved.document).count == count
    assert saved.inspector.tensor("model.layers.1.mlp.up_proj", "weight").max == pytest.approx(
        tensors["model.layers.1.mlp.up_proj.weight"].max().item()
    )
    assert "not in the files" in saved.inspector.tensor("model.norm", "weight").problem
    assert "foo.weight" in cli("report", "net.assay.json", "--format", "md", "-o", "-").out


def test_a_folder_without_weights_is_called_so(in_place, cli) -> None:
    folders.saved(in_place / "net", folders.llama(), "one")
    (in_place / "net" / "model.safetensors").unlink()
    for command in (["check", "net", "--no-measure"], ["analyze", "net", "--dir", "out"]):
        shown = " ".join(cli(*command).out.split())
        assert "values of weights (net holds none: give a checkpoint of the model as weights)" in shown
        assert "problems in weights and outputs" not in shown
    assert "(assay check net)" in cli("check", "net", "--no-weights").out


def test_weights_that_were_left_aside_are_noted_and_a_lost_shard_is_counted(in_place, cli) -> None:
    folders.saved(in_place / "net", folders.llama(), "one")
    (in_place / "net" / "model.safetensors").rename(in_place / "net" / "model.fp16.safetensors")
    folders.llama().save_pretrained(in_place / "net")
    done = cli("check", "net", "--no-measure")
    assert (done.code, done.err.count("model.fp16.safetensors")) == (0, 1)
    assert "were not read" not in cli("check", "net", "--no-measure", "-q").err
    (in_place / "net" / "model.safetensors").unlink()
    folders.llama().save_pretrained(in_place / "net", max_shard_size="20KB")
    next((in_place / "net").glob("model-00003*")).unlink()
    done = cli("params", "net")
    assert done.code == 4
    assert "partial: 1 file not read or incomplete" in done.out


@pytest.mark.parametrize("command", ["summary", "cost", "memory", "modules", "extract"])
def test_a_command_that_requires_torch_names_it(in_place, command) -> None:
    """In a process of its own, in which torch cannot be imported."""
    folders.saved(in_place / "net", folders.llama(), "one")
    code = f"import sys; sys.modules['torch'] = None; from assay.cli.main import main; main(['{command}', 'net'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert "error: torch is required but cannot be imported" in done.stderr
    assert "pip install torch-assay[torch]" in done.stderr


def test_quiet_silences_transformers_too(in_place) -> None:
    folders.saved(in_place / "net", folders.gpt2(), "one")
    config = json.loads((in_place / "net" / "config.json").read_text())
    (in_place / "net" / "config.json").write_text(json.dumps({**config, "bos_token_id": 50256}))
    code = "from assay.cli.main import main; main(['summary', 'net', '-q'])"
    environment = {name: value for name, value in os.environ.items() if name != "TRANSFORMERS_VERBOSITY"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert (done.returncode, done.stderr) == (0, "")
