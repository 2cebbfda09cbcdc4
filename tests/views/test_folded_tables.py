"""Tables for people fold repeated blocks: sums stay sums, the odd block is named, and data formats list every row."""

from __future__ import annotations

import pytest
import torch
from handmade import timed_tree
from torch import nn

from assay import observe
from assay.analysis.memory import memory_of
from assay.document.document import Document
from assay.document.findings import Finding
from assay.document.plans import PrunedTensor, QuantizedTensor
from assay.document.timing import ModuleTime
from assay.document.trace import LayerAcross, LayerChange, LayerTimes, Spread, Trace
from assay.views.text.cost import CostOptions, cost_table
from assay.views.text.finding_plans import plan_parts
from assay.views.text.memory import occupancy_parts
from assay.views.text.profile import profile_report
from assay.views.text.profile_modules import module_table, shown_modules, where_parts
from assay.views.text.traces import trace_report
from assay.views.text.traces_folded import folded_across, folded_changes
from assay.views.text.traces_tables import TraceOptions

BLOCKS = {
    "": 1,
    **{
        name: time
        for number in range(5)
        for name, time in {f"l.{number}:Block": 1, f"l.{number}.fc:Linear": 10 if number == 3 else 4}.items()
    },
}


def by_name(table, title="module"):
    return {row[title].strip(): row for row in table.values()}


def blocks(odd: bool = False) -> nn.Module:
    inner = [nn.Sequential(nn.Linear(8, 8), nn.ReLU()) for _ in range(5)]
    if odd:
        inner[3][1] = nn.GELU()
    return nn.Sequential(*inner, nn.Linear(8, 2))


class TestProfile:
    def test_modules_of_repeated_blocks_share_a_row_with_their_sums(self):
        document = timed_tree(BLOCKS)
        folded = by_name(shown_modules(document, full=False))
        assert list(folded) == ["l.0–4.fc ×5", "l.0–4 ×5", "(root)"]
        linear = folded["l.0–4.fc ×5"]
        assert (linear["calls"], linear["self s"]) == (5, pytest.approx(26 / 1e3))
        assert linear["note"] == "l.3: 2.5× the others"
        every = by_name(module_table(document))
        for name in ("calls", "self s", "self share"):
            total = sum(row[name] for row in every.values())
            assert sum(row[name] for row in folded.values()) == pytest.approx(total)

    def test_full_and_data_have_every_module(self):
        document = timed_tree(BLOCKS)
        assert len(shown_modules(document, full=True).rows) == len(document.modules)
        assert len(profile_report(document, []).data.rows) == len(document.modules)

    def test_a_sum_with_an_unknown_part_is_unknown(self):
        document = timed_tree(BLOCKS)
        document.timing.modules[2] = ModuleTime(1, None, None)
        assert by_name(shown_modules(document, full=False))["l.0–4.fc ×5"]["self s"] is None

    def test_the_opening_shows_where_the_time_goes(self):
        title, table = where_parts(timed_tree(BLOCKS, outside=2))
        assert title == "Where the time goes"
        rows = by_name(table)
        assert rows["l.0–4.fc ×5"]["note"] == "l.3: 2.5× the others"
        assert rows["l.0–4 ×5 (own code)"]["class"] == "Block"
        assert [row.name for row in table.footer] == ["outside any module"]
        assert where_parts(Document(modules=timed_tree(BLOCKS).modules)) == []


class TestCost:
    @pytest.mark.parametrize("odd", [False, True])
    def test_blocks_with_equal_costs_share_a_row(self, odd):
        document = observe(blocks(odd), torch.randn(2, 8))
        options = CostOptions(full=False)
        folded = by_name(cost_table(document, document.cost, "module", options))
        every = cost_table(document, document.cost, "module", CostOptions())
        name = "0–2,4 ×4" if odd else "0–4 ×5"
        assert (name in folded, "3" in folded) == (True, odd)
        assert len(every.rows) == len(document.modules)
        for column in ("calls", "self FLOPs", "self bytes"):
            assert sum(row[column] for row in folded.values()) == sum(row[column] for row in every.values())
        linear = name.replace(" ", ".0 ")
        assert folded[linear]["total FLOPs"] == (4 if odd else 5) * by_name(every)["0.0"]["total FLOPs"]


class TestMemory:
    def test_live_tensors_of_repeated_blocks_share_a_row(self):
        class Keeping(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(6))

            def forward(self, x):
                return torch.cat([layer(x) for layer in self.layers])

        document = observe(Keeping(), torch.randn(4, 8))
        memory = memory_of(document)
        table = occupancy_parts(memory, document)[-1]
        row = by_name(table)["layers.0–5 ×6"]
        assert (row["bytes"], row["each"]) == (6 * 4 * 8 * 4, 4 * 8 * 4)
        assert sum(row["bytes"] for row in table.values()) == memory.inference.peak.bytes


def layer(name: str, time: int, kind: str = "Linear") -> LayerTimes:
    return LayerTimes(name, 2, 2 * time, time, Spread(1, time // 2, time, time), class_name=kind)


class TestTrace:
    LAYERS = [layer(f"l.{at}.fc", 100 if at != 2 else 300) for at in range(4)] + [layer("l.4.fc", 50, "Conv2d")]

    def test_layers_of_one_class_share_a_row(self):
        trace = Trace("t.json", 800, 800, None, "labels", layers=self.LAYERS)
        table = next(part for part in trace_report(trace).parts if not isinstance(part, str) and "note" in
                     [column.title for column in part.columns])  # fmt: skip
        rows = by_name(table, "layer")
        assert list(rows) == ["l.0–3.fc ×4", "l.4.fc"]
        folded = rows["l.0–3.fc ×4"]
        assert (folded["calls"], folded["cpu_self_ns"], folded["cpu_total_ns"]) == (8, 600, 1200)
        assert (folded["min_ns"], folded["median_ns"], folded["p95_ns"], folded["max_ns"]) == (1, None, None, 300)
        assert folded["note"] == "l.2: 3.0× the others"
        assert rows["l.4.fc"]["median_ns"] == 25

    def test_full_and_data_have_every_layer(self):
        trace = Trace("t.json", 800, 800, None, "labels", layers=self.LAYERS)
        report = trace_report(trace, TraceOptions(full=True))
        tables = [part for part in report.parts if not isinstance(part, str)]
        assert any(len(table.rows) == 5 and table.columns[0].title == "layer" for table in tables)
        assert len(trace_report(trace).data.rows) == 5


class TestPlans:
    def test_tensors_with_the_same_proposal_share_a_row(self):
        plan = [QuantizedTensor(f"l.{at}.w", "int4", "channel", 30.0 + at, 100, 20) for at in range(5)]
        plan[3] = QuantizedTensor("l.3.w", "int8", "channel", 50.0, 100, 40)
        (table,) = plan_parts(Finding("W209", "note", "t", "Do it.", plan=tuple(plan)))
        rows = by_name(table, "  tensor")
        assert list(rows) == ["l.0–2,4.w ×4", "l.3.w"]
        folded = rows["l.0–2,4.w ×4"]
        assert (folded["now"], folded["planned"], folded["SQNR"]) == (400, 80, 30.0)

    def test_shares_of_pruned_tensors_are_weighted_by_elements(self):
        plan = (PrunedTensor("l.0.w", 10, 0.5, 0.0, 0.99, 40, 20), PrunedTensor("l.1.w", 30, 0.9, 0.2, 0.97, 120, 30))
        (table,) = plan_parts(Finding("W210", "note", "t", "Do it.", plan=plan))
        (row,) = table.values()
        assert (row["prunable"], row["zero already"], row["energy kept"]) == (pytest.approx(0.8), 0.15, 0.97)
        assert (row["now"], row["planned"]) == (160, 50)


def test_modules_of_another_class_are_not_folded():
    document = timed_tree({"": 0, "l.0:Linear": 1, "l.1:Conv2d": 1, "l.2:Linear": 1})
    assert set(by_name(shown_modules(document, full=False))) == {"l.0,2 ×2", "l.1", "(root)"}


class TestSeveralTraces:
    def test_layers_of_repeated_blocks_are_added_up_and_the_odd_one_is_named(self):
        medians = [100, 110, 90, 400]
        layers = [LayerAcross(f"l.{at}.fc", one, one - 5, one + 5, 2, 3) for at, one in enumerate(medians)]
        (row,) = folded_across(layers)
        assert (row.name, row.median_ns) == ("l.0–3.fc ×4", sum(medians))
        assert (row.min_ns, row.max_ns, row.spread_ns) == (sum(medians) - 20, sum(medians) + 20, None)
        assert row.note == "l.3: 4.0× the others"

    def test_significant_changes_keep_their_rows(self):
        verdicts = ["same", "slower", "same", "slower", "same"]
        layers = [LayerChange(f"l.{at}", 10, 12, 2, 3, verdict) for at, verdict in enumerate(verdicts)]
        rows = {row.name: row for row in folded_changes(layers)}
        assert list(rows) == ["l.0,2,4 ×3", "l.1", "l.3"]
        assert (rows["l.0,2,4 ×3"].change_ns, rows["l.0,2,4 ×3"].noise_ns) == (6, 9)
        assert sum(row.change_ns for row in rows.values()) == sum(row.change_ns for row in layers)
