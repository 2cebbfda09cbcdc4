"""The public surface is exactly what is announced, and all of it is there."""

from __future__ import annotations

import pytest

import assay

PUBLIC = {
    "Analysis",
    "AssayError",
    "BriefView",
    "CheckReport",
    "Cost",
    "Document",
    "Finding",
    "Laws",
    "MachineReport",
    "Memory",
    "Monitor",
    "Opened",
    "PartialWarning",
    "Roofline",
    "Summary",
    "Trace",
    "TraceDiff",
    "Traces",
    "WeightsReport",
    "__version__",
    "analyze",
    "analyze_weights",
    "brief",
    "capture",
    "capture_model",
    "check",
    "clear_forward_stats",
    "compare_traces",
    "cost",
    "energy_meter",
    "explore",
    "explore_torch_module",
    "explore_torch_module_with_stats",
    "explore_with_stats",
    "extract_pytorch_ops",
    "extract_unique_modules",
    "load",
    "measure_energy",
    "measure_machine",
    "memory",
    "observe",
    "open",
    "parse_model_trace",
    "profile",
    "read_trace",
    "read_traces",
    "record_forward_stats",
    "record_torch_module_forward_stats",
    "register_cost",
    "report",
    "roofline",
    "save",
    "summary",
    "vary",
}


def test_the_announced_names_are_these():
    assert sorted(assay.__all__) == sorted(PUBLIC)


def test_a_star_import_gives_exactly_them():
    names: dict[str, object] = {}
    exec("from assay import *", names)  # noqa: S102  the statement itself is what is tested
    assert set(names) - {"__builtins__"} == PUBLIC


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_every_name_is_listed_and_resolves(name):
    assert name in dir(assay)
    assert getattr(assay, name) is not None


def test_another_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        assay.nonsense  # noqa: B018


def test_no_verb_is_hidden_by_a_package_of_the_same_name():
    torch = pytest.importorskip("torch")
    model, x = torch.nn.Linear(2, 2), torch.ones(1, 2)
    for _ in range(2):
        assert assay.observe(model, x).cost == assay.cost(model, x)
        assert "Linear" in str(assay.summary(model, x))
        assert assay.memory(model, x).inference is not None
