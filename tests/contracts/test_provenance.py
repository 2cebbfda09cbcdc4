"""Every number of a document that can be measured or modelled states how it was obtained."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
import torch
from torch import nn

import assay
from assay.api.activations import record_activations
from assay.api.options import RunOptions
from assay.document.activations import Activations
from assay.document.assessments import Assessment
from assay.document.cost import Cost, CostTotals, KindCost
from assay.document.machine import MachineReport
from assay.document.profile import Profile
from assay.document.provenance import Counted, Coverage, Figure, Measured, Modelled, Unknown
from assay.document.timing import Timing
from assay.document.weights import WeightsReport
from assay.machine.waiting import Waited
from assay.sources.open import open_source

SETTINGS = {"weights.tensors.near_zero_below", "profile.system.period_s"}
"""Numbers that were chosen, not obtained."""
PLAIN = (Counted, Coverage, Figure, Measured, Modelled, Unknown)
INTEGERS = (KindCost, CostTotals)
"""Rows whose integers are figures; other integers are indices, sizes and counts."""


STATING = (Activations, Assessment, Cost, MachineReport, Profile, Timing, WeightsReport)


class Everything(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 16), nn.Linear(16, 4)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


@pytest.fixture(scope="module")
def documents():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("assay.machine.waiting.ProcessorWait.read", lambda self: Waited(0, 0))
        profiled = assay.profile(
            Everything(), torch.randn(4, 8), passes=4, backward=True, thread_counts=(1, 2),
            sweeps=[("batch", [1, 2])], energy=True, system=True, seconds=0.1,
        )  # fmt: skip
        analyzed = assay.analyze(Everything(), torch.randn(4, 8), depth="inference")
    values = record_activations(open_source(Everything()), torch.randn(4, 8), RunOptions(), backward=True)
    return [profiled, msgspec.structs.replace(analyzed.document, activations=values)]


def bare_numbers(value: Any, path: str, columns: dict[str, Any]) -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """The path of every number outside a figure, with the columns that its structs state."""
    if isinstance(value, PLAIN):
        return
    if isinstance(value, msgspec.Struct):
        stated = getattr(value, "columns", {}) if isinstance(value, STATING) else {}
        known = {**columns, **{f"{path}.{name}".lstrip("."): how for name, how in stated.items()}}
        for name in value.__struct_fields__:
            inner = getattr(value, name)
            if isinstance(inner, float) or (isinstance(inner, int) and isinstance(value, INTEGERS)):
                yield f"{path}.{name}".lstrip("."), inner, known
            elif name not in ("config", "attributes") and inner is not stated:
                yield from bare_numbers(inner, f"{path}.{name}".lstrip("."), known)
    elif isinstance(value, (list, tuple)):
        for item in value:
            if isinstance(item, float):
                yield path, item, columns
            else:
                yield from bare_numbers(item, path, columns)
    elif isinstance(value, dict):
        for item in value.values():
            yield from bare_numbers([item], path, columns)


def test_every_bare_number_is_in_a_column_that_states_its_provenance(documents):
    for document in documents:
        numbers = list(bare_numbers(document, "", {}))
        assert len(numbers) > 100
        missing = {
            path
            for path, _, columns in numbers
            if path not in SETTINGS and not any(path == stated or path.startswith(f"{stated}.") for stated in columns)
        }
        assert missing == set()


def test_columns_name_things_that_exist(documents):
    """A column that was renamed would state nothing."""
    document = documents[0]
    names = {path for path, _, _ in bare_numbers(document, "", {})}
    for stated in document.timing.columns:
        if stated != "modes" and "device" not in stated and "gap" not in stated:
            assert f"timing.{stated}" in names, stated
    for stated in document.profile.columns:
        covered = any(path == f"profile.{stated}" or path.startswith(f"profile.{stated}.") for path in names)
        assert covered or stated == "kinds.kernels", stated


def test_a_single_measurement_has_no_spread():
    document = assay.profile(nn.Linear(4, 4), torch.zeros(1, 4), passes=1)
    how = document.timing.whole.how
    assert (how.spread, how.range) == (None, None)
    assert document.timing.as_run.how.spread is None
    row = next(row for row in document.profile.kinds if row is not None)
    assert (row.low_s, row.high_s) == (None, None)
