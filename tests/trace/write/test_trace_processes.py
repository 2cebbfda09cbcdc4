"""Captures in separate processes: threads, forks, failing disks, and output on stderr."""

from __future__ import annotations

import sys

import pytest
from captures import events, facts, labels, run_script, traces

ON = {"ASSAY_CAPTURE": "1", "ASSAY_TRACE_TABLE": "0"}

NET = """
import os, sys, threading
import torch
from torch import nn
import assay
from assay import capture_model

@capture_model(model_name="Net")
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.one = nn.Linear(16, 16)
        self.two = nn.Linear(16, 1)

    def forward(self, x):
        return self.two(self.one(x).relu())

X = torch.ones(4, 16)
"""


def test_many_threads_never_start_two_profilers(tmp_path):
    program = NET + (
        "models = [Net() for _ in range(4)]\n"
        "expected = [model.forward(X) for model in models]\n"
        "wrong = []\n"
        "def work(at):\n"
        "    for _ in range(25):\n"
        "        if not torch.equal(models[at](X), expected[at]): wrong.append(at)\n"
        "threads = [threading.Thread(target=work, args=(at,)) for at in range(4)]\n"
        "[t.start() for t in threads]; [t.join() for t in threads]\n"
        "print('wrong', wrong)\n"
    )
    done = run_script(program, tmp_path, **ON)
    assert (done.returncode, done.stdout, done.stderr) == (0, "wrong []\n", "")
    written = traces(tmp_path / "traces")
    assert 1 <= len(written) <= 100
    for name in written:
        assert labels(tmp_path / "traces" / name) == ["", "one", "two"]


def test_a_profiler_on_another_thread_waits_for_assays(tmp_path):
    program = NET + (
        "from torch.autograd import profiler\n"
        "inside, tried = threading.Event(), threading.Event()\n"
        "class Slow(Net):\n"
        "    def forward(self, x):\n"
        "        inside.set(); tried.wait(0.3)\n"
        "        return super().forward(x)\n"
        "model = Slow()\n"
        "def own():\n"
        "    inside.wait()\n"
        "    with profiler.profile(use_kineto=True) as p: torch.ones(2) + 1\n"
        "    print('add' in str([e.name for e in p.function_events]))\n"
        "thread = threading.Thread(target=own); thread.start()\n"
        "capture_model(model_name='Slow')(model)(X)\n"
        "thread.join()\n"
    )
    done = run_script(program, tmp_path, **ON)
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr
    assert traces(tmp_path / "traces") == ["Slow_forward_001.json"]


def test_a_pass_during_another_capture_is_counted_but_not_captured(tmp_path):
    program = NET + (
        "inside, done = threading.Event(), threading.Event()\n"
        "class Slow(Net):\n"
        "    def forward(self, x):\n"
        "        inside.set(); done.wait(600)\n"
        "        return super().forward(x)\n"
        "other, slow = Net(), Slow()\n"
        "thread = threading.Thread(target=slow, args=(X,)); thread.start()\n"
        "inside.wait(); other(X); done.set(); thread.join(); other(X)\n"
    )
    done = run_script(program, tmp_path, **ON, ASSAY_DEBUG="1")
    assert done.returncode == 0, done.stderr
    assert "Net, pass 1: not traced (another capture is running)" in done.stderr
    assert traces(tmp_path / "traces") == ["Net_forward_001.json", "Net-2_forward_002.json"][::-1]
    assert labels(tmp_path / "traces" / "Net_forward_001.json") == ["", "one", "two"]


def test_a_first_pass_on_a_worker_thread_is_quiet_and_keeps_the_environment(tmp_path):
    program = NET + (
        "t = threading.Thread(target=lambda: Net()(X)); t.start(); t.join()\n"
        "Net()(X)\n"
        "print('KINETO_LOG_LEVEL' in os.environ)\n"
    )
    done = run_script(program, tmp_path, **ON)
    assert (done.returncode, done.stdout, done.stderr) == (0, "False\n", "")
    assert labels(tmp_path / "traces" / "Net_forward_001.json") == ["", "one", "two"]


def test_forked_children_write_their_own_files(tmp_path):
    program = NET + (
        "model = Net()\n"
        "model(X)\n"
        "children = []\n"
        "for _ in range(2):\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        "        model(X); Net()(X); os._exit(0)\n"
        "    children.append(child)\n"
        "print([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children])\n"
        "model(X)\n"
    )
    done = run_script(program, tmp_path, **ON)
    assert (done.returncode, done.stdout) == (0, "[0, 0]\n"), done.stderr
    written = traces(tmp_path / "traces")
    assert len(written) == 6
    assert len({events(tmp_path / "traces" / name)["trace_id"] for name in written}) == 6


def test_a_child_forked_inside_a_capture_leaves_it_to_its_parent(tmp_path):
    program = NET + (
        "model = nn.Linear(16, 16)\n"
        "with assay.capture(model, 'out') as capture:\n"
        "    model(X)\n"
        "    child = os.fork()\n"
        "    model(X)\n"
        "    if child: print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
        "if not child:\n"
        "    with assay.capture(model, 'out') as own: model(X)\n"
        "    os._exit(0 if 'forked' in capture.problem and capture.path is None else 1)\n"
        "print(capture.path.name)\n"
    )
    done = run_script(program, tmp_path)
    assert (done.returncode, done.stdout) == (0, "0\nLinear_forward_001.json\n"), done.stderr
    assert labels(tmp_path / "out" / "Linear_forward_001.json") == ["", ""]


def test_simultaneous_processes_write_their_own_files(tmp_path):
    program = NET + (
        "import subprocess\n"
        "if len(sys.argv) == 1:\n"
        "    children = [subprocess.Popen([sys.executable, __file__, 'child']) for _ in range(2)]\n"
        "    print([child.wait() for child in children])\n"
        "else:\n"
        "    model = Net()\n"
        "    for _ in range(3): model(X)\n"
    )
    done = run_script(program, tmp_path, **ON)
    assert (done.returncode, done.stdout) == (0, "[0, 0]\n"), done.stderr
    assert len(traces(tmp_path / "traces")) == 6


def test_a_directory_that_cannot_be_created_is_one_warning(tmp_path):
    (tmp_path / "traces").write_text("a file")
    done = run_script(NET + "model = Net()\nfor _ in range(3): print(tuple(model(X).shape))\n", tmp_path, **ON)
    assert (done.returncode, done.stdout) == (0, "(4, 1)\n" * 3)
    lines = done.stderr.splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("assay: cannot create directory")
    assert lines[1] == "assay: 2 repeated warnings not shown"
    assert (tmp_path / "traces").read_text() == "a file"


@pytest.mark.skipif(sys.platform == "win32", reason="there are no limits of file sizes here")
def test_a_full_disk_leaves_no_incomplete_trace(tmp_path):
    program = NET + (
        "import resource, signal\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        "print(tuple(Net()(X).shape))\n"
    )
    done = run_script(program, tmp_path, **ON)
    assert (done.returncode, done.stdout) == (0, "(4, 1)\n")
    assert done.stderr.count("assay:") == 1
    assert "is the disk full?" in done.stderr
    assert traces(tmp_path / "traces") == []


def test_a_program_that_exits_inside_a_block_exits_cleanly(tmp_path):
    program = NET + "capture = assay.capture(Net(), 'out')\ncapture.__enter__()\nprint('end')\n"
    done = run_script(program, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")


@pytest.mark.parametrize("stream", ["None", "open(os.devnull)", "closed"])
def test_a_program_without_stderr_runs_on(tmp_path, stream):
    set_up = "sys.stderr.close()" if stream == "closed" else f"sys.stderr = {stream}"
    done = run_script(NET + f"{set_up}\nprint(tuple(Net()(X).shape))\n", tmp_path, ASSAY_CAPTURE="1")
    assert (done.returncode, done.stdout) == (0, "(4, 1)\n")
    assert traces(tmp_path / "traces") == ["Net_forward_001.json"]


def test_a_stderr_of_ascii_gets_the_table_too(tmp_path):
    done = run_script(NET + "Net()(X)\n", tmp_path, ASSAY_CAPTURE="1", PYTHONIOENCODING="ascii")
    assert "Self time (ms)" in done.stderr
    assert facts(tmp_path / "traces" / "Net_forward_001.json").pass_number == 1
