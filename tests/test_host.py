"""Facts about this host, compared with Python's own values."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from assay import host
from assay.document.document import Machine
from assay.document.this_machine import this_machine
from assay.errors import UsageError

DIRECTORIES = [
    ("XDG_CACHE_HOME", host.cache_directory, ".cache"),
    ("XDG_CONFIG_HOME", host.config_directory, ".config"),
]
linux = pytest.mark.skipif(sys.platform != "linux", reason="XDG variables")


def test_python_version_is_the_running_one():
    assert host.python_version() == ".".join(str(part) for part in sys.version_info[:3])


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity on this system")
def test_only_cpus_this_process_may_use_are_counted():
    one = min(os.sched_getaffinity(0))
    program = f"import os; os.sched_setaffinity(0, [{one}]); from assay import host; assert host.processors() == 1"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_now_has_a_utc_offset_and_no_fraction():
    read = datetime.fromisoformat(host.now())
    assert read.utcoffset() == datetime.now().astimezone().utcoffset()
    assert read.microsecond == 0
    assert abs(datetime.now().astimezone() - read) < timedelta(minutes=1)


def test_today_is_the_date_of_now(monkeypatch):
    monkeypatch.setattr(host, "now", lambda: "2026-11-15T23:59:59+01:00")
    assert host.today() == "2026-11-15"


@linux
@pytest.mark.parametrize(("variable", "directory", "usual"), DIRECTORIES)
def test_a_directory_follows_its_xdg_variable(variable, directory, usual, monkeypatch, tmp_path):
    monkeypatch.setenv(variable, str(tmp_path))
    assert directory() == tmp_path / "assay"


@linux
@pytest.mark.parametrize("value", ["", "relative"])
@pytest.mark.parametrize(("variable", "directory", "usual"), DIRECTORIES)
def test_an_empty_or_relative_variable_is_ignored(variable, directory, usual, value, monkeypatch, tmp_path):
    monkeypatch.setenv(variable, value)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert directory() == tmp_path / usual / "assay"


def test_a_relative_path_from_platformdirs_is_ignored(monkeypatch, tmp_path):
    monkeypatch.setattr("platformdirs.user_cache_path", lambda name: Path("relative") / name)
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    assert host.cache_directory() == tmp_path / ".cache" / "assay"


def test_the_row_of_this_machine():
    assert this_machine() == Machine(host.python_version(), system=host.system(), processors=host.processors())
    assert this_machine(torch="2.9", device="cpu").torch == "2.9"


@pytest.mark.parametrize(("text", "fraction"), [("", None), (" ", None), ("0.8", 0.8), ("1", 1.0), (" 5e-1 ", 0.5)])
def test_the_memory_fraction(monkeypatch, text, fraction):
    monkeypatch.setenv("PYTORCH_CUDA_MEMORY_FRACTION", text)
    assert host.cuda_memory_fraction() == fraction


@pytest.mark.parametrize("text", ["0", "-0.5", "1.01", "nan", "inf", "half", "0,8"])
def test_a_memory_fraction_that_is_not_valid(monkeypatch, text):
    monkeypatch.setenv("PYTORCH_CUDA_MEMORY_FRACTION", text)
    with pytest.raises(UsageError) as error:
        host.cuda_memory_fraction()
    assert str(error.value) == (
        f"PYTORCH_CUDA_MEMORY_FRACTION={text} is not valid: expected a number above 0 and at most 1, such as 0.8; "
        "unset it for no limit"
    )


@pytest.mark.parametrize(("text", "level"), [("", None), ("0", 0), ("1", 1), (" 2 ", 2)])
def test_the_profiler_level(monkeypatch, text, level):
    monkeypatch.setenv("PYTORCH_PROFILER_LEVEL", text)
    assert host.profiler_level() == level


@pytest.mark.parametrize("text", ["3", "-1", "1.0", "full"])
def test_a_profiler_level_that_is_not_valid(monkeypatch, text):
    monkeypatch.setenv("PYTORCH_PROFILER_LEVEL", text)
    with pytest.raises(UsageError, match=f"^PYTORCH_PROFILER_LEVEL={text} is not valid: expected 0 "):
        host.profiler_level()
