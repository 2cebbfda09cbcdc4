"""What each op's weights allow, on models whose answers are known by hand."""

from __future__ import annotations

import msgspec
import pytest
import torch
from torch import nn

import assay
from assay.analysis.devices import Device
from assay.api.weights import weights_document
from assay.document.assessments import Assessment
from assay.document.findings import Finding
from assay.findings.op_assessments import NO_WEIGHTS, PACKED, assess

COMPUTE_BOUND = Device("slow", 1.0, bandwidth_gb_s=1e6, tflops={"fp32": 1e-3})
MEMORY_BOUND = Device("fast", 1.0, bandwidth_gb_s=1.0, tflops={"fp32": 1e3})
IDS = torch.zeros(1, 8, dtype=torch.long)


class Tied(nn.Module):
    """An embedding whose table is the matrix of the head, of uniform values; another matrix of half zeros."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(64, 128)
        self.norm = nn.LayerNorm(128)
        self.mix = nn.Linear(128, 128)
        self.head = nn.Linear(128, 64, bias=False)
        self.head.weight = self.embed.weight
        with torch.no_grad(), torch.random.fork_rng():
            torch.manual_seed(0)
            self.embed.weight.uniform_(-1, 1)
            self.mix.weight.uniform_(-1, 1)
            self.mix.weight[torch.rand(128, 128) < 0.8] = 0

    def forward(self, ids):
        return self.head(torch.relu(self.mix(self.norm(self.embed(ids)))))


def observed(model, *inputs):
    """The document of a pass with the statistics of the model's weights."""
    return msgspec.structs.replace(assay.observe(model, inputs), weights=weights_document(model).weights)


def by_op(document, findings=(), device=None):
    """The assessments of ops by their public name."""
    names = [document.kinds[op.kind].name.rpartition(".")[2] for op in document.ops]
    return dict(zip(names, assess(document, findings, device).ops, strict=True))


def names_of(document, one):
    return [document.tensors[at].names for at in one.tensors]


def test_each_op_has_the_figures_of_the_weights_that_it_reads():
    document = observed(Tied(), IDS)
    ops, tensors = by_op(document), {one.name: one for one in assess(document, []).tensors}
    table, mix = tensors["embed.weight"], tensors["mix.weight"]
    assert 0.1 <= table.pruning_potential < 0.5 < mix.pruning_potential
    linears = [
        one for op, one in zip(document.ops, assess(document, []).ops, strict=True)
        if document.kinds[op.kind].name.endswith("linear")
    ]  # fmt: skip
    for one, expected in ((ops["embedding"], table), (linears[0], mix), (linears[1], table)):
        assert one.pruning_potential == expected.pruning_potential
        assert (one.int8, one.int4) == (expected.int8, expected.int4)
        assert one.quantization_sensitivity == expected.quantization_sensitivity
        assert one.recommendation == expected.recommendation
        assert one.unknown == ""


def test_tied_weights_are_one_tensor_for_both_ops():
    document = observed(Tied(), IDS)
    embedding, head = assess(document, []).ops[0], assess(document, []).ops[-1]
    assert names_of(document, embedding) == names_of(document, head) == [("embed.weight", "head.weight")]


def test_ops_without_a_weight_matrix_have_no_potential():
    ops = by_op(observed(Tied(), IDS))
    for name, count in (("relu", 0), ("layer_norm", 2)):
        one = ops[name]
        assert one.recommendation == "none: no weight matrix, no finding"
        assert (one.pruning_potential, one.int8, one.int4, one.quantization_sensitivity) == (None, None, None, "")
        assert (one.unknown, len(one.tensors)) == (NO_WEIGHTS, count)


@pytest.mark.filterwarnings("ignore")
def test_ops_of_quantized_layers_are_quantized_already():
    model = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.LSTMCell(16, 16))
    quantized = torch.ao.quantization.quantize_dynamic(model, {nn.Linear, nn.LSTMCell}, dtype=torch.qint8)
    ops = by_op(observed(quantized, torch.ones(1, 16)))
    for name in ("linear_dynamic", "quantized_lstm_cell_dynamic"):
        assert (ops[name].recommendation, ops[name].unknown) == ("none: already quantized", PACKED)
    assert (ops["relu"].recommendation, ops["relu"].unknown) == ("none: no weight matrix, no finding", NO_WEIGHTS)


def test_several_matrices_are_weighted_by_their_elements():
    model = nn.LSTM(64, 128, bias=False)
    with torch.no_grad():
        model.weight_ih_l0.uniform_(-1, 1)
        model.weight_hh_l0.uniform_(-1, 1)[:, ::2] = 0  # half of the columns
    document = observed(model, torch.zeros(3, 1, 64))
    found = assess(document, [])
    ih, hh = found.tensors
    (one,) = [each for each in found.ops if each.tensors]
    expected = (512 * 64 * ih.pruning_potential + 512 * 128 * hh.pruning_potential) / (512 * 192)
    assert one.pruning_potential == pytest.approx(expected)
    assert one.int8.sqnr_db == min(ih.int8.sqnr_db, hh.int8.sqnr_db)
    assert one.recommendation == "Remove 64 all-zero columns (1 of 2 matrices)"


def test_a_kind_covers_the_weights_of_all_its_ops():
    model = nn.Sequential(*(nn.Linear(64, 64, bias=False) for _ in range(3)))
    with torch.no_grad():
        for layer in model:
            layer.weight.uniform_(-1, 1)
        model[2].weight[:, 8:] = 0
    document = observed(model, torch.zeros(1, 64))
    found = assess(document, [])
    _, kind = found.kinds  # the first layer reads the model's input, which is another kind
    assert kind.tensors == (1, 2)
    assert kind.pruning_potential == pytest.approx(sum(one.pruning_potential for one in found.tensors[1:]) / 2)
    assert [one.tensors for one in found.ops] == [(0,), (1,), (2,)]


def test_without_values_the_figures_are_unknown_and_not_zero():
    model = Tied()
    recorded = assay.observe(model, (IDS,))
    listed = msgspec.structs.replace(recorded, weights=weights_document(model, listing=True).weights)
    for document in (recorded, listed):
        one = by_op(document)["embedding"]
        assert (one.pruning_potential, one.quantization_sensitivity, one.recommendation) == (None, "", "")
        assert one.unknown == "embed.weight: the values were not read"
        assert by_op(document)["relu"].unknown == NO_WEIGHTS


def test_values_that_are_not_finite_are_named():
    model = nn.Linear(64, 64)
    with torch.no_grad():
        model.bias[3] = float("inf")
    one = by_op(observed(model, torch.zeros(1, 64)))["linear"]
    assert one.recommendation == "Check it: 1 value is NaN or infinite (bias)"
    assert one.pruning_potential is not None  # that of the matrix, which is finite


def test_the_roofline_side_states_what_fewer_bytes_are_worth():
    document = observed(Tied(), IDS)
    assert {one.bound for one in assess(document, []).ops} == {""}
    slow, fast = by_op(document, [], COMPUTE_BOUND)["linear"], by_op(document, [], MEMORY_BOUND)["linear"]
    assert (slow.bound, fast.bound) == ("compute", "memory")
    assert slow.recommendation.endswith("(compute-bound: saves memory only)")
    parameters = 64 * 128 * 4
    share = parameters / (parameters + 8 * 128 * 4 + 8 * 64 * 4)
    assert fast.recommendation.endswith(f"(memory-bound: parameters are {100 * share:.1f} % of its bytes)")


def finding(code, severity, module):
    return Finding(code, severity, "a title", "Advice.", modules=(module,))


def test_findings_about_its_module_come_first_if_severe_and_last_otherwise():
    document = observed(Tied(), IDS)
    at = {module.path: index for index, module in enumerate(document.modules)}
    severe, mild = finding("W101", "error", at["head"]), finding("S203", "advice", at["head"])
    plain = by_op(document)["linear"].recommendation
    assert by_op(document, [severe, mild])["linear"].recommendation.startswith("See W101: ")
    assert by_op(document, [severe, mild])["linear"].findings == ("W101", "S203")
    assert by_op(document, [mild])["linear"].recommendation == plain
    norm = finding("S203", "advice", at["norm"])
    about_module = by_op(document, [norm])["layer_norm"].recommendation
    assert about_module.startswith("See S203: ")
    assert about_module.endswith(" (in its module)")
    assert by_op(document, [norm])["relu"].recommendation == "none: no weight matrix, no finding"


def test_findings_about_a_tensor_name_the_ops_that_read_it():
    document = observed(Tied(), IDS)
    about = Finding("W209", "advice", "a title", "Advice.", tensors=("head.weight",))
    ops = by_op(document, [about])
    assert (ops["embedding"].findings, ops["layer_norm"].findings) == (("W209",), ())


def test_an_analysis_stores_the_assessment_in_its_document():
    document = assay.analyze(Tied(), IDS).document
    assert len(document.assessment.tensors) == len(document.weights.tensors)
    assert len(document.assessment.kinds) == len(document.kinds)
    assert len(document.assessment.ops) == len(document.ops)
    stored = msgspec.json.decode(msgspec.json.encode(document.assessment), type=Assessment)
    assert stored == document.assessment
    assert set(stored.columns) >= {"tensors.pruning_potential", "tensors.quantization_sensitivity", "ops"}
