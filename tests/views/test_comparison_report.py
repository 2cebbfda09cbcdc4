"""The report of a comparison: only what differs, repeated blocks in one row, and conditions first."""

from __future__ import annotations

import csv
import io

import pytest
import torch
from handmade import conv_stack, timed_tree
from msgspec.structs import replace
from torch import nn

import assay
from assay.analysis.comparison import Comparison, compare_documents
from assay.document.document import Document, Machine
from assay.document.findings import Finding
from assay.document.provenance import Counted, Figure, Measured
from assay.document.rows import Tensor, TensorType
from assay.document.timing import ModuleTime, Timing
from assay.document.weights import TensorStatistics, WeightsReport
from assay.views import tables
from assay.views.layout import Style
from assay.views.tables import Table
from assay.views.text.comparison import (
    comparison_report,
    findings_table,
    module_data,
    modules_table,
    ops_table,
    tensors_table,
    times_table,
    totals_table,
)
from assay.views.text.report import as_markdown, as_text


class Block(nn.Module):
    def __init__(self, act):
        super().__init__()
        self.up, self.act = nn.Linear(8, 8), act()

    def forward(self, x):
        return self.act(self.up(x))


def blocks(count=4, act=nn.SiLU) -> Document:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.Sequential(*(Block(act) for _ in range(count))))
    return assay.observe(model.eval(), torch.zeros(2, 8))


def cells(table: Table) -> list[list[str]]:
    return [[column.text(row) for column in table.columns] for row in table.rows]


def titles(comparison: Comparison, **options) -> list[str]:
    return [part for part in comparison_report(comparison, **options).parts if isinstance(part, str)]


def text(comparison: Comparison, width: int | None = None, **options) -> str:
    return as_text(comparison_report(comparison, **options), Style(width))


def test_repeated_blocks_share_a_row_with_their_sums():
    comparison = compare_documents(blocks(), blocks(act=nn.GELU))
    ((sign, name, kind, words, *_),) = cells(modules_table(comparison))
    assert (sign, name, kind, words) == ("~", "1.0–3.act ×4", "GELU", "class is GELU, not SiLU")
    assert cells(ops_table(comparison)) == [["−", "F.silu", "4", "0"], ["+", "F.gelu", "0", "4"]]
    assert "MODULES: 4 changed, 11 the same" in titles(comparison)


def test_the_row_of_an_added_block_covers_what_is_inside_it():
    comparison = compare_documents(blocks(4), blocks(6))
    (row,) = cells(modules_table(comparison))
    assert row[:5] == ["+", "1.4–5 ×2", "Block", "", "144"]
    assert tensors_table(comparison).rows == []
    removed = compare_documents(blocks(6), blocks(4))
    (row,) = cells(modules_table(removed))
    assert row[:5] == ["−", "1.4–5 ×2", "Block", "", "144"]


def test_full_and_data_have_every_module():
    comparison = compare_documents(blocks(4), blocks(6))
    every = len(comparison.modules)
    assert len(modules_table(comparison, full=True).rows) == len(module_data(comparison).rows) == every
    assert cells(modules_table(comparison, full=True))[0][:3] == ["=", "(root)", "Sequential"]
    rows = list(csv.DictReader(io.StringIO(tables.as_csv(comparison_report(comparison).data))))
    assert [row["state"] for row in rows].count("added") == 6
    assert next(row for row in rows if row["module"] == "1.5.up")["params after"] == "72"
    assert next(row for row in rows if row["module"] == "1.5.up")["params before"] == ""


def test_a_moved_module_states_what_it_was():
    class Wrapper(nn.Module):
        def __init__(self):
            super().__init__()
            self.module = nn.Sequential(nn.Linear(8, 8), nn.ReLU())

        def forward(self, x):
            return self.module(x)

    inner = Wrapper().module
    comparison = compare_documents(*(assay.observe(each.eval(), torch.zeros(1, 8)) for each in (inner, Wrapper())))
    assert [row[:4] for row in cells(modules_table(comparison))] == [
        ["+", "(root)", "Wrapper", ""],
        ["→", "module", "Sequential", "was (root)"],
    ]


def test_conditions_come_before_figures():
    before = conv_stack()
    comparison = compare_documents(before, replace(before, machine=replace(before.machine, torch="2.9.0")))
    assert titles(comparison)[:3] == [
        "COMPARISON",
        "DIFFERENT CONDITIONS: some figures cannot be compared",
        "TOTALS",
    ]
    assert "torch      2.13.0  2.9.0  times and energy" in text(comparison)


def test_totals_have_signs_units_and_verdicts():
    def document(elements, time):
        tensor = Tensor(("w",), "parameter", TensorType((elements,), "float32"), 4 * elements)
        return Document(tensors=[tensor], timing=Timing(whole=time))

    def measured(value, low, high):
        return Figure(value, Measured("clock", 5, range=(low, high)))

    comparison = compare_documents(
        document(1000, measured(0.002, 0.0019, 0.0022)), document(1500, measured(0.001, 0.0009, 0.0011))
    )
    rows = {name: rest for name, *rest in cells(totals_table(comparison))}
    assert rows["parameters"] == ["1 k", "1.5 k", "+500", "+50.0 %", "more", "", "counted"]
    assert rows["bytes of weights"][:4] == ["3.91 KiB", "5.86 KiB", "+1.95 KiB", "+50.0 %"]
    assert rows["time of a pass"] == [
        "2 ms", "1 ms", "−1 ms", "−50.0 %", "faster", "1.9 ms to 2.2 ms → 900 µs to 1.1 ms", "measured",
    ]  # fmt: skip
    assert "FLOPs per pass" not in rows


def test_an_unknown_side_of_a_total_is_a_dash():
    exact = Figure(0.5, Counted("by hand"))
    comparison = compare_documents(Document(timing=Timing(whole=exact)), Document())
    ((name, before, after, change, relative, verdict, *_),) = cells(totals_table(comparison))
    assert (name, before, after, change, relative, verdict) == (
        "time of a pass", "500 ms", "–", "–", "–", "unknown",
    )  # fmt: skip


def test_a_time_that_is_unknown_after_the_change_is_a_dash():
    before, after = timed_tree({"": 1, "a:A": 2}), replace(timed_tree({"": 1, "a:B": 2}), timing=None)
    (row,) = cells(modules_table(compare_documents(before, after)))
    assert row[:4] == ["~", "a", "B", "class is B, not A"]
    assert row[-1] == "2 ms → –"


def test_equal_modules_that_became_slower_have_their_own_table():
    def document(ms):
        made = timed_tree({"": 1, "l.0:L": ms, "l.1:L": ms, "l.2:L": 3})
        rows = [
            ModuleTime(1, row.total_s, row.self_s, row.total_s * 0.9, row.total_s * 1.1)
            for row in made.timing.modules
        ]
        return replace(made, timing=replace(made.timing, modules=rows))

    comparison = compare_documents(document(2), document(4))
    assert modules_table(comparison).rows == []
    assert cells(times_table(comparison)) == [
        ["(root)", "Model", "8 ms", "12 ms", "+4 ms", "slower"],
        ["l.0–1 ×2", "L", "4 ms", "8 ms", "+4 ms", "slower"],
    ]
    assert "MODULES THAT BECAME FASTER OR SLOWER" in titles(comparison)


def test_tensors_with_other_values_show_how_their_statistics_changed():
    def document(content, std):
        names = [f"l.{at}.weight" for at in range(3)]
        kind = TensorType((2, 2), "float32")
        rows = [
            TensorStatistics((name,), "float32", (2, 2), 16, 4, std=std + at, mean=0.5, max=1.0, content=content)
            for at, name in enumerate(names)
        ]
        tensors = [Tensor((name,), "parameter", kind, 16) for name in names]
        return Document(tensors=tensors, weights=WeightsReport(tensors=rows))

    comparison = compare_documents(document("a", 1.0), document("b", 2.0))
    (row,) = tensors_table(comparison).values()
    assert row["tensor"] == "l.0–2.weight ×3"
    assert (row["what changed"], row["std"], row["mean"]) == ("other values", "1 to 3 → 2 to 4", "0.5")
    assert len(tensors_table(comparison, full=True).rows) == 3
    assert "TENSORS: 3 changed" in titles(comparison)


def test_findings_that_remain_are_left_out():
    stays, goes, comes = (Finding(code, "advice", f"title of {code}", "do") for code in ("C1", "C2", "C3"))
    comparison = compare_documents(Document(findings=[stays, goes]), Document(findings=[stays, comes]))
    assert cells(findings_table(comparison)) == [
        ["+", "suggestion", "C3", "title of C3"],
        ["−", "suggestion", "C2", "title of C2"],
    ]
    assert "FINDINGS: 1 new, 1 gone, 1 still there" in titles(comparison)
    assert ["=", "suggestion", "C1", "title of C1"] in cells(findings_table(comparison, full=True))


def test_documents_without_differences():
    document = blocks()
    assert titles(compare_documents(document, document)) == ["COMPARISON", "TOTALS"]
    assert "no differences" in text(compare_documents(document, document))
    assert "no differences" not in text(compare_documents(document, blocks(act=nn.GELU)))


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_report_fits_the_width_and_ascii(width):
    machine = Machine("3.12", "2.9.0", "Linux", "cuda", "NVIDIA H100 80GB HBM3 with a long name")
    comparison = compare_documents(blocks(), replace(blocks(5, nn.GELU), machine=machine))
    assert all(len(line) <= width for line in text(comparison, width).splitlines())
    assert as_text(comparison_report(comparison), Style(width, utf8=False)).isascii()
    assert "## MODULES" in as_markdown(comparison_report(comparison))


def test_names_of_models_are_printed_safely():
    model = nn.Sequential()
    model.add_module("x\x1b[2J", nn.Linear(8, 8))
    other = nn.Sequential(nn.Linear(8, 8))
    comparison = compare_documents(*(assay.observe(each.eval(), torch.zeros(1, 8)) for each in (model, other)))
    assert "\x1b" not in text(comparison)
