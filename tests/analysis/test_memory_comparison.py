"""Predicted beside measured peaks: the ratio, and reasons only where the values differ."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from assay.analysis.memory import compared_peaks, memory_of
from assay.document.document import Document
from assay.document.profile import MemoryMeasured, Profile, StepTime
from assay.document.provenance import Counted, Figure, Measured, Unknown

MIB = 1 << 20


def document(predicted, allocated, resident, device="cpu"):
    measured = MemoryMeasured(
        process_growth=Figure(resident, Measured("kernel")),
        predicted_activations=Figure(predicted, Counted("storages")),
        allocator_growth=Figure(allocated, Measured("allocator")),
        allocator_op="aten::lstm",
    )
    return Document(profile=Profile(device=device, memory=measured))


def compared(document, **fields):
    return compared_peaks(document, replace(memory_of(document), **fields))


def test_without_a_profile_nothing_is_compared():
    assert compared(Document()) == []


def test_values_that_agree_need_no_reason():
    (row,) = compared(document(100 * MIB, 104 * MIB, 109 * MIB))
    assert row.ratio == pytest.approx(100 / 104)
    assert row.reasons == ()


def test_the_reason_names_the_op_and_the_unknown_workspaces():
    (row,) = compared(document(100 * MIB, 150 * MIB, 150 * MIB), workspace_unknown=("torch.conv2d",))
    assert row.reasons == (
        "torch allocated 50 MiB more at its peak, reached in aten::lstm, than predicted",
        "workspace unknown, and not predicted: torch.conv2d",
    )


def test_a_prediction_that_is_too_high_shows_its_assumptions():
    (row,) = compared(document(200 * MIB, 150 * MIB, 150 * MIB), assumptions=("unfused attention",))
    assert row.ratio == pytest.approx(200 / 150)
    assert row.reasons[0].startswith("torch allocated 50 MiB less")
    assert row.reasons[1:] == ("unfused attention",)


@pytest.mark.parametrize(
    ("resident", "reason"),
    [
        (180 * MIB, "the resident set grew by 80 MiB more"),
        (40 * MIB, "60 MiB that torch allocated were never written"),
    ],
)
def test_the_process_is_compared_with_the_allocator(resident, reason):
    (row,) = compared(document(100 * MIB, 100 * MIB, resident))
    (text,) = row.reasons
    assert text.startswith(reason)


def test_the_host_of_a_gpu_is_not_compared_with_its_allocator():
    (row,) = compared(document(100 * MIB, 100 * MIB, 0, device="cuda:0"))
    assert row.reasons == ()


def test_what_is_unknown_has_no_ratio_and_an_unmeasured_step_no_row():
    unknown = Figure(None, Unknown("another profiler is running"))
    measured = MemoryMeasured(predicted_activations=Figure(7, Counted("storages")), allocator_growth=unknown)
    profiled = Document(profile=Profile(memory=measured, step=StepTime()))
    (row,) = compared(profiled)
    assert (row.name, row.ratio, row.measured) == ("forward pass", None, unknown)
