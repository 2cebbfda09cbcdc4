"""Exceptions of user code, formatted as one line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.messages import error_line, first_line, one_line


class Mute(Exception):
    def __str__(self):
        raise RuntimeError("no message")


def test_error_line_is_the_type_and_the_whole_message():
    assert error_line(ValueError("one\n  two")) == "ValueError: one two"
    assert error_line(ValueError()) == "ValueError"


def test_first_line_is_the_message_without_the_type():
    assert first_line(ValueError("\none\ntwo")) == "one"
    assert first_line(ValueError(" \n")) == "ValueError"


def test_a_syntax_error_includes_its_location():
    with pytest.raises(SyntaxError) as caught:
        compile("x = (", "model.py", "exec")
    assert "model.py, line 1" in error_line(caught.value)


def test_an_exception_that_cannot_be_printed_still_has_a_line():
    assert error_line(Mute()).startswith("Mute: ")
    assert first_line(Mute())


@given(st.text())
def test_any_message_is_one_printable_line(message):
    for line in (error_line(ValueError(message)), first_line(ValueError(message))):
        assert line.isprintable()
        assert 0 < len(line) <= 3000


def test_a_long_message_loses_its_middle():
    line = error_line(ValueError("a" * 1000 + "end"), 100)
    assert line.startswith("ValueError: aaa")
    assert line.endswith("aend")
    assert len(line) < 130


def test_control_characters_are_escaped_and_the_rest_stays():
    assert one_line("a\nb\x1b[2J\u2028é'") == "a\\nb\\x1b[2J\\u2028é'"
