"""`assay explore`: errors and options; the screens are tested in tests/views/tui."""

from __future__ import annotations

import pytest

from assay.api.explore import terminal
from assay.document import files
from assay.document.document import Document


def test_no_terminal_is_a_usage_error(cli) -> None:
    result = cli("explore", "whatever.assay.json")
    assert result.code == 2
    assert result.out == ""
    assert result.err.count("\n") == 1
    assert "needs an interactive terminal" in result.err


def test_no_run_excludes_stats(cli) -> None:
    result = cli("explore", "m.py::f", "--no-run", "--stats")
    assert result.code == 2
    assert "--no-run cannot be combined with --inputs or --stats" in result.err


@pytest.fixture
def shown(monkeypatch):
    """The subjects and themes that would be shown; nothing is shown."""
    calls = []
    monkeypatch.setattr(terminal, "check_terminal", lambda theme: None)
    monkeypatch.setattr(terminal, "run_explorer", lambda subject, theme="": calls.append((subject, theme)))
    return calls


def test_a_document_is_shown_with_the_theme(process, in_place, shown, cli) -> None:
    files.save(Document(), in_place / "d.assay.json")
    result = cli("explore", "d.assay.json", "--theme", "nord")
    assert result.code == 0
    assert shown[0][1] == "nord"


def test_a_missing_file_is_one_line(shown, cli, in_place) -> None:
    result = cli("explore", "nowhere.safetensors")
    assert result.code == 3
    assert result.err.count("\n") == 1


def test_help_lists_the_options(process) -> None:
    result = process("explore", "--help")
    assert result.returncode == 0
    assert "--theme" in result.stdout
