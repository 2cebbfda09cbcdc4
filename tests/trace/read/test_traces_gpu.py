"""Accelerator time: attribution to layers, unattributed kernels, idle time, overlap, queues."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trace_making import Making, gpu_training

from assay.trace.read import intervals
from assay.trace.read.reading import open_trace, read_trace, summarize


@pytest.fixture
def trace(tmp_path, engine):
    return summarize(open_trace(gpu_training().write(tmp_path / "gpu_rank3.json"), engine=engine))


def rows(trace):
    return {row.name: row for row in trace.layers}


def test_kernels_belong_to_the_layer_that_launched_them(trace):
    found = rows(trace)
    assert {name: row.gpu_self_ns for name, row in found.items()} == {"(model)": 0, "a": 8_000, "b": 5_000}
    assert {name: row.gpu_total_ns for name, row in found.items()} == {"(model)": 13_000, "a": 8_000, "b": 5_000}
    assert {name: row.kernels for name, row in found.items()} == {"(model)": 0, "a": 2, "b": 1}


def test_backward_kernels_belong_to_the_layer_of_their_forward(trace):
    found = rows(trace)
    assert (found["a"].backward_gpu_ns, found["b"].backward_gpu_ns) == (8_000, 4_000)
    assert (found["a"].backward_cpu_ns, found["b"].backward_cpu_ns) == (10_000, 10_000)


def test_unattributed_time_has_its_own_rows(trace):
    found = {row.why: (row.kernels, row.gpu_ns) for row in trace.unattributed}
    assert found == {"launched by a CUDA graph": (2, 5_000), "no launch record": (1, 5_000)}
    outside = {row.what: row.gpu_ns for row in trace.outside if row.gpu_ns}
    assert outside == {"backward of layers": 12_000, "backward of nothing in a layer": 20_000, "optimizer": 2_000}


def test_no_accelerator_time_is_lost_or_counted_twice(trace):
    layers = sum(row.gpu_self_ns for row in trace.layers)
    others = sum(row.gpu_ns for row in (*trace.outside, *trace.unattributed))
    assert layers + others == trace.gpu_ns == 57_000
    assert sum(row.cpu_self_ns for row in trace.layers) + sum(row.cpu_ns for row in trace.outside) == trace.cpu_ns
    assert sum(row.gpu_ns for row in trace.kernels) == trace.gpu_ns


def test_utilisation_of_the_accelerator(trace):
    (device,) = trace.devices
    assert (device.name, device.streams, device.span_ns) == ("GPU 0", 3, 106_000)
    busy = (28 - 20) + (45 - 40) + (65 - 60) + (84 - 80) + (112 - 90) + (126 - 120)
    assert (device.busy_ns, device.idle_ns) == (1000 * busy, 106_000 - 1000 * busy)
    assert sum(device.idle_causes.values()) == device.idle_ns
    assert (device.communication_ns, device.communication_hidden_ns) == (20_000, 6_000)
    assert (device.copy_ns, device.copy_hidden_ns) == (5_000, 1_000)


def test_causes_of_idling(tmp_path):
    made = Making().label("a", 0, 1_000_000)
    made.launch(1, 0).kernel("first", 5_000, 10_000, 1)
    made.launch(2, 100_000).kernel("late", 103_000, 10_000, 2)
    made.launch(3, 104_000).kernel("queued", 150_000, 10_000, 3)
    made.launch(4, 105_000).kernel("close", 161_000, 10_000, 4)
    made.span("cudaStreamSynchronize", 106_000, 80_000, cat="cuda_runtime")
    made.launch(5, 190_000).kernel("synchronized", 200_000, 10_000, 5)
    made.kernel("unlaunched", 300_000, 1_000, 0, external=0)
    (device,) = read_trace(made.write(tmp_path / "t.json")).devices
    assert device.idle_causes == {
        "the CPU launched late": 88_000,
        "launched in time, waited for other work": 37_000,
        "short gaps between kernels": 1_000,
        "the CPU waited for the accelerator first": 29_000,
        "not known: no launch record": 90_000,
    }
    assert device.queue_max == 2
    assert device.queue_mean == pytest.approx((5 + 3 + 46 + 56 + 10) / 200)


def test_a_launch_that_is_the_first_event_counts_in_the_queue(tmp_path):
    made = Making().launch(1, 0).kernel("first", 5_000, 1_000, 1)
    (device,) = read_trace(made.write(tmp_path / "t.json")).devices
    assert device.queue_max == 1


def test_launch_latency(trace):
    kernels = {row.name: row for row in trace.kernels}
    assert kernels["gemm"].latency.median_ns == 16_000
    assert kernels["graph_b"].latency.max_ns == 7_000
    assert kernels["Memcpy HtoD"].latency is None
    assert (kernels["Memcpy HtoD"].bytes, kernels["Memcpy HtoD"].kind) == (4096, "copy")
    assert kernels["ncclDevKernel_AllReduce_Sum"].kind == "communication"


def test_steps_contain_the_kernels_launched_in_them(trace):
    (step,) = trace.steps
    assert (step.name, step.cpu_ns, step.gpu_ns, step.kernels) == ("ProfilerStep#3", 200_000, 52_000, 9)


def test_the_rank_comes_from_the_trace_or_the_file_name(tmp_path, trace):
    assert trace.rank == 3
    made = gpu_training()
    made.root["distributedInfo"] = {"backend": "nccl", "rank": 1, "world_size": 4}
    trace_with_rank = read_trace(made.write(tmp_path / "x_rank7.json"))
    assert (trace_with_rank.rank, trace_with_rank.world_size) == (1, 4)


@pytest.mark.parametrize(
    ("launch", "category"),
    [
        ("hipLaunchKernel", "cuda_runtime"),
        ("hipExtModuleLaunchKernel", "hip_runtime"),
        ("cuLaunchKernel", "cuda_driver"),
        ("cudaLaunchKernel", "Runtime"),
    ],
)
def test_other_runtimes(tmp_path, launch, category):
    made = Making().label("a", 0, 10_000).launch(4, 1_000, name=launch, cat=category)
    made.kernel("k", 5_000, 3_000, 4, cat="Kernel" if category == "Runtime" else "kernel")
    assert rows(read_trace(made.write(tmp_path / "t.json")))["a"].gpu_self_ns == 3_000


def unlaunched(external_of_kernel):
    """Two kernels with launch records, one without; operations have external ids 50, 51, 52."""
    made = Making().label("a", 0, 30_000).label("b", 40_000, 30_000)
    made.span("aten::x", 1_000, 9_000, External_id=50).span("aten::y", 11_000, 9_000, External_id=51)
    made.span("aten::z", 41_000, 9_000, External_id=52)
    made.launch(7, 2_000, external=external_of_kernel(7, 50)).launch(8, 12_000, external=external_of_kernel(8, 51))
    made.kernel("x", 5_000, 1_000, 7, external=external_of_kernel(7, 50))
    made.kernel("y", 15_000, 1_000, 8, external=external_of_kernel(8, 51))
    made.kernel("z", 60_000, 1_000, 9, external=external_of_kernel(9, 52))
    return made


def test_external_ids_are_used_if_they_identify_ops(tmp_path):
    trace = read_trace(unlaunched(lambda correlation, op: op).write(tmp_path / "new.json"))
    assert (rows(trace)["b"].gpu_self_ns, trace.unattributed) == (1_000, [])


def test_external_ids_that_are_correlation_ids_are_not_trusted(tmp_path):
    shifted = {7: 52, 8: 50, 9: 51}
    trace = read_trace(unlaunched(lambda correlation, op: shifted[correlation]).write(tmp_path / "old.json"))
    assert (rows(trace)["a"].gpu_self_ns, rows(trace)["b"].gpu_self_ns) == (2_000, 0)
    assert [(row.why, row.gpu_ns) for row in trace.unattributed] == [("no launch record", 1_000)]


def test_a_trace_with_only_kernels(tmp_path):
    trace = read_trace(Making().kernel("k", 0, 10, 1).kernel("k", 20, 10, 2, device=1).write(tmp_path / "t.json"))
    assert (trace.gpu_ns, trace.cpu_ns, trace.wall_ns, len(trace.devices)) == (20, 0, 30, 2)
    assert trace.unattributed[0].kernels == 2


@settings(max_examples=100)
@given(*[st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), max_size=8)] * 2)
def test_interval_sets_against_brute_force(a, b):
    def covered(spans):
        return {moment for start, length in spans for moment in range(start, start + length)}

    def arrays(spans):
        start = np.array([span[0] for span in spans], dtype=np.int64)
        return start, start + np.array([span[1] for span in spans], dtype=np.int64)

    assert intervals.length(*arrays(a)) == len(covered(a))
    assert intervals.common(arrays(a), arrays(b)) == len(covered(a) & covered(b))
    first, last = intervals.union(*arrays(a))
    assert all(last[:-1] < first[1:])
