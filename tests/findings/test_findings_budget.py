"""Budgets: limits with units and patterns, verdicts, lower bounds, and times relative to a reference."""

from __future__ import annotations

import msgspec
import pytest
import torch
from handmade import conv_stack, stopped

import assay
from assay.analysis.cost.totals import with_cost
from assay.document.document import Document, InputTensor, Machine
from assay.document.profile import Profile
from assay.document.provenance import Figure, Measured, Unknown
from assay.document.rows import TensorType
from assay.document.weights import TensorStatistics, WeightsReport
from assay.errors import UsageError
from assay.findings.budget import budget_report, latency_ratio
from assay.findings.engine import check_all
from assay.findings.limits import KEYS, Limits, limits_for, parse_limits
from assay.findings.quantities import BudgetFacts


def verdicts(document, table, **others) -> dict[str, str]:
    report = budget_report(BudgetFacts(document), parse_limits(table, "b"), **others)
    return {line.name: line.verdict for line in report.lines}


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("parameters", "25M", 25_000_000),
        ("parameters", "7B", 7_000_000_000),
        ("parameters", 25_557_032, 25_557_032),
        ("parameters", "25_557_032", 25_557_032),
        ("flops", "8.2G", 8_200_000_000),
        ("flops", "1.5 T", 1.5e12),
        ("peak-memory", "512 MiB", 512 * 2**20),
        ("peak_memory", "1.5GB", 1.5e9),
        ("size", "100 kB", 100_000),
        ("size", 0, 0),
    ],
)
def test_amounts_have_human_units(key, value, expected):
    assert list(parse_limits({key: value}, "b").amounts.values()) == [expected]


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"parameter": 1}, ["b: unknown key 'parameter'", "did you mean parameters", *KEYS]),
        ({"parameters": "many"}, ["parameters must be a number", "'many'"]),
        ({"parameters": "25 MiB"}, ["parameters must be"]),
        ({"peak-memory": "8G"}, ["peak-memory must be", "MiB"]),
        ({"flops": -1}, ["flops must be"]),
        ({"flops": True}, ["flops must be"]),
        ({"flops": float("nan")}, ["flops must be"]),
        ({"flops": float("inf")}, ["flops must be"]),
        ({"latency": 1.1}, ["latency must be a table", "reference"]),
        ({"latency": {"reference": "x", "ratio": 0}}, ["latency must be"]),
        ({"latency": {"reference": "x", "ratio": 1.1, "speed": 1}}, ["latency must be"]),
        ({"no": ["W1"]}, ["'W1'", "rule code", "error"]),
        ({"no": ["Q999"]}, ["b: no has", "'Q999'", "rule code"]),
        ({"no": 3}, ["no must be a list"]),
        ({"strict": "yes"}, ["strict must be true or false"]),
        ({"models": 3}, ["models must be a table"]),
        ({"models": {"x*": {"flop": 1}}}, ['models."x*"', "'flop'", "flops"]),
    ],
)
def test_what_is_not_valid_names_the_key_and_what_is(table, words):
    with pytest.raises(UsageError) as caught:
        limits_for(table, ["Net"], "b")
    assert "\n" not in str(caught.value)
    assert [word for word in words if word not in str(caught.value)] == []


def test_tables_of_matching_patterns_override_in_their_order():
    table = {"parameters": 1, "flops": 1, "models": {"Res*": {"flops": 2, "macs": 2}, "ResNet": {"macs": 3}}}
    assert limits_for(table, ["ResNet"], "b").amounts == {"parameters": 1, "flops": 2, "macs": 3}
    assert limits_for(table, ["ViT"], "b").amounts == {"parameters": 1, "flops": 1}


def test_values_agree_with_torch():
    model = torch.nn.Sequential(torch.nn.Linear(64, 32, bias=False), torch.nn.ReLU(), torch.nn.Linear(32, 8))
    document = assay.observe(model, torch.zeros(4, 64))
    count = sum(each.numel() for each in model.parameters())
    macs = 4 * (64 * 32 + 32 * 8)
    exact = {"parameters": count, "macs": macs, "size": 4 * count, "unknown-ops": 0}
    assert set(verdicts(document, exact).values()) == {"passed"}
    less = {key: value - 1 for key, value in exact.items() if value}
    assert set(verdicts(document, less).values()) == {"exceeded"}
    moved = document.cost.forward.bytes
    assert verdicts(document, {"bytes-per-item": moved / 4}) == {"bytes-per-item": "passed"}
    assert verdicts(document, {"bytes-per-item": moved / 4 - 1}) == {"bytes-per-item": "exceeded"}


def test_an_unknown_value_is_neither_passed_nor_exceeded_and_fails_only_if_strict():
    document = with_cost(conv_stack())
    for strict in (False, True):
        report = budget_report(BudgetFacts(document), Limits({"training-memory": 1.0}, strict=strict))
        (line,) = report.lines
        assert (line.verdict, line.value.value) == ("unknown", None)
        assert "no training step" in line.detail
        assert bool(report.failed) is strict


def test_a_lower_bound_can_exceed_but_not_pass():
    document = with_cost(stopped())
    assert document.cost.forward.macs > 0
    assert verdicts(document, {"macs": document.cost.forward.macs - 1}) == {"macs": "exceeded"}
    assert verdicts(document, {"macs": 10**15}) == {"macs": "unknown"}


def test_forbidden_findings():
    row = TensorStatistics(("a.weight",), "float32", (8, 8), 256, 64, nan=3, inf=0, zeros=0, min=0.0, max=1.0)
    document = Document(weights=WeightsReport(tensors=[row]))
    limits = parse_limits({"no": ["w101", "error", "W102", "C101"]}, "b")
    lines = budget_report(BudgetFacts(document, check_all(document)), limits).lines
    assert {line.name: line.verdict for line in lines} == {
        "no W101": "exceeded",
        "no error": "exceeded",
        "no W102": "passed",
        "no C101": "unknown",  # no pass was recorded
    }
    unchecked = budget_report(BudgetFacts(document), limits)
    assert {line.verdict for line in unchecked.lines} == {"unknown"}


def timed(seconds, low=None, high=None, **machine):
    how = Measured("a clock", 5, range=(low or seconds, high or seconds))
    document = conv_stack()
    here = Machine("3.11", "2.13", "Linux", "cpu", "A Processor")
    return msgspec.structs.replace(
        document,
        machine=msgspec.structs.replace(here, **machine),
        profile=Profile(whole=Figure(seconds, how), threads=1),
    )


@pytest.mark.parametrize(
    ("now", "limit", "verdict"),
    [
        (timed(1.0), 1.1, "passed"),
        (timed(1.2), 1.1, "exceeded"),
        (timed(1.2, 1.0, 1.3), 1.1, "unknown"),  # the range reaches below the limit
        (timed(1.0, 0.9, 1.2), 1.1, "unknown"),  # the range reaches above it
        (timed(1.0, 0.9, 1.1), 1.1, "passed"),
        (timed(1.3, 1.11, 1.5), 1.1, "exceeded"),
        (timed(5.0, processor="B Processor"), 1.1, "unknown"),
        (timed(5.0, processor=""), 1.1, "unknown"),
        (timed(5.0, device="cuda"), 1.1, "unknown"),
    ],
)
def test_latency_is_compared_by_ranges_on_one_machine(now, limit, verdict):
    table = {"latency": {"reference": "r", "ratio": limit}}
    assert verdicts(now, table, reference=timed(1.0)) == {"latency": verdict}


def test_the_range_of_the_ratio_covers_both_ranges():
    ratio = latency_ratio(timed(2.0, 1.8, 2.2), timed(1.0, 0.9, 1.25))
    assert ratio.value == 2
    assert ratio.how.range == pytest.approx((1.8 / 1.25, 2.2 / 0.9))


def test_another_machine_other_inputs_and_no_times_are_named():
    other_inputs = timed(1.0)
    run = msgspec.structs.replace(other_inputs.run, inputs=(InputTensor("x", TensorType((2, 3), "float32")),))
    cases = {
        "another machine": timed(1.0, processor="B Processor"),
        "other inputs": msgspec.structs.replace(other_inputs, run=run),
        "not timed": msgspec.structs.replace(timed(1.0), profile=None),
    }
    for words, document in cases.items():
        how = latency_ratio(document, timed(1.0)).how
        assert isinstance(how, Unknown)
        assert words in how.why


WITH_NAN = TensorStatistics(("a.weight",), "float32", (8, 8), 256, 64, nan=3, inf=0, zeros=0, min=0.0, max=1.0)
CLEAN = msgspec.structs.replace(WITH_NAN, nan=0)
FORBIDDEN = {"no": ["W101", "error"], "errors": 0}


def finding_lines(document, checked, table):
    return budget_report(BudgetFacts(document, checked), parse_limits(table, "b")).lines


@pytest.mark.parametrize("selection", [{"select": ["S"]}, {"ignore": ["W"]}])
def test_rules_that_were_not_selected_leave_the_findings_unknown(selection):
    document = Document(weights=WeightsReport(tensors=[WITH_NAN]))
    lines = finding_lines(document, check_all(document, **selection), FORBIDDEN)
    assert {line.verdict for line in lines} == {"unknown"}
    assert all("W101 was not selected" in line.detail for line in lines)


@pytest.mark.parametrize(
    ("options", "words"), [({"read_weights": False}, "W101 was skipped"), ({"mode": "meta"}, "A101 was skipped")]
)
def test_weights_and_data_that_were_not_read_leave_the_errors_unknown(options, words):
    report = assay.check(torch.nn.Linear(4, 4), torch.ones(1, 4), measure=False, **options)
    (line,) = finding_lines(report.document, report.checked, {"errors": 0})
    assert line.verdict == "unknown"
    assert words in line.detail


@pytest.mark.parametrize("model", [torch.nn.Linear(4, 4), torch.nn.ReLU()])
def test_evidence_that_not_every_check_has_is_not_missed(model):
    report = assay.check(model, torch.ones(1, 4), measure=False)
    lines = finding_lines(report.document, report.checked, {**FORBIDDEN, "warnings": 9})
    assert report.skipped
    assert {line.verdict for line in lines} == {"passed"}


def test_a_checkpoint_is_judged_without_a_pass():
    document = Document(weights=WeightsReport(tensors=[CLEAN]))
    lines = finding_lines(document, check_all(document), FORBIDDEN)
    assert {line.verdict for line in lines} == {"passed"}


def test_a_finding_exceeds_also_if_other_rules_were_not_selected():
    document = Document(weights=WeightsReport(tensors=[WITH_NAN]))
    lines = finding_lines(document, check_all(document, select=["W101"]), FORBIDDEN)
    assert {line.verdict for line in lines} == {"exceeded"}
