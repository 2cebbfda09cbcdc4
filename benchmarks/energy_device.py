"""The energy model on an NVIDIA board: collect measurements of ops and models, then fit some and test on the others.

    python benchmarks/energy_device.py --collect OUT_DIR --seconds-limit 540
    python benchmarks/energy_device.py --fit OUT_DIR/energy.json --text benchmarks/results/energy.md

Collecting takes about eight minutes. It writes one row per op or model after each measurement, so that a run that is
cut off leaves a usable mix. Fitting needs no GPU.
"""

from __future__ import annotations

import argparse
import gc
import gzip
import json
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from statistics import fmean, median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import energy_validation
import msgspec
import nvml_direct
import torch
from energy_subjects import OP, Size, Subject, subjects

from assay import host
from assay.analysis.cost import cost_of
from assay.analysis.devices import find_device
from assay.analysis.energy import work_of, work_of_kind
from assay.analysis.roofline import roofline_of
from assay.api.options import RunOptions
from assay.api.profile.op_times import RecordedOps, kernels_of
from assay.api.profile.profiled import ProfiledModel, prepare
from assay.document.document import Document
from assay.document.machine import Replay
from assay.machine.energy import CounterGroup, counters_of_device, idle, replay
from assay.machine.sensors import nvml
from assay.machine.sensors.nvml import NvmlBoard, boards
from assay.machine.sensors.probe import SensorError
from assay.sources.open import open_source
from assay.timing.bench import Budget
from assay.timing.peaks.bursts import TimedDevice, bursts, timed_device
from assay.timing.rounds import clock_recorded_ops
from assay.timing.settings import matmul_precision

WINDOW_S, REPEATS = 1.5, 2
WARM_UP_S = 6.0
DEVICE = "H200"
"""The device whose list of precisions classifies FLOPs; peaks are not used."""


def main() -> None:
    """Collect, or fit what was collected."""
    options = argparse.ArgumentParser(description=__doc__)
    what = options.add_mutually_exclusive_group(required=True)
    what.add_argument("--collect", type=Path, metavar="OUT_DIR", help="measure, and write energy.json there")
    what.add_argument("--fit", type=Path, metavar="DATA", help="fit the model to a collected energy.json and test it")
    options.add_argument("--text", type=Path, help="also write the tables of --fit to this file")
    options.add_argument("--model", type=Path, help="also write the fitted coefficients of --fit to this file")
    options.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    options.add_argument("--seconds-limit", type=float, default=540.0, help="stop collecting after this time")
    options.add_argument("--tiny", action="store_true", help="collect small subjects, to try the program")
    options.add_argument("--only", default="", help="collect subjects whose name contains this text")
    given = options.parse_args()
    if given.fit is not None:
        fit(given.fit, given.text, given.model)
        return
    Collection(given.collect, given.device, given.seconds_limit, given.tiny).run(given.only)


def fit(data: Path, text: Path | None, coefficients: Path | None) -> None:
    """Print the fit and the tests, and write them to files if these are given."""
    model, lines = energy_validation.report(data)
    print("\n".join(lines))
    if text is not None:
        text.write_text("\n".join(lines) + "\n")
    if coefficients is not None:
        coefficients.write_text(json.dumps(energy_validation.as_json(model), indent=2) + "\n")


class Collection:
    """Measures one subject after another and rewrites one file of rows."""

    def __init__(self, folder: Path, device: str, limit_s: float, tiny: bool) -> None:
        self.start_s = time.perf_counter()
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.device, self.limit_s, self.size = folder, device, limit_s, Size(tiny)
        self.where = timed_device(device)
        self.found: dict[str, Any] = {"rows": [], "skipped": []}

    def run(self, only: str) -> None:
        """Measure every subject that fits into the limit."""
        nvml_direct.install()
        board = self.board()
        sensors = self.sensors(board)
        busy = self.where.normal(self.size(4096, 64), self.size(4096, 64), dtype=torch.bfloat16)
        self.found |= {
            "device": torch.cuda.get_device_name() if self.where.cuda else self.device,
            "date": host.today(),
            "torch": torch.__version__,
            "driver": board.driver if board is not None else None,
            "sensor": sensors.name,
            "period_s": sensors.period_s,
            "limit_w": _limit_w(board),
            "idle_cold_w": idle(sensors, 2.0).value,
        }
        self._warm_up(lambda: busy @ busy)
        self.found["idle_start_w"] = idle(sensors, 2.0).value
        self.write()
        for subject in subjects(self.where):
            if only in subject.name:
                self._one(subject, sensors, board)
        self.found["idle_end_w"] = idle(sensors, 2.0).value
        self.found["took_s"] = self.seconds
        self.write()

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self.start_s

    def board(self) -> NvmlBoard | None:
        """The first NVML board; None on a CPU."""
        every = boards().boards
        return every[0] if every and self.where.cuda else None

    def sensors(self, board: NvmlBoard | None) -> CounterGroup:
        """The energy counter of the device."""
        counters = counters_of_device(self.device, uuid=board.uuid if board is not None else "")
        if isinstance(counters, str):
            raise SystemExit(f"energy cannot be measured: {counters}")
        return counters

    def write(self) -> None:
        """Rewrite the file atomically."""
        path = self.folder / "energy.json"
        part = path.with_suffix(".part")
        part.write_text(json.dumps(self.found, indent=1) + "\n")
        os.replace(part, path)

    def _warm_up(self, run: Callable[[], object]) -> None:
        end_s = time.perf_counter() + (0.1 if self.size.tiny else WARM_UP_S)
        while time.perf_counter() < end_s:
            for _ in range(20):
                run()
            self.where.synchronize()

    def _one(self, subject: Subject, sensors: CounterGroup, board: NvmlBoard | None) -> None:
        """Measure one subject; a failure is recorded and the next subject follows."""
        begin = self.seconds
        if begin > self.limit_s:
            self.found["skipped"].append({"name": subject.name, "use": subject.use, "why": "the time limit"})
            return
        try:
            row, document = measured(subject, self.where, self.size, sensors, board)
        except Exception as error:  # noqa: BLE001  one model must not end the run
            why = f"{type(error).__name__}: {error}"
            self.found["skipped"].append({"name": subject.name, "use": subject.use, "why": why})
            traceback.print_exc()
            print(f"{self.seconds:6.1f} s  {subject.name}: skipped: {why}", flush=True)
        else:
            row["took_s"] = self.seconds - begin
            self.found["rows"].append(row)
            with gzip.open(self.folder / "documents.jsonl.gz", "ab", compresslevel=6) as file:
                file.write(msgspec.json.encode({"name": subject.name, "document": document}) + b"\n")
            print(f"{self.seconds:6.1f} s  {_line(row)}", flush=True)
        self.write()
        gc.collect()
        if self.where.cuda:
            torch.cuda.empty_cache()


def measured(
    subject: Subject, where: TimedDevice, size: Size, sensors: CounterGroup, board: NvmlBoard | None
) -> tuple[dict[str, Any], Document]:
    """The row of one subject, and the document of its pass."""
    profiled = built(subject, where, size)
    model, args = profiled.opened.module, profiled.inputs.args
    with matmul_precision("high") if subject.tf32 else nullcontext(), torch.no_grad():
        document = profiled.observe(mode="real")
        if document.run.failure is not None:
            raise RuntimeError(document.run.failure.error)

        def run() -> object:
            return model(*args)

        row = {"name": subject.name, "use": subject.use} | features(subject, document)
        row |= times(profiled, document, where, run, passes=2 if subject.use == OP else 3)
        row |= energies(run, where, sensors, board)
    return row, document


def built(subject: Subject, where: TimedDevice, size: Size) -> ProfiledModel:
    """The subject on the device, with its inputs."""
    torch.manual_seed(0)
    with where.device:
        model, inputs = subject.build(size)
    model = model.to(subject.dtype).eval()
    args = tuple(_cast(one, subject.dtype) for one in inputs)
    return prepare(open_source(model), (args, {}), RunOptions(mode="real"))


def _cast(value: Any, dtype: torch.dtype) -> Any:
    return value.to(dtype) if isinstance(value, torch.Tensor) and value.is_floating_point() else value


def features(subject: Subject, document: Document) -> dict[str, Any]:
    """What the energy model counts: FLOPs and bytes, of the whole pass and of each kind of op."""
    device = find_device(DEVICE)
    work, missing = work_of(document, device)
    costs = document.cost.kinds if document.cost is not None else [cost_of(kind) for kind in document.kinds]
    kinds = []
    for bound in roofline_of(document, device).kinds:
        each = work_of_kind(costs[bound.kind], bound.precision)
        kinds.append(
            {"kind": bound.kind, "name": bound.name, "count": bound.count, "flops": each.flops, "bytes": each.bytes}
        )
    return {
        "tf32": subject.tf32,
        "flops": work.flops,
        "bytes": work.bytes,
        "missing": list(missing),
        "kinds": kinds,
    }


def times(
    profiled: ProfiledModel, document: Document, where: TimedDevice, run: Callable[[], object], passes: int
) -> dict[str, Any]:
    """Seconds of a pass in short bursts, kernel seconds per kind of op, and the number of kernels and copies."""
    short = bursts(where, run, 0.15)
    inputs = profiled.inputs
    budget = Budget(warmup=0, least=passes, most=passes, seconds=1.0)
    timed = clock_recorded_ops(profiled.opened.module, inputs.args, inputs.kwargs, profiled.setting(), budget)
    rows = RecordedOps(timed).kinds(document.kinds)
    return {
        "burst_s": median(short),
        "kind_s": {str(kind): [row.count, row.total_s] for kind, row in enumerate(rows) if row is not None},
        "busy_s": sum(row.total_s for row in rows if row is not None),
        "launches": kernels_of(rows),
    }


def energies(
    run: Callable[[], object], where: TimedDevice, sensors: CounterGroup, board: NvmlBoard | None
) -> dict[str, Any]:
    """Joules and seconds per run between ticks, and what the board reported meanwhile."""
    replays: list[Replay] = []
    with Sampler(board) as sampler:
        for _ in range(REPEATS):
            once = replay(run, sensors, synchronize=where.synchronize, window_s=WINDOW_S, repeats=1)
            if once.energy_j.value is None:
                raise RuntimeError(str(once.energy_j.how))
            replays.append(once)
    return {
        "joules": [once.energy_j.value for once in replays],
        "seconds": [once.time_s.value for once in replays],
        "watts": [once.power_w.value for once in replays],
        "calls": [once.calls for once in replays],
        "board": sampler.summary(),
    }


class Sampler:
    """Reads the board's state a few times per second on a thread."""

    def __init__(self, board: NvmlBoard | None, period_s: float = 0.2) -> None:
        self._board, self._period_s = board, period_s
        self._done, self._rows = threading.Event(), []  # type: ignore[var-annotated]
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> Sampler:
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._done.set()
        self._thread.join()

    def summary(self) -> dict[str, Any]:
        """Temperature at start and end, mean clock and power, and all throttle bits seen."""
        if not self._rows:
            return {}
        bits = 0
        for row in self._rows:
            bits |= int(row["throttle"])
        return {
            "celsius": [self._rows[0]["celsius"], self._rows[-1]["celsius"]],
            "sm_mhz": fmean(row["sm_mhz"] for row in self._rows[1:] or self._rows),
            "mem_mhz": fmean(row["mem_mhz"] for row in self._rows),
            "watts": fmean(row["watts"] for row in self._rows[len(self._rows) // 3 :]),
            "throttle_bits": bits,
        }

    def _sample(self) -> None:
        board = self._board
        while board is not None and not self._done.wait(self._period_s):
            try:
                self._rows.append(
                    {
                        "celsius": board.temperature_c(),
                        "sm_mhz": board.clock_mhz("SM"),
                        "mem_mhz": board.clock_mhz("MEM"),
                        "watts": board.power_w(),
                        "throttle": board.throttle_bits(),
                    }
                )
            except SensorError:
                return


def _limit_w(board: NvmlBoard | None) -> float | None:
    return None if board is None else nvml.limit_w(board.uuid)


def _line(row: dict[str, Any]) -> str:
    joules, seconds = fmean(row["joules"]), fmean(row["seconds"])
    return (
        f"{row['use']:<5}{row['name']:<36}{1e3 * joules:10.3f} mJ {1e3 * seconds:9.4f} ms {joules / seconds:5.0f} W  "
        f"busy {100 * row['busy_s'] / seconds:4.0f} %  {row['launches']} launches  took {row['took_s']:.1f} s"
    )


if __name__ == "__main__":
    main()
