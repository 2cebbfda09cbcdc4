"""Fixtures that run the command line in this process with a fake recorder, or in a separate process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from clocks import HANG_S

import assay
from assay.api.options import RunOptions
from assay.cli.main import run
from assay.document.document import Document, Origin
from assay.sources.opened import Model, Opened

SOURCE = str(Path(assay.__file__).parents[1])


for module in [
    "api.analyze.run",
    "api.check",
    "api.cost",
    "api.explore.subjects",
    "api.memory",
    "api.observe",
    "api.roofline",
    "api.summary",
    "api.vary",
    "api.weights",
    "cli.observed",
]:
    import_module(f"assay.{module}")  # a first import while `open_source` is patched would keep the fake


class _Shapes(Model):
    """A model on the meta device: it has no weights to check."""

    on_meta = True


@pytest.fixture
def in_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Runs the command line with a fake recorder that returns or raises `document`.

    `received` of the result holds the arguments that reached the recorder; `noise` is printed by the model.
    """

    def call(*arguments: str, document: Document | BaseException | None = None, noise: str = "") -> SimpleNamespace:
        received: dict[str, Any] = {}

        def opened(model: object, **_: object) -> Opened:
            if isinstance(model, Opened):
                return model
            received["model"] = model
            return Opened(Origin("file", str(model), str(model)), lambda: _Shapes(None))

        def observed(opened: Opened, inputs: object, options: RunOptions, on_progress: object) -> object:
            received.update(asdict(options), inputs=inputs)
            sys.stdout.write(noise)
            if isinstance(document, BaseException):
                raise document
            return document

        if document is not None:
            for module in ("assay.sources.open", "assay.cli.observed"):
                monkeypatch.setattr(f"{module}.open_source", opened)
            for module in ("assay.cli.observed", "assay.api.check"):
                monkeypatch.setattr(f"{module}.observe_opened", observed)
        code = run(arguments)
        captured = capsys.readouterr()
        return SimpleNamespace(code=code, out=captured.out, err=captured.err, received=received)

    return call


@pytest.fixture
def environment() -> dict[str, str]:
    """Environment variables for a child process that imports assay from the same place."""
    return {**os.environ, "PYTHONPATH": SOURCE, "OMP_NUM_THREADS": "1"}


@pytest.fixture
def process(in_place: Path, environment: dict[str, str]) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs `assay` in an empty working directory; a slow machine prints no more."""
    program = "from assay.cli import main, progress\nprogress.PRINTED_AFTER_S = float('inf')\nmain.main()"

    def call(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", program, *arguments],
            env={**environment, **variables},
            cwd=in_place,
            capture_output=True,
            text=True,
            timeout=HANG_S,
            check=False,
        )

    return call
