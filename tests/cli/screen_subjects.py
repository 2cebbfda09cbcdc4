"""What the commands of the golden screens read: a recorded document, a checkpoint, traces and a machine's limits.

`PYTHONPATH=tests:tests/cli OMP_NUM_THREADS=1 python tests/cli/screen_subjects.py` records the document again: only if
a new feature must appear on the screens, because every time in them changes.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from safetensors.numpy import save_file
from screens import Screens

import assay
from assay.document.machine import (
    Cache,
    CacheLevel,
    Ceiling,
    Hardware,
    MachineReport,
    Scaling,
    Sensor,
    WorkingSet,
    measured_figure,
    unknown_figure,
)
from assay.document.trace_labels import encode_path
from assay.machine import reports
from assay.machine.hardware import identify

GOLDEN = Path(__file__).parents[1] / "golden" / "screens"
MODEL, DOCUMENT = "tagger.py", "tagger.assay.json.gz"
INPUTS = "tokens=4x64:int64"
LONG = "tag_classifier_for_every_token_of_the_sentence"
PROGRAM = """\
import os
for number in (1, 2):
    name = f"Tagger_forward_{number:03d}.json"
    open(os.path.join(os.environ["ASSAY_TRACE_DIR"], name), "w").write("{}")
    open(os.environ["ASSAY_TRACE_MANIFEST"], "a").write(name + "\\n")
print("loss 0.25")
"""
"""Writes traces like a program with decorated models, but without torch."""


def write_subjects(folder: Path) -> None:
    """Write everything that the commands read to `folder`."""
    for name in (MODEL, DOCUMENT):
        shutil.copy(GOLDEN / name, folder)
    (folder / "program.py").write_text(PROGRAM)
    write_machine(folder)
    save_file(_tensors(), folder / "tagger.safetensors")
    write_traces(folder, [f"blocks.{index}.attention.query_key_value" for index in range(5)] + [LONG])


def write_traces(folder: Path, layers: Sequence[str]) -> None:
    """Write traces of passes through `layers`: one, one per rank with a straggler, and two sides to compare."""
    scales = {"gpu.json": 1, **{f"ranks/rank{rank}.json": scale for rank, scale in enumerate((1, 1.02, 1.4))}}
    for side, scale in (("before", 1), ("after", 0.8)):
        scales |= {f"{side}/pass{number}.json": scale + 0.01 * number for number in range(3)}
    for name, scale in scales.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(json.dumps({"traceEvents": list(_events(layers, scale))}))


def write_machine(folder: Path) -> None:
    """Store the limits of a made-up machine as those of this one, where `Screens` looks for them."""
    path = folder / "cache" / "assay" / "machine" / reports.path_of(identify("cpu").key).name
    path.parent.mkdir(parents=True)
    path.write_bytes(msgspec.json.encode(example_machine()))


def _limit(name: str, value: float, at: str, median: float = 0.97) -> Ceiling:
    typical = measured_figure(median * value, "clock", repeats=25, spread=0.02 * value)
    return Ceiling(name, measured_figure(value, "clock, best burst", repeats=25), typical, at)


def example_machine() -> MachineReport:
    """The limits of a made-up machine."""
    precisions = {"fp64": 6.7e10, "fp32": 1.3e11, "bf16": 5.3e11}
    return MachineReport(
        Hardware(
            "cpu",
            "Example CPU",
            cores=8,
            memory_bytes=32 << 30,
            caches=(Cache(1, 48 << 10), Cache(2, 1 << 20), Cache(3, 32 << 20)),
            system="Linux x86_64",
            torch="2.0.0",
            threads=1,
            key=identify("cpu").key,
        ),
        date="2026-11-18",
        arithmetic=(
            *(_limit(name, value, "matmul 1024") for name, value in precisions.items()),
            Ceiling("int8", unknown_figure("torch has no int8 product here")),
        ),
        bandwidth=(_limit("read", 2.4e10, "arrays of 128 MiB"), _limit("copy", 1.9e10, "arrays of 128 MiB")),
        levels=(
            CacheLevel("L1", unknown_figure("not measurable: op overhead dominates"), 48 << 10),
            CacheLevel("L2", measured_figure(2.1e11, "clock"), 1 << 20),
            CacheLevel("memory", measured_figure(1.9e10, "clock")),
        ),
        sweep=(WorkingSet(1 << 20, 2.1e11), WorkingSet(1 << 27, 1.9e10)),
        overhead=(_limit("add", 7e-7, "tiny tensors", 1.02), _limit("linear", 1.1e-6, "tiny tensors", 1.02)),
        scaling=tuple(
            Scaling(threads, measured_figure(1.3e11 * threads * share, "clock"), share)
            for threads, share in ((1, 1.0), (2, 0.97), (4, 0.9), (8, 0.71))
        ),
        sensors=(
            Sensor("rapl", "energy", "J", "package", why="no processor energy counters (virtual machines have none)"),
            Sensor("hwmon", "temperature", "°C", "machine", value=41.5, period=measured_figure(1.0, "clock")),
        ),
        idle_w=unknown_figure("no sensor measures energy or power"),
        others=0.01,
        took_s=9.5,
    )


def _tensors() -> dict[str, np.ndarray[Any, Any]]:
    """Twelve equal blocks, one of them with a NaN; a constant matrix with a long name; a table of float16."""
    random = np.random.default_rng(0)

    def matrix(*shape: int) -> np.ndarray[Any, Any]:
        return random.normal(0, 0.02, shape).astype("float32")

    tensors = {"model.embedding.weight": matrix(64, 16).astype("float16")}
    for index in range(12):
        block = f"model.blocks.{index}"
        tensors[f"{block}.attention.query_key_value.weight"] = matrix(48, 16)
        tensors[f"{block}.feed_forward.0.weight"] = matrix(64, 16)
        tensors[f"{block}.attention_norm.weight"] = np.ones(16, "float32")
    tensors["model.blocks.7.feed_forward.0.weight"][2, 3] = np.nan
    tensors[f"model.{LONG}.weight"] = np.full((2, 16), 0.5, "float32")
    return tensors


def _event(name: str, start: float, length: float, category: str = "cpu_op", **more: Any) -> dict[str, Any]:
    place = {"pid": 1, "tid": 1, **{key: more.pop(key) for key in ("pid", "tid") if key in more}}
    return {"ph": "X", "cat": category, "name": name, "ts": start, "dur": length, "args": more, **place}


def _events(layers: Sequence[str], scale: float) -> Iterator[dict[str, Any]]:
    """A pass in which each layer launches one kernel, then a reduction over ranks and a kernel of unknown origin."""
    yield _event("ProfilerStep#1", 0, 1000 * scale, "user_annotation")
    yield _event(encode_path(""), 5, 900 * scale)
    for at, layer in enumerate(layers):
        start, number = 10 + 140 * at * scale, 5 + at
        yield _event(encode_path(layer), start, 130 * scale, **{"Input Dims": [[4, 64, 128]]})
        yield _event("aten::linear", start + 2, 60 * scale)
        yield _event("cudaLaunchKernel", start + 5, 4, "cuda_runtime", correlation=number)
        kernel = {"correlation": number, "device": 0, "stream": 7, "pid": 0, "tid": 7}
        yield _event(f"sm80_xmma_gemm_f32f32_tf32f32_{at % 2}", start + 20, 90 * scale, "kernel", **kernel)
    reduction = {"correlation": 98, "device": 0, "stream": 9, "pid": 0, "tid": 9}
    yield _event("ncclDevKernel_AllReduce_Sum_f32", 700 * scale, 120 * scale, "kernel", **reduction)
    lost = {"correlation": 99, "device": 0, "stream": 7, "pid": 0, "tid": 7}
    yield _event("elementwise_kernel", 900 * scale, 5, "kernel", **lost)


def record() -> None:
    """Profile the model and store the document, without the name of this machine."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copy(GOLDEN / MODEL, folder)
        write_machine(folder)
        with Screens(folder, {}) as screens:
            screen = screens.show(["analyze", f"{MODEL}::load", "--profile", "--inputs", INPUTS, "--dir", "made"])
        assert screen.code == 0, screen.err
        document = assay.load(folder / "made" / "analysis.assay.json")
    neutral = {"python": "3.11", "torch": "2.0.0", "processor": "Example CPU", "processors": 8}
    machine = msgspec.structs.replace(document.machine, **neutral)
    run = msgspec.structs.replace(document.run, timestamp="2026-11-18T10:30:00+00:00")
    assay.save(msgspec.structs.replace(document, machine=machine, run=run), GOLDEN / DOCUMENT)


if __name__ == "__main__":
    record()
