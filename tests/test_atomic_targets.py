"""Atomic writes to special targets: a symlink stays a symlink, and a pipe stays a pipe."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

from clocks import HANG_S

from assay.atomic import write_bytes


def test_writing_to_a_symlink_replaces_its_target(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"old")
    link.symlink_to(target)
    write_bytes(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["link", "target"]


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe, received = tmp_path / "pipe", list[bytes]()
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: received.append(pipe.read_bytes()), daemon=True)
    reader.start()
    write_bytes(pipe, b"data")
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    reader.join(HANG_S)
    assert received == [b"data"]
