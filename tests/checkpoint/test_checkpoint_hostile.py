"""Files made to exhaust memory or time: `assay params` reads or refuses each within 256 MB and bounded CPU time."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from checkpoint_files import SOURCE
from clocks import HANG_S
from hostile_files import HOSTILE, safetensors_of_many, zip_of_many

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits of a process are those of Linux")

MEMORY_BYTES = 256 << 20
CPU_S = 45
LARGEST = 150_000
LAUNCHER = """
import json, os, resource, sys, tempfile
out, err = tempfile.TemporaryFile(), tempfile.TemporaryFile()
pid = os.fork()
if not pid:
    os.dup2(out.fileno(), 1), os.dup2(err.fileno(), 2)
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
    resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.execv(sys.executable, [sys.executable, "-m", "assay", "params", *sys.argv[1:]])
_, status, usage = os.wait4(pid, 0)
texts = [(file.seek(0), file.read().decode("utf-8", "replace"))[1] for file in (out, err)]
cpu_s = usage.ru_utime + usage.ru_stime
print(json.dumps([os.waitstatus_to_exitcode(status), usage.ru_maxrss * 1024, cpu_s, *texts]))
"""
"""Runs `assay params` with limits that protect the machine, and measures it. A small process of its own, because the
measured peak of a process starts at that of its parent."""


STEPS = ("assay: reading headers", "assay: reading tensors")
"""Lines that a long run prints on the way."""


class Run(NamedTuple):
    code: int
    peak: int
    cpu_s: float
    out: str
    err: str


def params(path, *options):
    command = [sys.executable, "-S", "-c", LAUNCHER, str(path), *options]
    environment = {"PYTHONPATH": SOURCE, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PATH": ""}
    done = subprocess.run(
        command, cwd=Path(path).parent, env=environment, capture_output=True, text=True, timeout=HANG_S, check=True
    )
    return Run(*json.loads(done.stdout))


def assert_bounded(run):
    assert run.code in (0, 3, 4), run.err[-1000:]
    assert run.cpu_s <= CPU_S
    assert run.peak <= MEMORY_BYTES, f"{run.peak >> 20} MB"
    lines = [line for line in run.err.splitlines() if line not in STEPS]
    if run.code:
        assert lines[-1].startswith("assay: error: " if run.code == 3 else "assay: incomplete: ")
        assert len(lines) == 1
        assert len(lines[0]) < 2000


@pytest.mark.parametrize("options", [(), ("--list",)], ids=["statistics", "list"])
@pytest.mark.parametrize("write", HOSTILE, ids=lambda write: write.__name__)
def test_a_hostile_file_is_bounded(tmp_path, write, options):
    assert_bounded(params(write(tmp_path), *options))


@pytest.mark.parametrize("write", [safetensors_of_many, zip_of_many])
def test_as_many_tensors_as_the_largest_models_have_are_all_listed(tmp_path, write):
    run = params(write(tmp_path, LARGEST), "--list", "--format", "csv")
    assert_bounded(run)
    assert run.code == 0
    assert run.out.count("\n") == LARGEST + 1
