"""The pytest plugin in real pytest runs: limits of calls and files, failures with tables, updates."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from clocks import HANG_S

import assay
from assay.api.project import read_toml
from assay.errors import UsageError
from assay.integrations.budget_update import with_values

ROOT = Path(__file__).parents[2]
SOURCE = str(Path(assay.__file__).parents[1])
PLUGIN = "assay.integrations.pytest_plugin"
TABLE = ("models", "Linear")

HEAD = """
import torch
from torch import nn

x = torch.zeros(4, 64)

def net():
    return nn.Linear(64, 32)

"""
PARAMETERS, MACS = 64 * 32 + 32, 4 * 64 * 32


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs pytest on a file of tests, with only this plugin."""

    def call(tests: str, *options: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "test_net.py").write_text(HEAD + tests)
        if not (tmp_path / "pyproject.toml").exists():
            (tmp_path / "pytest.ini").write_text("[pytest]\n")
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", PLUGIN, "-p", "no:cacheprovider", *options],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": SOURCE, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            timeout=HANG_S,
            check=False,
        )

    return call


def test_the_entry_point_names_the_plugin():
    assert read_toml(ROOT / "pyproject.toml")["project"]["entry-points"]["pytest11"] == {"assay": PLUGIN}


def test_loading_the_plugin_imports_nothing_heavy():
    code = f"import {PLUGIN}, sys; print(' '.join(sys.modules))"
    child = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": SOURCE},
        capture_output=True,
        text=True,
        check=True,
    )
    assert not {"torch", "numpy", "msgspec", "rich", "click", "assay.api"} & set(child.stdout.split())


def test_limits_of_the_call(run):
    tests = f"""
def test_exact(model_budget):
    report = model_budget(net(), x, parameters={PARAMETERS}, macs={MACS}, no=("W101", "error"))
    assert [line.verdict for line in report.lines] == ["passed"] * 4

def test_too_large(model_budget):
    model_budget(net(), x, parameters={PARAMETERS - 1}, macs="1G")

def test_invalid(model_budget):
    model_budget(net(), x, parameters="many")

def test_nothing_limited(model_budget):
    model_budget(net(), x)
"""
    result = run(tests)
    assert result.returncode == 1
    assert "3 failed, 1 passed" in result.stdout
    assert "1 limit of the model's budget failed" in result.stdout
    table = [line.split() for line in result.stdout.splitlines() if line.startswith("E") and "parameters" in line]
    assert any(line[1:5] == ["parameters", f"{PARAMETERS:,}", f"{PARAMETERS - 1:,}", "exceeded"] for line in table)
    assert "model_budget: parameters must be a number such as" in result.stdout
    assert "no limit for Linear" in result.stdout
    assert "model_budget.py" not in result.stdout  # the traceback ends in the test


def test_a_training_step_and_findings_are_added_if_they_are_limited(run):
    tests = """
def test_all(model_budget):
    model = net()
    with torch.no_grad():
        model.weight[0, 0] = float("nan")
    report = model_budget(model, x, training_memory="1 MiB")
    assert [(line.name, line.verdict) for line in report.lines] == [("training-memory", "passed")]
    model_budget(model, x, no="W101")
"""
    result = run(tests)
    assert "1 failed" in result.stdout
    assert any(line.split()[1:5] == ["W101", "1", "0", "exceeded"] for line in result.stdout.splitlines())


def test_unknown_values_are_warned_of_and_fail_if_strict(run):
    tests = """
def shapes():
    return nn.Linear(64, 32, device="meta")

def test_unknown(model_budget):
    report = model_budget(shapes(), x, no="W101", parameters="1M")
    assert [line.verdict for line in report.lines] == ["passed", "unknown"]

def test_strict(model_budget):
    model_budget(shapes(), x, no="W101", strict=True)
"""
    result = run(tests)
    assert "1 failed, 1 passed, 1 warning" in result.stdout, result.stdout
    assert "BudgetWarning: unknown, not checked against the budget: W101" in result.stdout


def test_a_model_that_fails_is_a_failure(run):
    tests = """
def test_shape(model_budget):
    model_budget(nn.Sequential(nn.Linear(64, 8), nn.Linear(9, 8)), x, flops="1G")
"""
    result = run(tests)
    assert "1 failed" in result.stdout
    assert "the forward pass stopped in 1" in result.stdout


FILE_TEST = """
def test_file(model_budget):
    model_budget(net(), x)
"""


def test_limits_of_files(run, tmp_path):
    (tmp_path / "budget.toml").write_text(f"parameters = {PARAMETERS}\n")
    assert run(FILE_TEST).returncode == 0
    (tmp_path / "tight.toml").write_text("[models.Linear]\nparameters = 1\n")
    assert "exceeded" in run(FILE_TEST, "--assay-budget", "tight.toml").stdout
    (tmp_path / "pyproject.toml").write_text("[tool.pytest.ini_options]\n[tool.assay]\nbudget = 'tight.toml'\n")
    (tmp_path / "pytest.ini").unlink()
    assert "exceeded" in run(FILE_TEST).stdout
    overridden = FILE_TEST.replace("net(), x", "net(), x, parameters='1M'")
    assert run(overridden).returncode == 0


def test_an_update_writes_the_current_values(run, tmp_path):
    assert run(FILE_TEST).returncode == 1
    assert run(FILE_TEST, "--assay-update").returncode == 0
    written = read_toml(tmp_path / "budget.toml")
    assert written["models"]["Linear"]["parameters"] == PARAMETERS
    assert run(FILE_TEST).returncode == 0
    larger = FILE_TEST.replace("net()", "nn.Linear(64, 33)")
    assert "exceeded" in run(larger).stdout
    assert run(larger, "--assay-update").returncode == 0
    assert read_toml(tmp_path / "budget.toml")["models"]["Linear"]["parameters"] == 65 * 33


def test_an_update_saves_the_reference_of_latency(run, tmp_path):
    (tmp_path / "budget.toml").write_text("latency = {reference = 'ref.assay.json', ratio = 1e9}\n")
    missing = run(FILE_TEST)
    assert "no such file" in missing.stdout
    assert run(FILE_TEST, "--assay-update").returncode == 0
    assert assay.load(tmp_path / "ref.assay.json").profile is not None
    assert run(FILE_TEST).returncode == 0


def test_an_update_keeps_comments_order_and_other_tables():
    text = (
        "# all\nparameters = 1\n\n[models.Linear]  # ours\nflops = '1G'  # why\nno = ['W101']\n\n"
        '[models."V*"]\nflops = 3\n'
    )
    expected = (
        "# all\nparameters = 1\n\n[models.Linear]  # ours\nflops = 2_000  # why\nno = ['W101']\nmacs = 7\n\n"
        '[models."V*"]\nflops = 3\n'
    )
    assert with_values(text, TABLE, {"flops": 2000, "macs": 7}) == expected
    assert with_values("", ("models", "a b"), {"flops": 1}) == '[models."a b"]\nflops = 1\n'


def test_a_table_that_cannot_be_edited_is_refused(tmp_path):
    from assay.api.project import read_budget
    from assay.document.provenance import Counted, Figure
    from assay.findings.budget import BudgetLine, BudgetReport
    from assay.integrations.budget_update import update_budget

    path = tmp_path / "budget.toml"
    path.write_text("models = {Linear = {flops = 3}}\n")
    report = BudgetReport([BudgetLine("flops", "FLOPs", "count", Figure(5, Counted("x")), 3, "exceeded")])
    with pytest.raises(UsageError, match=r"\[models.Linear\]"):
        update_budget(read_budget(path), "Linear", report)
    assert path.read_text() == "models = {Linear = {flops = 3}}\n"
