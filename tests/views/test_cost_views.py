"""Cost tables: printed columns add up to the printed total, even if rows are omitted, sorted or unknown."""

from __future__ import annotations

import re

import msgspec
import pytest
import torch
from handmade import conv_stack, stopped
from torch import nn

from assay import observe
from assay.analysis.cost.totals import add_up
from assay.document.document import Document
from assay.views import layout, tables
from assay.views.layout import Style
from assay.views.text import report
from assay.views.text.cost import SORTS, CostOptions, cost_report, cost_table
from assay.views.text.cost_lines import BREAKDOWNS

SELF = {"module": "self FLOPs", "class": "self FLOPs", "call": "self FLOPs"}
SUMS = ("count", "MACs", "bytes", "self MACs", "self bytes", "backward self FLOPs")


class Mixed(nn.Module):
    """Nested, repeated and uncalled modules, ops of its own, and a module called several times."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(8, 8), nn.ReLU()) for _ in range(3))
        self.norm = nn.LayerNorm(8)
        self.unused = nn.Linear(2, 2)

    def forward(self, x):
        for block in self.blocks:
            x = self.norm(block(x)) + x
        return x.softmax(-1)


@pytest.fixture(scope="module")
def mixed() -> Document:
    return observe(Mixed(), torch.randn(4, 8))


@pytest.fixture(scope="module")
def trained() -> Document:
    return observe(Mixed(), torch.randn(4, 8), backward=True)


def with_unknown() -> Document:
    """A stack whose normalisations are ops without a formula."""
    document = conv_stack()
    kinds = list(document.kinds)
    kinds[1] = msgspec.structs.replace(kinds[1], name="torch.ops.mylib.norm", target="mylib.norm.default")
    return msgspec.structs.replace(document, kinds=kinds)


def printed(table: tables.Table) -> tuple[dict[str, list[int | None]], dict[str, int | None]]:
    """The numbers of each column parsed from the text, and those of its last line."""
    heading, _, *lines = layout.as_text(table).splitlines()
    names = re.split(r"  +", heading.strip())
    found: dict[str, list[int | None]] = {}
    for name in names:
        end = heading.index(name) + len(name)
        cells = [line[:end].rpartition("  ")[2].strip() for line in lines if not line.startswith("─")]
        found[name] = [_number(cell) for cell in cells]
    return {name: cells[:-1] for name, cells in found.items()}, {name: cells[-1] for name, cells in found.items()}


def text_of(document: Document, by: str) -> str:
    return layout.as_text(cost_table(document, add_up(document), by, CostOptions()))


def _number(cell: str) -> int | None:
    digits = cell.removesuffix(" B").replace(",", "")
    return int(digits) if digits.isdecimal() else None


@pytest.mark.parametrize(
    "shown",
    [
        CostOptions(exact=True),
        CostOptions(exact=True, full=False),
        CostOptions(exact=True, top=2, full=False),
        CostOptions(exact=True, top=2),
        CostOptions(exact=True, depth=1),
    ],
)
@pytest.mark.parametrize("by", list(BREAKDOWNS))
@pytest.mark.parametrize("name", ["mixed", "trained"])
def test_the_printed_sums_add_up_to_the_printed_total(request, name, by, shown):
    document = request.getfixturevalue(name)
    columns, total = printed(cost_table(document, document.cost, by, shown))
    checked = {SELF.get(by, "FLOPs"), *SUMS} & set(columns)
    for title in checked:
        assert sum(value or 0 for value in columns[title]) == total[title], title
    forward, backward = document.cost.forward.flops, document.cost.backward
    if by in SELF:
        assert total["self FLOPs"] == total["total FLOPs"] == forward
        assert total.get("backward self FLOPs") == (backward.flops if backward and by != "call" else None)
    else:
        assert total["FLOPs"] == forward + (backward.flops if backward else 0)


def test_a_shortened_table_counts_the_omitted_rows(mixed):
    lines = layout.as_text(cost_table(mixed, mixed.cost, "op", CostOptions(top=1))).splitlines()
    assert lines[2].startswith("F.linear ")
    assert lines[4].startswith(f"({len(BREAKDOWNS['op'](mixed, mixed.cost).lines) - 1} more)")
    deep = layout.as_text(cost_table(mixed, mixed.cost, "module", CostOptions(depth=1)))
    assert "(9 deeper)" in deep
    assert "blocks.0" not in deep


@pytest.mark.parametrize("sort", list(SORTS))
def test_sorting_puts_the_largest_first_and_the_unknown_last(sort):
    document = with_unknown()
    cost = add_up(document)
    title = {"flops": "FLOPs", "macs": "MACs", "total": "FLOPs"}.get(sort, sort)
    table = cost_table(document, cost, "kind", CostOptions(sort=sort))
    values = [row[title] for row in table.values()]
    known = [value for value in values if value is not None]
    assert values == sorted(known, reverse=True) + [None] * (len(values) - len(known))


def test_modules_are_a_tree_unless_sorted(mixed):
    tree = layout.as_text(cost_table(mixed, mixed.cost, "module", CostOptions()))
    assert "\n├ blocks " in tree
    assert "\n│ ├ 0 " in tree
    listed = cost_table(mixed, mixed.cost, "module", CostOptions(sort="total"))
    assert [row["module"] for row in listed.values()][:2] == ["(root)", "blocks"]
    assert "\nblocks.2.1 " in layout.as_text(listed)


def test_data_formats_have_full_paths_raw_values_and_no_total(mixed):
    table = cost_table(mixed, mixed.cost, "module", CostOptions())
    rows = [msgspec.json.decode(line) for line in tables.as_json_lines(table).splitlines()]
    assert [row["module"] for row in rows][:3] == ["(root)", "blocks", "blocks.0"]
    assert rows[0]["total_flops"] == mixed.cost.forward.flops
    assert len(rows) == len(mixed.modules)
    assert len(tables.as_csv(table).splitlines()) == 1 + len(rows)


def test_an_op_without_formula_is_a_dash_and_named():
    document = with_unknown()
    cost = add_up(document)
    text = report.as_text(cost_report(document, cost, CostOptions()))
    assert "66.6 % of 6 ops counted; 2 unknown: mylib::norm (no formula) ×2" in text
    columns, _ = printed(cost_table(document, cost, "op", CostOptions(exact=True)))
    assert columns["FLOPs"][-1] is columns["MACs"][-1] is None
    assert re.search(r"^mylib.norm +Custom +– +2 +– +– ", text_of(document, "op"), re.MULTILINE)
    columns, total = printed(cost_table(document, cost, "category", CostOptions(exact=True)))
    assert (total["unknown ops"], sum(columns["unknown ops"])) == (2, 2)


def test_ops_with_assumed_sizes_make_the_total_a_range():
    document = conv_stack()
    exact = add_up(document)
    ops = [msgspec.structs.replace(op, assumed=index == 0) for index, op in enumerate(document.ops)]
    cost = add_up(msgspec.structs.replace(document, ops=ops))
    first = exact.kinds[ops[0].kind]
    assert exact.least is None
    assert cost.forward == exact.forward
    assert cost.least.flops == exact.forward.flops - first.flops
    text = report.as_text(cost_report(document, cost, CostOptions(exact=True)))
    facts = dict(re.findall(r"^(\S.*?)  +(\S.*)$", text, re.MULTILINE))
    assert facts["range"].startswith(
        f"MACs {cost.least.macs:,} to {cost.forward.macs:,}, FLOPs {cost.least.flops:,} to"
    )
    assert "range" not in report.as_text(cost_report(document, exact, CostOptions(exact=True)))
    assert add_up(msgspec.structs.replace(stopped(), ops=ops)).least is None


def test_the_report_shows_totals_types_and_kinds():
    document = conv_stack()
    text = report.as_text(cost_report(document, add_up(document), CostOptions(exact=True)))
    macs = 224 * 224 * 64 * 9 * (3 + 64)
    facts = dict(re.findall(r"^(\S.*?)  +(\S.*)$", text, re.MULTILINE))
    assert facts["MACs"] == f"{macs:,}"
    assert facts["matrix FLOPs"] == f"{2 * macs:,}"
    assert facts["coverage"] == "100 % of 6 ops counted"
    assert facts["parameters"].startswith(f"{64 * 9 * 67:,} (0 trainable)")
    assert "By type of op" in text
    assert "Most expensive kinds of op" in text


def test_causal_attention_shows_needed_and_executed_flops():
    class Causal(nn.Module):
        def forward(self, x):
            return nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True)

    document = observe(Causal(), torch.randn(1, 2, 16, 8))
    text = report.as_text(cost_report(document, document.cost, CostOptions(exact=True)))
    pairs, visible = 2 * 16 * 16, 2 * 16 * 17 // 2
    assert re.search(rf"matrix FLOPs +{2 * pairs * 16:,}\n", text)
    assert re.search(rf"needed FLOPs \(causal\) +{2 * visible * 16:,}\n", text)
    plain = conv_stack()
    assert "needed" not in report.as_text(cost_report(plain, add_up(plain), CostOptions()))


def test_forward_and_backward_have_a_column_each_and_a_total(trained):
    text = report.as_text(cost_report(trained, trained.cost, CostOptions(exact=True)))
    cells = next(line.split() for line in text.splitlines() if line.startswith("total FLOPs"))[2:]
    forward, backward, both = (int(cell.replace(",", "")) for cell in cells)
    assert (forward, backward) == (trained.cost.forward.flops, trained.cost.backward.flops)
    assert both == forward + backward


def test_an_interrupted_pass_states_what_the_totals_cover():
    document = stopped()
    assert "stopped in 3: totals cover only the ops before it" in report.as_text(
        cost_report(document, add_up(document), CostOptions())
    )


@pytest.mark.parametrize("width", [80, 120, 160])
@pytest.mark.parametrize("by", [None, *BREAKDOWNS])
def test_the_text_fits_the_terminal(trained, by, width):
    shown = CostOptions()
    made = cost_report(trained, trained.cost, shown) if by is None else cost_table(trained, trained.cost, by, shown)
    lines = report.as_text(report.as_report(made), Style(width)).splitlines()
    assert max(map(len, lines)) <= width


def test_an_empty_document_raises_no_error():
    document = Document()
    cost = add_up(document)
    assert "no ops recorded" in report.as_text(cost_report(document, cost, CostOptions()))
    for by in BREAKDOWNS:
        assert layout.as_text(cost_table(document, cost, by, CostOptions())).splitlines()[-1].startswith("total")


def test_markdown_has_headings_and_the_total(mixed):
    text = report.as_markdown(cost_report(mixed, mixed.cost, CostOptions()))
    assert "## By type of op\n\n| type |" in text
    assert "\n| total | 100.0 % |" in text
