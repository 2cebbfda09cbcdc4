"""What the tests of captures share: captures switched on in this process, and the events of a trace."""

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
    """Captures are on, into the directory given; afterwards nothing is left in torch."""
    plain = nn.Module.__call__
    profiler.prime(stacks=True)  # torch keeps the code of `__call__` that it first sees; it shall be the plain one
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
    """A whole trace."""
    data = path.read_bytes()
    return json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)


def labels(path: Path) -> list[str]:
    """The module paths of the labelled calls in the order they began."""
    spans = [event for event in events(path)["traceEvents"] if event["name"].startswith("assay:")]
    assert all(event["ph"] == "X" and event["dur"] >= 0 for event in spans)
    return [decode_path(event["name"]) for event in sorted(spans, key=lambda event: (event["ts"], -event["dur"]))]


def facts(path: Path) -> TraceFacts:
    """What a trace says about its capture."""
    found = decode_facts(events(path)["assay"])
    assert found is not None
    return found


def traces(directory: Path) -> list[str]:
    """The names of the traces in a directory; nothing half written may lie there."""
    names = sorted(os.listdir(directory)) if directory.exists() else []
    assert not [name for name in names if ".part" in name]
    return [name for name in names if ".json" in name]


def run_script(text: str, cwd: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A program of its own, for what could crash a process or must see a fresh one."""
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
