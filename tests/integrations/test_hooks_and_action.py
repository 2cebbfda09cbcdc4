"""The pre-commit hooks and the GitHub Action: what they name exists, and their commands run."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import yaml
from clocks import HANG_S
from safetensors.numpy import save_file

import assay
from assay.cli.check import check
from assay.integrations.pre_commit import SUFFIXES

ROOT = Path(__file__).parents[2]
SOURCE = str(Path(assay.__file__).parents[1])
OPTIONS = {name for parameter in check.params for name in parameter.opts}


def hooks() -> dict[str, dict]:
    return {hook["id"]: hook for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())}


def action() -> dict:
    return yaml.safe_load((ROOT / "action.yml").read_text())


def step(name: str) -> dict:
    return next(each for each in action()["runs"]["steps"] if each.get("id") == name)


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a command in an empty directory where `python` and `assay` are those of this environment."""
    commands = tmp_path / "commands"
    commands.mkdir()
    for name, code in (("python", '"$@"'), ("assay", '-m assay "$@"')):
        (commands / name).write_text(f"#!/bin/sh\nexec {shlex.quote(sys.executable)} {code}\n")
        (commands / name).chmod(0o755)

    def call(command: list[str], **variables: str) -> subprocess.CompletedProcess[str]:
        path = f"{commands}{os.pathsep}{os.environ['PATH']}"
        return subprocess.run(
            command,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": SOURCE, "PATH": path, **variables},
            capture_output=True,
            text=True,
            timeout=HANG_S,
            check=False,
        )

    return call


def write_weights(path: Path, value: float) -> None:
    save_file({"layer.weight": np.full((8, 8), value, np.float32)}, path)


def test_the_hooks_have_what_pre_commit_requires():
    assert set(hooks()) == {"assay-check", "assay-check-model"}
    for hook in hooks().values():
        assert {"id", "name", "entry", "language"} <= set(hook)
        assert {word for word in hook.get("args", []) if word.startswith("-")} <= OPTIONS


def test_the_hook_matches_the_files_it_checks():
    pattern = re.compile(hooks()["assay-check"]["files"])
    assert all(pattern.search(f"dir/model{suffix}") for suffix in SUFFIXES)
    assert not pattern.search("model.py")


def test_the_hook_checks_every_file_without_torch(run, tmp_path):
    (tmp_path / "torch.py").write_text("raise ImportError('torch was imported')")
    write_weights(tmp_path / "good.safetensors", 1.0)
    write_weights(tmp_path / "bad.safetensors", float("nan"))
    hook = hooks()["assay-check"]
    command = [*hook["entry"].split(), *hook["args"]]
    assert run([*command, "good.safetensors"], PYTHONSAFEPATH="").returncode == 0
    both = run([*command, "bad.safetensors", "good.safetensors"], PYTHONSAFEPATH="")
    assert both.returncode == 1, both.stderr
    assert "64 NaN values" in both.stdout
    assert run(command).returncode == 2


def test_the_hook_for_models_runs_the_command(run, tmp_path):
    (tmp_path / "net.py").write_text("import torch\ndef load(): return torch.nn.Linear(3, 2)\n")
    entry = hooks()["assay-check-model"]["entry"].split()
    assert run([*entry, "net.py::load", "--inputs", "1x3", "--fail-on", "error"]).returncode == 0


def test_the_action_refers_to_inputs_and_options_that_exist():
    content = action()
    text = (ROOT / "action.yml").read_text()
    assert set(re.findall(r"inputs\.([\w-]+)", text)) == set(content["inputs"])
    assert set(re.findall(r"(?<![\w-])--[\w-]+", step("check")["run"])) <= OPTIONS
    outputs = set(re.findall(r'echo "([\w-]+)=', step("check")["run"]))
    assert outputs == set(content["outputs"])
    assert "${{" not in step("check")["run"]  # a value in the script would be run by the shell


@pytest.mark.parametrize("value", [1.0, float("nan")])
def test_the_steps_of_the_action_run(run, tmp_path, value):
    write_weights(tmp_path / "m odel.safetensors", value)
    (tmp_path / "budget.toml").write_text("parameters = 64\n")
    values = {
        "ASSAY_MODEL": "m odel.safetensors",
        "ASSAY_INPUTS": "",
        "ASSAY_ARGS": "--fail-on error --ignore 'W104,W2'",
        "ASSAY_BUDGET": "budget.toml",
        "ASSAY_BASELINE": "",
        "ASSAY_SARIF": "out.sarif",
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
        "GITHUB_OUTPUT": str(tmp_path / "output"),
    }
    assert set(step("check")["env"]) == {name for name in values if name.startswith("ASSAY")}
    result = run(["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", step("check")["run"]], **values)
    expected = 0 if value == 1.0 else 1
    assert result.returncode == expected, result.stderr
    assert (tmp_path / "output").read_text() == f"sarif-file=out.sarif\nexit-code={expected}\n"
    assert "| parameters | 64 | 64 | passed |" in (tmp_path / "summary.md").read_text()
    results = json.loads((tmp_path / "out.sarif").read_text())["runs"][0]["results"]
    assert ("W101" in [each["ruleId"] for each in results]) is bool(expected)


def test_the_action_does_not_run_what_its_inputs_contain(run, tmp_path):
    values = {
        "ASSAY_MODEL": "$(touch hacked)",
        "ASSAY_INPUTS": "`touch hacked`",
        "ASSAY_ARGS": "--ignore $(touch\thacked) ; touch hacked",
        "ASSAY_BUDGET": "",
        "ASSAY_BASELINE": "",
        "ASSAY_SARIF": "out.sarif",
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
        "GITHUB_OUTPUT": str(tmp_path / "output"),
    }
    assert run(["bash", "-c", step("check")["run"]], **values).returncode == 2
    assert not (tmp_path / "hacked").exists()
