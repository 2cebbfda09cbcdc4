"""Pruning potential, quantization sensitivity and recommendation per tensor, against numpy."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest
import torch

from assay.api.weights import weights_document
from assay.document.plans import PrunedTensor, QuantizedTensor
from assay.findings.facts import ModelFacts
from assay.findings.tensor_assessments import assess_tensor, assess_weights
from assay.findings.weight_plans import MIN_DB, MIN_ENERGY, pruning_plan, quantization_plan

STEPS = (0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)
RANDOM = np.random.default_rng(0)
NORMAL = RANDOM.normal(size=(128, 256))
SPARSE = NORMAL * (RANDOM.random(NORMAL.shape) < 0.2)
HEAVY = RANDOM.laplace(size=(128, 256))
UNIFORM = RANDOM.uniform(-1, 1, size=(128, 256))
INTEGERS = RANDOM.integers(-127, 128, size=(128, 256)).astype(np.float64)
INTEGERS[:, 0] = 127  # so that every row has a scale of exactly 1
WIDE = np.full((32, 4096), 0.49)
WIDE[:, :128] = 8.5
WIDE[:, 0] = 127.0
"""A large column sets the scale: 8.5 rounds to zero in int4, and 0.49 in int8 unless its group has its own scale."""
MANY = {"normal": NORMAL, "sparse": SPARSE, "heavy": HEAVY, "uniform": UNIFORM, "integers": INTEGERS}


def assessed(**tensors):
    """The assessments of tensors, each the `weight` of a layer with its name."""
    return {one.name.removesuffix(".weight"): one for one in assess_weights(statistics(**tensors).weights).tensors}


def statistics(**tensors):
    module = torch.nn.Module()
    for name, tensor in tensors.items():
        layer = torch.nn.Module()
        values = torch.as_tensor(tensor).float() if isinstance(tensor, np.ndarray) else tensor
        layer.register_parameter("weight", torch.nn.Parameter(values, requires_grad=False))
        module.add_module(name, layer)
    return weights_document(module)


def prunable(values):
    """The largest step that keeps the energy, by sorting; or the zeros, if they are more."""
    squares = np.sort(np.square(values.astype(np.float32).astype(np.float64)).ravel())
    kept = {step: squares[int(step * squares.size) :].sum() / squares.sum() for step in STEPS}
    return max([step for step in STEPS if kept[step] >= MIN_ENERGY] + [np.mean(values == 0)])


def decibels(values, bits, group):
    """The signal-to-noise ratio of symmetric integers with one scale per `group` values of a row."""
    rows = values.astype(np.float32).astype(np.float64).reshape(-1, group)
    most = 2 ** (bits - 1) - 1
    scale = np.abs(rows).max(1, keepdims=True) / most
    error = rows - np.clip(np.round(rows / np.where(scale, scale, 1)), -most, most) * scale
    noise = np.square(error).sum()
    return 10 * math.log10(np.square(rows).sum() / noise) if noise > 1e-9 * np.square(rows).sum() else math.inf


def db(rounding):
    return math.inf if rounding.exact else rounding.sqnr_db


@pytest.mark.parametrize("name", MANY)
def test_the_figures_are_those_of_numpy(name):
    values = MANY[name]
    one = assessed(layer=values)["layer"]
    assert one.pruning_potential == pytest.approx(prunable(values))
    assert db(one.int4) == pytest.approx(decibels(values, 4, 128), abs=0.1)
    assert min(db(one.int8), 90) == pytest.approx(min(decibels(values, 8, 256), 90), abs=0.1)
    assert one.structured_potential == 0
    assert one.unknown == ""


def test_sensitivity_is_low_medium_or_high_by_the_integers_that_keep_the_threshold():
    found = assessed(normal=NORMAL, heavy=HEAVY, wide=WIDE)
    assert decibels(NORMAL, 4, 128) >= MIN_DB
    assert decibels(HEAVY, 4, 128) < MIN_DB <= decibels(HEAVY, 8, 256)
    assert max(decibels(WIDE, 4, 128), decibels(WIDE, 8, 4096)) < MIN_DB <= decibels(WIDE, 8, 128)
    levels = {name: one.quantization_sensitivity for name, one in found.items()}
    assert levels == {"normal": "low", "heavy": "medium", "wide": "high"}


def test_recommendations_agree_with_the_plans():
    document = statistics(**MANY, wide=WIDE)
    assessments = {one.name: one for one in assess_weights(document.weights).tensors}
    facts = ModelFacts(document)
    for row in quantization_plan(facts):
        one = assessments[row.name]
        assert isinstance(row, QuantizedTensor)
        if one.action == "quantize":
            scope = {"channel": "per row", "group128": "in groups of 128"}[row.scope]
            assert one.recommendation == f"Quantize to {row.format} {scope}"
    for row in pruning_plan(facts):
        assert isinstance(row, PrunedTensor)
        assert assessments[row.name].pruning_potential == pytest.approx(max(row.share, row.share_zero), rel=1e-4)


ROWS_DEAD = NORMAL.copy()
ROWS_DEAD[:3] = 0
ROWS_DEAD[:, :2] = 0
TWO_OF_FOUR = NORMAL * (np.add.outer(np.arange(128), np.arange(256)) % 4 < 2)
MOSTLY_ZERO = RANDOM.uniform(0.5, 1, NORMAL.shape) * (RANDOM.random(NORMAL.shape) < 0.06)
INVALID = NORMAL.copy()
INVALID[0, :3] = np.nan


@pytest.mark.parametrize(
    ("tensor", "action", "text"),
    [
        (NORMAL, "quantize", "Quantize to int4 in groups of 128"),
        (UNIFORM, "quantize", "Quantize to int4 per row"),
        (HEAVY, "quantize", "Quantize to int8 per row"),
        (WIDE, "check", "Check its outliers: 5.0 % of its weights have 96.4 % of the sum of squares"),
        (MOSTLY_ZERO, "store", f"Store it sparse: {100 * np.mean(MOSTLY_ZERO == 0):.1f} % of its weights are zero"),
        (TWO_OF_FOUR, "convert", "Convert it to 2:4 sparse"),
        (ROWS_DEAD, "remove", "Remove 3 all-zero rows and 2 all-zero columns"),
        (np.zeros((64, 64)), "check", "Check it: all values are 0"),
        (np.full((64, 64), 2.5), "check", "Check it: all values are 2.5"),
        (INVALID, "check", "Check it: 3 values are NaN or infinite"),
        (NORMAL[:8, :128], "keep", "keep: fewer than 4,096 weights"),
        (NORMAL[0], "keep", "keep: not a matrix"),
        (torch.randint(-128, 127, (128, 64), dtype=torch.int8), "none", "none: already int8"),
        (torch.randn(128, 64).to(torch.float8_e4m3fn), "none", "none: already float8_e4m3fn"),
        (torch.tensor(3), "keep", "keep: int64 values are neither pruned nor rounded"),
        (torch.ones(64, 64, dtype=torch.bool), "keep", "keep: bool values are neither pruned nor rounded"),
        (torch.ones(0, 64), "none", "none: no elements"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_recommendation_starts_with_a_verb_or_states_why_there_is_none(tensor, action, text):
    one = assessed(layer=tensor)["layer"]
    assert one.action == action
    assert one.recommendation == text


@pytest.mark.parametrize(
    ("tensor", "why"),
    [
        (INVALID, "3 values are NaN or infinite"),
        (torch.zeros(64, 64, dtype=torch.int8), "int8 values are neither pruned nor rounded"),
        (torch.ones(0, 64), "no elements"),
    ],
    ids=["nan", "int8", "empty"],
)
def test_what_is_unknown_is_not_zero_and_has_a_reason(tensor, why):
    one = assessed(layer=tensor)["layer"]
    assert (one.pruning_potential, one.int8, one.quantization_sensitivity, one.unknown) == (None, None, "", why)


def test_structured_potential_is_the_share_in_dead_rows_and_columns():
    one = assessed(layer=ROWS_DEAD)["layer"]
    assert one.structured_potential == pytest.approx(1 - (125 * 254) / (128 * 256))
    assert assessed(layer=NORMAL[0])["layer"].structured_potential is None


def test_structured_potential_of_stacked_matrices_counts_the_rows_of_each():
    stacked = RANDOM.normal(size=(4, 32, 256))
    stacked[0, :8] = 0
    assert assessed(layer=stacked)["layer"].structured_potential == pytest.approx(8 / (4 * 32))


def test_zeros_can_all_be_pruned_and_a_constant_only_up_to_the_kept_energy():
    assert assessed(layer=np.zeros((64, 64)))["layer"].pruning_potential == 1
    assert assessed(layer=np.full((64, 64), 2.0))["layer"].pruning_potential == 0
    assert assessed(layer=MOSTLY_ZERO)["layer"].pruning_potential == np.mean(MOSTLY_ZERO == 0)


def test_compressibility_is_the_entropy_of_the_bit_patterns():
    four_values = torch.tensor([0.5, 1.0, -2.0, 4.0]).repeat(2048).reshape(64, 128).half()
    assert assessed(layer=four_values)["layer"].compressibility == pytest.approx(2 / 16)


def test_values_that_were_not_read_are_unknown():
    module = torch.nn.Linear(64, 128)
    weight, bias = assess_weights(weights_document(module, listing=True).weights).tensors
    for one in (weight, bias):
        assert (one.pruning_potential, one.unknown) == (None, "the values were not read")
    assert (weight.recommendation, bias.recommendation) == ("", "keep: not a matrix")


def test_the_reason_for_unknown_figures_is_the_true_one():
    assert assessed(nan=torch.full((64, 64), math.nan))["nan"].unknown == "4,096 values are NaN or infinite"


@pytest.mark.parametrize("scale", [1e-300, 1e-200, 1e200, 1e300])
def test_extreme_values_are_assessed_as_others(scale):
    values = torch.randn(64, 64, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    usual, extreme = (assessed(layer=values * factor)["layer"] for factor in (1.0, scale))
    assert (extreme.unknown, extreme.action) == ("", usual.action)
    assert extreme.pruning_potential == usual.pruning_potential
    assert extreme.quantization_sensitivity == usual.quantization_sensitivity


ONE_LARGE = NORMAL.copy()
ONE_LARGE[0, 0] = 1000.0
LARGE_COLUMNS = NORMAL * np.where(np.arange(256) % 128 == 0, 100.0, 1.0)
LARGE_ROWS = NORMAL * np.where(np.arange(128) % 32 == 0, 100.0, 1.0)[:, None]


@pytest.mark.parametrize("values", [ONE_LARGE, LARGE_ROWS, LARGE_COLUMNS, RANDOM.standard_cauchy(size=(128, 256))])
def test_a_matrix_ruled_by_outliers_is_to_be_checked_and_not_pruned(values):
    one = assessed(layer=values)["layer"]
    share = prunable(values)
    squares = np.sort(np.square(values.astype(np.float32).astype(np.float64)).ravel())
    kept, largest = squares[int(share * squares.size) :].sum() / squares.sum(), squares[-1] / squares.sum()
    assert one.pruning_potential == pytest.approx(share, rel=1e-4)
    assert one.action == "check"
    few, most = f"{100 * (1 - share):.1f} %", f"{math.floor(1000 * kept) / 10:.1f} %"
    text = f"{few} of its weights have {most}" if largest < 0.05 else f"its largest value has {100 * largest:.1f} %"
    assert one.recommendation == f"Check its outliers: {text} of the sum of squares"


def test_a_convolution_is_only_quantized_to_int8():
    """The kernels for int4, and those for int8 that leave activations as they are, are for linear layers."""
    found = assessed(conv=NORMAL.reshape(128, 32, 8), conv2d=NORMAL.reshape(64, 32, 4, 4), linear=NORMAL)
    texts = {name: one.recommendation for name, one in found.items()}
    assert texts["conv"] == texts["conv2d"] == "Quantize to int8 per row"
    assert texts["linear"] == "Quantize to int4 in groups of 128"
    assert {one.quantization_sensitivity for one in found.values()} == {"low"}


def test_where_outliers_have_the_energy_the_ratio_of_the_rest_is_unknown_and_the_sensitivity_high():
    found = assessed(one=ONE_LARGE, columns=LARGE_COLUMNS, rows=LARGE_ROWS)
    assert all(decibels(values, 4, 128) >= MIN_DB for values in (ONE_LARGE, LARGE_COLUMNS, LARGE_ROWS))
    levels = {name: one.quantization_sensitivity for name, one in found.items()}
    assert levels == {"one": "high", "columns": "high", "rows": "low"}  # a row has a scale of its own


def test_a_value_that_is_large_but_not_alone_is_named():
    values = NORMAL.copy()
    values[0, 0] = 50.0
    share = 2500 / np.square(values).sum()
    expected = f"Check its outliers: its largest value has {100 * share:.1f} % of the sum of squares"
    assert assessed(layer=values)["layer"].recommendation == expected


def recommended(name, role, values=NORMAL):
    row = statistics(layer=values).weights.tensors[0]
    return assess_tensor(msgspec.structs.replace(row, names=(name,), role=role)).recommendation


@pytest.mark.parametrize(
    ("name", "role", "text"),
    [
        ("w1", "parameter", "Quantize to int4 in groups of 128"),
        ("W_q", "", "keep: its name is not that of a layer's weight"),
        ("q.weight", "", "Quantize to int4 in groups of 128"),
        ("embed_tokens.weight", "parameter", "Quantize to int4 in groups of 128"),
        ("proj_weight", "buffer", "keep: its role is buffer, not parameter"),
        ("CONSTANTS.c0", "constant", "keep: its role is constant, not parameter"),
        *(
            (name, "parameter", "keep: its name is that of a bias, norm, position or token")
            for name in (
                "attn.bias", "masked_bias", "relative_position_bias_table", "relative_attention_bias.weight",
                "norm.weight", "norm1.weight", "pos_embed", "position_embeddings.weight", "positional_embedding",
                "cls_token", "query_tokens",
            )
        ),
        ("norm.weight", "", "keep: its name is not that of a layer's weight"),
    ],
)  # fmt: skip
def test_roles_decide_what_is_a_weight_and_names_where_they_are_unknown(name, role, text):
    assert recommended(name, role) == text


def test_equal_values_are_to_be_checked_whatever_the_name_unless_it_is_no_parameter():
    ones = np.ones((64, 64))
    for name, role in (("latents", ""), ("pos_embed", "parameter")):
        assert recommended(name, role, ones) == "Check it: all values are 1"
    assert recommended("mask", "buffer", ones) == "keep: its role is buffer, not parameter"


def test_a_matrix_of_few_alike_weights_is_to_be_pruned():
    nearly_zero = np.where(RANDOM.random(NORMAL.shape) < 0.02, 1.0, 1e-4) * UNIFORM
    one = assessed(layer=nearly_zero)["layer"]
    assert (one.action, one.recommendation) == ("prune", f"Prune {100 * prunable(nearly_zero):.1f} % of its weights")
