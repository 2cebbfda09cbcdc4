"""Layers of real traces: torch itself is the oracle for shapes, memory, backward and operations."""

from __future__ import annotations

import json

import pytest
from trace_making import Making

from assay import parse_model_trace, read_trace
from assay.document.trace_labels import METADATA_KEY, TracedModule, TraceFacts, encode_facts, encode_path

torch = pytest.importorskip("torch")


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(16, 16)
        self.act = torch.nn.ReLU()

    def forward(self, x):
        return self.act(self.lin(x)) + x


def model():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), Block(), Block(), torch.nn.Linear(16, 4))


@pytest.fixture(scope="module")
def traced(tmp_path_factory):
    """Traces of one model, two training steps each: with Assay's labels, with torch's stacks, and bare."""
    import os

    os.environ.setdefault("KINETO_LOG_LEVEL", "6")
    folder = tmp_path_factory.mktemp("traced")
    paths = {}
    for kind in ("labels", "stack", "bare"):
        net, x = model(), torch.randn(32, 8)
        names = {module: name for name, module in net.named_modules()}
        call = torch.nn.Module.__call__

        def labelled(self, *args, names=names, call=call, **kwargs):
            with torch._C._profiler._RecordFunctionFast(encode_path(names[self]), args):
                return call(self, *args, **kwargs)

        if kind == "labels":
            torch.nn.Module.__call__ = labelled
        try:
            with torch.autograd.profiler.profile(
                use_kineto=True, record_shapes=True, profile_memory=True, with_stack=kind == "stack"
            ) as profiler:
                for _ in range(2):
                    net(x).sum().backward()
        finally:
            torch.nn.Module.__call__ = call
        paths[kind] = folder / f"{kind}.json"
        profiler.export_chrome_trace(str(paths[kind]))
    return paths


@pytest.mark.parametrize("kind", ["labels", "stack", "bare"])
def test_time_adds_up(traced, kind):
    trace = read_trace(traced[kind])
    assert sum(row.cpu_self_ns for row in trace.layers) + sum(row.cpu_ns for row in trace.outside) == trace.cpu_ns
    assert trace.cpu_ns >= trace.wall_ns if len(trace.threads) > 1 else trace.cpu_ns == trace.wall_ns
    assert all(row.cpu_self_ns <= row.cpu_total_ns for row in trace.layers)
    assert (trace.skipped, trace.complete) == ({}, True)


def test_layers_are_the_modules(traced):
    trace = read_trace(traced["labels"])
    paths = [name or "(model)" for name, _ in model().named_modules()]
    assert [row.name for row in trace.layers] == paths
    assert {row.calls for row in trace.layers} == {2}
    assert trace.layers_from == "labels"
    shapes = {row.name: row.shapes for row in trace.layers}
    assert shapes["0"] == ("(32, 8)",)
    assert shapes["2.act"] == ("(32, 16)",)
    root = trace.layers[0]
    assert root.cpu_total_ns >= sum(row.cpu_total_ns for row in trace.layers if row.name in "0123")


def test_operations_are_those_of_the_layer(traced):
    rows = {row.name: row for row in read_trace(traced["labels"]).layers}
    assert rows["1.lin"].ops["aten::addmm"] == 2
    assert "aten::relu" in rows["1.act"].ops
    assert rows["1"].ops == {"aten::add": 2}
    assert rows["(model)"].ops == {}


def test_memory_is_what_layers_return(traced):
    rows = {row.name: row for row in read_trace(traced["labels"]).layers}
    size = 32 * 16 * 4
    assert rows["1.lin"].allocated_bytes == rows["1.act"].allocated_bytes == rows["1"].allocated_bytes == 2 * size
    assert rows["3"].allocated_bytes == 2 * 32 * 4 * 4
    (memory,) = read_trace(traced["labels"]).memory
    assert memory.peak_bytes == max(held for _, held in memory.timeline)


def test_backward_belongs_to_layers_with_parameters(traced):
    trace = read_trace(traced["labels"])
    backward = {row.name: row.backward_cpu_ns for row in trace.layers}
    assert all(backward[name] > 0 for name in ("0", "1.lin", "1.act", "1", "2.lin", "3"))
    assert backward["(model)"] == 0
    outside = {row.what: row.cpu_ns for row in trace.outside}
    assert sum(backward.values()) == outside["backward of layers"]
    assert outside["backward of layers"] > outside["backward of nothing in a layer"]


def test_a_trace_with_stacks_has_torch_names_for_modules(traced):
    trace = read_trace(traced["stack"])
    assert trace.layers_from == "nn.Module"
    assert {row.name for row in trace.layers} >= {
        "nn.Module: Sequential_0",
        "nn.Module: Linear_3",
        "nn.Module: Block_1",
    }
    rows = {row.name: row for row in trace.layers}
    assert rows["nn.Module: Linear_0"].shapes[0].startswith("(32, 8)")
    assert rows["nn.Module: Block_0"].calls == 2
    assert rows["nn.Module: Linear_1"].backward_cpu_ns > 0


def test_ops_match_torchs_own_counts(traced):
    trace = read_trace(traced["bare"])
    counted: dict[str, list[float]] = {}
    for event in json.loads(traced["bare"].read_text())["traceEvents"]:
        if event["ph"] == "X" and event["cat"] == "cpu_op":
            counted.setdefault(event["name"], []).append(event["dur"])
    assert {row.name: row.calls for row in trace.ops} == {name: len(times) for name, times in counted.items()}
    for row in trace.ops:
        times = sorted(counted[row.name])
        assert row.cpu_total_ns == pytest.approx(1000 * sum(times), abs=1)
        assert row.per_call.min_ns == pytest.approx(1000 * times[0], abs=1)
        assert row.per_call.max_ns == pytest.approx(1000 * times[-1], abs=1)
    assert (trace.layers, trace.layers_from) == ([], "")


def test_parse_model_trace_has_exactly_these_keys(traced):
    found = parse_model_trace(str(traced["labels"]), "Net")
    assert set(found) == {"model_name", "trace_file", "layer_stats"}
    assert (found["model_name"], found["trace_file"]) == ("Net", str(traced["labels"]))
    for stats in found["layer_stats"].values():
        assert set(stats) == {"total_time_us", "call_count", "shapes", "operations"}
        assert (type(stats["total_time_us"]), type(stats["shapes"]), type(stats["operations"])) == (int, set, set)
    trace = read_trace(traced["labels"])
    spent = sum(row.cpu_self_ns for row in trace.layers) / 1000
    total = sum(stats["total_time_us"] for stats in found["layer_stats"].values())
    assert total == pytest.approx(spent, abs=len(trace.layers))
    assert found["layer_stats"]["1.lin"]["shapes"] == {"(32, 16)"}
    assert "aten::addmm" in found["layer_stats"]["1.lin"]["operations"]


def test_parse_model_trace_without_modules_groups_by_op(traced):
    stats = parse_model_trace(traced["bare"])["layer_stats"]
    assert stats["aten::linear"]["call_count"] == 8
    assert "aten::addmm" in stats["aten::linear"]["operations"]
    assert "aten::addmm" not in stats


def test_parse_model_trace_groups_by_recorded_stacks(tmp_path):
    args = {"Input Dims": [[32, 100]], "Stack": ["model.py(15): forward", "linear.py(120): __call__"]}
    event = {"ph": "X", "cat": "cpu_op", "name": "aten::linear", "dur": 450, "args": args}
    (tmp_path / "t.json").write_text(json.dumps({"traceEvents": [event, {**event, "dur": 50}]}))
    stats = parse_model_trace(tmp_path / "t.json")["layer_stats"]
    expected = {"total_time_us": 500, "call_count": 2, "shapes": {"(32, 100)"}, "operations": {"aten::linear"}}
    assert stats == {"model.py(15): forward": expected}


@pytest.mark.parametrize("content", [None, b"", b"no trace", b"{}"])
def test_parse_model_trace_returns_none_if_there_is_no_trace(tmp_path, content):
    path = tmp_path / "t.json"
    if content is not None:
        path.write_bytes(content)
    assert parse_model_trace(str(path)) is None


def test_metadata_of_the_capture_is_used(tmp_path):
    facts = TraceFacts(
        "Net",
        4,
        rank=2,
        modules=(TracedModule("", "Net", shapes=(0,)), TracedModule('a"b é', "Linear", shapes=(1, 1))),
        shapes=(((8, 3),), ((8, 3), (5,))),
        notes=("a compiled region hides its layers",),
    )
    label = encode_path('a"b é')
    spans = [("assay:.", 0, 10), (label, 1, 2), (label, 4, 5)]
    events = [{"ph": "X", "cat": "cpu_op", "name": n, "pid": 1, "tid": 1, "ts": t, "dur": d} for n, t, d in spans]
    (tmp_path / "t.json").write_text(json.dumps({METADATA_KEY: encode_facts(facts), "traceEvents": events}))
    trace = read_trace(tmp_path / "t.json")
    assert (trace.model_name, trace.rank, trace.notes) == ("Net", 2, ("a compiled region hides its layers",))
    root, inner = trace.layers
    assert (root.name, root.class_name, root.shapes) == ("(model)", "Net", ("(8, 3)",))
    assert (inner.name, inner.class_name, inner.calls) == ('a"b é', "Linear", 2)
    assert inner.shapes == ("(8, 3), (5,)",)
    assert (inner.per_call.min_ns, inner.per_call.median_ns, inner.per_call.p95_ns) == (2000, 3500, 5000)
    assert parse_model_trace(tmp_path / "t.json")["model_name"] == "Net"


def test_annotations_replace_missing_modules(tmp_path):
    spans = [("forward", 0, 10, "user_annotation"), ("aten::mm", 2, 3, "cpu_op"), ("aten::add", 20, 3, "cpu_op")]
    events = [{"ph": "X", "cat": c, "name": n, "pid": 1, "tid": 1, "ts": t, "dur": d} for n, t, d, c in spans]
    (tmp_path / "t.json").write_text(json.dumps(events))
    trace = read_trace(tmp_path / "t.json")
    assert [(row.name, row.cpu_self_ns) for row in trace.layers] == [("forward", 10_000)]
    assert {row.what: row.cpu_ns for row in trace.outside} == {"other": 3_000, "nothing recorded": 10_000}
    assert trace.layers_from == "annotations"


def test_arrows_replace_missing_sequence_numbers(tmp_path):
    made = Making().label("a", 0, 10_000).span("aten::mm", 1_000, 3_000)
    made.span("autograd::engine::evaluate_function: MmBackward0", 20_000, 5_000, tid=12).flow(9, 1_000, 20_000, 12)
    made.span("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", 26_000, 1_000, tid=12)
    trace = read_trace(made.write(tmp_path / "t.json"))
    assert trace.layers[0].backward_cpu_ns == 5_000
    assert {row.what: row.cpu_ns for row in trace.outside}["backward of nothing in a layer"] == 1_000


def test_a_recomputed_forward_counts_once(tmp_path):
    """Checkpointing runs layers again inside the backward pass: their time is forward time, not backward time."""
    made = Making().label("a", 0, 10_000).span("aten::mm", 1_000, 3_000, Sequence_number=1, Fwd_thread_id=0)
    name = "autograd::engine::evaluate_function: CheckpointFunctionBackward"
    made.span(name, 20_000, 30_000, Sequence_number=1, Fwd_thread_id=1).label("a", 25_000, 8_000)
    trace = read_trace(made.write(tmp_path / "t.json"))
    row = trace.layers[0]
    assert (row.calls, row.cpu_self_ns, row.backward_cpu_ns) == (2, 18_000, 22_000)
    assert row.cpu_self_ns + sum(each.cpu_ns for each in trace.outside) == trace.cpu_ns == 50_000


def test_the_last_forward_op_with_a_number_created_the_node(tmp_path):
    """Ops that create no autograd node have the next node's number; later steps may reuse it."""
    made = Making().label("a", 0, 10_000).span("aten::view", 1_000, 500, Sequence_number=7, Fwd_thread_id=0)
    made.label("b", 20_000, 10_000).span("aten::mm", 21_000, 500, Sequence_number=7, Fwd_thread_id=0)
    made.span("MmBackward0", 40_000, 5_000, Sequence_number=7, Fwd_thread_id=1)
    made.label("c", 60_000, 10_000).span("aten::mm", 61_000, 500, Sequence_number=7, Fwd_thread_id=0)
    rows = {row.name: row.backward_cpu_ns for row in read_trace(made.write(tmp_path / "t.json")).layers}
    assert rows == {"a": 0, "b": 5_000, "c": 0}


def test_memory_belongs_to_the_innermost_layer_at_the_time(tmp_path):
    made = Making().label("", 0, 100_000).label("a", 10_000, 10_000).span("aten::mm", 11_000, 1_000)
    made.memory(11_500, 64, 64).memory(15_000, 32, 96).memory(50_000, 8, 104).memory(60_000, -64, 40)
    made.memory(200_000, 500, 540)
    trace = read_trace(made.write(tmp_path / "t.json"))
    rows = {row.name: (row.allocated_bytes, row.freed_bytes) for row in trace.layers}
    assert rows == {"(model)": (8, 64), "a": (96, 0)}
    (memory,) = trace.memory
    assert (memory.peak_bytes, memory.peak_at_ns, memory.peak_layer) == (540, 200_000, None)


def test_a_long_timeline_keeps_its_peaks(tmp_path):
    made, held = Making().label("a", 0, 100_000), 0
    for at in range(1000):
        size = 900 if at == 501 else -900 if at == 502 else 1
        held += size
        made.memory(10 * at, size, held)
    (memory,) = read_trace(made.write(tmp_path / "t.json")).memory
    assert len(memory.timeline) <= 256
    assert memory.peak_bytes == max(most for _, most in memory.timeline) == 501 + 900
    assert memory.peak_layer == "a"
