"""Plans per matrix: bit widths by their signal-to-noise ratio, and pruning by the energy it keeps."""

from __future__ import annotations

import msgspec
import pytest
import torch
from finding_models import in_weights, values
from torch.distributions import Laplace

from assay.api.weights import weights_document
from assay.findings.facts import ModelFacts
from assay.findings.weight_plans import MIN_DB, MIN_ENERGY, pruning_plan, quantization_plan
from assay.views.layout import as_text
from assay.views.text.finding_plans import plan_parts


def draw(distribution, *shape):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return distribution.sample(shape)


def weights_of(**tensors):
    module = torch.nn.Module()
    for name, tensor in tensors.items():
        layer = torch.nn.Module()
        layer.register_parameter("weight", torch.nn.Parameter(tensor, requires_grad=False))
        module.add_module(name, layer)
    return ModelFacts(weights_document(module))


def int_db(tensor, bits, group):
    """The signal-to-noise ratio of symmetric integers with one scale per `group` values of a row."""
    rows = tensor.double().reshape(-1, group)
    most = 2 ** (bits - 1) - 1
    scale = rows.abs().amax(1, keepdim=True) / most
    error = rows - (rows / scale).round().clamp(-most, most) * scale
    return float(10 * torch.log10((rows**2).sum() / (error**2).sum()))


NORMAL = draw(torch.distributions.Normal(0.0, 1.0), 512, 1024)
HEAVY = draw(Laplace(0.0, 1.0), 512, 1024)
UNIFORM = draw(torch.distributions.Uniform(-1.0, 1.0), 512, 1024)


def test_each_matrix_gets_the_narrowest_format_that_keeps_the_threshold():
    plan = {row.name: row for row in quantization_plan(weights_of(a=NORMAL, b=HEAVY, c=UNIFORM))}
    assert (plan["a.weight"].format, plan["a.weight"].scope) == ("int4", "group128")
    assert (plan["b.weight"].format, plan["b.weight"].scope) == ("int8", "channel")
    assert (plan["c.weight"].format, plan["c.weight"].scope) == ("int4", "channel")
    assert plan["a.weight"].sqnr_db == pytest.approx(int_db(NORMAL, 4, 128), abs=0.1)
    assert plan["b.weight"].sqnr_db == pytest.approx(int_db(HEAVY, 8, 1024), abs=0.1)
    assert int_db(NORMAL, 4, 1024) < MIN_DB <= int_db(NORMAL, 4, 128)
    assert int_db(HEAVY, 4, 128) < MIN_DB
    assert all(row.sqnr_db >= MIN_DB for row in plan.values() if row.scope)


def test_planned_bytes_include_scales():
    plan = {row.name: row for row in quantization_plan(weights_of(a=NORMAL, b=HEAVY))}
    assert plan["a.weight"].planned_bytes == NORMAL.numel() // 2 + 2 * 512 * 8
    assert plan["b.weight"].planned_bytes == HEAVY.numel() + 2 * 512


def test_a_stricter_threshold_takes_more_bits():
    (row,) = quantization_plan(weights_of(a=NORMAL), min_db=30.0)
    assert row.format == "int8"
    (row,) = quantization_plan(weights_of(a=NORMAL), min_db=60.0)
    assert (row.format, row.scope, row.planned_bytes) == ("float32", "", row.bytes)


def test_a_mixed_plan_is_a_finding_with_its_saving():
    finding = in_weights("W209", a__weight=NORMAL, b__weight=HEAVY)
    then = NORMAL.numel() // 2 + 2 * 512 * 8 + HEAVY.numel() + 2 * 512
    assert values(finding)["planned_bytes"] == then
    assert (values(finding)["int4_tensors"], values(finding)["int8_tensors"]) == (1, 1)
    assert finding.gain.amount.value == 2 * NORMAL.numel() * 4 - then
    assert finding.tensors == ("a.weight", "b.weight")


def test_the_widest_matrices_are_named():
    assert in_weights("W209", a__weight=NORMAL, b__weight=HEAVY).title.endswith("(1 int4, 1 int8); int8: b.weight")
    broken = HEAVY.clone()
    broken[0, 0] = float("nan")
    assert in_weights("W209", a__weight=NORMAL, b__weight=broken).title.endswith("; unchanged: b.weight")
    assert in_weights("W209", a__weight=NORMAL).title.endswith("(1 int4)")


@pytest.mark.parametrize("tensor", [HEAVY, NORMAL[:64]])
def test_int8_for_all_and_small_savings_have_no_plan(tensor):
    assert in_weights("W209", a__weight=tensor.clone()) is None


def test_a_plan_that_saves_hardly_more_than_int8_is_not_reported():
    large = torch.cat([HEAVY] * 8)
    assert in_weights("W209", a__weight=NORMAL[: len(HEAVY)], b__weight=large) is None
    assert in_weights("W209", a__weight=torch.cat([NORMAL] * 4), b__weight=large) is not None


def kept(tensor, share):
    """The share of the energy that remains without the smallest weights."""
    squares = (tensor.double() ** 2).flatten().sort().values
    return float(squares[int(share * squares.numel()) :].sum() / squares.sum())


def test_pruning_keeps_the_stated_energy():
    plan = {row.name: row for row in pruning_plan(weights_of(a=NORMAL, b=HEAVY, c=UNIFORM))}
    for name, tensor in (("a.weight", NORMAL), ("b.weight", HEAVY), ("c.weight", UNIFORM)):
        row = plan[name]
        assert row.energy == pytest.approx(kept(tensor, row.share), abs=1e-3)
        assert row.energy >= MIN_ENERGY
    assert plan["a.weight"].share == 0.25
    assert plan["b.weight"].share == 0.5


def test_heavy_tails_are_worth_pruning_and_normal_weights_are_not():
    finding = in_weights("W210", a__weight=NORMAL, b__weight=HEAVY)
    assert finding.severity == "note"
    assert finding.tensors == ("b.weight",)
    assert values(finding)["share_pruned"] == 0.5
    # Half of the weights, and a mask of one bit per weight.
    assert finding.gain.amount.value == HEAVY.numel() * 2 - HEAVY.numel() // 8
    assert in_weights("W210", a__weight=NORMAL) is None


def test_weights_that_are_zero_already_are_no_gain():
    assert in_weights("W210", a__weight=torch.cat([NORMAL, torch.zeros(512, 1024)])) is None
    partly = HEAVY.clone()
    partly[:64] = 0.0
    (row,) = in_weights("W210", a__weight=partly).plan
    assert (row.share, row.share_zero) == (0.5, 0.125)
    assert row.bytes - row.planned_bytes == (0.5 - 0.125) * partly.numel() * 4


def test_matrices_ruled_by_a_value_or_a_few_columns_have_no_plan():
    """Rounding keeps the ratio for the whole matrix because it keeps the large weights, and loses the others."""
    hot, one = NORMAL.clone(), NORMAL.clone()
    hot[:, ::128] *= 100
    one[0, 0] = 1e4
    for tensor in (hot, one):
        scale = tensor.reshape(-1, 128).abs().amax(1, keepdim=True) / 7
        kept = (tensor.reshape(-1, 128) / scale).round() != 0
        assert int_db(tensor, 4, 128) >= MIN_DB
        assert (kept.float().mean() < 0.1) == (tensor is hot)
    hot_rows = NORMAL.clone()
    hot_rows[::128] *= 100
    plan = {row.name: row for row in quantization_plan(weights_of(hot=hot, one=one, rows=hot_rows))}
    assert {name: row.width for name, row in plan.items()} == {
        "hot.weight": "unchanged", "one.weight": "unchanged", "rows.weight": "int4",
    }  # fmt: skip
    assert in_weights("W210", a__weight=hot, b__weight=one, c__weight=hot_rows) is None
    assert in_weights("W209", a__weight=torch.full((512, 1024), 0.5)) is None


def test_columns_that_are_zero_do_not_rule_a_matrix():
    pruned = NORMAL.clone()
    pruned[:, 300:] = 0
    (row,) = quantization_plan(weights_of(a=pruned))
    assert row.width == "int4"


def test_the_pruned_share_is_weighted_by_elements():
    chosen = draw(torch.distributions.Bernoulli(1 / 16), 512, 1024)
    sparse = NORMAL * chosen.clamp(min=1e-4)
    finding = in_weights("W210", a__weight=sparse, b__weight=HEAVY[:128].half())
    shares = {row.name: row.share for row in finding.plan}
    assert shares == {"a.weight": 0.95, "b.weight": 0.5}
    assert values(finding)["share_pruned"] == pytest.approx((0.95 * 512 + 0.5 * 128) / 640)
    assert finding.title.startswith("at least 86.0 % of the weights")


def test_plans_are_listed_per_tensor():
    finding = in_weights("W209", a__weight=NORMAL, b__weight=HEAVY)
    rows = {row["name"]: row for row in msgspec.to_builtins(finding)["plan"]}
    assert [rows[name]["format"] for name in ("a.weight", "b.weight")] == ["int4", "int8"]
    assert sum(row["planned_bytes"] for row in rows.values()) == values(finding)["planned_bytes"]
    (table,) = plan_parts(finding)
    text = as_text(table)
    assert "b.weight" in text
    assert f"{rows['b.weight']['sqnr_db']:.1f} dB" in text


def test_a_long_plan_is_cut_in_text():
    finding = in_weights("W209", **{f"l{index}__weight": NORMAL[:128].clone() for index in range(14)})
    table, note = plan_parts(finding)
    assert (len(finding.plan), len(table.rows)) == (14, 12)
    assert "2 more" in as_text(note)
