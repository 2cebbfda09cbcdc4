"""`assay machine`, and `this` machine as a device of other commands."""

from __future__ import annotations

import csv
import io
import json

import pytest

from assay.api import machine as measuring
from assay.document.machine import (
    CacheLevel,
    Ceiling,
    EnergyModel,
    Hardware,
    MachineReport,
    Scaling,
    Sensor,
    WorkingSet,
    measured_figure,
    unknown_figure,
)
from assay.machine import reports
from assay.machine.energy import CounterGroup
from assay.machine.hardware import identify
from assay.timing.peaks.effort import FULL
from assay.timing.peaks.measuring import Peaks


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "assay" / "machine"


@pytest.fixture
def machine(cache, monkeypatch):
    """Replaces the measurement with a fake that lists the devices it measured."""
    measured_devices: list[str] = []

    def measure(device, caches, memory_bytes, on_step, effort) -> Peaks:
        import torch

        measured_devices.append(device if effort is FULL else f"{device}, quick")
        on_step("arithmetic")
        return Peaks(
            arithmetic=[
                ceiling("fp32", 1e11),
                ceiling("bf16", 2e11),
                Ceiling("int8", unknown_figure("torch has none")),
            ],
            bandwidth=[ceiling("copy", 2e10)],
            levels=[
                CacheLevel("L1", unknown_figure("hidden"), 1 << 15),
                CacheLevel("memory", measured_figure(2e10, "copy")),
            ],
            sweep=[WorkingSet(1 << 20, 9e10)],
            overhead=[ceiling("add", 1e-6)],
            scaling=[
                Scaling(1, measured_figure(1e11, "clock"), 1.0),
                Scaling(2, measured_figure(1.5e11, "clock"), 0.75),
            ],
            threads=torch.get_num_threads(),
            left_out=[] if effort is FULL else ["int8", "caches"],
        )

    monkeypatch.setattr("assay.timing.peaks.measuring.measure", measure)
    monkeypatch.setattr(measuring.OtherLoad, "share", lambda self: 0.0)
    monkeypatch.setattr(measuring, "_sensors", lambda: [Sensor("rapl", "energy", "J", "package", why="not here")])
    return measured_devices


def ceiling(name: str, value: float) -> Ceiling:
    return Ceiling(
        name,
        measured_figure(value, "clock", repeats=5),
        measured_figure(0.9 * value, "clock", repeats=5, spread=1.0),
        "x",
    )


def test_the_report_has_every_section(cli, machine):
    result = cli("machine", "--device", "cpu", "-v")
    assert result.code == 0
    for expected in ("100 GFLOP/s", "20 GB/s", "1 µs", "75.0 %", "torch has none", "not here", "Roofline", "hidden"):
        assert expected in result.out
    assert "measuring arithmetic" in result.err


@pytest.mark.parametrize(("share", "is_reported"), [(0.01, True), (0.4, False), (None, True)])
def test_thread_scaling_is_unknown_on_a_busy_machine(cli, machine, monkeypatch, share, is_reported):
    monkeypatch.setattr(measuring.OtherLoad, "share", lambda self: share)
    result = cli("machine", "--device", "cpu")
    assert ("75.0 %" in result.out) == is_reported
    assert ("machine busy (40 % used by other processes)" in result.out) != is_reported


def test_it_is_measured_once_unless_fresh(cli, machine, cache):
    first = cli("machine", "--device", "cpu", "--format", "json")
    second = cli("machine", "--device", "cpu", "--format", "json")
    assert machine == ["cpu"]
    assert first.out == second.out
    assert cli("machine", "--device", "cpu", "--fresh").code == 0
    assert machine == ["cpu", "cpu"]
    next(cache.iterdir()).write_text("broken")
    assert cli("machine", "--device", "cpu").code == 0
    assert machine == ["cpu"] * 3


def test_a_quick_measurement_is_cached_until_a_full_one_replaces_it(cli, machine, cache):
    quick = cli("machine", "--device", "cpu", "--quick")
    assert "(quick measurement)" in quick.out
    assert "quick measurement without int8, caches: run `assay machine` for a full one" in quick.out
    assert cli("machine", "--device", "cpu", "--quick").out == quick.out
    assert machine == ["cpu, quick"]
    full = cli("machine", "--device", "cpu")
    assert machine == ["cpu, quick", "cpu"]
    assert "quick" not in full.out
    assert cli("machine", "--device", "cpu", "--quick").out == full.out
    again = json.loads(cli("machine", "--device", "cpu", "--quick", "--fresh", "--format", "json").out)
    assert (again["quick"], again["left_out"]) == (True, ["int8", "caches"])
    assert cli("machine", "--device", "cpu").out == full.out
    assert machine == ["cpu, quick", "cpu", "cpu, quick"]
    assert cli("machine", "--device", "cpu", "--quick", "--energy").code == 2


def test_known_limits_are_not_measured_or_printed_if_only_missing_ones_are_requested(cli, machine):
    first = cli("machine", "--device", "cpu", "--quick", "--if-missing")
    assert "100 GFLOP/s" in first.out
    second = cli("machine", "--device", "cpu", "--quick", "--if-missing")
    assert (second.code, second.out) == (0, "")
    (line,) = second.err.splitlines()
    assert line.startswith("assay: limits already known: ")
    assert machine == ["cpu, quick"]
    for other in ("--fresh", "--energy"):
        assert cli("machine", "--if-missing", other).code == 2


def test_json_is_the_report(cli, machine):
    data = json.loads(cli("machine", "--device", "cpu", "--format", "json").out)
    assert data["arithmetic"][0]["best"] == {"value": 1e11, "how": {"type": "measured", "by": "clock", "repeats": 5}}
    assert data["arithmetic"][2]["best"]["value"] is None
    assert data["sensors"][0]["why"] == "not here"


def test_csv_has_one_row_per_limit_and_no_zero_for_unknown(cli, machine):
    rows = list(csv.DictReader(io.StringIO(cli("machine", "--device", "cpu", "--format", "csv").out)))
    assert [row["name"] for row in rows] == ["fp32", "bf16", "int8", "copy", "add"]
    assert rows[2]["best"] == ""


def test_output_goes_to_a_file_that_is_not_overwritten(cli, machine, in_place):
    assert cli("machine", "--device", "cpu", "-o", "m.txt").code == 0
    assert "Roofline" in (in_place / "m.txt").read_text()
    refused = cli("machine", "--device", "cpu", "-o", "m.txt")
    assert refused.code == 2
    assert "--force" in refused.err


def test_a_cache_that_cannot_be_written_still_gives_the_report(cli, machine, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("x")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    result = cli("machine", "--device", "cpu")
    assert result.code == 0
    assert "the report was not cached: cannot create directory" in result.out


def test_a_missing_gpu_is_one_line(cli, cache):
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    result = cli("machine", "--device", "cuda")
    assert result.code == 3
    assert result.err.strip() == "assay: error: cannot measure cuda: torch found no CUDA device"


def test_an_unknown_device_is_refused(cli, cache):
    assert cli("machine", "--device", "tpu").code == 2


def test_without_torch_the_error_says_so(cli, cache, monkeypatch):
    monkeypatch.setattr(measuring, "import_module", lambda name: (_ for _ in ()).throw(ImportError("no torch")))
    result = cli("machine", "--device", "cpu", "--fresh")
    assert result.code == 3
    assert "requires torch" in result.err


def test_energy_without_a_sensor_is_a_note(cli, machine):
    result = cli("machine", "--device", "cpu", "--energy", "--format", "json")
    assert result.code == 0
    assert "could not be calibrated: rapl: " in result.err
    assert json.loads(result.out).get("energy") is None


def test_leave_one_out_errors_of_the_energy_model_are_printed(cli, machine, monkeypatch):
    model = EnergyModel("it", error=0.061, interval=(0.82, 1.31), errors={"copy": 0.1234, "LSTM": -0.25})
    counters = CounterGroup((), 0.1, measured_figure(20.0, "fake"))
    monkeypatch.setattr(measuring, "counters_of_device", lambda *_: counters)
    monkeypatch.setattr(measuring, "calibrate_energy_model", lambda *_: model)
    result = cli("machine", "--device", "cpu", "--energy", "--fresh")
    assert "calibrated, median error 6.1 %; in 90 % of cases, the energy is 0.82 to 1.31 times the" in result.out
    after = result.out[result.out.index("Energy model: error") :]
    assert [line.split() for line in after.splitlines()[-2:]] == [["copy", "+12.3", "%"], ["LSTM", "-25.0", "%"]]


def kept_report() -> None:
    hardware = Hardware("cpu", "a processor", memory_bytes=8 << 30, key=identify("cpu").key)
    ceilings = {"arithmetic": (ceiling("fp32", 1e12),), "bandwidth": (ceiling("copy", 1e11),)}
    reports.store_report(MachineReport(hardware, "2026-11-15", **ceilings))


@pytest.fixture
def saved():
    torch = pytest.importorskip("torch")
    import assay

    return assay.observe(torch.nn.Linear(1000, 1000, bias=False), torch.ones(1000, 1000))


def test_this_machine_has_a_roofline(cli, cache, saved):
    kept_report()
    data = json.loads(cli("cost", "m", "--device", "this", "--format", "json", document=saved).out)
    assert data["device"] == "this machine (a processor)"
    assert data["bound_s"] == pytest.approx(2e9 / 1e12)
    assert "assay machine" in data["how"]["by"]


def test_a_model_may_fit_this_machine(cli, cache, saved):
    kept_report()
    assert "this machine (a processor)" in cli("memory", "m", "--fit", "this", document=saved).out


def test_a_gpu_has_only_the_memory_that_the_environment_allows(cli, cache, saved, monkeypatch):
    def memory(device: str, fraction: str) -> int:
        report = MachineReport(Hardware(device, "a processor", memory_bytes=8 << 30), "2026-11-15")
        monkeypatch.setattr("assay.api.roofline.report_of_this_machine", lambda: report)
        monkeypatch.setenv("PYTORCH_CUDA_MEMORY_FRACTION", fraction)
        (fit,) = json.loads(cli("memory", "m", "--fit", "this", "--format", "json", document=saved).out)["fits"]
        assert ("PYTORCH_CUDA_MEMORY_FRACTION" in fit["how"]["by"]) == (fit["memory"] != 8 << 30)
        return fit["memory"]

    assert memory("cuda", "0.25") == 2 << 30
    assert memory("cuda", "") == memory("cpu", "0.25") == 8 << 30


@pytest.mark.parametrize("arguments", [["cost", "--device", "this"], ["memory", "--fit", "this"]])
def test_a_machine_that_was_not_measured_is_one_line(cli, cache, saved, arguments):
    result = cli(arguments[0], "m", *arguments[1:], document=saved)
    assert result.code == 2
    assert result.err.strip() == (
        "assay: error: this machine has not been measured: run `assay machine` once, or name a device"
    )
