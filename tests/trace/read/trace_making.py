"""Traces made by hand: events as profilers write them, with times in whole nanoseconds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

BASE_NS = 3_950_204_332_199_000


def us(ns: int) -> float | str:
    """Nanoseconds as the microseconds of a trace, without going through a float that would round."""
    return _Exact(f"{ns // 1000}.{ns % 1000:03d}")


class _Exact(str):
    """A number that is written to JSON verbatim."""


class Making:
    """Collects events; `write` writes them to a file."""

    def __init__(self, base_ns: int = BASE_NS) -> None:
        self.events: list[dict[str, Any]] = []
        self.base_ns = base_ns
        self.root: dict[str, Any] = {"schemaVersion": 1, "displayTimeUnit": "ms"}

    def span(
        self, name: str, start: int, length: int, *, cat: str = "cpu_op", pid: Any = 10, tid: Any = 11, **args: Any
    ):
        event = {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid}
        event |= {"ts": us(self.base_ns + start), "dur": us(length)}
        if args:
            event["args"] = {key.replace("_", " "): value for key, value in args.items()}
        self.events.append(event)
        return self

    def label(self, path: str, start: int, length: int, **more: Any):
        return self.span(f"assay:{path or '.'}", start, length, **more)

    def launch(self, correlation: int, start: int, length: int = 1000, name: str = "cudaLaunchKernel", **more: Any):
        args = {"correlation": correlation, "External id": more.pop("external", correlation)}
        self.span(name, start, length, cat=more.pop("cat", "cuda_runtime"), **more)
        self.events[-1]["args"] = args
        return self

    def kernel(self, name: str, start: int, length: int, correlation: int, **more: Any):
        device, stream = more.pop("device", 0), more.pop("stream", 7)
        args = {"correlation": correlation, "device": device, "stream": stream}
        args["External id"] = more.pop("external", correlation)
        if "bytes" in more:
            args["bytes"] = more.pop("bytes")
        self.span(name, start, length, cat=more.pop("cat", "kernel"), pid=device, tid=stream)
        self.events[-1]["args"] = args
        return self

    def memory(self, at: int, size: int, total: int, device_type: int = 0, device: int = -1):
        args = {
            "Bytes": size,
            "Total Allocated": total,
            "Device Type": device_type,
            "Device Id": device,
            "finished": False,
        }
        event = {"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": 10, "tid": 11}
        self.events.append({**event, "ts": us(self.base_ns + at), "args": args})
        return self

    def flow(self, number: int, source: int, target: int, target_tid: int = 11):
        for phase, at, tid in (("s", source, 11), ("f", target, target_tid)):
            event = {"ph": phase, "id": number, "pid": 10, "tid": tid, "ts": us(self.base_ns + at)}
            self.events.append({**event, "cat": "fwdbwd", "name": "fwdbwd"})
        return self

    def text(self, indent: int | None = None) -> str:
        return dumped({**self.root, "traceEvents": self.events, "traceName": "made"}, indent)

    def write(self, path: Path, indent: int | None = None) -> Path:
        path.write_text(self.text(indent))
        return path


def dumped(value: Any, indent: int | None = None) -> str:
    """JSON with exact numbers written verbatim."""
    marks: dict[str, str] = {}

    def marked(each: Any) -> Any:
        if isinstance(each, _Exact):
            marks[f'"<{len(marks)}>"'] = str(each)
            return f"<{len(marks) - 1}>"
        if isinstance(each, dict):
            return {key: marked(inner) for key, inner in each.items()}
        return [marked(inner) for inner in each] if isinstance(each, list) else each

    text = json.dumps(marked(value), indent=indent)
    pieces = text.split('"<')
    out = [pieces[0]]
    for piece in pieces[1:]:
        number, _, rest = piece.partition('>"')
        out.append(marks[f'"<{number}>"'] + rest)
    return "".join(out)


def gpu_training(making: Making | None = None) -> Making:
    """A model of two layers on an accelerator: forward, backward on another thread, a graph launch, NCCL, copies."""
    made = making or Making()
    made.span("ProfilerStep#3", 0, 200_000, cat="user_annotation")
    made.label("", 1_000, 60_000, Input_Dims=[[4, 8]])
    made.label("a", 2_000, 20_000, Input_Dims=[[4, 8]])
    made.span("aten::mm", 3_000, 10_000, Sequence_number=5, Fwd_thread_id=0, External_id=77)
    made.launch(101, 4_000, external=77)
    made.launch(102, 8_000, external=77)
    made.label("b", 30_000, 20_000, Input_Dims=[[4, 16]])
    made.span("aten::relu", 31_000, 9_000, Sequence_number=6, Fwd_thread_id=0, External_id=78)
    made.launch(103, 32_000, external=78)
    made.launch(110, 55_000, name="cudaGraphLaunch", external=90)
    made.span(
        "autograd::engine::evaluate_function: ReluBackward0",
        70_000,
        10_000,
        tid=12,
        Sequence_number=6,
        Fwd_thread_id=1,
    )
    made.launch(104, 72_000, tid=12, external=79)
    made.span(
        "autograd::engine::evaluate_function: MmBackward0", 82_000, 10_000, tid=12, Sequence_number=5, Fwd_thread_id=1
    )
    made.launch(105, 84_000, tid=12, external=80)
    made.span("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", 94_000, 4_000, tid=12)
    made.launch(106, 95_000, tid=12, external=81)
    made.span("Optimizer.step#SGD.step", 110_000, 20_000, cat="user_annotation")
    made.launch(107, 112_000, external=82)
    made.span("cudaDeviceSynchronize", 140_000, 30_000, cat="cuda_runtime")
    made.kernel("gemm", 20_000, 7_000, 101, external=77)
    made.kernel("bias", 27_000, 1_000, 102, external=77)
    made.kernel("relu", 40_000, 5_000, 103, external=78)
    made.kernel("graph_a", 60_000, 2_000, 110, external=90)
    made.kernel("graph_b", 62_000, 3_000, 110, external=90)
    made.kernel("relu_backward", 80_000, 4_000, 104, external=79)
    made.kernel("gemm_backward", 90_000, 8_000, 105, external=80)
    made.kernel("ncclDevKernel_AllReduce_Sum", 92_000, 20_000, 106, stream=20, external=81)
    made.kernel("sgd", 120_000, 2_000, 107, external=82)
    made.kernel("Memcpy HtoD", 121_000, 5_000, 999, cat="gpu_memcpy", stream=21, bytes=4096, external=0)
    return made
