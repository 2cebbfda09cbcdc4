"""`--columns`, `--sort` and `--top` work alike in every command that prints tables of a model."""

from __future__ import annotations

import re

import pytest
from screen_subjects import DOCUMENT, GOLDEN

from assay.cli.main import run

COMMANDS = ("summary", "cost", "memory", "modules", "ops", "profile", "analyze")
CHOICES = (
    ["--top", "1"],
    ["--top", "2", "--columns", "all"],
    ["--top", "1", "--width", "40"],
    ["--wide", "--top", "3"],
)


@pytest.fixture
def document(in_place) -> str:
    return str(GOLDEN / DOCUMENT)


@pytest.mark.parametrize("choice", CHOICES, ids=" ".join)
@pytest.mark.parametrize("command", COMMANDS)
def test_every_choice_works_in_every_command(document, capsys, command, choice):
    forced = ["--force"] if command == "analyze" else []
    assert run([command, document, *choice, *forced]) == 0
    assert re.search(r"more\)|\(first \d+ of \d+\)", capsys.readouterr().out)


def rows(text: str, title: str) -> list[str]:
    """The rows of the table under the title, without its sums."""
    body = re.split(r"^[─-]+$", text[text.index(title) :].partition("\n\n")[0], flags=re.M)[1]
    return [line.split()[0] for line in body.strip().splitlines()]


def test_rows_are_sorted_before_the_first_are_shown(document, capsys):
    assert run(["profile", document, "--sort", "total", "--top", "2"]) == 0
    assert rows(capsys.readouterr().out, "Modules by self time") == ["(root)", "blocks.0–3"]


@pytest.mark.parametrize("name", ["FLOPs", "flops", "FLOPS"])
def test_headings_are_names_of_columns_in_any_case(document, capsys, name):
    assert run(["cost", document, "--by", "op", "--sort", name, "--top", "1"]) == 0
    assert run(["summary", document, "--sort", name, "--top", "1"]) == 0


@pytest.mark.parametrize("command", ["cost", "summary", "profile"])
def test_an_unknown_name_is_refused_with_the_nearest_one(document, capsys, command):
    assert run([command, document, "--sort", "flosp"]) == 2
    assert "unknown column 'flosp': did you mean" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["cost", "modules", "ops", "memory"])
def test_an_unknown_column_is_refused_before_anything_is_printed(document, capsys, command):
    assert run([command, document, "--columns", "conut"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "unknown column 'conut': " in printed.err


def test_a_long_measurement_is_printed_although_a_column_does_not_exist(document, capsys):
    assert run(["profile", document, "--columns", "tolat"]) == 2
    printed = capsys.readouterr()
    assert "Where the time goes" in printed.out
    assert "unknown column 'tolat': did you mean total?" in printed.err
