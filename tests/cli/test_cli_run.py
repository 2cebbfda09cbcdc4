"""`assay run`: how the program is started, its traces, signals and exit code."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from clocks import HANG_S

from assay.cli.main import run

SCRIPT = """
import os, sys
from pathlib import Path
import assay
out = Path(os.environ["ASSAY_TRACE_DIR"])
assert os.environ["ASSAY_CAPTURE"] == "1"
for number in range(1, 1 + int(sys.argv[1])):
    name = f"Net_forward_{number:03d}.json"
    (out / name).write_text("{}")
    with open(os.environ["ASSAY_TRACE_MANIFEST"], "a") as file: file.write(name + "\\n")
print(sys.argv[1:], {k: v for k, v in sorted(os.environ.items()) if k in
    ("ASSAY_TRACE_EVERY", "ASSAY_TRACE_WARMUP", "ASSAY_TRACE_MAX", "ASSAY_TRACE_GZIP")}, flush=True)
"""
"""Writes traces like a program with decorated models, but without torch."""


@pytest.fixture
def place(tmp_path, monkeypatch):
    """The working directory, which contains the script."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fake.py").write_text(SCRIPT)
    return tmp_path


def names(place, directory="traces"):
    return sorted(name for name in os.listdir(place / directory) if name.endswith((".json", ".gz")))


@pytest.mark.parametrize(
    "words",
    [
        ["--", sys.executable, "fake.py", "1", "--epochs", "3"],
        ["--", "fake.py", "1", "--epochs", "3"],
        ["fake.py", "1", "--epochs", "3"],
        ["--", "-m", "fake", "1", "--epochs", "3"],
        ["-m", "fake", "1", "--epochs", "3"],
    ],
)
def test_ways_to_name_a_program(place, capfd, words):
    assert run(["run", *words]) == 0
    captured = capfd.readouterr()
    assert captured.out.startswith("['1', '--epochs', '3']")
    assert captured.err == "assay: wrote 1 trace (read it with: assay trace traces/Net_forward_001.json)\n"


def test_settings_reach_the_program(place, capfd):
    words = ["--dir", "deep/er", "--every", "3", "--warmup", "2", "--max", "5", "--gzip", "--", "fake.py", "2"]
    assert run(["run", *words]) == 0
    captured = capfd.readouterr()
    expected = {"EVERY": "3", "GZIP": "1", "MAX": "5", "WARMUP": "2"}
    assert captured.out == f"['2'] { ({f'ASSAY_TRACE_{name}': value for name, value in expected.items()}) }\n"
    assert captured.err == "assay: wrote 2 traces (read them with: assay trace deep/er)\n"
    assert names(place, "deep/er") == ["Net_forward_001.json", "Net_forward_002.json"]


def test_only_traces_of_the_previous_run_are_deleted(place, capfd):
    run(["run", "-q", "fake.py", "3"])
    for foreign in ("Own_forward_001.json", "notes.txt"):
        (place / "traces" / foreign).write_text("mine")
    manifest = place / "traces" / ".assay-traces"
    manifest.write_text(manifest.read_text() + "../fake.py\nnotes.txt\n")
    assert run(["run", "-v", "fake.py", "1"]) == 0
    assert "deleted 3 traces of the previous run" in capfd.readouterr().err
    assert names(place) == ["Net_forward_001.json", "Own_forward_001.json"]
    assert (place / "fake.py").exists()
    assert (place / "traces" / "notes.txt").exists()


def test_traces_of_the_previous_run_can_be_kept(place, capfd):
    run(["run", "-q", "fake.py", "2"])
    assert run(["run", "--keep", "fake.py", "1"]) == 0
    assert "wrote 1 trace " in capfd.readouterr().err
    assert len(names(place)) == 2


def test_a_concurrent_run_keeps_its_traces(place):
    outer = "import subprocess, sys, runpy; sys.argv = ['fake.py', '2']; runpy.run_path('fake.py')\n"
    inner = "sys.exit(subprocess.run([sys.executable, '-m', 'assay', 'run', 'fake.py', '1']).returncode)\n"
    (place / "outer.py").write_text(outer + inner)
    assert run(["run", "-q", "outer.py"]) == 0
    assert names(place) == ["Net_forward_001.json", "Net_forward_002.json"]


@pytest.mark.parametrize(
    ("code", "exit_code"),
    [("raise SystemExit(7)", 7), ("import os; os.kill(os.getpid(), 9)", 137), ("", 0)],
)
def test_the_exit_code_is_the_programs(place, capfd, code, exit_code):
    assert run(["run", "--", sys.executable, "-c", code]) == exit_code
    assert "no traces were written: decorate a model" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("words", "exit_code", "message"),
    [
        ([], 2, "no program was given"),
        (["--", "no-such-program"], 3, "cannot run no-such-program: No such file"),
        (["--every", "0", "fake.py"], 2, "--every"),
        (["--dir", "fake.py", "--", "fake.py", "1"], 2, "--dir"),
        (["--dir", "fake.py/x", "--", "fake.py", "1"], 3, "cannot create directory"),
    ],
)
def test_wrong_usage_is_one_line(place, capfd, words, exit_code, message):
    assert run(["run", *words]) == exit_code
    captured = capfd.readouterr()
    assert captured.out == ""
    assert len(captured.err.splitlines()) == 1
    assert message in captured.err


def _in_the_foreground() -> None:
    """Start a session with Ctrl-C as in a terminal: children of a background shell inherit that it is ignored."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other signals")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
def test_signals_reach_the_program(place, number):
    (place / "waits.py").write_text(
        "import signal, sys, time\n"
        "def stop(number, _): print('got', number, flush=True); sys.exit(5)\n"
        f"signal.signal({int(number)}, stop)\n"
        "print('ready', flush=True)\n"
        "time.sleep(600)\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-m", "assay", "run", "waits.py"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        preexec_fn=_in_the_foreground,
    )
    assert child.stdout.readline() == "ready\n"
    child.send_signal(number)
    out, _ = child.communicate(timeout=HANG_S)
    assert (out, child.returncode) == (f"got {int(number)}\n", 5)


def test_the_launcher_imports_no_torch(place):
    program = (
        "import sys\n"
        "from assay.cli.main import run\n"
        "assert run(['run', '-q', 'fake.py', '1']) == 0\n"
        "heavy = {'torch', 'numpy', 'textual'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)


def test_a_real_program_end_to_end(place, capfd):
    (place / "real.py").write_text(
        "import torch\n"
        "from assay import capture_model\n"
        "@capture_model\n"
        "class Net(torch.nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.layer = torch.nn.Linear(100, 50)\n"
        "    def forward(self, x): return self.layer(x)\n"
        "model = Net()\n"
        "for _ in range(3): model(torch.ones(32, 100))\n"
    )
    assert run(["run", "--max", "2", "real.py"]) == 0
    captured = capfd.readouterr()
    assert names(place) == ["Net_forward_001.json", "Net_forward_002.json"]
    assert captured.out == ""
    assert captured.err.endswith("assay: wrote 2 traces (read them with: assay trace traces)\n")
    assert [line.split()[0] for line in captured.err.splitlines() if "(32, 100)" in line][:2] == ["(model)", "layer"]
    assert "Layer" in captured.err
    assert "TOTAL" in captured.err
    quiet = subprocess.run([sys.executable, "real.py"], capture_output=True, text=True, check=True)
    assert (quiet.stdout, quiet.stderr) == ("", "")
