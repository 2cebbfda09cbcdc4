"""Rules about the weights: each fires on tensors that have the problem by torch's own count, not on a near miss."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from finding_models import in_weights, values

import assay


def noise(*shape, seed=0, **options):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), **options)


def test_nan():
    bad = noise(4, 4)
    bad[1, 2] = bad[3, 3] = math.nan
    finding = in_weights("W101", a__weight=bad, b__weight=noise(4, 4))
    assert finding.severity == "error"
    assert finding.tensors == ("a.weight",)
    assert values(finding) == {"nan": int(torch.isnan(bad).sum()), "tensors": 1}
    assert in_weights("W101", a=noise(4, 4)) is None


def test_infinities_except_in_masks():
    bad = noise(4, 4)
    bad[0, 0] = -math.inf
    assert values(in_weights("W102", weight=bad)) == {"infinite": 1, "tensors": 1}
    mask = torch.zeros(8, 8).masked_fill(torch.ones(8, 8).triu(1).bool(), -math.inf)
    assert in_weights("W102", mask=mask) is None


@pytest.mark.parametrize(
    ("value", "dtype", "fires"),
    [
        (70_000.0, torch.float32, True),
        (65_000.0, torch.float32, False),
        (40_000.0, torch.float16, True),
        (1_000.0, torch.float16, False),
        (-1e6, torch.bfloat16, True),
    ],
)
def test_values_outside_the_range_of_float16(value, dtype, fires):
    tensor = noise(8, 8).to(dtype)
    tensor[2, 2] = value
    finding = in_weights("W103", weight=tensor)
    assert (finding is not None) == fires
    if fires:
        assert values(finding)["largest_magnitude"] == float(tensor.abs().max())


def test_a_mask_of_the_lowest_float_is_not_reported():
    mask = torch.zeros(8, 8).masked_fill(torch.ones(8, 8).triu(1).bool(), torch.finfo(torch.float32).min)
    assert in_weights("W103", mask=mask) is None


def test_a_constant_matrix():
    finding = in_weights(
        "W104", a__weight=torch.zeros(8, 8), b__weight=torch.full((8, 8), 0.5), c__weight=noise(8, 8)
    )
    assert values(finding) == {"tensors": 2, "bytes": 2 * 256}
    assert (
        in_weights("W104", a__bias=torch.zeros(64), norm__weight=torch.ones(64), position_bias=torch.zeros(8, 8))
        is None
    )


def test_lora_starts_with_a_second_matrix_of_zeros():
    lora = {"q__lora_A__default__weight": noise(8, 64), "q__lora_B__default__weight": torch.zeros(64, 8)}
    assert in_weights("W104", **lora).severity == "note"
    finding = in_weights("W104", **lora, other__weight=torch.zeros(8, 8))
    assert finding.severity == "warning"
    assert finding.tensors == ("other.weight",)
    assert in_weights("W104", q__lora_B__weight=torch.full((64, 8), 0.5)).severity == "warning"


def test_large_dead_units_are_a_warning_with_their_bytes():
    dead = noise(256, 256)
    dead[:2] = 0
    dead[:, 0] = 0
    finding = in_weights("W105", layer__weight=dead, other__weight=noise(256, 256))
    kept = (256 - 2) * (256 - 1) * 4
    assert finding.severity == "warning"
    assert finding.gain.amount.value == dead.numel() * 4 - kept
    assert finding.gain.share.value == pytest.approx((dead.numel() * 4 - kept) / (2 * dead.numel() * 4))
    small = noise(16, 16)
    small[3] = 0
    assert in_weights("W105", layer__weight=small).severity == "note"


def test_all_zero_rows_and_columns():
    dead = noise(16, 16)
    dead[3] = dead[7] = 0
    dead[:, 5] = 0
    finding = in_weights("W105", layer__weight=dead)
    assert values(finding) == {
        "dead_rows": int((dead == 0).all(1).sum()),
        "dead_columns": int((dead == 0).all(0).sum()),
    }
    table = noise(64, 8)
    table[0] = 0
    assert in_weights("W105", embed__weight=table) is None
    assert in_weights("W105", layer__weight=noise(16, 16)) is None


def test_a_row_of_infinities_is_not_all_zero():
    broken = noise(16, 16)
    broken[0] = torch.inf
    assert in_weights("W105", layer__weight=broken) is None


def test_only_rows_or_columns_that_exist_are_named():
    dead = noise(16, 16)
    dead[3] = 0
    finding = in_weights("W105", layer__weight=dead)
    assert finding is not None
    assert finding.title == "1 all-zero row: layer.weight"


def test_denormals():
    small = noise(32, 32).to(torch.float16)
    small[:2] *= 1e-5
    normal = torch.finfo(torch.float16).smallest_normal
    count = int(((small != 0) & (small.abs() < normal)).sum())
    assert count > 10
    assert values(in_weights("W106", weight=small))["denormals"] == count
    assert in_weights("W106", weight=noise(32, 32).to(torch.float16).clamp(min=0.1)) is None


def test_batch_norm_that_was_never_updated():
    fresh = torch.nn.BatchNorm1d(4)
    named = {f"norm__{name}": tensor for name, tensor in fresh.state_dict().items()}
    assert values(in_weights("W107", **named)) == {"batch_norms": 1}
    fresh.train()(noise(8, 4))
    named = {f"norm__{name}": tensor for name, tensor in fresh.state_dict().items()}
    assert in_weights("W107", **named) is None


def test_layers_with_running_statistics_are_named_by_their_classes():
    batch, instance = torch.nn.BatchNorm2d(4), torch.nn.InstanceNorm2d(4, affine=True, track_running_stats=True)
    for layers, noun in (((batch, batch), "2 BatchNorm layers"), ((batch, instance), "2 normalisation layers")):
        findings = assay.check(torch.nn.Sequential(*map(copy.deepcopy, layers)), torch.zeros(1, 4, 2, 2)).findings
        (finding,) = (one for one in findings if one.code == "W107")
        assert finding.title == f"{noun} were never updated (num_batches_tracked = 0): 0–1"


def test_a_new_model_is_a_note_and_lost_statistics_are_a_warning():
    new = {f"a__{name}": tensor for name, tensor in torch.nn.BatchNorm1d(4).state_dict().items()}
    assert in_weights("W107", **new).severity == "note"
    trained = torch.nn.BatchNorm1d(4).train()
    trained(noise(8, 4))
    used = {f"b__{name}": tensor for name, tensor in trained.state_dict().items()}
    assert in_weights("W107", **new, **used).severity == "warning"
    assert in_weights("W107", **{**new, "a__weight": noise(4)}).severity == "warning"


def test_loaded_statistics_with_a_zero_counter_are_not_reported():
    loaded = {"norm__running_mean": noise(4), "norm__running_var": noise(4).abs() + 1}
    assert in_weights("W107", **loaded, norm__num_batches_tracked=torch.tensor(0)) is None


@pytest.mark.parametrize(("least", "fires"), [(1e-14, True), (-0.5, True), (1e-4, False)])
def test_variances_near_or_below_zero(least, fires):
    variance = torch.tensor([1.0, least, 2.0, 3.0])
    finding = in_weights("W108", norm__running_var=variance)
    assert (finding is not None) == fires
    if fires:
        assert values(finding)["least_variance"] == float(variance.min())
        assert finding.severity == ("error" if least < 0 else "warning")


def test_equal_tensors_that_are_not_tied():
    first = noise(200, 200)
    finding = in_weights("W201", a__weight=first, b__weight=first.clone(), c__weight=noise(200, 200, seed=1))
    assert values(finding) == {"bytes_saved": first.numel() * 4, "groups": 1}
    assert finding.tensors == ("a.weight", "b.weight")
    assert finding.gain.amount.value == first.numel() * 4
    assert finding.gain.share.value == pytest.approx(1 / 3)
    assert in_weights("W201", a__weight=first, b__weight=first) is None
    assert in_weights("W201", a__weight=torch.ones(200, 200), b__weight=torch.ones(200, 200)) is None


def test_float32_that_was_bfloat16():
    wide = noise(256, 256).to(torch.bfloat16).float()
    finding = in_weights("W202", a__weight=wide, norm__weight=torch.ones(64))
    assert values(finding) == {"bytes": wide.numel() * 4, "bytes_saved": wide.numel() * 2}
    assert finding.gain.amount.value == wide.numel() * 2
    assert in_weights("W202", a__weight=noise(256, 256)) is None
    assert in_weights("W202", a__weight=wide, b__weight=noise(256, 256)) is None
    assert in_weights("W202", a__weight=torch.ones(256, 256)) is None


def int8_db(tensor, rows):
    """The signal-to-noise ratio of symmetric int8 with one scale per row, or one for the tensor."""
    tensor = tensor.double()
    scale = (tensor.abs().amax(1, keepdim=True) if rows else tensor.abs().max()) / 127
    error = tensor - (tensor / scale).round().clamp(-127, 127) * scale
    return float(10 * torch.log10((tensor**2).sum() / (error**2).sum()))


def test_rows_that_need_their_own_scale():
    uneven = noise(64, 128)
    uneven[0, 0] = 300.0
    one, each = int8_db(uneven, rows=False), int8_db(uneven, rows=True)
    assert one < 30 < each
    finding = in_weights("W203", layer__weight=uneven)
    assert values(finding)["worst_sqnr_db"] == pytest.approx(one, abs=0.1)
    assert values(finding)["largest_gain_db"] == pytest.approx(each - one, abs=0.1)


def test_matrices_that_per_row_scales_do_not_help():
    assert in_weights("W203", layer__weight=noise(64, 128)) is None
    in_every_row = noise(64, 512)
    in_every_row[:, 0] = 100.0
    assert int8_db(in_every_row, rows=False) < 30
    assert in_weights("W203", layer__weight=in_every_row) is None


def test_savings_of_int8():
    large = noise(2048, 3000)
    finding = in_weights("W204", layer__weight=large)
    assert values(finding)["worst_sqnr_db"] == pytest.approx(int8_db(large, rows=True), abs=0.2)
    assert values(finding)["bytes"] == large.numel() * 4
    assert values(finding)["int8_bytes"] == large.numel() + 2 * 2048
    assert finding.gain.amount.value == 3 * large.numel() - 2 * 2048
    assert in_weights("W204", layer__weight=large[:100]) is None
    large[:, 0] = 1e3
    assert int8_db(large, rows=True) < 35
    assert in_weights("W204", layer__weight=large) is None


def test_int8_is_not_advised_for_hot_columns_nor_counted_for_constants():
    large = noise(2048, 3000)
    finding = in_weights("W204", layer__weight=large, empty__weight=torch.zeros(2048, 3000))
    assert finding.tensors == ("layer.weight",)
    large[:, ::100] *= 1e4
    assert int8_db(large, rows=True) > 35  # of the hot columns: all other weights round to zero
    assert in_weights("W204", layer__weight=large) is None


def test_2_of_4_sparsity():
    kept = noise(64, 64).view(64, 16, 4)
    kept.scatter_(2, kept.abs().argsort(2)[:, :, :2], 0.0)
    finding = in_weights("W205", layer__weight=kept.reshape(64, 64))
    assert values(finding)["least_share_of_zeros"] == 0.5
    # Half of the values remain, each with an index of two bits.
    assert finding.gain.amount.value == 64 * 64 * 4 - (64 * 32 * 4 + 64 * 32 * 2 / 8)
    assert in_weights("W206", layer__weight=kept.reshape(64, 64)) is None
    assert in_weights("W205", layer__weight=noise(64, 64)) is None


def test_scattered_zeros():
    sparse = noise(64, 64) * (torch.rand(64, 64, generator=torch.Generator().manual_seed(1)) < 0.2)
    finding = in_weights("W206", layer__weight=sparse)
    assert values(finding) == {"zeros": int((sparse == 0).sum()), "weights": 4096}
    assert in_weights("W205", layer__weight=sparse) is None
    assert in_weights("W206", layer__weight=noise(64, 64)) is None


def test_lossless_compression():
    weights = noise(1024, 1100).to(torch.bfloat16)
    finding = in_weights("W207", layer__weight=weights)
    _, counts = weights.view(torch.int16).unique(return_counts=True)
    shares = counts.double() / weights.numel()
    bits = float(-(shares * shares.log2()).sum())
    assert values(finding)["entropy_bytes"] == pytest.approx(bits * weights.numel() / 8, rel=1e-3)
    assert in_weights("W207", layer__weight=weights[:64]) is None
    assert in_weights("W207", layer__weight=weights[:, :1024]) is not None  # 2²⁰ elements are just enough
    assert in_weights("W207", layer__weight=weights[:, :1023]) is None
    dense = torch.randint(-30000, 30000, (1024, 1100), generator=torch.Generator().manual_seed(0))
    assert in_weights("W207", layer__weight=dense.to(torch.int16).view(torch.float16).nan_to_num()) is None


def test_an_outlier_among_layers():
    layers = {f"layers__{index}__weight": noise(16, 16, seed=index) for index in range(8)}
    assert in_weights("W208", **layers) is None
    layers["layers__3__weight"] = layers["layers__3__weight"] * 20
    finding = in_weights("W208", **layers)
    assert finding.tensors == ("layers.3.weight",)
    assert values(finding)["tensors"] == 1


def test_tensors_of_another_shape_are_no_outliers():
    layers = {f"layers__{index}__weight": noise(16, 16, seed=index) for index in range(8)}
    layers["layers__3__weight"] = noise(64, 4) * 20
    assert in_weights("W208", **layers) is None
