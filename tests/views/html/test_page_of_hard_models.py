"""Every model that can be recorded has a page, also if its pass stops."""

from __future__ import annotations

import warnings

import msgspec
import pytest
from models import hard

import assay
from assay.api.report.subject import subject_of
from assay.errors import PartialWarning
from assay.views.html.build import build_page
from assay.views.html.page import PageTable


@pytest.mark.parametrize("name", sorted({**hard.CASES, **hard.FAILING}))
def test_a_hard_model_has_a_page(name: str) -> None:
    model, inputs = {**hard.CASES, **hard.FAILING}[name]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PartialWarning)
        document = assay.observe(model, inputs)
    data = build_page(subject_of(document))
    assert msgspec.json.decode(msgspec.json.encode(data))
    table = data.sections["modules"]
    assert isinstance(table, PageTable)
    assert table.run is not None
    assert sum(run == 1 for run in table.run) >= len(document.modules)
    assert [view.id for view in data.page.views if not view.blocks and not view.empty] == []
