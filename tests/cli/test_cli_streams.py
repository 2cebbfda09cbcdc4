"""stdout and stderr of a separate process: closed pipes, a full disk, encodings, output of the model."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from clocks import HANG_S


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
