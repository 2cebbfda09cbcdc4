"""What is printed about the machine limits that the bottlenecks of a profile need."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

torch = pytest.importorskip("torch")

import assay  # noqa: E402
from assay.cli.ceilings import achieved_rows  # noqa: E402
from assay.cli.stderr import Messages  # noqa: E402
from assay.document.machine import Ceiling, MachineReport, measured_figure, unknown_figure  # noqa: E402
from assay.machine import reports  # noqa: E402
from assay.machine.hardware import identify  # noqa: E402


@pytest.fixture
def document(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return assay.profile(torch.nn.Linear(4, 4), torch.ones(1, 4), passes=1, warmup=0)


def store(fp64: float | None, **options) -> None:
    arithmetic = (
        Ceiling("fp32", measured_figure(1e9, "hand")),
        Ceiling("fp64", unknown_figure("no") if fp64 is None else measured_figure(fp64, "hand")),
    )
    bandwidth = (Ceiling("copy", measured_figure(1e9, "hand")),)
    hardware = identify("cpu")
    reports.store_report(MachineReport(hardware, arithmetic=arithmetic, bandwidth=bandwidth, **options))


def test_unknown_limits_are_explained_with_the_quick_way(document, capsys):
    assert {row.bound for row in achieved_rows(Messages(), document)} == {"unknown"}
    assert "or `assay machine --quick`" in capsys.readouterr().err


def test_limits_of_another_machine_are_not_used(document, capsys):
    store(1e9)
    elsewhere = replace(document, machine=replace(document.machine, processor="another processor"))
    assert {row.bound for row in achieved_rows(Messages(), elsewhere)} == {"unknown"}
    assert "it ran on another machine" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("fp64", "options", "expected"),
    [
        (1e9, {}, ""),
        (1e9, {"quick": True, "left_out": ("caches",)}, ""),
        (None, {}, ""),
        (1e9, {"others": 0.04}, ""),
        (1e9, {"others": 0.4}, "the limits were measured while the machine was busy"),
        (None, {"quick": True, "left_out": ("fp64", "caches")}, "limits of fp64 not measured"),
    ],
    ids=["full", "quick", "unsupported", "idle", "busy", "left out"],
)
def test_limits_that_are_missing_or_approximate_are_named(document, capsys, fp64, options, expected):
    store(fp64, **options)
    assert "unknown" not in {row.bound for row in achieved_rows(Messages(), document)}
    printed = capsys.readouterr().err
    assert expected in printed
    assert bool(printed) == bool(expected)
