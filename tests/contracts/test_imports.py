"""What is deferred stays deferred: each command in a child that lists what it imported."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

import assay
from assay.cli.main import COMMANDS
from assay.document import files
from assay.document.document import Document

HEAVY = {"torch", "transformers", "textual", "ray", "plotext"}
FOR_TABLES = {"rich", "msgspec", "numpy", "psutil"}
SOURCE = str(Path(assay.__file__).parents[1])


def imported(program: str) -> set[str]:
    """The top-level packages a child has imported after `program`."""
    report = "; import sys; sys.stderr.write(' '.join(sorted({name.split('.')[0] for name in sys.modules})))"
    child = subprocess.run(
        [sys.executable, "-c", program + report],
        env={**os.environ, "PYTHONPATH": SOURCE},
        capture_output=True,
        text=True,
        check=True,
    )
    packages = set(child.stderr.split())
    assert "assay" in packages
    return packages


def command(*arguments: str) -> str:
    return f"from assay.cli.main import run; assert run({list(arguments)!r}) == 0"


def test_importing_assay_imports_nothing_heavy():
    assert not imported("import assay") & (HEAVY | FOR_TABLES | {"click"})


def test_help_imports_click_and_nothing_else():
    assert not imported(command("--help")) & (HEAVY | FOR_TABLES)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_a_command_is_light(name):
    assert not imported(command(name, "--help")) & (HEAVY | {"rich", "msgspec", "numpy"})


@pytest.mark.parametrize("arguments", [["schema", "document"], ["env"], ["completion", "zsh"], ["--version"]])
def test_commands_without_a_model_import_nothing_heavy(arguments):
    assert not imported(command(*arguments)) & HEAVY


def test_loading_a_document_imports_nothing_heavy(tmp_path):
    path = tmp_path / "d.assay.json"
    files.save(Document(), path)
    assert not imported(f"import assay; assay.load({str(path)!r})") & (HEAVY | {"rich", "click", "numpy"})


def test_only_a_picture_imports_plotext(tmp_path):
    path = tmp_path / "w.safetensors"
    save_file({"w": np.arange(6.0)}, path)
    assert not imported(command("params", str(path))) & HEAVY
    assert imported(command("params", str(path), "--histogram")) & HEAVY == {"plotext"}
