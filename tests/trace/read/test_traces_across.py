"""Several traces: passes, ranks, unreadable files, and comparisons."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trace_making import Making, gpu_training

from assay.errors import ReadError
from assay.trace.read.across import trace_sets
from assay.trace.read.diff import compare, noise_ns
from assay.trace.read.parallel import UnreadableTrace, read_traces, read_traces_on_ray, trace_files
from assay.trace.read.reading import read_trace


def pass_file(folder, name, **layers):
    """A trace with these layers one after another, each taking this many nanoseconds."""
    made, at = Making(), 0
    for layer, length in layers.items():
        made.label(layer, at, length)
        at += length
    return made.write(folder / f"{name}.json")


def test_traces_of_a_directory_are_sorted_and_other_files_ignored(tmp_path):
    for name in ("b.json", "a.json.gz", "notes.txt", ".part"):
        (tmp_path / name).write_text("x")
    assert [path.name for path in trace_files([tmp_path, tmp_path / "b.json"])] == ["a.json.gz", "b.json"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(ReadError, match="no trace files in"):
        trace_files([tmp_path / "empty"])
    with pytest.raises(ReadError, match="no such file"):
        trace_files([tmp_path / "gone.json"])


def test_passes_have_a_median_and_a_spread(tmp_path):
    times = [100, 110, 120, 130, 1000]
    files = [pass_file(tmp_path, f"p{i}", a=time, b=50) for i, time in enumerate(times)]
    (found,) = trace_sets([trace for trace in read_traces(files) if not isinstance(trace, UnreadableTrace)])
    rows = {row.name: row for row in found.layers}
    assert (rows["a"].median_ns, rows["a"].min_ns, rows["a"].max_ns, rows["a"].seen_in) == (120, 100, 1000, 5)
    assert rows["a"].spread_ns == 10
    assert rows["b"].spread_ns == 0
    assert (found.ranks, rows["a"].imbalance) == ([], None)


def test_an_unreadable_file_does_not_affect_the_rest(tmp_path):
    files = [pass_file(tmp_path, "good", a=5), tmp_path / "bad.json"]
    files[1].write_text("nothing")
    good, bad = read_traces(files)
    assert good.layers[0].cpu_self_ns == 5
    assert isinstance(bad, UnreadableTrace)
    assert "is not JSON" in bad.why


def test_processes_read_the_same(tmp_path, monkeypatch):
    files = [gpu_training().write(tmp_path / f"t_rank{rank}.json") for rank in range(3)]
    here = read_traces(files)
    monkeypatch.setattr("assay.trace.read.parallel._WORTH_BYTES", 0)
    calls = []
    assert read_traces(files, workers=2, progress=lambda done, total: calls.append((done, total))) == here
    assert calls[-1][0] == calls[-1][1]
    assert len(calls) == 1 + 3


def test_ray_reads_the_same(tmp_path):
    ray = pytest.importorskip("ray")
    files = [pass_file(tmp_path, f"p{i}", a=5 + i) for i in range(2)]
    files.append(tmp_path / "bad.json")
    files[-1].write_text("")
    found = read_traces_on_ray([path.absolute() for path in files], workers=1)
    assert [trace.layers[0].cpu_self_ns for trace in found[:2]] == [5, 6]
    assert isinstance(found[2], UnreadableTrace)
    assert not ray.is_initialized()


def ranked(tmp_path, work):
    """Ranks whose layer `a` takes this long; communication ends on all ranks at the same time."""
    files = []
    for rank, time in work.items():
        made = Making().label("a", 0, 10_000).launch(1, 100).launch(2, 5_000)
        made.kernel("gemm", 20_000, time, 1).kernel("ncclAllReduce", 20_000 + time, 100_000 - time, 2, stream=9)
        files.append(made.write(tmp_path / f"job_rank{rank}.json"))
    return [read_trace(path) for path in files]


def test_the_rank_that_works_longest_is_the_straggler(tmp_path):
    (found,) = trace_sets(ranked(tmp_path, {0: 40_000, 1: 41_000, 2: 60_000, 3: 40_000}))
    assert [row.rank for row in found.ranks if row.straggler] == [2]
    assert {row.gpu_ns for row in found.ranks} == {100_000}
    slow = found.ranks[2]
    assert (slow.working_ns, slow.communication_ns) == (60_000, 40_000)
    assert slow.behind == pytest.approx(60_000 / 40_500 - 1)
    (layer,) = found.layers
    assert (layer.slowest, found.time) == (2, "gpu")


def test_balanced_ranks_have_no_straggler(tmp_path):
    (found,) = trace_sets(ranked(tmp_path, {0: 40_000, 1: 40_100}))
    assert not any(row.straggler for row in found.ranks)


def test_imbalance_is_against_the_mean(tmp_path):
    files = [pass_file(tmp_path, f"x_rank{rank}", a=100, b=time) for rank, time in enumerate((100, 100, 400))]
    (found,) = trace_sets([read_trace(path) for path in files])
    rows = {row.name: row for row in found.layers}
    assert rows["a"].imbalance == pytest.approx(0)
    assert (rows["b"].imbalance, rows["b"].slowest) == (pytest.approx(1.0), 2)


def sides(tmp_path, before, after):
    return [
        [read_trace(pass_file(tmp_path, f"{side}{i}", a=time, b=1000)) for i, time in enumerate(times)]
        for side, times in (("old", before), ("new", after))
    ]


def verdicts(diff):
    return {row.name: row.verdict for row in diff.layers}


def test_a_change_larger_than_the_noise_is_reported(tmp_path):
    diff = compare(*sides(tmp_path, [1000, 1010, 990, 1005], [1300, 1310, 1290, 1305]))
    assert verdicts(diff) == {"a": "slower", "b": "same"}
    assert (diff.total.verdict, diff.layers[0].name, diff.layers[0].change_ns) == ("slower", "a", 300)
    back = compare(*sides(tmp_path, [1300, 1310, 1290, 1305], [1000, 1010, 990, 1005]))
    assert verdicts(back)["a"] == "faster"


def test_a_change_within_the_noise_is_not_significant(tmp_path):
    diff = compare(*sides(tmp_path, [1000, 1400, 1100, 1200], [1250, 1350, 1150, 1300]))
    assert verdicts(diff)["a"] == "same"
    assert diff.layers[0].noise_ns > abs(diff.layers[0].change_ns)


def test_the_noise_of_one_pass_is_unknown(tmp_path):
    diff = compare(*sides(tmp_path, [1000], [2000, 2001]))
    assert verdicts(diff) == {"a": "unknown", "b": "unknown"}
    assert diff.layers[0].noise_ns is None
    assert "noise is unknown" in diff.notes[0]


def test_layers_that_are_new_or_gone(tmp_path):
    old = [read_trace(pass_file(tmp_path, "old", a=10, gone=20))]
    new = [read_trace(pass_file(tmp_path, "new", a=10, new=30))]
    assert verdicts(compare(old, new)) == {"new": "new", "gone": "gone", "a": "unknown"}


def test_noise_matches_the_t_test():
    """At 6 degrees of freedom Student's t is 3.707 at 99 %; equal variances and counts give Welch exactly those."""
    assert noise_ns([0, 100, 0, 100], [500, 600, 500, 600]) == pytest.approx(3.71 * (2 * 3333.33 / 4) ** 0.5, abs=1)
    assert noise_ns([5, 5], [9, 9]) == 0
    assert noise_ns([5], [9, 9]) is None


@settings(max_examples=20)
@given(st.integers(0, 10_000), st.integers(3, 8))
def test_equal_noise_on_both_sides_is_rarely_significant(seed, passes):
    rng = random.Random(seed)
    wrong = 0
    for _ in range(40):
        old, new = ([round(rng.gauss(10_000, 800)) for _ in range(passes)] for _ in range(2))
        noise = noise_ns(old, new)
        medians = [sorted(side)[passes // 2] for side in (old, new)]
        wrong += noise is not None and abs(medians[1] - medians[0]) > noise
    assert wrong <= 6


def test_passes_that_mostly_overlap_are_the_same_however_many(tmp_path):
    """With forty passes a shift of half a spread is significant; a single pass would still not show it."""
    before = [1000 + 10 * i for i in range(40)]
    diff = compare(*sides(tmp_path, before, [time + 130 for time in before]))
    row = next(row for row in diff.layers if row.name == "a")
    assert abs(row.change_ns) > row.noise_ns
    assert row.verdict == "same"


def test_two_passes_per_side_prove_little(tmp_path):
    diff = compare(*sides(tmp_path, [1000, 1100], [1150, 1300]))
    assert verdicts(diff)["a"] == "same"
