"""Errors on the command line: one line on stderr, the right exit code, a traceback only with -vv."""

from __future__ import annotations

import pytest
from handmade import conv_stack

from assay import errors


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.UsageError("wrong usage"), 2),
        (errors.InputsError("do not fit"), 2),
        (errors.ReadError("not read"), 3),
        (errors.TrustError("say --trust"), 3),
        (errors.WriteError("not written"), 3),
        (errors.PartialError("midway"), 4),
        (errors.AssayError("other"), 1),
    ],
)
def test_an_error_is_one_line_and_its_code(cli, error, code):
    result = cli("modules", "m", document=error)
    assert (result.code, result.out, result.err) == (code, "", f"assay: error: {error}\n")


def test_several_lines_become_one_and_escapes_are_written_out(cli):
    result = cli("modules", "m", document=errors.ReadError("a\n  b\x1b[31m"))
    assert result.err == "assay: error: a b\\x1b[31m\n"


def test_a_very_long_message_is_shortened(cli):
    result = cli("modules", "m", document=errors.ReadError("start" + "x" * 100_000 + "end"))
    assert len(result.err) < 3000
    assert "start" in result.err
    assert result.err.endswith("end\n")


def test_frames_of_the_users_code_follow_the_line(cli):
    error = errors.UserCodeError("load_model raised ValueError: no", '  File "my_model.py", line 3\n')
    result = cli("modules", "m", document=error)
    assert result.err.splitlines() == [
        "assay: error: load_model raised ValueError: no",
        '  File "my_model.py", line 3',
    ]


def test_a_traceback_only_with_vv(cli):
    assert "Traceback" not in cli("modules", "m", "-v", document=errors.ReadError("no")).err
    assert "Traceback" in cli("modules", "m", "-vv", document=errors.ReadError("no")).err


def test_an_internal_error_is_one_line(cli):
    result = cli("modules", "m", document=KeyError("oops"))
    assert result.code == errors.INTERNAL == 70
    assert result.err == "assay: internal error: KeyError: 'oops' (rerun with -vv and report it)\n"


def test_a_device_without_memory_is_no_internal_error(cli):
    class OutOfMemoryError(RuntimeError):
        """As torch names its own."""

    result = cli("modules", "m", document=OutOfMemoryError("CUDA out of memory."))
    assert result.code == errors.ReadError.exit_code == 3
    assert result.err.endswith("CUDA out of memory.; give smaller --inputs, or run on shapes with --meta\n")


def test_an_internal_error_has_a_traceback_with_vv(cli):
    result = cli("modules", "m", "-vv", document=KeyError("oops"))
    assert result.code == errors.INTERNAL
    stage, rest = result.err.split("\n", 1)
    assert stage == "assay: opening the model"
    assert rest.startswith("assay: internal error: KeyError: 'oops' (please report it)\nTraceback")


def test_help_lists_every_exit_code(cli):
    shown = cli("--help").out
    codes = [errors.OK, errors.FINDINGS, 2, 3, 4, errors.INTERNAL, errors.INTERRUPTED]
    assert all(f" {code} " in shown for code in codes)


def test_an_interrupt_ends_with_130(cli):
    result = cli("modules", "m", document=KeyboardInterrupt())
    assert (result.code, result.err) == (130, "assay: interrupted\n")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nonsense"], "no such command 'nonsense' (see assay --help)"),
        (["modules"], "missing argument 'MODEL' (see assay modules --help)"),
        (["modules", "m", "--format", "xml"], "'xml' is not one of"),
        (["modules", "m", "--nope"], "no such option"),
        (["schema", "other"], "'other' is not one of"),
    ],
)
def test_wrong_usage_names_the_help_page(cli, arguments, words):
    result = cli(*arguments, document=conv_stack())
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("assay: error: ")
    assert words in result.err
    assert result.err.count("\n") == 1
