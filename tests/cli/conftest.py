"""The command line in this process with the capture replaced, and as a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import assay
from assay.cli.main import run
from assay.document.document import Document

SOURCE = str(Path(assay.__file__).parents[1])


@pytest.fixture
def in_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory to stand in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Runs the command line; the capture gives `document` or raises it, and what it got is kept."""

    def call(*arguments: str, document: Document | BaseException | None = None, noise: str = "") -> SimpleNamespace:
        got: dict[str, Any] = {}

        def observe(model: object, **options: object) -> object:
            got.update(options, model=model)
            sys.stdout.write(noise)
            if isinstance(document, BaseException):
                raise document
            return document

        fake = ModuleType("assay.api.observe")
        fake.observe = observe  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "assay.api.observe", fake)
        code = run(arguments)
        told = capsys.readouterr()
        return SimpleNamespace(code=code, out=told.out, err=told.err, got=got)

    return call


@pytest.fixture
def environment() -> dict[str, str]:
    """The environment of a child that finds assay where this process found it."""
    return {**os.environ, "PYTHONPATH": SOURCE, "OMP_NUM_THREADS": "1"}


@pytest.fixture
def process(in_place: Path, environment: dict[str, str]) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs `python -m assay` in the empty directory."""

    def call(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "assay", *arguments],
            env={**environment, **variables},
            cwd=in_place,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return call
