"""What users' type checkers see: real signatures of every public name, and errors for what is not there."""

from __future__ import annotations

import ast
import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest

import assay

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SURFACE = HERE / "surface.py"

WRONG = """
import assay

assay.nonsense()
assay.observe(1, wrong=2)
number: int = assay.cost("model.py::load")
assay.profile("model.py::load", passes="three")
assay.analyze_weights("w.safetensors", engin="ray")
assay.check("model.py::load", select=3)
"""
WRONG_LINES = {4, 5, 6, 7, 8, 9}


def mypy(file: Path, cache: Path) -> set[int]:
    """The lines of `file` with errors; mypy knows nothing of it but the project's own settings."""
    ran = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--cache-dir", str(cache), str(file)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert not ran.stderr
    errors = [line.split(":") for line in ran.stdout.splitlines() if ": error:" in line]
    assert {Path(error[0]).name for error in errors} <= {file.name}, ran.stdout
    return {int(error[1]) for error in errors}


def pyright(file: Path) -> set[int]:
    """The same by pyright."""
    ran = subprocess.run(
        [sys.executable, "-m", "basedpyright", "--outputjson", "--pythonpath", sys.executable, str(file)],
        cwd=file.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    found = json.loads(ran.stdout)["generalDiagnostics"]
    return {each["range"]["start"]["line"] + 1 for each in found if each["severity"] == "error"}


def test_the_surface_uses_every_public_name():
    tree = ast.parse(SURFACE.read_text(encoding="utf-8"))
    used = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "assay"
    }
    assert used >= set(assay.__all__)


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("mypy")


def test_mypy_takes_what_is_right_and_no_more(cache, tmp_path):
    assert mypy(SURFACE, cache) == set()
    (tmp_path / "wrong.py").write_text(WRONG)
    assert mypy(tmp_path / "wrong.py", cache) == WRONG_LINES


def test_pyright_takes_what_is_right_and_no_more(tmp_path):
    (tmp_path / "pyrightconfig.json").write_text(json.dumps({"typeCheckingMode": "standard"}))
    (tmp_path / "surface.py").write_text(SURFACE.read_text(encoding="utf-8"))
    assert pyright(tmp_path / "surface.py") == set()
    (tmp_path / "wrong.py").write_text(WRONG)
    assert pyright(tmp_path / "wrong.py") == WRONG_LINES


def test_no_public_function_hides_its_options():
    """A `**options: Any` on a verb hides what it takes; only those that hand arguments to others have one."""
    hands_on = {"capture_model", "capture", "explore_with_stats", "explore_torch_module_with_stats"}
    for name in set(assay.__all__) - hands_on:
        value = getattr(assay, name)
        if inspect.isfunction(value):
            kinds = {each.kind for each in inspect.signature(value).parameters.values()}
            assert inspect.Parameter.VAR_KEYWORD not in kinds, name


def test_every_argument_of_a_verb_is_described():
    undescribed = []
    for name in assay.__all__:
        value = getattr(assay, name)
        if not inspect.isfunction(value):
            continue
        text = inspect.getdoc(value) or ""
        undescribed += [f"{name}: {each}" for each in inspect.signature(value).parameters if f"{each}:" not in text]
    assert not undescribed
