"""Rules about where measured time goes: launches, Python, and ops far below both limits."""

from __future__ import annotations

import pytest
import torch
from finding_models import paths, values
from machine_documents import MACHINE, finding_on, measured, timed
from msgspec.structs import replace
from torch import nn

import assay
from assay.document.machine import NOT_MEASURED
from assay.document.timing import Timing


@pytest.fixture(scope="module")
def document():
    return assay.observe(nn.Sequential(nn.Linear(512, 512), nn.GELU()).eval(), torch.ones(64, 512))


def launched(document, bound):
    timing = Timing(
        whole=measured(1.0), host=measured(0.95), device=measured(0.3), gap=measured(0.7), launch_bound=bound
    )
    return replace(
        timed(document, {"aten.linear": 0.3}, between_s=0.7),
        timing=timing,
        machine=replace(document.machine, device="cuda"),
    )


def test_a_pass_bound_by_launches(document):
    finding = finding_on("C215", launched(document, True))
    assert finding.gain.amount.value == 0.7
    assert finding.gain.share.value == pytest.approx(0.7, rel=1e-3)
    assert finding_on("C215", launched(document, False)) is None
    assert finding_on("C215", launched(document, None)) is None
    assert finding_on("C216", launched(document, True)) is None


def test_python_between_ops(document):
    finding = finding_on("C216", timed(document, {"aten.linear": 0.6}, between_s=0.4))
    assert values(finding)["share_between_ops"] == pytest.approx(0.4)
    assert finding.gain.amount.value == pytest.approx(0.4)
    assert finding_on("C216", timed(document, {"aten.linear": 0.9}, between_s=0.1)) is None


def test_waiting_is_not_python(document):
    waiting = timed(document, {"aten.linear": 0.1}, between_s=0.9)
    busy = replace(waiting, profile=replace(waiting.profile, processor=measured(0.12)))
    assert finding_on("C216", waiting) is not None
    assert finding_on("C216", busy) is None


def test_times_that_were_withheld_are_not_python_time(document):
    withheld = timed(document, {"aten.linear": 0.6}, between_s=0.4, whole=NOT_MEASURED)
    assert finding_on("C216", withheld) is None


def limit_s(document, target):
    kind = next(i for i, each in enumerate(document.kinds) if each.target.startswith(target))
    cost = document.cost.kinds[kind]
    return max(cost.flops / 1e12, cost.bytes / MACHINE.bandwidth)


def test_ops_far_below_both_limits(document):
    least = limit_s(document, "aten.gelu")
    slow = timed(document, {"aten.linear": limit_s(document, "aten.linear"), "aten.gelu": 50 * least})
    finding = finding_on("C217", slow)
    assert "gelu (64x512)" in finding.title
    assert paths(document, finding) == ["1"]
    assert finding.gain.amount.value == pytest.approx(49 * least, rel=0.05)
    assert values(finding)["worst_time_s"] == pytest.approx(50 * least)


def test_ops_near_a_limit_and_short_ops_are_silent(document):
    near = {name: 1.2 * limit_s(document, name) for name in ("aten.linear", "aten.gelu")}
    assert finding_on("C217", timed(document, near)) is None
    small = assay.observe(nn.GELU(), torch.ones(4))
    assert finding_on("C217", timed(small, {"aten.gelu": 5e-6})) is None
    assert finding_on("C217", timed(small, {"aten.gelu": 5e-4})) is not None


def test_channels_first_convolutions_are_explained_by_their_own_rule():
    images = assay.observe(nn.Sequential(nn.Conv2d(8, 8, 3), nn.MaxPool2d(2)), torch.ones(1, 8, 64, 64))
    finding = finding_on("C217", timed(images, {"aten.conv2d": 0.1, "aten.max_pool2d": 0.1}))
    assert finding.severity == "note"
