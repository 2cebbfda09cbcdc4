"""The brief of a model: its figures equal those of the document, and what is unknown is named, not shown as 0."""

from __future__ import annotations

import re

import pytest
import torch
from handmade import conv_stack
from msgspec.structs import replace
from timed_documents import timed
from torch import nn

import assay
from assay.analysis.achieved import achieved_rates
from assay.analysis.ceilings import Device
from assay.analysis.cost.totals import add_up
from assay.analysis.roofline import roofline_of
from assay.document.findings import Finding, Gain
from assay.document.provenance import Figure, Measured, Modelled, Unknown
from assay.findings.brief_model import model_brief
from assay.findings.engine import check_all
from assay.views.layout import Style
from assay.views.tables import Table
from assay.views.text.brief import brief_parts
from assay.views.text.report import Report, as_text


def suggestion(code: str, share: float | None, *, of: str = "time", severity: str = "advice") -> Finding:
    """A finding whose advice saves this share of the time, or an unknown one."""
    figure = Figure(None, Unknown("not measured")) if share is None else Figure(share, Modelled("a model"))
    return Finding(code, severity, f"title of {code}", "Do it: soon.", gain=Gain(of, figure, figure))


def text_of(brief, width: int = 80) -> str:
    return as_text(Report(brief_parts(brief), Table([], [])), Style(width))


def costed():
    document = conv_stack()
    return replace(document, cost=add_up(document))


def test_without_times_the_answer_is_the_counted_cost_and_time_is_named_as_unknown():
    brief = model_brief(costed(), [], source="m.py::f")
    assert brief.identity == ("Sequential", "CNN", "38.6 k parameters", "1.94 G MACs", "input 1x3x224x224")
    compute = brief.figures[0]
    assert (compute.label, compute.figure.value) == ("Compute", add_up(conv_stack()).forward.flops)
    assert [(one.what, one.why) for one in brief.unknown] == [
        ("time", "assay profile m.py::f"),
        ("problems in weights and outputs", "assay check m.py::f"),
    ]
    assert "Time" not in text_of(brief)


def test_the_time_is_that_of_the_profile_and_its_largest_part_is_added_up_again():
    document = timed(costed(), {"aten.conv2d": 3.0, "aten.relu": 1.0}, other=2.0)
    brief = model_brief(document, [], rows=achieved_rates(document))
    (time,) = [one for one in brief.figures if one.label == "Time"]
    assert time.figure == document.profile.whole
    assert time.figure.value == pytest.approx(2 * 3.0 + 2 * 1.0 + 2 * 2.0)
    assert time.detail == f"{100 * 6 / 12:.1f} % in Convolution"


def test_the_limit_is_the_bottleneck_of_most_of_the_time():
    device = Device(name="d", memory_gib=1, bandwidth_gb_s=1.0, tflops={"fp32": 0.001}, source="test", note="")
    document = timed(costed(), {"aten.conv2d": 1.0}, other=0.5)
    rows = achieved_rates(document, device)
    shares: dict[str, float] = {}
    for row in rows:
        shares[row.bound] = shares.get(row.bound, 0.0) + row.share
    largest = max(shares.values())
    (limit,) = [one for one in model_brief(document, [], rows=rows).figures if one.label == "Limit"]
    assert limit.figure.value == pytest.approx(largest)
    assert isinstance(limit.figure.how, Modelled)
    assert f"{100 * largest:.1f} % of the time" in text_of(model_brief(document, [], rows=rows))
    assert "bottlenecks" in [one.what for one in model_brief(document, [], rows=achieved_rates(document)).unknown]


def test_actions_are_the_three_largest_gains_time_first():
    gains = [("C1", 0.1), ("C2", 0.4), ("C3", None), ("C4", 0.3), ("C5", 0.2)]
    findings = [suggestion("W1", 0.9, of="bytes"), *(suggestion(*gain) for gain in gains)]
    brief = model_brief(costed(), findings, source="m.py::f")
    assert [one.code for one in brief.actions] == ["C2", "C4", "C5"]
    assert brief.more_actions == 2
    assert brief.next_step == "assay check m.py::f --try"
    assert "predicted" in text_of(brief)
    assert not model_brief(costed(), findings, source="saved.assay.json").next_step


def test_errors_and_warnings_are_problems_and_a_long_list_is_counted():
    findings = [suggestion(f"W{at}", None, severity="warning") for at in range(5)]
    brief = model_brief(costed(), findings)
    assert [one.code for one in brief.problems] == ["W0", "W1", "W2"]
    assert brief.more_problems == 2
    text = text_of(brief)
    assert "⚠ title of W0 (W0)" in text
    assert "2 more problems" in text


@pytest.mark.parametrize("rank", [0, 3])
def test_a_warning_with_a_gain_is_a_problem_whether_or_not_it_is_among_the_actions(rank):
    findings = [suggestion(f"C{at}", 0.5 - 0.1 * at) for at in range(4)]
    findings[rank] = replace(findings[rank], severity="warning", code="S101")
    brief = model_brief(costed(), findings)
    assert [one.title for one in brief.problems] == [f"title of C{rank}"]
    assert ("S101" in [one.code for one in brief.actions]) == (rank < 3)


def test_a_note_is_not_an_action():
    brief = model_brief(costed(), [suggestion("C1", 0.01, severity="note"), suggestion("C2", 0.1)])
    assert [one.code for one in brief.actions] == ["C2"]
    assert brief.more_actions == 0


def test_nan_in_the_weights_is_in_the_first_lines():
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    with torch.no_grad():
        model[1].weight[0, 0] = float("nan")
    found = assay.analyze(model, torch.zeros(1, 4))
    text = text_of(model_brief(found.document, found.checked.findings))
    assert "NaN" in "".join(text.splitlines(keepends=True)[:12])
    assert "none in" not in text


def test_a_note_about_values_stands_beside_the_problems():
    notes = [suggestion("W107", None, severity="note"), suggestion("C104", 0.1, severity="note")]
    found = assay.analyze(nn.Linear(4, 4), torch.zeros(1, 4))
    brief = model_brief(found.document, notes)
    assert [one.code for one in brief.remarks] == ["W107"]
    lines = text_of(brief).splitlines()
    at = next(at for at, line in enumerate(lines) if "Problems" in line)
    assert "none in weights" in lines[at]
    assert re.match(r"  Note +title of W107 \(W107\)", lines[at + 1])


def test_errors_come_before_what_would_make_the_model_faster():
    findings = [suggestion("C1", 0.5), suggestion("A101", None, severity="error")]
    text = text_of(model_brief(costed(), findings))
    assert text.index("✗ title of A101") < text.index("Do next")
    findings[1] = replace(findings[1], severity="warning")
    text = text_of(model_brief(costed(), findings))
    assert text.index("⚠ title of A101") > text.index("Do next")


def test_shares_are_of_the_pass_not_of_its_ops():
    document = timed(costed(), {"aten.conv2d": 3.0, "aten.relu": 1.0}, other=2.0)
    longer = replace(document.profile, whole=Figure(16.0, Measured("clock")))
    brief = model_brief(replace(document, profile=longer), [], rows=achieved_rates(document))
    (time,) = [one for one in brief.figures if one.label == "Time"]
    assert time.detail == f"{100 * 6 / 16:.1f} % in Convolution"


def test_time_outside_ops_is_named_as_the_limit():
    document = timed(costed(), {"aten.conv2d": 3.0}, other=1.0)
    waiting = replace(document.profile, whole=Figure(100.0, Measured("clock")))
    device = Device(name="d", memory_gib=1, bandwidth_gb_s=1.0, tflops={"fp32": 0.001}, source="test", note="")
    document = replace(document, profile=waiting)
    brief = model_brief(document, [], rows=achieved_rates(document, device))
    time, limit = (next(one for one in brief.figures if one.label == label) for label in ("Time", "Limit"))
    assert "outside ops" in time.detail
    assert limit.figure.value == pytest.approx(1 - sum(row.total_s for row in achieved_rates(document)) / 100)
    assert "outside ops" in limit.text


def test_the_shares_of_a_training_step_are_those_of_its_forward_pass():
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))
    document = assay.observe(model, torch.randn(2, 8, requires_grad=True), backward=True)
    (compute,) = [one for one in model_brief(document, []).figures if one.label == "Compute"]
    share = float(compute.detail.split(" ")[0])
    assert 90 < share <= 100


def test_the_same_change_is_advised_once():
    twice = [replace(suggestion(code, share), advice="Use torch.compile: it helps.") for code, share in
             (("C203", 0.1), ("C216", 0.3))]  # fmt: skip
    others = [suggestion("C1", 0.2), replace(suggestion("C1", 0.15), title="another place")]
    actions = model_brief(costed(), [*twice, *others]).actions
    assert [(one.code, one.gain.share.value) for one in actions] == [("C216", 0.3), ("C1", 0.2), ("C1", 0.15)]


def test_a_pass_that_stopped_is_not_clean_and_names_the_place():
    class Stops(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            return self.b(self.a(x)[:, :2])

    found = assay.check(Stops(), torch.zeros(1, 4), measure=False)
    brief = model_brief(found.document, found.findings)
    assert brief.clean == ""
    assert brief.unknown[0].what.startswith("what follows b")


def test_every_figure_states_how_it_was_obtained():
    document = timed(costed(), {"aten.conv2d": 3.0, "aten.relu": 1.0}, other=2.0)
    device = Device(name="d", memory_gib=1, bandwidth_gb_s=1.0, tflops={"fp32": 0.001}, source="test", note="")
    brief = model_brief(document, [], rows=achieved_rates(document, device))
    lines = text_of(brief).splitlines()
    for one, method in zip(brief.figures, ("measured", "counted", "modelled"), strict=True):
        assert method in next(line for line in lines if one.label in line)


def test_a_pass_that_was_not_timed_is_compared_with_the_limits_of_the_machine():
    device = Device(name="d", memory_gib=1, bandwidth_gb_s=1.0, tflops={"fp32": 0.001}, source="test", note="")
    (limit,) = [one for one in model_brief(costed(), [], device=device).figures if one.label == "Limit"]
    bound = roofline_of(costed(), device)
    assert limit.figure.value == pytest.approx(max(bound.by.values()) / bound.bound_s)
    assert isinstance(limit.figure.how, Modelled)
    assert limit.detail.endswith("at the limits of this machine")


def test_reasons_are_grouped_and_given_once():
    brief = model_brief(costed(), [], missing={"time": "a reason", "energy": "a reason"})
    assert ("time, energy", "a reason") in [(one.what, one.why) for one in brief.unknown]
    assert len([one for one in brief.unknown if "time" in one.what]) == 1


@pytest.mark.parametrize("width", [60, 80, 140])
def test_the_answer_fits_the_screen(width):
    document = timed(costed(), {"aten.conv2d": 3.0}, other=1.0)
    whole = Figure(8.0, Measured("clock", 5, range=(7.5, 9.0)))
    document = replace(document, profile=replace(document.profile, whole=whole))
    findings = [*check_all(document).findings, suggestion("C9", 0.5)]
    text = text_of(model_brief(document, findings, rows=achieved_rates(document), source="m.py::f"), width)
    assert "8 s (7.5–9 s) per pass" in text
    assert max(map(len, text.splitlines())) <= width
    assert len(text.splitlines()) <= 24
