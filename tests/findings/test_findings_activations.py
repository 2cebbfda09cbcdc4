"""Rules about the values of outputs: each fires on a model with the problem and not on a near miss."""

from __future__ import annotations

import copy

import msgspec
import pytest
import torch
from finding_models import in_document, paths, values
from torch import nn
from torch.nn import functional as F

import assay
from assay.api.activations import record_activations
from assay.api.options import RunOptions
from assay.document.document import Document
from assay.sources.open import open_source

X = torch.randn(64, 8, generator=torch.Generator().manual_seed(0))


def recorded(model, inputs=X, **options) -> Document:
    """The document of a pass with statistics of its outputs."""
    backward = options.pop("backward", False)
    document = assay.observe(model, inputs, **options)
    values = record_activations(open_source(model), inputs, RunOptions(**options), backward=backward)
    return msgspec.structs.replace(document, activations=values)


class Step(nn.Module):
    """A layer around a function."""

    def __init__(self, function):
        super().__init__()
        self.inner = nn.Linear(8, 8)
        self.function = function

    def forward(self, x):
        return self.function(self.inner(x))


def chain(*functions) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(*(Step(each) for each in functions))


def kept(x):
    return x


def test_the_op_that_made_the_first_nan_is_named():
    document = recorded(chain(kept, lambda x: torch.log(x - 100), kept))
    finding = in_document("A101", document)
    assert (finding.severity, paths(document, finding)) == ("error", ["1"])
    assert "torch.log in 1" in finding.title
    assert values(finding)["nan"] == 64 * 8
    # The outputs of both steps after the logarithm, of the Linear layer in the second, and of the root.
    assert values(finding)["modules_with_nan"] == 4
    assert in_document("A101", recorded(chain(kept, torch.relu, kept))) is None


def test_nan_written_in_place_is_seen():
    document = recorded(chain(kept, lambda x: x.sub_(100).log_(), kept))
    finding = in_document("A101", document)
    assert "log_ in 1" in finding.title
    assert values(finding)["nan"] == 64 * 8


def test_nan_in_the_weights_is_traced_to_them():
    model = chain(kept, kept)
    with torch.no_grad():
        model[1].inner.bias[3] = float("nan")
    finding = in_document("A101", recorded(model))
    assert finding.tensors == ("1.inner.bias",)
    assert "W101" in finding.advice


def test_infinities_in_the_weights_are_traced_to_them():
    model = chain(kept, kept)
    with torch.no_grad():
        model[1].inner.weight[3, 0] = float("inf")
    infinite = in_document("A102", recorded(model))
    assert infinite.tensors == ("1.inner.weight",)
    assert "W101" in infinite.advice
    with torch.no_grad():
        model[1].inner.weight[3, 1] = -float("inf")
    spoiled = in_document("A101", recorded(model))
    assert spoiled.tensors == ("1.inner.weight",)


def test_nan_made_of_infinities_is_traced_to_the_op_that_made_them():
    document = recorded(chain(lambda x: (1e4 * x.abs()).exp(), lambda x: x - x, kept), X)
    finding = in_document("A101", document)
    assert "after infinities from the output of torch.exp in 0" in finding.title
    assert "Look at the output of torch.exp in 0" in finding.advice
    assert "torch.exp in 0" in in_document("A102", document).title


def test_infinities_after_the_first_nan_did_not_cause_it():
    def masked(x):
        return x.masked_fill(x < 100, -torch.inf).softmax(-1).nan_to_num(0.0)

    document = recorded(chain(masked, lambda x: 1 / torch.zeros_like(x)))
    assert "its inputs have none" in in_document("A101", document).title


def test_nan_in_the_inputs_is_traced_to_them():
    spoiled = X.clone()
    spoiled[5, 5] = float("nan")
    finding = in_document("A101", recorded(chain(kept), spoiled))
    assert "the inputs have NaN" in finding.title
    assert values(finding)["nan"] == 8


def test_nan_that_the_model_removes_is_a_warning():
    document = recorded(chain(lambda x: torch.log(x).nan_to_num(0.0), kept))
    assert in_document("A101", document).severity == "warning"


def test_nan_and_infinities_that_were_asked_for_are_not_the_first():
    def without(x):
        return (2 * x.masked_fill(x > 0, torch.nan)).nan_to_num(0.0)

    assert in_document("A101", recorded(chain(without, kept))) is None
    assert "torch.log in 1" in in_document("A101", recorded(chain(without, lambda x: torch.log(x - 100)))).title
    least = chain(lambda x: x - x.masked_fill(x > 5, torch.inf).amin(-1, keepdim=True), kept)
    assert in_document("A102", recorded(least, 10 * X)) is None


def test_a_row_that_is_masked_completely_is_the_first_nan():
    def attend(x):
        mask = torch.zeros(8, dtype=torch.bool)
        mask[:] = True
        return x.masked_fill(mask, -torch.inf).softmax(-1)

    assert "softmax in 0" in in_document("A101", recorded(chain(attend))).title


def test_a_division_by_zero_is_an_infinity_and_a_mask_is_not():
    document = recorded(chain(kept, lambda x: x.abs() / torch.zeros(8)))
    finding = in_document("A102", document)
    assert (finding.severity, paths(document, finding)) == ("error", ["1"])
    assert values(finding)["infinite"] == 64 * 8
    masked = chain(lambda x: x.masked_fill(x > 0, -torch.inf).softmax(-1).nan_to_num(0.0))
    assert in_document("A102", recorded(masked)) is None
    hidden = chain(lambda x: torch.log((x > 0).float()).exp())
    assert in_document("A102", recorded(hidden)) is None


def test_infinities_that_do_not_reach_the_output_are_a_warning():
    document = recorded(chain(lambda x: 1 / (1 / torch.zeros_like(x)), kept))
    assert in_document("A102", document).severity == "warning"


@pytest.mark.parametrize("function", [torch.sigmoid, torch.tanh, F.hardtanh, lambda x: x.tanh_()])
def test_saturated_activations_are_found_inside_a_model_only(function):
    def large(x):
        return function(1e4 * x)

    document = recorded(chain(large, kept))
    finding = in_document("A103", document)
    assert (finding.severity, paths(document, finding)) == ("warning", ["0"])
    assert values(finding)["share_at_ends"] > 0.9
    assert in_document("A103", recorded(chain(lambda x: function(0.5 * x), kept))) is None
    if function is torch.sigmoid:
        assert in_document("A103", recorded(chain(kept, large))) is None


def test_one_hot_attention_is_saturated_and_a_switch_of_two_is_not():
    assert in_document("A103", recorded(chain(lambda x: (1e5 * x).softmax(-1), kept))) is not None
    pair = chain(lambda x: (1e5 * x.view(64, 4, 2)).softmax(-1).view(64, 8), kept)
    assert in_document("A103", recorded(pair)) is None


def test_shares_are_exact():
    document = recorded(chain(lambda x: torch.relu(x), kept))
    (row,) = [row for row in document.activations.ops if row.op == "aten.relu"]
    torch.manual_seed(0)
    expected = torch.relu(Step(kept).inner(X))
    assert row.zeros == pytest.approx((expected == 0).double().mean().item())
    assert row.rms == pytest.approx(expected.double().square().mean().sqrt().item(), rel=1e-6)
    assert (row.min, row.max) == (0.0, expected.max().item())
    assert (row.channels, row.dead_channels) == (8, int((expected == 0).all(0).sum()))


@pytest.mark.parametrize(
    "relu", [torch.relu, F.relu6, lambda x: F.relu(x, inplace=True), lambda x: F.threshold(x, 0, 0)]
)
def test_dead_units(relu):
    document = recorded(chain(lambda x: relu(x - 100), kept))
    finding = in_document("A104", document)
    assert (finding.severity, paths(document, finding)) == ("warning", ["0"])
    assert values(finding)["share_of_zeros"] == 1.0
    assert values(finding)["dead_channels"] == 8
    assert in_document("A104", recorded(chain(relu, kept))) is None


def with_dead_units(layer: nn.Module, dead: int) -> nn.Module:
    nn.init.zeros_(layer.bias)
    nn.init.constant_(layer.bias[:dead], -100.0)
    return nn.Sequential(layer, nn.ReLU())


@pytest.mark.parametrize(
    ("layer", "shape", "dead"),
    [(nn.Linear(8, 64), (64, 8), 30), (nn.Linear(8, 64), (4, 6, 8), 30), (nn.Conv2d(3, 32, 3), (2, 3, 8, 8), 15)],
)
def test_some_dead_channels(layer, shape, dead):
    inputs = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    document = recorded(with_dead_units(layer, dead), inputs)
    finding = in_document("A104", document)
    assert (finding.severity, paths(document, finding)) == ("warning", ["1"])
    assert values(finding)["dead_channels"] == dead
    assert in_document("A104", recorded(with_dead_units(layer, 1), inputs)) is None


def test_a_few_values_prove_no_channel_dead():
    model = with_dead_units(nn.Linear(8, 64), 30)
    assert in_document("A104", recorded(model, X[:16])) is not None
    assert in_document("A104", recorded(model, X[:15])) is None


def test_made_up_inputs_prove_little():
    model = chain(lambda x: torch.relu(x - 100), kept)
    assert in_document("A104", recorded(model, "64x8")).severity == "note"


def scaled(factor: float, layers: int) -> nn.Module:
    model = chain(*[lambda x: factor * x] * layers)
    for step in model:
        nn.init.orthogonal_(step.inner.weight)
        nn.init.zeros_(step.inner.bias)
    return model


def test_outputs_that_lose_their_scale():
    document = recorded(scaled(0.3, 10))
    finding = in_document("A105", document)
    assert paths(document, finding) == [str(index) for index in range(10)]
    assert values(finding)["first_rms"] / values(finding)["last_rms"] == pytest.approx(0.3**-9, rel=1e-3)
    assert "shrink" in finding.title
    assert "grow" in in_document("A105", recorded(scaled(3.0, 10))).title
    assert in_document("A105", recorded(scaled(0.9, 10))) is None
    assert in_document("A105", recorded(scaled(0.1, 5))) is None


def test_values_beyond_float16_are_a_note_in_float32_and_a_warning_in_float16():
    def large(x):
        return x * 1e4

    finding = in_document("A106", recorded(chain(large, large, kept)))
    assert (finding.severity, "too large" in finding.title) == ("note", True)
    half = nn.Linear(8, 8).half()
    nn.init.zeros_(half.weight)
    nn.init.constant_(half.bias, 4e4)
    assert in_document("A106", recorded(half, X.half())).severity == "warning"
    nn.init.constant_(half.bias, 3e4)
    assert in_document("A106", recorded(half, X.half())) is None
    assert in_document("A106", recorded(chain(kept, kept))) is None


def test_the_model_is_left_as_it_was():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.ReLU(inplace=True), nn.Linear(8, 2))
    model[0].weight.grad = torch.ones(8, 8)
    before, given = copy.deepcopy(model.state_dict()), X.clone()
    state = torch.get_rng_state()
    values = record_activations(open_source(model), given, RunOptions(backward=True), backward=True)
    assert values.gradients
    assert torch.equal(state, torch.get_rng_state())
    assert torch.equal(given, X)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert model.training
    assert [parameter.grad is None for parameter in model.parameters()] == [False, *[True] * 5]
    assert torch.equal(model[0].weight.grad, torch.ones(8, 8))
    assert all(not module._forward_hooks and "forward_stats" not in module.__dict__ for module in model.modules())


def test_without_data_there_are_no_values():
    with torch.device("meta"):
        model = nn.Linear(8, 8)
    assert record_activations(open_source(model), X, RunOptions()) is None
    assert record_activations(open_source(nn.Linear(8, 8)), X, RunOptions(mode="meta")) is None
    assert record_activations(open_source(assay.observe(nn.Linear(8, 8), X)), None, RunOptions()) is None


def test_a_pass_that_fails_keeps_what_it_read():
    def broken(x):
        raise RuntimeError("no")

    values = record_activations(
        open_source(chain(lambda x: torch.log(x - 100), broken)), X, RunOptions(), backward=True
    )
    assert "no" in values.failure
    assert values.first_nan is not None
    assert not values.gradients


def test_a_document_with_values_is_saved_and_read(tmp_path):
    document = recorded(chain(lambda x: torch.log(x), kept), backward=True)
    assay.save(document, tmp_path / "m.assay.json.gz")
    assert assay.load(tmp_path / "m.assay.json.gz").activations == document.activations
