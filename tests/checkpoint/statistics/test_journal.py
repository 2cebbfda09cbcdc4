"""The journal of an interrupted run: damaged lines are found, and a full disk does not end the run."""

from __future__ import annotations

import errno
import os

import pytest
import torch
from safetensors.torch import save_file

from assay.api.weights import analyze_weights
from assay.checkpoint.statistics.journal import Journal
from assay.cli.main import run
from assay.errors import UsageError

COUNT = 6


@pytest.fixture
def weights(tmp_path):
    path = tmp_path / "w.safetensors"
    save_file({f"w{i}": torch.arange(float(i + 3)) for i in range(COUNT)}, path)
    return path


@pytest.fixture
def journal(tmp_path, weights):
    """The journal of a complete run."""
    path = tmp_path / "w.journal.jsonl"
    analyze_weights(weights, resume=path)
    assert len(path.read_bytes().splitlines()) == COUNT
    return path


def resumed(weights, journal):
    """The report of a resumed run, its warnings, and the number of tensors that were analysed again."""
    warned, before = [], len(journal.read_bytes().splitlines())
    report = analyze_weights(weights, resume=Journal(journal, warn=warned.append))
    return report, warned, len(journal.read_bytes().splitlines()) - before


def test_an_undamaged_journal_gives_the_same_report_without_a_warning(weights, journal):
    report, warned, again = resumed(weights, journal)
    assert (warned, again) == ([], 0)
    assert report.tensors == analyze_weights(weights).tensors


@pytest.mark.parametrize("lines", [1, 3])
def test_a_changed_figure_is_found(weights, journal, lines):
    rows = journal.read_bytes().splitlines()
    assert all(b'"count":' in row for row in rows)
    rows[:lines] = [row.replace(b'"count":', b'"count":1') for row in rows[:lines]]
    journal.write_bytes(b"\n".join(rows) + b"\n")
    report, warned, again = resumed(weights, journal)
    noun = "1 damaged line" if lines == 1 else "3 damaged lines"
    tensors = "1 tensor" if lines == 1 else "3 tensors"
    assert warned == [f"{noun} ignored in {journal}: {tensors} will be analysed again"]
    assert again == lines
    assert report.tensors == analyze_weights(weights).tensors


def test_every_changed_byte_is_found(weights, journal):
    rows = journal.read_bytes().splitlines(keepends=True)
    for at in range(len(b'{"key":"'), len(rows[0]) - 1, 7):
        damaged = bytearray(rows[0])
        damaged[at] ^= 1
        journal.write_bytes(bytes(damaged) + b"".join(rows[1:]))
        report, _, again = resumed(weights, journal)
        assert again == 1
        assert [tensor.count for tensor in report.tensors] == [i + 3 for i in range(COUNT)]


def test_an_incomplete_last_line_is_analysed_again(weights, journal):
    journal.write_bytes(journal.read_bytes()[:-40])
    report, warned, again = resumed(weights, journal)
    assert again == 1
    assert "1 damaged line ignored" in warned[0]
    assert report.tensors == analyze_weights(weights).tensors


def test_a_file_that_is_not_a_journal_is_refused_and_unchanged(tmp_path, weights):
    path = tmp_path / "mine.txt"
    path.write_text("my notes\n")
    with pytest.raises(UsageError, match="is not a journal"):
        analyze_weights(weights, resume=path)
    assert path.read_text() == "my notes\n"


def full_after(monkeypatch, size):
    """Let the disk be full after `size` bytes; the write that fills it is cut."""
    left, write = [size], os.write

    def limited(handle, data):
        if not left[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        part = bytes(data[: left[0]])
        left[0] -= len(part)
        return write(handle, part)

    monkeypatch.setattr("assay.checkpoint.statistics.journal.os.write", limited)


@pytest.mark.parametrize("lines", [0, 2.5])
def test_a_full_disk_does_not_end_the_run(tmp_path, weights, journal, monkeypatch, lines):
    room = int(lines * (len(journal.read_bytes()) // COUNT))
    path, warned = tmp_path / "other.journal.jsonl", []
    with monkeypatch.context() as patched:
        full_after(patched, room)
        report = analyze_weights(weights, resume=Journal(path, warn=warned.append))
    assert warned == [f"cannot write {path} (No space left on device): the run goes on without a journal"]
    assert report.tensors == analyze_weights(weights).tensors
    if not lines:
        assert not path.exists()
        return
    assert path.read_bytes().count(b"\n") == int(lines) == len(path.read_bytes().splitlines())
    report, _, again = resumed(weights, path)
    assert report.tensors == analyze_weights(weights).tensors
    assert again >= COUNT - 3


def test_a_full_disk_is_one_warning_of_the_command(tmp_path, weights, monkeypatch, capsys):
    full_after(monkeypatch, 100)
    assert run(["params", str(weights), "--resume", str(tmp_path / "a.journal.jsonl")]) == 0
    captured = capsys.readouterr()
    assert captured.err.count("the run goes on without a journal") == 1
    assert "6 tensors" in captured.out


def test_a_folder_that_cannot_be_written_does_not_end_the_run(tmp_path, weights):
    warned = []
    analyze_weights(weights, resume=Journal(tmp_path / "missing" / "a.journal.jsonl", warn=warned.append))
    assert len(warned) == 1
    assert "No such file or directory" in warned[0]
