"""`assay explore` at its edges; the screens have tests of their own."""

from __future__ import annotations

import pytest

from assay.api.explore import terminal
from assay.document import files
from assay.document.document import Document


def test_without_a_terminal_it_is_one_line_and_usage(cli) -> None:
    done = cli("explore", "whatever.assay.json")
    assert done.code == 2
    assert done.out == ""
    assert done.err.count("\n") == 1
    assert "needs a terminal" in done.err


def test_no_run_goes_without_inputs(cli) -> None:
    done = cli("explore", "m.py::f", "--no-run", "--stats")
    assert done.code == 2
    assert "--no-run runs nothing" in done.err


@pytest.fixture
def shown(monkeypatch):
    """What would be shown, in place of showing it."""
    seen = []
    monkeypatch.setattr(terminal, "need_terminal", lambda theme: None)
    monkeypatch.setattr(terminal, "show", lambda subject, theme="": seen.append((subject, theme)))
    return seen


def test_a_document_is_shown_with_the_theme(process, in_place, shown, cli) -> None:
    files.save(Document(), in_place / "d.assay.json")
    done = cli("explore", "d.assay.json", "--theme", "nord")
    assert done.code == 0
    assert shown[0][1] == "nord"


def test_what_is_not_there_is_one_line(shown, cli, in_place) -> None:
    done = cli("explore", "nowhere.safetensors")
    assert done.code == 3
    assert done.err.count("\n") == 1


def test_help_names_the_keys(process) -> None:
    done = process("explore", "--help")
    assert done.returncode == 0
    assert "--theme" in done.stdout
