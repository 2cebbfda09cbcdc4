"""Ctrl-C at any moment of the start ends the command with code 130 and one line."""

from __future__ import annotations

import subprocess
import sys

import pytest
from clocks import HANG_S

START = """
import sys

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupt())
sys.argv[1:] = {arguments!r}
from assay.__main__ import main
main()
"""
"""Starts `assay`; the first import of a module is interrupted."""


@pytest.mark.parametrize(
    "module", ["click", "assay.cli.main", "assay.cli.stderr", "assay.cli.params", "assay.sources.open", "numpy"]
)
def test_an_interrupted_import_is_reported_in_one_line(tmp_path, module):
    import torch
    from safetensors.torch import save_file

    save_file({"w": torch.ones(64, 64)}, tmp_path / "a.safetensors")
    program = START.format(module=module, arguments=["params", str(tmp_path / "a.safetensors")])
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=HANG_S, check=False, cwd=tmp_path
    )
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr.splitlines()[-1] == "assay: interrupted"
    assert "Traceback" not in done.stderr


def test_an_interrupt_that_a_package_replaces_by_its_own_error_is_one(monkeypatch, capsys):
    from assay.cli import main

    def broken(*_):
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            raise SystemError("initialization of _C raised unreported exception")  # noqa: B904

    monkeypatch.setattr(main, "_invoke", broken)
    assert main.run(["params"]) == 130
    assert capsys.readouterr().err == "assay: interrupted\n"
