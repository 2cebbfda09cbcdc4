"""stdout and stderr of a separate process: closed pipes, a full disk, encodings, output of the model."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from clocks import HANG_S
from safetensors.numpy import save_file


@pytest.mark.parametrize("arguments", [["schema", "document"], ["schema"]], ids=["long", "short"])
def test_a_closed_pipe_is_not_an_error(environment, arguments):
    command = [sys.executable, "-m", "assay", *arguments]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)
    child.stdout.close()
    errors = child.stderr.read()
    child.stderr.close()
    assert (child.wait(HANG_S), errors) == (0, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk_is_reported_in_one_line(environment):
    with open("/dev/full", "wb") as full:
        command = [sys.executable, "-m", "assay", "schema", "document"]
        child = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, env=environment, check=False)
    assert child.returncode == 3
    assert child.stderr == b"assay: error: output: No space left on device\n"


def test_data_is_utf_8_in_every_locale(environment):
    narrow = {**environment, "PYTHONIOENCODING": "ascii"}
    program = [sys.executable, "-m", "assay", "rule", "--format", "csv"]
    wide, plain = (
        subprocess.run(program, env=each, capture_output=True, check=True).stdout for each in (environment, narrow)
    )
    assert plain == wide
    assert not wide.isascii()


@pytest.mark.parametrize("arguments", [["profile", "--help"], ["env"], ["rule", "C401"], ["rule", "…"]], ids=str)
@pytest.mark.parametrize("variable", ["PYTHONIOENCODING=ascii", "LC_ALL=POSIX", "LANG=C"])
def test_text_is_ascii_where_nothing_else_can_be_displayed(environment, arguments, variable):
    name, _, value = variable.partition("=")
    program = [sys.executable, "-m", "assay", *arguments]
    done = subprocess.run(program, env={**environment, name: value}, capture_output=True, check=False)
    assert done.returncode in (0, 2)
    assert done.stdout + done.stderr
    assert (done.stdout + done.stderr).isascii()


@pytest.mark.parametrize("closed_by", ["reader", "caller"])
def test_a_closed_stderr_does_not_end_the_command(environment, tmp_path, closed_by):
    """The command has a message to print, and prints its result nevertheless."""
    save_file({"w": np.ones(3, np.float32)}, tmp_path / "w.safetensors")
    words = [sys.executable, "-m", "assay", "params", "w.safetensors", "--filter", "nothing", "--format", "csv"]
    command = ["sh", "-c", 'exec "$@" 2>&-', "sh", *words] if closed_by == "caller" else words
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, cwd=tmp_path)
    child.stderr.close()
    with child:
        assert child.stdout.read().startswith(b"tensor,")
    assert child.returncode == 0


def test_output_of_the_model_goes_to_stderr(environment, tmp_path):
    model = tmp_path / "chatty.py"
    model.write_text(
        "import os\nimport torch\n"
        "class Chatty(torch.nn.Linear):\n"
        "    def forward(self, x):\n"
        "        print('from python')\n"
        "        os.write(1, b'from below\\n')\n"
        "        return super().forward(x)\n"
        "def load():\n    return Chatty(2, 2)\n"
    )
    command = [sys.executable, "-m", "assay", "modules", f"{model}::load", "--inputs", "1x2", "--format", "json"]
    child = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert child.stdout.startswith("{")
    assert "from python" not in child.stdout
    assert "from below" not in child.stdout
    assert {"from python", "from below"} <= set(child.stderr.splitlines())
