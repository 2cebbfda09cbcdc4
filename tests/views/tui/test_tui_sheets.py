"""The values of the tabs, compared with sums by hand and torch's own counts."""

from __future__ import annotations

import numpy as np
import pytest
from tui_subjects import HIDDEN, LAYERS, WORDS, small_document, small_subject

from assay import units
from assay.api.explore.subjects import explorer_subject
from assay.api.weights import analyze_weights
from assay.document.document import Document
from assay.document.rows import Call, Module, Op, OpKind, Storage, Tensor, TensorType
from assay.views.tui.flow import INPUTS, flow
from assay.views.tui.search import find, query
from assay.views.tui.sheet import Sheet
from assay.views.tui.sheets.shapes import devices, dims
from assay.views.tui.subject import ExploredModel, of_document
from assay.views.tui.tabs import TABS

EMBED = WORDS * HIDDEN
LINEAR = HIDDEN * HIDDEN + HIDDEN
ALL = EMBED + LAYERS * 2 * LINEAR + HIDDEN


def made(id: str, subject: ExploredModel | None = None) -> Sheet:
    return next(tab for tab in TABS if tab.id == id).make(subject or small_subject())


def row_of(sheet: Sheet, path: str) -> int:
    return next(row for row in range(len(sheet.index)) if sheet.path(row) == path)


def value(sheet: Sheet, path: str, column: str) -> object:
    found = sheet.column(column)
    assert found is not None
    return found.values[row_of(sheet, path)]


def test_a_tied_parameter_counts_once_and_a_buffer_is_not_a_parameter() -> None:
    sheet = made("tree")
    assert value(sheet, "(root)", "params") == ALL
    assert value(sheet, "head", "params") == 0
    assert value(sheet, "norm", "params") == HIDDEN
    assert value(sheet, "norm", "buffers") == 4 * HIDDEN
    assert value(sheet, "(root)", "memory") == 4 * ALL
    assert value(sheet, "(root)", "params_share") == 1
    assert sheet.label(row_of(sheet, "head")) == "head (tied: embed.weight)"


def test_a_run_has_the_sum_of_its_members() -> None:
    sheet = made("tree")
    run = f"layers.0–{LAYERS - 1}"
    one, all_of_them = value(sheet, "layers.0", "params"), value(sheet, run, "params")
    assert one == 2 * LINEAR
    assert all_of_them == LAYERS * 2 * LINEAR == value(sheet, "layers", "params")
    for column in ("flops", "time", "calls"):
        members = [value(sheet, f"layers.{number}", column) for number in range(LAYERS)]
        assert value(sheet, run, column) == pytest.approx(sum(members))


def test_total_times_are_not_summed() -> None:
    sheet = made("tree")
    timed = [row for row in range(len(sheet.index)) if not sheet.index.run[row]]
    own = [sheet.column("time_self").values[row] for row in timed]
    assert value(sheet, "(root)", "time") == pytest.approx(sum(each for each in own if each is not None))
    assert value(sheet, "layers.0", "time") == pytest.approx(3e-3)
    assert value(sheet, "layers", "time") is None


def test_a_shared_module_has_a_second_row_without_values() -> None:
    rows = [
        Module("", "Net", "Net", None),
        Module("a", "Linear", "Linear", 0, tensors={"weight": 0}, aliases=("b",)),
    ]
    tensors = [Tensor(("a.weight", "b.weight"), "parameter", TensorType((3, 4), "float32"), 48)]
    sheet = made("tree", of_document(Document(modules=rows, tensors=tensors)))
    assert [sheet.label(row) for row in range(len(sheet.index))] == ["(root)", "a", "b = a"]
    assert value(sheet, "b", "params") is None
    assert value(sheet, "b", "params_self") is None
    assert value(sheet, "a", "params_self") == 12
    assert value(sheet, "(root)", "params") == 12


def test_unknown_is_a_dash_and_never_zero() -> None:
    sheet = made("tree", of_document(Document(modules=[Module("", "Net", "Net", None)])))
    assert {column.id for column in sheet.columns if column.text(0) == units.UNKNOWN} >= {"flops", "time", "calls"}


def test_a_ragged_parameter_makes_the_total_unknown() -> None:
    rows = [Module("", "Net", "Net", None, tensors={"a": 0}), Module("x", "X", "X", 0, tensors={"b": 1})]
    tensors = [
        Tensor(("a",), "parameter", TensorType((2, -1), "float32"), 8),
        Tensor(("x.b",), "parameter", TensorType((5,), "float32"), 20),
    ]
    sheet = made("tree", of_document(Document(modules=rows, tensors=tensors)))
    assert value(sheet, "(root)", "params") is None
    assert value(sheet, "x", "params") == 5


def test_devices_are_abbreviated() -> None:
    assert devices(["cuda:0", "cuda:1", "cpu"]) == "cuda:0,1 cpu"
    assert value(made("tree"), "(root)", "device") == "cuda:0,1"
    assert dims((64, 3, 7, 7)) == "64×3×7×7"


def test_unique_modules_are_grouped_by_class() -> None:
    sheet = made("unique")
    assert value(sheet, "Block", "count") == LAYERS
    assert value(sheet, "Linear", "count") == 2 * LAYERS + 1
    assert value(sheet, "Linear", "kinds") == 2
    assert "unique of" in sheet.about


def test_ops_add_up_to_the_pass() -> None:
    document = small_document()
    sheet = made("ops")
    tops = [row for row in range(len(sheet.index)) if sheet.index.parent[row] < 0]
    assert sum(sheet.column("count").values[row] for row in tops) == len(document.ops)
    assert sum(sheet.column("flops").values[row] for row in tops) == document.cost.forward.flops


def test_parameters_are_folded_into_families() -> None:
    sheet = made("parameters")
    family = row_of(sheet, f"layers.#.attn.weight ×{LAYERS}")
    assert sheet.column("count").values[family] == LAYERS * HIDDEN * HIDDEN
    assert sheet.tensor(family) is None
    assert sheet.tensor(row_of(sheet, "layers.2.attn.weight")) == ("layers.2.attn", "weight")
    assert value(sheet, "embed.weight", "tied") == "= head.weight"
    assert value(sheet, "norm.running_mean", "role") == "buffer"


def test_times_are_sorted_by_self_time_and_findings_by_severity() -> None:
    assert made("time").sorted_by == "time_self"
    sheet = made("findings")
    assert sheet.name(0) == "layers.1.attn is broken"
    assert sheet.path(1) == "layers.1.attn"


def test_empty_tabs_give_the_reason() -> None:
    bare = of_document(Document(modules=[Module("", "Net", "Net", None)]))
    for id, word in (("ops", "--inputs"), ("time", "record_forward_stats"), ("findings", "no rules have run")):
        sheet = made(id, bare)
        assert len(sheet.index) == 0
        assert word in sheet.empty


def test_a_path_search_matches_the_row_but_not_its_submodules() -> None:
    sheet = made("tree")
    found = find(sheet, query("layers.1"))
    assert [sheet.path(row) for row in range(len(sheet.index)) if found[row]] == ["layers.1"]
    assert find(sheet, query("LINEAR")).sum() == 0
    assert find(sheet, query("linear")).sum() == 2 * LAYERS + 1


def test_tensor_flow_follows_storages() -> None:
    document = small_document()
    at = {module.path: index for index, module in enumerate(document.modules)}
    block = flow(document, at["layers.1"])
    assert [edge.other for edge in block.inputs] == ["layers.0"]
    assert [edge.other for edge in block.outputs] == ["layers.2"]
    assert [edge.other for edge in flow(document, at["embed"]).inputs] == [INPUTS]
    assert flow(document, at["head"]).outputs == []
    assert [edge.other for edge in flow(document, at["layers"]).outputs] == ["norm"]


def test_a_tensor_flows_from_its_last_writer() -> None:
    rows = [Module("", "Net", "Net", None), *(Module(name, name, name, 0) for name in "abc")]
    kind = OpKind("f", "f", {}, (), ())
    calls = [Call(0, None), *(Call(at, 0) for at in (1, 2, 3))]
    ops = [Op(0, 1, (), (0,)), Op(0, 2, (0,), (0,)), Op(0, 3, (0,), (1,))]
    document = Document(modules=rows, calls=calls, kinds=[kind], ops=ops, storages=[Storage(8, 0), Storage(8, 2)])
    assert [edge.other for edge in flow(document, 3).inputs] == ["b"]
    assert [edge.other for edge in flow(document, 1).outputs] == ["b"]


def test_totals_equal_those_of_torch() -> None:
    torch = pytest.importorskip("torch")
    from assay.api.explore.live import live_subject
    from assay.sources.open import open_source

    model = torch.nn.Transformer(d_model=32, nhead=2, num_encoder_layers=2, num_decoder_layers=2, dim_feedforward=64)
    sheet = made("tree", live_subject(open_source(model)))
    for path, module in model.named_modules():
        expected = sum(each.numel() for each in module.parameters())
        assert value(sheet, path or "(root)", "params") == expected


def test_nan_and_infinite_values_are_shown_in_both_tables_of_tensors() -> None:
    state = {f"layers.{at}.w": np.full((3, 4), 0.5) for at in range(4)}
    state["layers.2.w"][1, :2] = np.nan, np.inf
    subject = explorer_subject(Document(weights=analyze_weights(state)))
    parameters = made("parameters", subject)
    assert [value(parameters, f"layers.{at}.w", "nan") for at in range(4)] == [0, 0, 1, 0]
    assert value(parameters, "layers.#.w ×4", "inf") == 1
    tree = made("tree", subject)
    lines = tree.column("statistics")
    assert lines is not None
    assert "1 NaN; 1 infinite; 0.5 … 0.5, 0.5 ± 0" in {lines.values[row] for row in range(len(tree.index))}
