"""No operator that may run can be harmful, whatever its arguments are; `make fuzz` tries more of them."""

from __future__ import annotations

import os
import subprocess
import sys

import fuzz_operators
import pytest

from assay.sources.torchscript.allowed import ALLOWED

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits and peak memory are read as on Linux")
EXAMPLES = int(os.environ.get("ASSAY_FUZZ_EXAMPLES", "0"))
DRAWS = max(1, EXAMPLES // 500)
NAMES = sorted(ALLOWED)
PARTS = 8 if EXAMPLES else 1


@pytest.mark.parametrize("part", range(PARTS))
def test_extreme_arguments_are_harmless(part: int):
    names = NAMES[part::PARTS] if EXAMPLES else NAMES[::8]
    command = [sys.executable, fuzz_operators.__file__, str(EXAMPLES), str(DRAWS), *names]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    assert f"{DRAWS * len(names)} calls, 0 harmful" in done.stdout
