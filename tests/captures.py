"""Helpers for tests of captures: captures enabled in this process, and the events of a trace."""

from __future__ import annotations

import atexit
import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from clocks import HANG_S
from torch import nn

from assay.api.capture import console, decorator
from assay.document.trace_labels import TraceFacts, decode_facts, decode_path
from assay.trace.write import profiler


@pytest.fixture
def active(monkeypatch, tmp_path):
    """Enable captures and return their directory; check afterwards that torch is restored."""
    plain = nn.Module.__call__
    profiler.prime(stacks=True)  # torch remembers the first `__call__` it sees, which must be the plain one
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ASSAY_CAPTURE", "1")
    monkeypatch.setenv("ASSAY_TRACE_DIR", str(tmp_path / "traces"))
    _forget()
    yield tmp_path / "traces"
    if decorator._gate.cache_info().currsize:
        decorator._gate().close()
    _forget()
    assert nn.Module.__call__ is plain
    assert not profiler.turn.locked()


def _forget() -> None:
    if console.console.cache_info().currsize:
        atexit.unregister(console.console().finish)
    decorator._gate.cache_clear()
    console.console.cache_clear()
    console.silent.cache_clear()


def events(path: Path) -> dict:
    """The content of a trace file, compressed or not."""
    data = path.read_bytes()
    return json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)


def labels(path: Path) -> list[str]:
    """The module paths of the labelled calls, in the order in which the calls began."""
    spans = [event for event in events(path)["traceEvents"] if event["name"].startswith("assay:")]
    assert all(event["ph"] == "X" and event["dur"] >= 0 for event in spans)
    return [decode_path(event["name"]) for event in sorted(spans, key=lambda event: (event["ts"], -event["dur"]))]


def facts(path: Path) -> TraceFacts:
    """The facts about the capture that are stored in a trace."""
    decoded = decode_facts(events(path)["assay"])
    assert decoded is not None
    return decoded


def traces(directory: Path) -> list[str]:
    """The names of the traces in a directory; asserts that there are no partly written files."""
    names = sorted(os.listdir(directory)) if directory.exists() else []
    assert not [name for name in names if ".part" in name]
    return [name for name in names if ".json" in name]


def run_script(text: str, cwd: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a new process, for code that may crash or that needs a fresh process."""
    script = cwd / "script.py"
    script.write_text(text)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ASSAY_", "KINETO_"))}
    return subprocess.run(
        [sys.executable, str(script), *arguments],
        cwd=cwd,
        env={**kept, "OMP_NUM_THREADS": "1", **environment},
        capture_output=True,
        text=True,
        timeout=HANG_S,
    )
