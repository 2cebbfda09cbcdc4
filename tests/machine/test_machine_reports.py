"""The identified hardware, and the cache of machine reports."""

from __future__ import annotations

import re
import stat

import msgspec
import pytest
from machine_fakes import nvml, write
from msgspec.structs import replace

from assay.document.machine import VERSION, Cache, Ceiling, Hardware, MachineReport, measured_figure
from assay.errors import WriteError
from assay.machine import hardware, reports
from assay.machine.load import OtherLoad
from assay.machine.sensors import nvml as nvml_sensors


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "assay" / "machine"


def report(key: str = "k", value: float = 1e12) -> MachineReport:
    ceiling = Ceiling("fp32", measured_figure(value, "clock"), at="matmul 512")
    return MachineReport(Hardware("cpu", "a processor", key=key), "2026-11-15", arithmetic=(ceiling,))


def test_a_stored_report_is_loaded_unchanged(cache):
    reports.store_report(report())
    assert reports.load_report("k") == report()
    assert reports.load_report("other") is None
    assert [path.name for path in cache.iterdir()] == [f"k-{reports.REVISION}.json"]


@pytest.mark.parametrize("damage", [b"", b"{", b"\xff\xfe", b"[]", b'{"hardware": 3}', b"null"])
def test_a_damaged_report_is_none(cache, damage):
    path = reports.store_report(report())
    path.write_bytes(damage)
    assert reports.load_report("k") is None
    reports.store_report(report(value=2e12))
    assert reports.load_report("k").arithmetic[0].value == 2e12


def test_a_report_of_another_version_or_key_is_none(cache):
    reports.store_report(replace(report(), version=VERSION + 1))
    assert reports.load_report("k") is None
    path = reports.store_report(report())
    path.rename(reports.path_of("stolen"))
    assert reports.load_report("stolen") is None


def test_a_report_of_another_revision_is_none(cache, monkeypatch):
    monkeypatch.setattr(reports, "REVISION", reports.REVISION - 1)
    reports.store_report(report())
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache.parent.parent))
    assert reports.load_report("k") is None


def test_a_directory_that_cannot_be_created_is_a_one_line_error(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(write(tmp_path / "file", "x")))
    with pytest.raises(WriteError, match="cannot create directory"):
        reports.store_report(report())
    assert reports.load_report("k") is None


def test_a_relative_cache_directory_is_ignored(monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert reports.directory().is_absolute()
    assert "relative" not in reports.directory().parts


def test_of_this_machine_prefers_the_board(cache, monkeypatch):
    fake = nvml_sensors.boards(nvml(), {})
    reports.store_report(report(hardware.identify("cpu").key, 1.0))
    assert reports.report_of_this_machine().arithmetic[0].value == 1.0
    monkeypatch.setattr(nvml_sensors, "boards", lambda: fake)
    reports.store_report(report(hardware.identify("cuda").key, 2.0))
    assert reports.report_of_this_machine().arithmetic[0].value == 2.0
    assert reports.report_of_this_machine("cpu").arithmetic[0].value == 1.0


def test_the_key_depends_on_hardware_torch_and_threads(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    first = hardware.identify("cpu").key
    assert re.fullmatch("[0-9a-f]{16}", first)
    assert hardware.identify("cpu").key == first
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    threads = hardware.identify("cpu").key
    monkeypatch.setattr(hardware, "torch_version", lambda: "9.9")
    assert len({first, threads, hardware.identify("cpu").key}) == 3


def test_a_board_is_identified_without_torch(monkeypatch):
    fake = nvml_sensors.boards(nvml(), {})
    monkeypatch.setattr(nvml_sensors, "boards", lambda: fake)
    found = hardware.identify("cuda")
    assert (found.name, found.memory_bytes, found.driver) == ("NVIDIA H200", 141 << 30, "580.1")
    assert "GPU-0abc" not in msgspec.json.encode(found).decode()


def test_caches_from_the_kernel(tmp_path):
    rows = [
        (1, "Data", "32K"),
        (1, "Instruction", "32K"),
        (2, "Unified", "1024K"),
        (3, "Unified", "32M"),
        (4, "?", ""),
    ]
    for index, (level, kind, size) in enumerate(rows):
        for name, text in (("level", level), ("type", kind), ("size", size)):
            write(tmp_path / f"index{index}" / name, text)
    assert hardware.caches(tmp_path) == (
        Cache(1, 32 << 10),
        Cache(2, 1 << 20),
        Cache(3, 32 << 20),
    )
    assert hardware.caches(tmp_path / "none") == ()


def test_other_work_is_a_share_or_unknown(monkeypatch):
    looks = iter([(1.0, 10.0, 100.0), (3.0, 20.0, 120.0), (1.0, 10.0, 100.0), (1.0, 10.0, 100.0)])
    monkeypatch.setattr("assay.machine.load._processor_seconds", lambda: next(looks))
    assert OtherLoad().share() == pytest.approx((10.0 - 2.0) / 20.0)
    assert OtherLoad().share() is None


def test_files_are_readable_by_their_owner(cache):
    assert reports.store_report(report()).stat().st_mode & stat.S_IRUSR
