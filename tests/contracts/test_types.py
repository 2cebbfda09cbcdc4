"""What users' type checkers and documentation tools see: real signatures and complete docstrings of public names."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import json
import re
import subprocess
import sys
from pathlib import Path
from types import FunctionType

import msgspec
import pytest

import assay
from assay.analysis.laws.law import Law
from assay.document.cost import CostTotals
from assay.document.weights import TensorStatistics

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
    """The lines of `file` in which mypy finds errors, with the project's own settings."""
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
    """The lines of `file` in which pyright finds errors."""
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


def test_mypy_accepts_correct_calls_only(cache, tmp_path):
    assert mypy(SURFACE, cache) == set()
    (tmp_path / "wrong.py").write_text(WRONG)
    assert mypy(tmp_path / "wrong.py", cache) == WRONG_LINES


def test_pyright_accepts_correct_calls_only(tmp_path):
    (tmp_path / "pyrightconfig.json").write_text(json.dumps({"typeCheckingMode": "standard"}))
    (tmp_path / "surface.py").write_text(SURFACE.read_text(encoding="utf-8"))
    assert pyright(tmp_path / "surface.py") == set()
    (tmp_path / "wrong.py").write_text(WRONG)
    assert pyright(tmp_path / "wrong.py") == WRONG_LINES


def test_no_public_function_hides_its_options():
    """Only functions that pass arguments on to torch or to the model may have a `**kwargs`: it hides the options."""
    passes_on = {"capture_model", "capture", "explore_with_stats", "explore_torch_module_with_stats"}
    for name in set(assay.__all__) - passes_on:
        value = getattr(assay, name)
        if inspect.isfunction(value):
            kinds = {each.kind for each in inspect.signature(value).parameters.values()}
            assert inspect.Parameter.VAR_KEYWORD not in kinds, name


def public_functions() -> dict[str, FunctionType]:
    """Every public function by its name."""
    values = {name: getattr(assay, name) for name in assay.__all__}
    return {name: value for name, value in values.items() if inspect.isfunction(value)}


def sections(function: FunctionType | type) -> dict[str, str]:
    """The sections of a docstring by heading: the indented text below `Args:`, `Returns:`, `Raises:` and so on."""
    text = inspect.getdoc(function) or ""
    return dict(re.findall(r"^([A-Z]\w+):\n((?:(?: {4}.*)?(?:\n|$))+)", text, flags=re.MULTILINE))


def test_the_sections_of_a_docstring_are_found():
    found = sections(assay.observe)
    assert list(found) == ["Args", "Returns", "Raises"]
    assert found["Args"].startswith("    model: ")


def test_every_argument_of_a_public_function_is_described():
    undescribed = [
        f"{name}: {argument}"
        for name, function in public_functions().items()
        for argument in inspect.signature(function).parameters
        if not re.search(rf"^    {argument}: \S", sections(function).get("Args", ""), flags=re.MULTILINE)
    ]
    assert not undescribed


def test_every_public_function_that_returns_something_describes_it():
    undescribed = [
        name
        for name, function in public_functions().items()
        if inspect.signature(function).return_annotation not in ("None", None)
        and not sections(function).keys() & {"Returns", "Yields"}
    ]
    assert not undescribed


def result_classes() -> list[type]:
    """The public structs and dataclasses, and those that users meet first inside them."""
    values = [getattr(assay, name) for name in assay.__all__]
    return [value for value in (*values, CostTotals, Law, TensorStatistics) if public_fields(value)]


def public_fields(value: object) -> list[str]:
    """The public fields of a struct or dataclass; empty for anything else."""
    if isinstance(value, type) and issubclass(value, msgspec.Struct):
        names = list(value.__struct_fields__)
    elif isinstance(value, type) and dataclasses.is_dataclass(value):
        names = [each.name for each in dataclasses.fields(value)]
    else:
        names = []
    return [name for name in names if not name.startswith("_")]


def test_help_describes_every_attribute_of_a_result():
    undescribed = [
        f"{each.__name__}: {name}"
        for each in result_classes()
        for name in public_fields(each)
        if not re.search(rf"^    {name}: \S", sections(each).get("Attributes", ""), flags=re.MULTILINE)
    ]
    assert not undescribed
