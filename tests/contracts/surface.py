"""Every public name used with its types spelled out: checked by mypy and pyright, never run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import assay
from assay.document.machine import MonitorRecording, Replay
from assay.document.provenance import Figure
from assay.document.rows import OpKind


def opened(model: Any) -> None:
    source: assay.Opened = assay.open(model, model_args={"depth": 2}, trust=False)
    document: assay.Document = assay.observe(source, (1, 2), mode="meta", device="cpu", dtype="bfloat16", train=True)
    assay.save(document, Path("m.assay.json"))
    again: assay.Document = assay.load("m.assay.json")
    flops: int | None = again.cost.forward.flops if again.cost is not None else None
    text: str = f"{assay.__version__} {flops}"


def figures(model: Any) -> None:
    cost: assay.Cost = assay.cost(model, "1x3x224x224", backward=True)
    memory: assay.Memory = assay.memory(model, optimizer="sgd", master_weights=True)
    brief: assay.BriefView = assay.brief(assay.load("saved.assay.json"))
    summary: assay.Summary = assay.summary(model, full=True, depth=3, exact=True)
    partial: type[UserWarning] = assay.PartialWarning
    laws: assay.Laws = assay.vary(model, over=("batch",), points={"batch": [1, 2, 4]})


def measured(model: Any, on_step: Callable[[str], None]) -> None:
    page: Path = assay.report(model, "report.html", against="before.assay.json", full=True)
    timed: assay.Document = assay.profile(
        model, passes=3, sweeps=[("batch", [1, 2])], energy=True, grid="FR", price=0.3, on_step=on_step
    )
    whole: assay.Analysis = assay.analyze(model, depth="profile", weights="w.safetensors", memory_limit=1 << 30)
    machine: assay.MachineReport = assay.measure_machine("cpu", fresh=True)
    bound: assay.Roofline = assay.roofline(model, "H100", backward=True)
    with assay.energy_meter("cuda") as meter, assay.Monitor(period_s=0.1) as monitor:
        energy: Figure = meter.energy
        series: MonitorRecording = monitor.recording
    once: Replay = assay.measure_energy(lambda: model(1), "cuda", repeats=2)


def checked(model: Any) -> None:
    try:
        result: assay.CheckReport = assay.check(model, select=["W1"], ignore=["C2"], weights="w.safetensors")
    except assay.AssayError as error:
        code: int = error.exit_code
        raise SystemExit(code) from error
    findings: list[assay.Finding] = result.findings
    weights: assay.WeightsReport = assay.analyze_weights("w.safetensors", engine="threads", workers=2, spectral=True)


def traced(model: Any) -> None:
    with assay.capture(model, "traces", gzip=True) as block:
        path: Path | None = block.path
    trace: assay.Trace = assay.read_trace("a.json")
    traces: assay.Traces = assay.read_traces(["a.json", Path("b.json")], workers=2)
    diff: assay.TraceDiff = assay.compare_traces("before", Path("after"))
    layers: dict[str, Any] | None = assay.parse_model_trace("a.json", "Net")


@assay.capture_model(model_name="Net")
class Captured:
    width: int = 3


width: int = Captured().width


def looked_at(model: Any) -> None:
    with assay.record_forward_stats(model, values=True, keep=2) as recording:
        first = recording.first_nan
    assay.record_torch_module_forward_stats(model)
    assay.clear_forward_stats(model)
    assay.explore(model, theme="nord")
    assay.explore_with_stats(model, 1, key=2)
    assay.explore_torch_module(model)
    assay.explore_torch_module_with_stats(model)


def extracted(load: Callable[[], Any]) -> None:
    modules: dict[str, Any] = assay.extract_unique_modules(load, output_path="unique_modules.json")
    ops: dict[str, Any] = assay.extract_pytorch_ops("unique_modules.json", load)


@assay.register_cost("mylib::op", override=True)
def formula(kind: OpKind) -> int:
    return 2 * len(kind.inputs)
