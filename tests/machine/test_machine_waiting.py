"""The time that threads of this process waited for a processor, read from files of a made-up kernel."""

from __future__ import annotations

import os
import threading

import pytest

from assay.machine.waiting import ProcessorWait, Waited


@pytest.fixture
def quiet_machine():
    """Leaves the class under test as it is."""


def write(tasks, thread, waited):
    (tasks / thread).mkdir(exist_ok=True)
    (tasks / thread / "schedstat").write_text(f"123456 {waited} 7\n")


def remove(tasks, thread):
    (tasks / thread / "schedstat").unlink()
    (tasks / thread).rmdir()


def total(waiting):
    waiting.refresh()
    waited = waiting.read()
    return None if waited is None else sum(waited)


def test_waiting_is_added_up_over_threads_that_come_and_go(tmp_path):
    write(tmp_path, "10", 100)
    with ProcessorWait(tmp_path) as waiting:
        assert total(waiting) == 100
        write(tmp_path, "11", 40)
        write(tmp_path, "10", 150)
        assert sum(waiting.read()) == 150
        assert total(waiting) == 190
        remove(tmp_path, "11")
        assert total(waiting) == 190
        write(tmp_path, "12", 5)
        assert total(waiting) == 195


def test_the_thread_that_created_the_counter_is_counted_apart(tmp_path):
    own = str(threading.get_native_id())
    write(tmp_path, own, 7)
    write(tmp_path, "1", 30)
    with ProcessorWait(tmp_path) as waiting:
        waiting.refresh()
        assert waiting.read() == Waited(own=7, others=30)


def test_files_are_closed(tmp_path):
    write(tmp_path, "10", 100)
    write(tmp_path, "11", 100)
    with ProcessorWait(tmp_path) as waiting:
        waiting.refresh()
        files = list(waiting._files.values())
        assert len(files) == 2
    for file in files:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(file)


def test_a_kernel_that_does_not_count_gives_none(tmp_path):
    with ProcessorWait(tmp_path / "missing") as waiting:
        assert total(waiting) is None
    (tmp_path / "10").mkdir()
    with ProcessorWait(tmp_path) as waiting:
        assert total(waiting) is None
    (tmp_path / "10" / "schedstat").write_text("garbage")
    with ProcessorWait(tmp_path) as waiting:
        assert total(waiting) is None
