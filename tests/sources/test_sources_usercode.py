"""Errors in user code: one line, the user's own frames, no output on stdout."""

from __future__ import annotations

import sys

import pytest
from opening import open_model

from assay.errors import UserCodeError


@pytest.fixture
def opened(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def call(text, name="load_model"):
        (tmp_path / "my_model.py").write_text("import torch\n" + text)
        return open_model(f"my_model.py::{name}")

    return call


def failure(opened, text):
    with pytest.raises(UserCodeError) as caught:
        opened(text)
    assert "\n" not in str(caught.value)
    return caught.value


def test_the_message_names_the_function_and_the_error(opened):
    error = failure(
        opened, "def inner():\n    raise ValueError('no\\nweights')\ndef load_model():\n    return inner()"
    )
    assert str(error) == "load_model() in my_model.py raised ValueError: no weights"
    assert isinstance(error.__cause__, ValueError)


def test_frames_are_the_users_own(opened):
    error = failure(opened, "def inner():\n    torch.zeros(-1)\ndef load_model():\n    return inner()")
    assert "in load_model" in error.frames
    assert "torch.zeros(-1)" in error.frames
    assert "assay" not in error.frames.replace("torch-assay", "")
    assert error.frames.rstrip().splitlines()[-1].startswith("RuntimeError")


def test_frames_of_libraries_are_left_out(opened):
    error = failure(opened, "import json\ndef load_model():\n    json.loads('{')")
    assert "json.loads('{')" in error.frames
    assert "decoder.py" not in error.frames


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def load_model(:", "importing my_model.py raised SyntaxError: "),
        ("import not_there_at_all", "importing my_model.py raised ModuleNotFoundError: No module named"),
        ("1 / 0", "importing my_model.py raised ZeroDivisionError: division by zero"),
        ("raise SystemExit(3)", "importing my_model.py raised SystemExit: 3"),
        ("def load_model(): raise SystemExit", "load_model() in my_model.py raised SystemExit"),
        ("def load_model(): return load_model()", "load_model() in my_model.py raised RecursionError"),
        ("\0", "importing my_model.py raised "),
    ],
)
def test_every_kind_of_failure_is_one_line(opened, text, message):
    assert str(failure(opened, text)).startswith(message)


def test_a_syntax_error_shows_the_line(opened):
    assert "def load_model(:" in failure(opened, "def load_model(:").frames


def test_an_exception_that_cannot_be_printed_is_reported(opened):
    text = "class Odd(Exception):\n    def __str__(self): raise ValueError\ndef load_model(): raise Odd"
    assert str(failure(opened, text)).startswith("load_model() in my_model.py raised Odd: ")


def test_a_huge_message_is_shortened(opened):
    assert len(str(failure(opened, "def load_model(): raise ValueError('x' * 100000)"))) < 400


def test_keyboard_interrupts_are_not_caught(opened):
    with pytest.raises(KeyboardInterrupt):
        opened("def load_model(): raise KeyboardInterrupt")


def test_output_of_user_code_goes_to_stderr(opened, capsys):
    opened("print('importing')\ndef load_model():\n    print('building')\n    return torch.nn.Identity()")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "importing\nbuilding\n"
    assert sys.stdout is not sys.stderr


def test_a_file_that_failed_can_be_fixed_and_opened(opened):
    failure(opened, "oops")
    assert opened("def load_model(): return torch.nn.Identity()").module is not None
