"""Flame graphs and repaired files, read back and compared with their source."""

from __future__ import annotations

import gzip
import json

import pytest
from trace_making import Making, gpu_training

from assay.errors import UsageError, WriteError
from assay.trace.read.flames import folded, icicle
from assay.trace.read.perfetto import write_repaired
from assay.trace.read.reading import open_trace, read_trace
from assay.trace.read.stacks import stacks_of


@pytest.fixture
def parts(tmp_path):
    return open_trace(gpu_training().write(tmp_path / "t.json"))


def test_folded_stacks_add_up_to_the_recorded_time(parts):
    lines = [line.rsplit(" ", 1) for line in folded(stacks_of(parts)).decode().splitlines()]
    found = {tuple(stack.split(";")): int(time) for stack, time in lines}
    assert found["(model)", "a", "aten::mm"] == 8_000
    assert found["(model)", "a", "aten::mm", "cudaLaunchKernel"] == 2_000
    assert found["(model)", "a"] == 10_000
    recorded = sum(thread.recorded_ns for thread in read_trace(parts.columns.path).threads)
    assert sum(found.values()) == recorded


def test_the_tree_has_the_same_paths_as_the_stacks(parts):
    tree = json.loads(icicle(stacks_of(parts), "t"))

    def check(node):
        assert node["value"] == node["self"] + sum(child["value"] for child in node["children"])
        for child in node["children"]:
            check(child)

    check(tree)
    (model,) = [child for child in tree["children"] if child["name"] == "(model)"]
    (a,) = [child for child in model["children"] if child["name"] == "a"]
    assert (a["value"], a["calls"]) == (20_000, 1)
    (launch,) = [child for child in a["children"][0]["children"] if child["name"] == "cudaLaunchKernel"]
    assert (launch["calls"], launch["gpu_self"]) == (2, 8_000)


def test_a_frame_with_a_semicolon_stays_one_frame(tmp_path):
    parts = open_trace(Making().span("a;b\nc", 0, 10).write(tmp_path / "t.json"))
    assert folded(stacks_of(parts)) == b"a,b c 10\n"


DAMAGE = {
    "whole": lambda text: text,
    "quote": lambda text: text.replace("aten::mm", 'aten::"mm", x'),
    "nan": lambda text: text.replace('"pid": 10', '"x": nan, "pid": 10'),
    "cut": lambda text: text[:-300],
    "BOM": lambda text: "\ufeff" + text,
    "root": lambda text: text.replace('"made"', '"ma"de"'),
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("name", ["out.json", "out.json.gz"])
def test_the_repaired_file_is_json_with_the_same_events(tmp_path, damage, name):
    source = tmp_path / "in.json"
    source.write_text(DAMAGE[damage](gpu_training().text()))
    counts = write_repaired(source, tmp_path / name)
    data = (tmp_path / name).read_bytes()
    found = json.loads(gzip.decompress(data) if name.endswith(".gz") else data)
    before, after = read_trace(source), read_trace(tmp_path / name)
    assert len(found["traceEvents"]) == counts.kept == before.events == after.events
    assert after.complete
    assert (after.cpu_ns, after.gpu_ns, [row.name for row in after.ops if row.name.startswith("aten")]) == (
        before.cpu_ns,
        before.gpu_ns,
        [row.name for row in before.ops if row.name.startswith("aten")],
    )
    assert found["schemaVersion"] == 1
    assert (counts.repaired > 0) == (damage in ("quote", "nan"))


def test_labels_become_paths(tmp_path):
    source = Making().label("layer1.a%22b", 0, 10).label("", 20, 10).write(tmp_path / "in.json")
    write_repaired(source, tmp_path / "out.json")
    names = [event["name"] for event in json.loads((tmp_path / "out.json").read_text())["traceEvents"]]
    assert names == ['layer1.a"b', "(model)"]


def test_a_list_of_events_is_repaired_too(tmp_path):
    (tmp_path / "in.json").write_text('[{"ph":"X","name":"a","ts":1,"dur":2,"pid":1,"tid":1}, {"ph":"X"')
    assert write_repaired(tmp_path / "in.json", tmp_path / "out.json").kept == 1
    assert len(json.loads((tmp_path / "out.json").read_text())["traceEvents"]) == 1


def test_nothing_is_overwritten_or_left_behind(tmp_path):
    source = gpu_training().write(tmp_path / "in.json")
    target = tmp_path / "out.json"
    target.write_text("precious")
    with pytest.raises(UsageError, match="exists"):
        write_repaired(source, target)
    assert target.read_text() == "precious"
    with pytest.raises(WriteError, match="cannot write"):
        write_repaired(source, tmp_path / "no" / "out.json")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.json", "out.json"]
