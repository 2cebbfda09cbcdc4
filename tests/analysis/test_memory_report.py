"""The memory report and its plots."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from assay.analysis.devices import parse_devices
from assay.analysis.memory import LargestBatch, PeakParts, fits, memory_of, targets
from assay.document.document import Document, KeyValueCache, Run
from assay.document.rows import Op, OpKind, Storage, Tensor, TensorType
from assay.views import plots
from assay.views.plain import plain
from assay.views.text.memory import batch_table, fit_table, report, sizes_table
from assay.views.text.report import as_text

VALUES = st.lists(st.integers(0, 1000), min_size=1, max_size=200)


def recorded() -> Document:
    weight = Tensor(("w",), "parameter", TensorType((256,), "float32"), 1024, True)
    storages = [Storage(1024, 0, None, "parameter"), Storage(2048, 0, 2), Storage(512, 1, None)]
    kinds = [OpKind("torch.relu", "aten.relu.default", {}, (), ())]
    run = Run("meta", cache=KeyValueCache(960, 3, 10, 2))
    return Document(run=run, tensors=[weight], kinds=kinds, ops=[Op(0, -1)] * 3, storages=storages)


@given(VALUES, st.integers(1, 80))
def test_columns_keep_the_largest_value_and_the_order(values, width):
    shown = plots.columns(values, width)
    assert len(shown) == min(len(values), width)
    assert max(shown) == max(values)
    assert shown == values or len(values) > width


@given(VALUES)
def test_the_height_of_an_area_follows_its_values(values):
    lines = plots.area(values, width=80, height=5)
    assert len(lines) == 5
    heights = [sum(line[at] != " " for line in lines) for at in range(len(lines[0]))]
    shown = plots.columns(values, 80)
    for left, right in zip(range(len(shown)), range(1, len(shown)), strict=False):
        assert (shown[left] <= shown[right]) <= (heights[left] <= heights[right])
    if max(values):
        assert heights[shown.index(max(shown))] == 5
        assert lines[0][shown.index(max(shown))] == "█"
    assert all((height > 0) == (value > 0) for height, value in zip(heights, shown, strict=True))


@given(VALUES)
def test_a_sparkline_in_ascii_has_the_same_width(values):
    line = plots.sparkline(values, 10)
    assert plain(line).isascii()
    assert len(plain(line)) == len(line) == min(len(values), 10)


def test_rows_have_plain_bytes_and_their_provenance():
    rows = {row["what"]: (row["bytes"], row["how"]) for row in sizes_table(memory_of(recorded())).values()}
    assert rows["parameters"] == (1024, "counted")
    assert rows["optimizer state"][0] == 2 * 1024 + 4
    assert rows["gradients"] == (1024, "modelled")
    assert rows["inference: peak"][0] == 1024 + 2048 + 512
    assert rows["training: peak"] == (None, "unknown")
    assert rows["cache: batch 3, length 10"][0] == 960
    text = as_text(report(memory_of(recorded()), recorded()))
    assert "KV cache: batch 3, length 10" in text
    assert "inference: live at the peak" in text
    assert "Activations peak at 2.5 KiB (plus 1 KiB of parameters, buffers and inputs)" in text


def test_the_report_shows_the_peak_unknown_values_and_exclusions():
    text = as_text(report(memory_of(recorded()), recorded()))
    assert "Inference: peak 3.5 KiB at op 2 of 3, torch.relu (forward)" in text
    (line,) = [line for line in text.splitlines() if line.startswith("training: peak")]
    assert line.split(maxsplit=2)[2] == "–  unknown   no training step was recorded"
    assert "Training step" not in text
    assert "not included: allocator rounding and fragmentation" in text


def test_tables_have_one_row_per_device_and_batch():
    rows = fit_table(fits(PeakParts(rest=1 << 36), targets(parse_devices("H100,24GiB")))).values()
    assert {row["device"]: row["fits"] for row in rows} == {"H100 SXM": True, "24GiB": False}
    doubtful = LargestBatch(8, 100, 5, 200, monotone=False)
    ended = LargestBatch(64, 100, 7, 200, bounded=False)
    batches = batch_table({"a": doubtful, "b": ended, "c": LargestBatch(1, 1, 1, 1)})
    notes = [row["note"] for row in batches.values()]
    assert [note.split(":")[0] for note in notes] == [
        "peak memory fell as the batch grew",
        "search limit reached",
        "",
    ]
