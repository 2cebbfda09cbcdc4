"""What is written to: a link keeps leading where it led, and a pipe stays a pipe."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

from clocks import HANG_S

from assay.atomic import write_bytes


def test_a_link_stays_and_what_it_leads_to_is_written(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"old")
    link.symlink_to(target)
    write_bytes(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["link", "target"]


def test_what_is_no_plain_file_is_written_into_and_not_replaced(tmp_path: Path) -> None:
    pipe, got = tmp_path / "pipe", list[bytes]()
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()), daemon=True)
    reader.start()
    write_bytes(pipe, b"data")
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    reader.join(HANG_S)
    assert got == [b"data"]
