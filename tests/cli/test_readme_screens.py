"""The output shown in the README is what its commands print; a line with only an ellipsis stands for others."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from assay.cli.main import run

ROOT = Path(__file__).parents[2]
SCREENS = re.findall(r"^```console\n\$ assay (.*?)\n(.*?)^```", (ROOT / "README.md").read_text("utf-8"), re.M | re.S)


def test_the_readme_shows_three_screens():
    assert len(SCREENS) >= 3


@pytest.mark.parametrize(("command", "shown"), SCREENS, ids=[command for command, _ in SCREENS])
def test_the_readme_shows_what_is_printed(command, shown, capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # the limits of this machine would be part of the output
    monkeypatch.chdir(ROOT)
    assert run(shlex.split(command)) == 0
    rest = capsys.readouterr().out
    for piece in filter(None, re.split(r"^…\n", shown, flags=re.M)):
        assert piece in rest
        rest = rest.partition(piece)[2]
