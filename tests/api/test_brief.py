"""`assay.brief`: one brief of every kind of result, as text, HTML and Markdown."""

from __future__ import annotations

import re

import pytest
import torch
from frames import framed
from torch import nn

import assay
from assay.document.document import Document
from assay.errors import UsageError


@pytest.fixture(scope="module")
def checked():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 64), nn.BatchNorm1d(64)).eval()
    with torch.no_grad():
        model[0].weight[1, 2] = float("nan")
    return assay.check(model, torch.zeros(2, 64), measure=False)


def test_every_form_opens_with_what_it_is_and_names_the_problem(checked):
    made = assay.brief(checked)
    for text in (str(made), framed(made._repr_html_()), made._repr_markdown_()):
        assert "Sequential" in text.splitlines()[0] or "Sequential" in text
        assert "1 NaN value in 1 tensor" in text
        assert "counted" in text
    assert max(map(len, str(made).splitlines())) <= 100


def test_a_document_is_checked_and_a_report_is_taken_as_it_is(checked):
    of_document, of_report = assay.brief(checked.document).data, assay.brief(checked).data
    assert [one.code for one in of_document.problems] == [one.code for one in of_report.problems]
    assert of_document.identity == of_report.identity


def test_an_analysis_states_what_is_missing():
    found = assay.analyze(nn.Linear(4, 4), torch.zeros(1, 4))
    assert [one.what for one in assay.brief(found).data.unknown]
    assert assay.brief(found.document.weights).data.figures[0].figure.value == 4 * 20


def test_names_from_a_model_are_text_in_html():
    model = nn.Sequential()
    model.add_module("<script>x", nn.Linear(4, 4))
    with torch.no_grad():
        next(model.parameters())[0, 0] = float("nan")
    page = framed(assay.brief(assay.check(model, torch.zeros(1, 4), measure=False))._repr_html_())
    assert "<script>" not in page
    assert re.search("&lt;script&gt;x", page)


def test_nothing_to_report_on_is_a_usage_error():
    with pytest.raises(UsageError, match="cannot brief Document"):
        assay.brief(Document())
