"""Rules about precision, batch size and threads: gains follow from the measured peaks and sweeps."""

from __future__ import annotations

import pytest
import torch
from finding_models import in_document, values
from machine_documents import MACHINE, finding_on, measured, timed
from msgspec.structs import replace
from torch import nn

import assay
from assay.document.machine import NOT_MEASURED
from assay.document.profile import Sweep, SweepPoint, ThreadPoint

X = torch.ones(8, 512)
AT_PEAK = 2 * 8 * 512 * 512 / 1e12
"""Seconds of the product at 1 TFLOP/s."""


@pytest.fixture(scope="module")
def document():
    return assay.observe(nn.Sequential(nn.Linear(512, 512), nn.ReLU()).eval(), X)


def on_gpu(document, **settings):
    return replace(document, machine=replace(document.machine, device="cuda:0", **settings))


def machine(**tflops):
    return replace(MACHINE, tflops=tflops)


def test_the_gain_of_bfloat16_is_the_share_of_products_times_the_ratio_of_peaks(document):
    finding = finding_on("C211", timed(document, {"aten.linear": AT_PEAK, "aten.relu": AT_PEAK / 4}))
    assert finding.severity == "advice"
    assert finding.gain.share.value == pytest.approx(0.8 * (1 - 1 / 2), rel=1e-2)
    assert finding.gain.amount.value == pytest.approx(AT_PEAK / 2, rel=1e-2)
    assert "bfloat16" in finding.title


def test_a_product_far_from_the_peak_saves_only_its_arithmetic(document):
    finding = finding_on("C211", timed(document, {"aten.linear": 10 * AT_PEAK}))
    assert finding.gain.share.value == pytest.approx(0.1 / 2, rel=1e-2)


def test_without_times_the_gain_is_unknown(document):
    clocked = timed(document, {"aten.linear": 0.8, "aten.relu": 0.2})
    kinds = [replace(kind, time_s=None, total_s=None) for kind in clocked.profile.kinds]
    unknown = replace(clocked.profile, kinds=kinds, ops=[None] * len(document.ops), whole=NOT_MEASURED)
    gain = finding_on("C211", replace(clocked, profile=unknown)).gain
    assert gain.amount.value is None
    assert gain.share.value is None


def test_float16_that_is_slower_here_is_not_recommended(document):
    clocked = timed(document, {"aten.linear": 0.8})
    assert finding_on("C211", clocked, machine(fp32=1.0, fp16=0.03)) is None
    assert finding_on("C211", clocked, machine(fp32=1.0, bf16=1.05, fp16=0.03)) is None
    assert "float16" in finding_on("C211", clocked, machine(fp32=1.0, bf16=0.5, fp16=4.0)).title


def test_without_measured_peaks_the_gain_is_unknown():
    large = assay.observe(nn.Linear(1024, 1024), torch.ones(1024, 1024))
    finding = finding_on("C211", large, None)
    assert finding.severity == "note"
    assert finding.gain.share.value is None
    half = assay.observe(nn.Linear(1024, 1024).to(torch.bfloat16), torch.ones(1024, 1024, dtype=torch.bfloat16))
    assert finding_on("C211", half, None) is None


@pytest.mark.parametrize(
    ("settings", "fires"),
    [
        ({"matmul_precision": "highest", "cudnn_tf32": True}, True),
        ({"matmul_precision": "high", "cudnn_tf32": True}, False),
        ({"matmul_precision": "", "cudnn_tf32": None}, False),
    ],
)
def test_tf32_that_is_off(document, settings, fires):
    device = machine(fp32=1.0, tf32=4.0, bf16=8.0)
    clocked = timed(on_gpu(document, **settings), {"aten.linear": AT_PEAK if fires else AT_PEAK / 4})
    finding = finding_on("C212", clocked, device)
    assert (finding is not None) == fires
    if fires:
        assert finding.gain.share.value == pytest.approx(0.75, rel=1e-2)
    # From TF32, bfloat16 gains a factor of 2; from full precision, one of 8.
    gain = finding_on("C211", clocked, device).gain
    assert gain.share.value == pytest.approx(1 - 1 / 8 if fires else 1 - 4 / 8, rel=1e-2)


def test_tf32_of_convolutions_has_its_own_setting():
    convolutional = assay.observe(nn.Conv2d(16, 64, 3), torch.ones(1, 16, 32, 32))
    device = machine(fp32=1.0, tf32=4.0)
    on = on_gpu(convolutional, matmul_precision="highest", cudnn_tf32=True)
    off = on_gpu(convolutional, matmul_precision="highest", cudnn_tf32=False)
    assert finding_on("C212", timed(on, {"aten.conv2d": 1.0}), device) is None
    at_peak = 2 * 64 * 16 * 9 * 30 * 30 / 1e12
    found = finding_on("C212", timed(off, {"aten.conv2d": at_peak}), device)
    assert found.gain.share.value == pytest.approx(0.75, rel=1e-3)


def test_tf32_is_a_matter_of_nvidia_gpus(document):
    assert finding_on("C212", timed(document, {"aten.linear": 1.0}), machine(fp32=1.0, tf32=4.0)) is None


def test_settings_of_torch_are_recorded(document):
    assert document.machine.matmul_precision == torch.get_float32_matmul_precision()
    assert document.machine.cudnn_tf32 == torch.backends.cudnn.allow_tf32
    assert document.machine.processors >= 1


def swept(document, throughputs, knee=None):
    points = [
        SweepPoint({"batch": size}, measured(size / rate), throughput=rate) for size, rate in throughputs.items()
    ]
    return timed(document, {"aten.linear": 1.0}, sweeps=[Sweep("batch", points, knee)])


def test_a_batch_below_the_knee(document):
    finding = finding_on("C213", swept(document, {8: 100.0, 16: 190.0, 32: 200.0}, knee=16))
    assert values(finding)["knee"] == 16
    assert finding.gain.share.value == pytest.approx(1 - 100 / 190)
    assert finding.gain.amount.value == pytest.approx((8 / 100) * (1 - 100 / 190))


def test_throughput_that_still_rises_at_the_largest_batch(document):
    assert values(finding_on("C213", swept(document, {8: 100.0, 16: 190.0})))["knee"] == 16


@pytest.mark.parametrize("rates", [{4: 100.0, 8: 180.0, 16: 185.0}, {1: 50.0, 4: 90.0}, {8: 100.0, 16: 102.0}])
def test_a_batch_at_the_knee_or_not_measured(document, rates):
    assert finding_on("C213", swept(document, rates, knee=8 if 8 in rates else None)) is None


def threads(document, times, now, ranges=None):
    points = [
        ThreadPoint(count, measured(time, **({"range": ranges[count]} if ranges else {})))
        for count, time in times.items()
    ]
    return timed(document, {"aten.linear": times.get(now, 1.0)}, threads=now, thread_points=points)


def test_the_fastest_number_of_threads(document):
    finding = finding_on("C214", threads(document, {1: 1.0, 2: 0.6, 4: 0.9}, now=4))
    assert values(finding)["fastest_threads"] == 2
    assert finding.gain.amount.value == pytest.approx(0.3)
    assert finding.gain.share.value == pytest.approx(0.3 / 0.9, rel=1e-3)


@pytest.mark.parametrize(
    ("times", "now", "ranges"),
    [
        ({1: 1.0, 2: 0.6}, 2, None),
        ({1: 1.0, 2: 1.02}, 2, None),
        ({1: 1.0, 2: 1.2}, 2, {1: (0.9, 1.3), 2: (1.1, 1.4)}),
        ({}, 1, None),
    ],
)
def test_threads_that_are_as_fast(document, times, now, ranges):
    assert finding_on("C214", threads(document, times, now, ranges)) is None


def test_more_threads_than_processors(document):
    few = replace(document, machine=replace(document.machine, processors=4))
    finding = finding_on("C214", threads(few, {}, now=8))
    assert values(finding) == {"threads": 8, "processors": 4}
    assert finding_on("C214", threads(few, {4: 1.0, 8: 0.9}, now=8)) is None


def test_without_a_profile_the_rules_are_skipped(document):
    for code in ("C213", "C214"):
        assert in_document(code, document) is None
