"""The brief of traces: times, use of the accelerator and changes, against the spans that the trace was made of."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

import assay
from assay.findings.brief_trace import diff_brief, set_brief, trace_brief, trace_findings
from assay.trace.read.across import trace_sets
from assay.trace.read.diff import compare

sys.path.insert(0, str(Path(__file__).parents[1] / "trace" / "read"))
from trace_making import Making, gpu_training

US = 1_000


def busy_and_idle(path: Path) -> Path:
    """Two kernels of 100 µs each in a span of 400 µs on the accelerator."""
    made = Making()
    for number, start in enumerate((100, 400), 1):
        made.launch(number, (start - 5) * US, 2 * US).kernel("gemm", start * US, 100 * US, number)
    made.write(path)
    return path


def read(path: Path):
    return assay.read_trace(path)


def figures(brief):
    return {one.label: one for one in brief.figures}


def test_the_use_of_the_accelerator_is_that_of_its_kernels(tmp_path):
    trace = read(busy_and_idle(tmp_path / "t.json"))
    brief = trace_brief(trace, trace_findings([trace]), next_step="assay check t.json")
    made = figures(brief)
    assert made["GPU"].figure.value == pytest.approx(200 / 400)
    assert "50.0 % idle" in made["GPU"].detail
    assert made["Time"].figure.value == pytest.approx(trace.wall_ns / 1e9)
    assert [one.code for one in brief.actions] == ["T102"]
    assert brief.next_step == "assay check t.json"


def test_what_the_trace_lacks_is_named_with_the_way_to_record_it(tmp_path):
    trace = read(busy_and_idle(tmp_path / "t.json"))
    assert [one.what for one in trace_brief(trace, []).unknown][:2] == ["layers", "memory"]
    cut = trace_brief(replace(trace, complete=False), [])
    assert cut.partial
    assert cut.unknown[0].why == "a file is truncated"


def test_several_passes_have_a_median_and_a_range(tmp_path):
    trace = read(busy_and_idle(tmp_path / "t.json"))
    members = [replace(trace, path=str(at), wall_ns=wall) for at, wall in enumerate((3_000, 1_000, 2_000))]
    (made,) = trace_sets(members)
    time = figures(set_brief(made, members, []))["Time"].figure
    assert time.value == pytest.approx(2e-6)
    assert time.how.range == pytest.approx((1e-6, 3e-6))


def test_the_slowest_rank_is_named(tmp_path):
    gpu_training().write(tmp_path / "t.json")
    trace = read(tmp_path / "t.json")
    slow = [
        replace(kernel, gpu_ns=2 * kernel.gpu_ns) if kernel.kind == "compute" else kernel for kernel in trace.kernels
    ]
    members = [replace(trace, path=str(rank), rank=rank, world_size=3) for rank in range(3)]
    members[2] = replace(members[2], kernels=slow, gpu_ns=sum(kernel.gpu_ns for kernel in slow))
    (made,) = trace_sets(members)
    worst = max(made.ranks, key=lambda row: row.behind or 0)
    ranks = figures(set_brief(made, members, []))["Ranks"]
    assert ranks.figure.value == pytest.approx(worst.behind)
    assert f"rank {worst.rank}" in ranks.text


def test_a_comparison_states_the_change_of_the_pass(tmp_path):
    trace = read(busy_and_idle(tmp_path / "t.json"))
    diff = compare([trace], [trace])
    brief = diff_brief(replace(diff, total=replace(diff.total, before_ns=1_000, after_ns=1_500, change_ns=500)))
    time = figures(brief)["Time"]
    assert time.figure.value == pytest.approx(1.5e-6)
    assert "before 1 µs: +500 ns, +50.0 %" in time.text
