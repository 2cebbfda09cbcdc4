"""The energy model and its calibration, carbon dioxide and price."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from assay.analysis.carbon import carbon_g, find_grid, grids, price
from assay.analysis.ceilings import as_device, overhead_s
from assay.analysis.devices import Device, find_device
from assay.analysis.energy import (
    EnergyWork,
    energy_model,
    estimate,
    flops_per_joule,
    from_cores,
    from_rated_power,
    model_of,
    published,
    work_of,
)
from assay.analysis.energy_fit import EnergySample, calibrate, interval, nonnegative
from assay.document.machine import Ceiling, EnergyModel, Hardware, MachineReport, measured_figure, unknown_figure
from assay.document.provenance import Figure, Measured, Modelled
from assay.errors import UsageError

MODEL = EnergyModel("board", {"bf16": 1e-12, "fp32": 1e-11}, 1e-10, 100.0, error=0.2, source="a test")


def test_energy_is_the_sum_of_its_parts():
    result = estimate(EnergyWork({"bf16": 3e12, "fp32": 1e11}, 2e10), 0.5, MODEL)
    assert result.value == pytest.approx(3.0 + 1.0 + 2.0 + 50.0)
    assert isinstance(result.how, Modelled)
    assert result.how.error == 0.2
    assert "a test" in result.how.by


@given(st.floats(0, 1e15), st.floats(0, 1e12), st.floats(0, 10), st.floats(1, 5))
def test_energy_is_linear(flops, moved, seconds, times):
    once = estimate(EnergyWork({"bf16": flops}, moved), seconds, MODEL).value
    more = estimate(EnergyWork({"bf16": times * flops}, times * moved), times * seconds, MODEL).value
    assert more == pytest.approx(times * once)


def test_energy_is_unknown_if_any_part_is():
    assert estimate(EnergyWork({"fp32": 1.0}), None, MODEL).value is None
    odd = estimate(EnergyWork({"odd": 1.0}), 1.0, MODEL)
    assert odd.value is None
    assert "odd FLOP on board" in odd.how.why


def test_a_fallback_coefficient_is_listed_as_an_assumption():
    result = estimate(EnergyWork({"fp16": 1e12, "tf32": 1e12}), 0.0, MODEL)
    assert result.value == pytest.approx(1.0 + 2.0)
    assert "a tf32 FLOP takes 2 times the energy of a bf16 FLOP" in result.how.assumptions


LIMIT_W, RAMP_S = 700.0, 2e-6


def samples(noise: float, seed: int = 0, count: int = 24) -> list[EnergySample]:
    """Measured ops on a board with known coefficients: 100 W waiting and for 2 µs of a kernel, 250 W busy, 700 W."""
    draw = np.random.default_rng(seed)
    result = []
    for index in range(count):
        precision = ("bf16", "fp32", "")[index % 3]
        flops = {precision: float(10 ** draw.uniform(10, 12))} if precision else {}
        moved, busy = float(10 ** draw.uniform(7, 10)), float(10 ** draw.uniform(-3, -2))
        seconds = busy * float(draw.choice([1.0, 1.5, 4.0]))
        joules = sum(flops.values()) * (1e-12 if precision == "bf16" else 1e-11) + moved * 1e-10
        kernels = int(busy / draw.choice([4e-6, 1e-5, 1e-3]))
        joules = (joules + seconds * 100 + (busy - RAMP_S * kernels) * 150) * float(np.exp(noise * draw.normal()))
        if joules > LIMIT_W * seconds:  # the board slows down until it draws no more than that
            busy = seconds = joules / LIMIT_W
        result.append(EnergySample(str(index), EnergyWork(flops, moved), seconds, joules, busy, kernels))
    return result


def test_calibration_finds_known_coefficients():
    model = calibrate(samples(0.0), "board", "here", 60.0, LIMIT_W)
    assert model.j_per_flop == {"bf16": pytest.approx(1e-12), "fp32": pytest.approx(1e-11)}
    assert model.j_per_byte == pytest.approx(1e-10)
    assert model.static_w == pytest.approx(250.0)
    assert model.idle_w == pytest.approx(100.0)
    assert (model.ramp_s, model.limit_w) == (pytest.approx(RAMP_S), LIMIT_W)
    assert model.error < 1e-6
    assert model.interval == (pytest.approx(1.0), pytest.approx(1.0))


def test_a_device_that_never_waits_has_its_measured_idle_power():
    always = [
        EnergySample(
            one.name,
            one.work,
            one.busy_s,
            one.joules - 100 * (one.seconds - one.busy_s) + 150 * RAMP_S * one.kernels,
        )
        for one in samples(0.0)
        if one.joules < 0.9 * LIMIT_W * one.seconds
    ]
    model = calibrate(always, "board", "here", 60.0)
    assert (model.static_w, model.idle_w) == (pytest.approx(250.0), 60.0)
    assert calibrate(always, "board", "here").idle_w is None


def test_estimates_of_a_calibration_are_those_of_its_fit():
    """Estimates for samples are what the coefficients, added up by hand, give."""
    model = calibrate(samples(0.1), "board", "here", 60.0, LIMIT_W)
    for one in samples(0.1):
        parts = sum(model.j_per_flop[name] * flops for name, flops in one.work.flops.items())
        parts += model.j_per_byte * one.work.bytes
        full_s = max(one.busy_s - model.ramp_s * one.kernels, 0.0)
        parts += model.static_w * full_s + model.idle_w * (one.seconds - full_s)
        result = estimate(one.work, one.seconds, model, busy_s=one.busy_s, kernels=one.kernels)
        assert result.value == pytest.approx(min(parts, LIMIT_W * one.seconds))
        assert result.how.interval == model.interval
        assert "90 % interval from the leave-one-out errors of 24 ops and models" in result.how.by


def test_the_error_of_a_calibration_grows_with_noise():
    quiet, loud = (calibrate(samples(noise), "board", "here", 60.0, LIMIT_W) for noise in (0.02, 0.3))
    assert quiet.error < 0.05 < loud.error
    assert 0.9 < quiet.interval[0] < 1 < quiet.interval[1] < 1.1
    assert loud.interval[0] < 0.8
    assert loud.interval[1] > 1.2


def test_leave_one_out_errors_are_those_of_a_fit_to_the_others():
    every = samples(0.2)
    model = calibrate(every, "board", "here", 60.0, LIMIT_W)
    for index in (0, 7):
        one = every[index]
        others = calibrate([*every[:index], *every[index + 1 :]], "board", "here", 60.0, LIMIT_W)
        alone = estimate(one.work, one.seconds, others, busy_s=one.busy_s, kernels=one.kernels).value
        assert model.errors[one.name] == pytest.approx(alone / one.joules - 1)
    assert list(model.errors) == [one.name for one in every]


def test_the_interval_covers_samples_that_were_not_fitted():
    """Of 8 boards with 40 fitted and 100 other samples each, about 90 % of the others are inside."""
    inside = []
    for seed in range(8):
        every = samples(0.15, seed, 140)
        model = calibrate(every[:40], "board", "here", 60.0, LIMIT_W)
        for one in every[40:]:
            figure = estimate(one.work, one.seconds, model, busy_s=one.busy_s, kernels=one.kernels)
            low, high = figure.how.interval
            inside.append(low * figure.value <= one.joules <= high * figure.value)
    assert 0.87 < np.mean(inside) < 0.96


def test_one_bad_sample_is_not_hidden():
    every = samples(0.02)
    bad = replace(every[4], name="bad", joules=every[4].joules / 3)
    model = calibrate([*every, bad], "board", "here", 60.0, LIMIT_W)
    assert model.errors["bad"] > 1.5
    assert model.interval[0] < 0.4  # of so few samples, the worst counts
    assert model.error < 0.1


def test_the_interval_leaves_out_at_most_five_percent_on_either_side():
    errors = [1 / ratio - 1 for ratio in range(1, 100)]
    assert interval(errors) == (pytest.approx(5), pytest.approx(95))
    assert interval([0.0, 1.0, -0.5]) == (0.5, 2.0)


@given(st.floats(0, 1e15), st.floats(0, 1e12), st.floats(0.001, 10), st.floats(0, 10))
def test_energy_never_exceeds_the_power_limit(flops, moved, seconds, busy):
    model = EnergyModel("board", {"bf16": 1e-12}, 1e-10, 300.0, idle_w=100.0, limit_w=700.0)
    assert estimate(EnergyWork({"bf16": flops}, moved), seconds, model, busy_s=busy).value <= 700.0 * seconds


def test_too_few_samples_give_no_model():
    assert calibrate(samples(0.0)[:4], "board", "here") is None


@given(st.integers(0, 10_000))
def test_the_fit_is_the_best_non_negative_solution(seed):
    draw = np.random.default_rng(seed)
    rows, target = draw.normal(size=(8, 5)), draw.normal(size=8)
    result = nonnegative(rows, target)
    residual = rows @ result - target
    assert (result >= 0).all()
    # The optimality condition: no feasible step reduces the residual.
    slope = rows.T @ residual
    assert (slope >= -1e-8).all()
    assert np.abs(slope * result).max() < 1e-8


def test_equal_columns_do_not_stop_the_fit():
    rows = np.ones((4, 3))
    assert (rows @ nonnegative(rows, np.full(4, 2.0))) == pytest.approx(2.0)
    assert nonnegative(rows, np.full(4, -1.0)) == pytest.approx(0.0)


def test_published_coefficients_have_a_source():
    h200 = energy_model("NVIDIA H200")
    assert h200 is published()["H200"]
    assert h200.error == pytest.approx(np.median(np.abs(list(h200.errors.values()))), abs=0.001)
    low, high = interval(list(h200.errors.values()))
    assert h200.interval[0] < low < 1 < high < h200.interval[1]  # wider, because other boards differ
    assert len(h200.errors) == 54
    assert all(model.source and "://" not in model.source for model in published().values())
    assert energy_model("a toaster") is None


def test_an_idle_device_draws_its_idle_power():
    model = EnergyModel("board", {"bf16": 1e-12}, 1e-10, 300.0, idle_w=100.0)
    assert estimate(EnergyWork({"bf16": 1e12}, 1e9), 1.0, model).value == pytest.approx(1.0 + 0.1 + 300.0)
    assert estimate(EnergyWork({"bf16": 1e12}, 1e9), 1.0, model, busy_s=0.25).value == pytest.approx(
        1.1 + 75.0 + 75.0
    )
    assert estimate(EnergyWork({}, 0.0), 1.0, model, busy_s=2.0).value == pytest.approx(300.0)


def test_the_start_and_the_end_of_kernels_draw_idle_power():
    model = EnergyModel("board", static_w=300.0, idle_w=100.0, ramp_s=0.01)
    assert estimate(EnergyWork(), 1.0, model, busy_s=0.5, kernels=10).value == pytest.approx(0.4 * 300 + 0.6 * 100)
    assert estimate(EnergyWork(), 1.0, model, kernels=10).value == pytest.approx(0.9 * 300 + 0.1 * 100)
    assert estimate(EnergyWork(), 1.0, model, busy_s=0.5, kernels=1000).value == pytest.approx(100.0)
    assert estimate(EnergyWork(), 1.0, model, busy_s=0.5).value == pytest.approx(200.0)


def test_pointwise_flops_without_a_coefficient_cost_only_their_bytes():
    plain, priced = (
        EnergyModel("a", {"bf16": 1e-12}, 1e-10),
        EnergyModel("b", {"bf16": 1e-12, "pointwise": 1e-11}, 1e-10),
    )
    work = EnergyWork({"bf16": 1e12, "pointwise": 1e9}, 1e9)
    assert estimate(work, None, plain).value == pytest.approx(1.0 + 0.1)
    assert estimate(work, None, priced).value == pytest.approx(1.0 + 0.1 + 0.01)


def test_a_device_draws_its_rated_power_at_peak_compute_and_at_full_bandwidth():
    device = find_device("A100")
    model = from_rated_power(device)
    peak = estimate(EnergyWork({"bf16": device.peak("bf16")}), 1.0, model)
    moving = estimate(EnergyWork({}, device.bandwidth), 1.0, model)
    assert peak.value == pytest.approx(device.tdp_w)
    assert moving.value == pytest.approx(device.tdp_w)
    assert peak.how.error == 1.0
    assert from_rated_power(Device("24GiB", 24)) is None


def test_rated_power_agrees_with_the_calibration_within_a_factor_of_two():
    rule, known = from_rated_power(find_device("H200")), published()["H200"]
    for work, seconds in (
        (EnergyWork({"bf16": 1.4e11}, 1e8), 2e-4),
        (EnergyWork({}, 1e9), 3e-4),
        (EnergyWork({"fp32": 1e11}, 1e8), 2e-3),
    ):
        ratio = estimate(work, seconds, rule).value / estimate(work, seconds, known).value
        assert 0.5 < ratio < 2.0


def test_a_model_from_cores_has_a_large_error():
    processor_s = 8.0  # of four threads that were busy for two seconds
    result = estimate(EnergyWork({"fp32": 1e9}, 1e6), processor_s, from_cores("a processor"))
    assert result.value == pytest.approx(48.0)
    assert result.how.error == 1.0


def test_the_best_available_model_of_a_machine():
    plain = MachineReport(Hardware("cpu", "a processor", cores=8, threads=4))
    assert (model_of(plain).static_w, model_of(plain).per_core) == (6.0, True)
    assert model_of(MachineReport(plain.hardware, energy=MODEL)) is MODEL
    assert model_of(MachineReport(Hardware("cuda", "NVIDIA H200"))) is published()["H200"]
    assert model_of(MachineReport(Hardware("cuda", "an unheard-of board"))) is None


def test_flops_per_joule_has_the_error_of_the_energy():
    sensor = flops_per_joule(1e12, Figure(2.0, Measured("a counter", 3, 0.1)))
    assert sensor.value == 5e11
    assert isinstance(sensor.how, Measured)
    assert sensor.how.spread == pytest.approx(5e11 * 0.05)
    modelled = flops_per_joule(1e12, Figure(2.0, Modelled("a model", ("random data",), 0.1, (0.5, 4.0))))
    assert modelled.how == Modelled("counted FLOPs ÷ a model", ("random data",), 0.1, (0.25, 2.0))
    assert flops_per_joule(1e12, unknown_figure("no sensor")).how.why == "no sensor"
    assert flops_per_joule(None, Figure(2.0, Measured("a counter"))).value is None


@pytest.mark.parametrize("grid", grids(), ids=lambda grid: grid.code)
def test_every_grid_has_a_source_and_a_year(grid):
    assert 0 < grid.g_per_kwh < 1500
    assert 2020 <= grid.year <= 2026
    assert grid.source
    assert "://" not in grid.source


def test_no_two_grids_share_a_code():
    codes = [grid.code.lower() for grid in grids()]
    assert len(codes) == len(set(codes))


@pytest.mark.parametrize(("text", "grams"), [("FR", 44.18), ("us-ca", 225.64), ("france", 44.18), ("400g", 400.0)])
def test_grids_by_name_or_intensity(text, grams):
    assert find_grid(text).g_per_kwh == pytest.approx(grams)


def test_an_unknown_grid_suggests_similar_ones():
    with pytest.raises(UsageError, match=r"unknown grid 'US-CB': expected .*US-CA, "):
        find_grid("US-CB")
    with pytest.raises(UsageError, match="such as 400g"):
        find_grid("atlantis")


def test_carbon_is_modelled_even_if_the_energy_was_measured():
    energy = Figure(3.6e6, Measured("a counter", 3, 3.6e4))
    result = carbon_g(energy, find_grid("400g"), pue=1.5)
    assert result.value == pytest.approx(600.0)
    assert isinstance(result.how, Modelled)
    assert result.how.error == pytest.approx(0.01)
    assert carbon_g(energy, find_grid("FR")).how.assumptions[0].endswith("2024)")
    assert carbon_g(Figure(3.6e6, Modelled("a model", interval=(0.5, 2.0))), find_grid("FR")).how.interval == (
        0.5,
        2.0,
    )
    assert carbon_g(unknown_figure("no sensor"), find_grid("FR")).value is None
    with pytest.raises(UsageError, match=r"invalid PUE 0\.9: must be 1 or more"):
        carbon_g(energy, find_grid("FR"), pue=0.9)


def test_the_price_of_a_million_runs():
    energy = Figure(7.2, Modelled("a model", (), 0.3))
    result = price(energy, 0.25)
    assert result.value == pytest.approx(7.2e6 / 3.6e6 * 0.25)
    assert result.how.error == 0.3
    assert price(energy, 0.25, pue=2.0).value == pytest.approx(1.0)
    assert price(unknown_figure("no sensor"), 0.25).value is None
    with pytest.raises(UsageError, match="must be 0 or more"):
        price(energy, float("nan"))


REPORT = MachineReport(
    Hardware("cpu", "a processor", memory_bytes=8 << 30),
    "2026-11-15",
    arithmetic=(Ceiling("fp32", measured_figure(2e12, "clock")), Ceiling("fp8", unknown_figure("none here"))),
    bandwidth=(Ceiling("copy", measured_figure(1e11, "clock")), Ceiling("read", measured_figure(2e11, "clock"))),
    overhead=(Ceiling("add", measured_figure(1e-6, "clock")), Ceiling("conv2d", measured_figure(5e-6, "clock"))),
)


def test_a_measured_machine_is_a_device():
    device = as_device(REPORT)
    assert (device.peak("fp32"), device.bandwidth, device.memory_gib) == (2e12, 2e11, 8.0)
    assert device.peak("fp8") is None
    assert overhead_s(REPORT) == 1e-6
    assert overhead_s(MachineReport(REPORT.hardware)) is None
    assert find_device("This", lambda: device) is device


def test_the_work_of_a_document():
    torch = pytest.importorskip("torch")
    import assay

    document = assay.observe(torch.nn.Linear(64, 32, bias=False), torch.ones(8, 64))
    work, missing = work_of(document, as_device(REPORT))
    assert work.flops == {"fp32": 2.0 * 8 * 64 * 32}
    assert work.bytes == 4 * (8 * 64 + 64 * 32 + 8 * 32)
    assert missing == ()
