"""What results show of themselves: short, with the right figures, whatever they hold, and without changing them."""

from __future__ import annotations

import copy
import json
import pickle
import time
from collections.abc import Callable
from typing import Any

import handmade
import msgspec
import pytest
import torch
from frames import framed, parsed
from msgspec.structs import replace
from torch import nn

import assay
from assay import display
from assay.analysis.architecture import architecture
from assay.api.check import CheckReport
from assay.api.display import large
from assay.display import LINES, WIDTH, Displayed
from assay.document.cost import Cost
from assay.document.document import Document
from assay.document.findings import Finding
from assay.document.machine import NOT_MEASURED, Ceiling, Hardware, MachineReport, MonitorRecording, Replay
from assay.document.machine import measured_figure as measured
from assay.document.rows import Module, Op
from assay.document.timing import Timing
from assay.document.trace import Trace, Traces
from assay.document.weights import WeightsReport
from assay.findings.analyzed import Analysis
from assay.findings.brief import Brief
from assay.findings.engine import CheckResult
from assay.machine.energy import CounterGroup, EnergyMeter
from assay.views.cells import cell_len
from assay.views.html.compact import MAX_HEIGHT

HOSTILE = "</iframe><img src=x onerror=alert(1)>\"'&amp;"
BLOCKS, WIDE, BATCH = 12, 32, 4


def net(name: str = "") -> nn.Module:
    torch.manual_seed(0)
    blocks = [nn.Sequential(nn.Linear(WIDE, WIDE), nn.ReLU()) for _ in range(BLOCKS)]
    model = nn.Sequential(*blocks).eval()
    if name:
        model.add_module(name, nn.Linear(WIDE, WIDE))
    return model


def inputs() -> torch.Tensor:
    return torch.ones(BATCH, WIDE)


def traced(path: Any) -> str:
    events = [
        {"ph": "X", "cat": "cpu_op", "name": f"aten::op{at}", "ts": 10 * at, "dur": 5, "pid": 1, "tid": 1}
        for at in range(8)
    ]
    path.write_text(json.dumps({"traceEvents": events}))
    return str(path)


def recorded(model: nn.Module) -> Any:
    with assay.record_forward_stats(model) as recording:
        model(inputs())
        model(inputs())
    return recording


def results(model: nn.Module, folder: Any) -> dict[str, Any]:
    """One result of each kind."""
    before, after = traced(folder / "before.json"), traced(folder / "after.json")
    recording = recorded(model)
    checked = assay.check(model, inputs(), measure=False)
    laws = assay.vary(model, inputs(), over=["batch"])
    with assay.Monitor(period_s=0.01) as monitor:
        time.sleep(0.05)
    return {
        "observe": assay.observe(model, inputs()),
        "cost": assay.cost(model, inputs(), backward=True),
        "memory": assay.memory(model, inputs(), backward=True),
        "profile": assay.profile(model, inputs(), seconds=0.2),
        "check": checked,
        "analyze": assay.analyze(model, inputs()),
        "analyze_weights": assay.analyze_weights(model),
        "vary": laws,
        "law": laws["macs"],
        "roofline": assay.roofline(model, "H100", inputs()),
        "open": assay.open(model),
        "summary": assay.summary(model, inputs()),
        "brief": assay.brief(checked),
        "brief data": assay.brief(checked).data,
        "finding": checked.findings[0],
        "recording": recording,
        "calls": model[0].forward_stats,
        "monitor": monitor,
        "monitor recording": monitor.recording,
        "read_trace": assay.read_trace(before),
        "read_traces": assay.read_traces([before, after]),
        "compare_traces": assay.compare_traces(before, after),
        "measure_machine": MachineReport(
            Hardware("cpu", "a processor"), "2026-11-18", arithmetic=(Ceiling("fp32", measured(2.5e11, "clock")),)
        ),
        "measure_energy": Replay(measured(0.5, "counter"), calls=20),
        "energy_meter": EnergyMeter(CounterGroup((), 0.1)),
    }


KINDS = [
    "observe", "cost", "memory", "profile", "check", "analyze", "analyze_weights", "vary", "law", "roofline", "open",
    "summary", "brief", "brief data", "finding", "recording", "calls", "monitor", "monitor recording", "read_trace",
    "read_traces", "compare_traces", "measure_machine", "measure_energy", "energy_meter",
]  # fmt: skip
LONG = ("summary", "brief")
"""What is printed in full on purpose."""


@pytest.fixture(scope="module")
def model() -> nn.Module:
    return net()


@pytest.fixture(scope="module")
def made(model: nn.Module, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return results(model, tmp_path_factory.mktemp("traces"))


def assert_short(text: str) -> None:
    lines = text.splitlines()
    assert 1 <= len(lines) <= LINES == 15
    assert max(map(cell_len, lines)) <= WIDTH == 100


def rounded(value: float, step: float, names: tuple[str, ...]) -> str:
    """Three digits of a number and the prefix of its unit, written independently of `assay.units`."""
    at = 0
    while value >= step:
        value, at = value / step, at + 1
    return f"{value:.3g} {names[at]}".strip()


def count(value: float) -> str:
    return rounded(value, 1000, ("", "k", "M", "G"))


def size(value: float) -> str:
    return rounded(value, 1024, ("B", "KiB", "MiB"))


def test_every_kind_is_tested(made):
    assert list(made) == KINDS
    shown = {type(result).__name__ for result in made.values()}
    assert shown == set(display.PREVIEWS)


@pytest.mark.parametrize("kind", KINDS)
def test_a_repr_is_short_and_states_what_it_is(made, kind):
    result = made[kind]
    if kind not in LONG:
        assert_short(repr(result))
        assert repr(result).startswith(f"{type(result).__name__}: ")
    page = framed(result._repr_html_())
    tags = parsed(page)
    assert type(result).__name__ in tags.texts
    assert not {"script", "iframe", "img", "link", "object", "form"} & set(tags.seen)
    assert len(result._repr_html_()) < 16_000


def test_figures_are_those_of_the_model(made, model):
    numbers = sum(each.numel() for each in model.parameters())
    stored = sum(each.nbytes for each in model.parameters())
    macs = BLOCKS * BATCH * WIDE * WIDE
    flops = 2 * macs + BLOCKS * BATCH * WIDE * 2  # a bias and an activation per output
    for kind in ("observe", "check", "analyze"):
        text = repr(made[kind])
        assert f"{count(numbers)} parameters" in text
        assert f"{count(macs)} MACs" in text
        assert f"{count(flops)} FLOPs" in text
        assert f"{size(stored)} weights" in text
        assert f"input {BATCH}x{WIDE}" in text
    cost = repr(made["cost"])
    assert f"{count(flops)} FLOPs per pass" in cost
    assert f"{count(macs)} per pass" in cost
    assert f"{2 * BLOCKS} ops" in cost
    assert f"{size(stored)} of parameters" in cost
    memory = repr(made["memory"])
    assert f"Weights    {size(stored)}" in memory
    assert f"{size(made['memory'].inference.total.value)} peak" in memory
    assert f"{size(made['memory'].training.total.value)} peak" in memory
    weights = repr(made["analyze_weights"])
    assert f"{2 * BLOCKS} tensors · {count(numbers)} parameters" in weights
    assert size(stored) in weights


def test_times_are_those_that_were_measured(made, model):
    whole = made["profile"].profile.whole
    milliseconds = rounded(whole.value * 1e6, 1000, ("µs", "ms", "s"))
    assert milliseconds in repr(made["profile"])
    assert "measured" in repr(made["profile"])
    recording = made["recording"]
    assert f"{2 * BLOCKS + BLOCKS + 1} modules · {2 * (3 * BLOCKS + 1)} calls · 2 passes" in repr(recording)
    assert [call.index for call in recording.calls] == sorted(call.index for call in recording.calls)
    assert f"2 calls of 0 · {BATCH}x{WIDE} → {BATCH}x{WIDE}" in repr(made["calls"])
    assert f"{made['roofline'].bound_s * 1e9:.3g} ns per pass at least" in repr(made["roofline"])


def test_formulas_findings_and_traces_are_named(made):
    per_item = BLOCKS * WIDE * WIDE
    assert repr(made["law"]) == f"Law: {per_item:,}·batch"
    assert f"{per_item:,}·batch" in repr(made["vary"])
    finding = made["finding"]
    assert finding.code in repr(finding)
    assert finding.title.split(":")[0] in repr(finding).replace("\n", " ")
    assert finding.advice.split(".")[0] in framed(finding._repr_html_())
    assert "8 events" in repr(made["read_trace"])
    assert "75 µs wall time" in repr(made["read_trace"])
    assert "2 traces · 1 model" in repr(made["read_traces"])
    assert "before.json → after.json" in repr(made["compare_traces"])
    assert "250 G FLOP/s" in repr(made["measure_machine"])
    assert "500 mJ per run" in repr(made["measure_energy"])


def test_an_unknown_figure_is_a_dash_and_states_why(made):
    assert "Energy  –" in repr(made["energy_meter"])
    assert 'title="not measured"' in framed(made["energy_meter"]._repr_html_())
    assert "Compute  –" in repr(Cost(forward=msgspec.structs.replace(Cost().forward, unknown_ops=1)))


def test_two_recordings_do_not_mix():
    model = net()
    first, second = recorded(model), recorded(model)
    assert len(model[0].forward_stats) == 4
    assert len(first.calls) == len(second.calls) == 2 * (3 * BLOCKS + 1)
    assert max(call.index for call in first.calls) < min(call.index for call in second.calls)


def test_values_that_are_not_finite_are_named():
    model = net()
    with torch.no_grad():
        model[3][0].weight[0, 0] = float("nan")
    recording = recorded(model)
    for result in (recording, model[3][0].forward_stats, assay.check(model, inputs(), measure=False)):
        assert "NaN first appears in" in repr(result)
        assert "✗" in framed(result._repr_html_())


EMPTY: dict[str, Callable[[], Displayed]] = {
    "Document": Document,
    "Cost": Cost,
    "WeightsReport": WeightsReport,
    "Timing": Timing,
    "MonitorRecording": MonitorRecording,
    "Traces": lambda: Traces([], {}),
    "Trace": lambda: Trace("", 0, 0, None, ""),
    "Finding": lambda: Finding("", "", "", ""),
    "CheckReport": lambda: CheckReport(Document(), CheckResult([], [], ())),
    "Analysis": lambda: Analysis(Document(), "structure", architecture(Document()), CheckResult([], [], ())),
    "MachineReport": lambda: MachineReport(Hardware("cpu", "")),
    "Replay": lambda: Replay(NOT_MEASURED),
    "Brief": lambda: Brief(()),
}


@pytest.mark.parametrize("name", EMPTY)
def test_an_empty_result_shows_its_class(name):
    result = EMPTY[name]()
    assert_short(repr(result))
    assert repr(result).startswith(name)
    html = result._repr_html_()
    assert html is None or parsed(framed(html))


def broken() -> dict[str, Document]:
    """Documents whose rows refer to rows that do not exist, and other things that no recorder writes."""
    good = handmade.conv_stack()
    return {
        "kind": replace(good, ops=[Op(99, 0)]),
        "call": replace(good, ops=[Op(0, 99)]),
        "parent": replace(good, modules=[*good.modules, Module("x.y", "X", "X", 99)]),
        "tensor": replace(good, modules=[Module("", "X", "X", None, {}, {"weight": 99})]),
        "finding": replace(good, findings=[Finding("W101", "warning", "title", "advice", (99,))]),
        "severity": replace(good, findings=[Finding("W101", "x onload=y", "title", "advice")]),
        "timing": replace(good, timing=Timing([None] * 99)),
        "long": replace(good, modules=[Module("", "C" * 5000, "C", None)]),
        "control": replace(good, modules=[Module("", "\x1b[31m\n\n\n\u202e字" * 40, "C", None)]),
        "stopped": handmade.stopped("because " * 200),
    }


@pytest.mark.parametrize("name", broken())
def test_documents_from_elsewhere_never_raise(name):
    document = broken()[name]
    assert_short(repr(document))
    assert repr(document).startswith("Document")
    assert "\x1b" not in repr(document)
    html = document._repr_html_()
    assert html is None or parsed(framed(html))


def test_a_pass_that_stopped_is_marked():
    assert "(partial)" in repr(handmade.stopped())
    assert "shapes do not fit" in repr(handmade.stopped())


def test_a_long_brief_says_how_much_it_leaves_out():
    problems = [Finding(f"W{at}", "error", f"problem {at} " + "word " * 60, "advice") for at in range(20)]
    text = repr(Brief(("model",), problems=problems))
    assert_short(text)
    assert text.splitlines()[-1].strip().startswith("… ")
    assert text.splitlines()[-1].endswith("more lines")


def test_names_from_a_model_are_text(tmp_path):
    evil = results(net(HOSTILE), tmp_path)
    for kind in ("observe", "check", "analyze", "analyze_weights", "summary", "recording", "cost"):
        html = evil[kind]._repr_html_()
        page = framed(html)
        tags = parsed(page)
        assert "img" not in tags.seen
        assert html.count("<iframe") == html.count("</iframe>") == 1
        assert not [name for name, _ in tags.attributes if name.startswith("on")]
    assert HOSTILE in "".join(parsed(framed(evil["summary"]._repr_html_())).texts)
    assert 'sandbox=""' in evil["summary"]._repr_html_()


def test_a_large_document_is_not_examined(monkeypatch):
    document = handmade.conv_stack()
    monkeypatch.setattr(large, "QUICK", 5)
    monkeypatch.setattr("assay.api.display.models.subject_of", lambda *_: pytest.fail("it was examined"))
    assert "Sequential · 7 modules · 4 tensors · 6 ops" in repr(document)
    assert "7 modules" in "".join(parsed(framed(document._repr_html_())).texts)


def test_a_frame_is_only_as_high_as_it_needs(made):
    def height(result: Any) -> int:
        return int(result._repr_html_().rpartition("height:")[2].partition("px")[0])

    assert height(made["law"]) < 60
    assert height(made["profile"]) <= MAX_HEIGHT


@pytest.mark.parametrize("kind", ["observe", "cost", "check", "analyze_weights", "read_trace", "finding", "profile"])
def test_what_a_result_is_does_not_change(made, kind):
    result = made[kind]
    kinds = type(result)
    assert pickle.loads(pickle.dumps(result)) == result  # noqa: S301
    assert copy.copy(result) == copy.deepcopy(result) == result
    assert msgspec.json.decode(msgspec.json.encode(result), type=kinds) == result
    assert not hasattr(result, "__dict__")
    assert "_repr_html_" not in kinds.__struct_fields__


def test_every_public_result_shows_a_preview():
    classes = {name: value for name in assay.__all__ if isinstance(value := getattr(assay, name), type)}
    results = {name for name, value in classes.items() if not issubclass(value, (Exception, Warning))}
    assert {name for name in results if not issubclass(classes[name], Displayed)} == set()
    assert results <= set(display.PREVIEWS)


def test_structs_inside_results_are_short_too(made):
    document = made["profile"]
    for inner in (document.profile, document.timing, made["check"].checked, made["memory"].inference):
        assert_short(repr(inner))
    row = made["analyze_weights"].tensors[0]
    assert_short(repr(row))
    assert f"names={row.names!r}" in repr(row)
    assert "modules=<37 rows>" in repr(document.timing)
