"""Rooflines compared with calculations by hand."""

from __future__ import annotations

import msgspec
import pytest

from assay.analysis.cost.totals import with_cost
from assay.analysis.devices import Device, find_device
from assay.analysis.roofline import roofline_of
from assay.document.document import Document, Failure, Run, Training
from assay.document.rows import Op, Operand, OpKind, TensorType
from assay.views.text.roofline import headline, table

TOY = Device(
    "Toy", 1, 1.0, {"fp32": 0.001, "tf32": 0.004, "bf16": 0.01, "fp8": 0.02, "int8": 0.04}, source="a leaflet"
)
"""1 GB/s; 1 GFLOP/s in fp32."""


def product(m: int, k: int, n: int, dtype: str = "float32") -> OpKind:
    ends = (Operand("self", TensorType((m, k), dtype)), Operand("mat2", TensorType((k, n), dtype), "parameter"))
    return OpKind("torch.mm", "aten.mm.default", {}, ends, (Operand("out", TensorType((m, n), dtype)),))


def addition(size: int, dtype: str = "float32") -> OpKind:
    one = TensorType((size,), dtype)
    ends = (Operand("self", one), Operand("other", one))
    return OpKind("torch.add", "aten.add.Tensor", {"alpha": 1}, ends, (Operand("out", one),))


def mystery() -> OpKind:
    one = TensorType((10,), "float32")
    return OpKind("mine.op", "mine.op.default", {}, (Operand("x", one),), (Operand("out", one),))


def document_of(*kinds: OpKind, times: int = 1) -> Document:
    return with_cost(Document(kinds=list(kinds), ops=[Op(index, -1) for index in range(len(kinds))] * times))


def test_a_large_product_is_compute_bound():
    (kind,) = roofline_of(document_of(product(100, 200, 300)), TOY).kinds
    assert kind.compute_s == pytest.approx(2 * 100 * 200 * 300 / 1e9)
    assert kind.memory_s == pytest.approx(4 * (100 * 200 + 200 * 300 + 100 * 300) / 1e9)
    assert (kind.by, kind.precision, kind.seconds) == ("compute", "fp32", kind.compute_s)


def test_an_addition_is_memory_bound():
    (kind,) = roofline_of(document_of(addition(1000)), TOY).kinds
    assert (kind.by, kind.precision) == ("memory", None)
    assert kind.seconds == pytest.approx(3 * 4 * 1000 / 1e9)
    assert kind.compute_s == pytest.approx(1000 / 1e9)


def test_the_bound_of_a_pass_is_the_sum_over_executions():
    roof = roofline_of(document_of(product(100, 200, 300), addition(1000), times=3), TOY)
    compute, memory = 3 * 0.012, 3 * 1.2e-5
    assert roof.bound_s == pytest.approx(compute + memory)
    assert roof.by == pytest.approx({"compute": compute, "memory": memory})
    assert (roof.coverage.known, roof.coverage.total) == (6, 6)


def test_ops_of_unknown_cost_are_excluded_and_reported():
    roof = roofline_of(document_of(addition(1000), mystery(), times=2), TOY)
    assert roof.bound_s == pytest.approx(2 * 1.2e-5)
    assert (roof.coverage.known, roof.coverage.total, roof.coverage.unknown) == (2, 4, ("mine.op",))
    assert [(kind.by, kind.seconds) for kind in roof.kinds] == [("memory", pytest.approx(1.2e-5)), ("unknown", None)]
    assert "2 of 4 ops modelled; not covered: mine.op" in headline(roof)
    assert roofline_of(document_of(mystery()), TOY).bound_s is None


@pytest.mark.parametrize(
    ("dtype", "precision"),
    [
        ("float32", "fp32"),
        ("bfloat16", "bf16"),
        ("float16", "bf16"),  # no fp16 peak
        ("float8_e4m3fn", "fp8"),
        ("int8", "int8"),
        ("float64", "fp32"),  # no fp64 peak: a narrower type, which is no slower
        ("complex64", "fp32"),
    ],
)
def test_the_dtype_determines_the_peak(dtype, precision):
    (kind,) = roofline_of(document_of(product(64, 64, 64, dtype)), TOY).kinds
    assert kind.precision == precision


def test_integer_weights_use_the_peak_of_the_activations_dtype():
    kind = product(64, 64, 64, "bfloat16")
    stored = Operand("mat2", TensorType((64, 64), "int8"), "parameter")
    mixed = msgspec.structs.replace(kind, inputs=(kind.inputs[0], stored))
    assert roofline_of(document_of(mixed), TOY).kinds[0].precision == "bf16"


def test_tf32_is_used_only_for_convolutions():
    assert roofline_of(document_of(product(64, 64, 64)), TOY).kinds[0].precision == "fp32"
    image, weight = TensorType((1, 8, 16, 16), "float32"), TensorType((8, 8, 3, 3), "float32")
    attributes = {"stride": [1, 1], "padding": [1, 1], "dilation": [1, 1], "groups": 1}
    ends = (Operand("input", image), Operand("weight", weight, "parameter"))
    convolution = OpKind("torch.conv2d", "aten.conv2d.default", attributes, ends, (Operand("out", image),))
    (kind,) = roofline_of(document_of(convolution), TOY).kinds
    assert kind.precision == "tf32"
    assert kind.compute_s == pytest.approx(2 * 8 * 16 * 16 * 8 * 9 / 4e9)


def test_causal_attention_is_bounded_by_its_visible_pairs():
    qkv = TensorType((1, 1, 64, 16), "float32")
    ends = tuple(Operand(name, qkv) for name in ("query", "key", "value"))
    target = "aten.scaled_dot_product_attention.default"
    kinds = [
        OpKind(
            "sdpa", target, {"is_causal": causal, "dropout_p": 0.0, "enable_gqa": False}, ends, (Operand("o", qkv),)
        )
        for causal in (False, True)
    ]
    whole, causal = roofline_of(document_of(*kinds), TOY).kinds
    # The pointwise ops on the scores (6 each) run on the vector units at the same time and take less.
    assert whole.compute_s == pytest.approx(64 * 64 * 2 * 2 * 16 / 1e9)
    assert causal.compute_s == pytest.approx(64 * 65 / 2 * 2 * 2 * 16 / 1e9)


def test_a_view_takes_no_time():
    one, other = TensorType((4, 6), "float32"), TensorType((24,), "float32")
    view = OpKind(
        "view", "aten.view.default", {"size": [24]}, (Operand("self", one),), (Operand("o", other, alias=0),)
    )
    (kind,) = roofline_of(document_of(view), TOY).kinds
    assert (kind.by, kind.seconds) == ("nothing", 0)


def test_a_device_without_peaks_bounds_only_pointwise_ops():
    roof = roofline_of(document_of(product(64, 64, 64), addition(1000)), find_device("M4 Max"))
    assert [kind.by for kind in roof.kinds] == ["unknown", "memory"]
    assert roof.kinds[0].why == "the peak FLOP/s of M4 Max are unknown"
    assert roofline_of(document_of(addition(10)), Device("24GiB", 24)).bound_s is None


def test_ridges_are_peak_over_bandwidth():
    assert roofline_of(document_of(), find_device("H100")).ridge["bf16"] == pytest.approx(989.4e12 / 3.35e12)
    assert roofline_of(Document(run=Run("real")), find_device("H100")).bound_s == 0
    assert roofline_of(Document(), find_device("H100")).bound_s is None
    stopped = Document(run=Run("real", failure=Failure("too few channels", "conv", "Conv2d")))
    assert roofline_of(stopped, find_device("H100")).bound_s is None


def test_a_training_step_is_bounded_by_its_own_ops():
    document = document_of(addition(1000))
    step = Training([product(100, 200, 300)], [Op(0, -1), Op(0, -1, phase="backward")], [])
    both = msgspec.structs.replace(document, training=step)
    assert roofline_of(both, TOY).bound_s == pytest.approx(1.2e-5)
    assert roofline_of(both, TOY, training=True).bound_s == pytest.approx(0.024)


def test_a_bound_is_modelled_and_names_its_source():
    how = roofline_of(document_of(), TOY).how
    assert type(how).__name__ == "Modelled"
    assert "a leaflet" in how.by
    assert any("lower bound" in assumption for assumption in how.assumptions)


def test_the_table_lists_the_longest_first_and_adds_up():
    roof = roofline_of(document_of(addition(1000), product(100, 200, 300), mystery()), TOY)
    rows = table(roof).values()
    assert [row["op"] for row in rows] == ["torch.mm", "torch.add", "mine.op"]
    assert sum(row["bound s"] or 0 for row in rows) == pytest.approx(roof.bound_s)
    assert rows[-1]["bound s"] is None
    assert sum(row["share"] or 0 for row in rows) == pytest.approx(1)


def test_recurrent_layers_use_tf32_and_their_cells_fp32():
    torch = pytest.importorskip("torch")
    import assay

    layer = assay.observe(torch.nn.LSTM(8, 8), torch.ones(3, 2, 8))
    cell = assay.observe(torch.nn.LSTMCell(8, 8), torch.ones(2, 8))
    used = [
        {row.precision for row in roofline_of(document, find_device("H200")).kinds if row.precision}
        for document in (layer, cell)
    ]
    assert used == [{"tf32"}, {"fp32"}]
