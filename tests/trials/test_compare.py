"""A changed model compared with the original through `compare`; nothing here depends on how long a pass takes."""

from __future__ import annotations

import copy
import dataclasses
import itertools

import pytest
import torch
from torch import nn

from assay.document.provenance import Measured, Unknown
from assay.document.trials import DIFFERENT, EXACT, FASTER, INCONCLUSIVE, LOSSY, ROUNDING, SAME, SLOWER
from assay.timing.pairs import PairedTimes
from assay.trials import compare as comparing
from assay.trials.compare import NOT_REPRODUCIBLE, RANDOM, compare
from assay.trials.placement import mover
from assay.trials.runnable import Runnable

MIB = 1 << 20


def compared(model, changed, *inputs, effect=EXACT, seconds=0.0, **options):
    """One round of both, which is too little for a verdict on time."""
    base, other = Runnable(model, inputs), Runnable(changed, copy.deepcopy(inputs))
    return compare(base, other, effect=effect, seconds=seconds, **options)


class Calling(nn.Module):
    """A module that applies a function."""

    def __init__(self, function, layer=None):
        super().__init__()
        self.function, self.layer = function, layer

    def forward(self, *args):
        return self.function(*args)


def test_a_copy_has_the_same_outputs_and_its_times_and_memory_are_measured():
    model = nn.Linear(64, 64)
    result = compared(model, copy.deepcopy(model), torch.randn(8, 64))
    assert result.outputs.identical
    assert result.verdict == INCONCLUSIVE  # one round only
    assert result.before.value > 0
    assert result.after.value > 0
    assert result.prepare.value > 0
    assert result.memory_before.value == result.memory_after.value
    weights, inputs, outputs = 64 * 65 * 4, 8 * 64 * 4, 8 * 64 * 4
    assert result.memory_after.value == pytest.approx(weights + inputs + outputs, rel=0.01)
    assert (result.changes, result.training, result.items) == ((), False, 1.0)


def test_enough_rounds_give_a_ratio_with_its_interval_and_that_of_the_original_to_itself():
    model = nn.Linear(8, 8)
    result = compared(model, copy.deepcopy(model), torch.randn(2, 8), seconds=5.0)
    assert result.rounds >= 12
    for figure in (result.speedup, result.null):
        low, high = figure.how.range
        assert low <= figure.value <= high
    assert result.verdict in (SAME, INCONCLUSIVE, FASTER, SLOWER)


def test_a_change_of_outputs_ends_the_trial_before_anything_is_timed():
    model = nn.Linear(8, 8)
    changed = copy.deepcopy(model)
    with torch.no_grad():
        changed.weight[0, 0] += 1
    result = compared(model, changed, torch.randn(2, 8), effect=ROUNDING)
    assert result.verdict == DIFFERENT
    assert "dB" in result.detail
    assert result.outputs.max_abs > 0
    assert isinstance(result.speedup.how, Unknown)
    assert result.prepare.value > 0
    assert compared(model, changed, torch.randn(2, 8), effect=LOSSY).verdict != DIFFERENT


def test_a_model_with_dropout_is_compared_with_the_same_random_numbers():
    model = nn.Sequential(nn.Linear(32, 32), nn.Dropout(0.5)).train()
    assert compared(model, copy.deepcopy(model), torch.randn(4, 32)).outputs.identical


def test_a_change_that_draws_random_numbers_differently_is_not_held_to_be_wrong():
    def drawn(values):
        torch.rand(1)
        return nn.functional.dropout(values, 0.5)

    result = compared(Calling(lambda x: nn.functional.dropout(x, 0.5)), Calling(drawn), torch.randn(64, 64))
    assert result.verdict != DIFFERENT
    assert RANDOM in result.detail


def test_a_model_that_is_not_reproducible_is_not_held_against_the_change():
    count = itertools.count()
    model = Calling(lambda x: x + 0.01 * next(count) * torch.ones_like(x))
    result = compared(model, Calling(lambda x: x + 0.005), torch.randn(64))
    assert result.verdict != DIFFERENT
    assert NOT_REPRODUCIBLE in result.detail
    assert compared(model, Calling(lambda x: -x), torch.randn(64)).verdict == DIFFERENT


def test_arguments_that_a_pass_changes_are_renewed_for_each_pass():
    sizes = []

    def append(cache):
        sizes.append(len(cache))
        cache.append(torch.ones(2))
        return torch.stack(cache)

    result = compared(Calling(append), Calling(lambda cache: torch.stack([*cache, torch.ones(2)])), [torch.ones(2)])
    assert result.outputs.identical
    assert set(sizes) == {1}
    assert len(sizes) > 6

    def add(values):
        return values.add_(1)

    assert compared(Calling(add), Calling(lambda x: x + 1), torch.zeros(3)).outputs.identical


def test_training_compares_gradients_too():
    class Scaled(nn.Module):
        def __init__(self, factor):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(4))
            self.factor = factor

        def forward(self, x):
            values = x * self.weight
            return values + self.factor * (values - values.detach())  # the same output, another gradient

    result = compared(Scaled(0.0), Scaled(1.0), torch.randn(4), training=True)
    assert result.verdict == DIFFERENT
    assert compared(Scaled(0.0), Scaled(1.0), torch.randn(4)).outputs.identical
    same = compared(Scaled(1.0), Scaled(1.0), torch.randn(4), training=True)
    assert same.outputs.identical
    assert same.outputs.tensors == 2
    assert same.training


def test_more_items_and_parts_of_outputs_are_compared_as_the_change_asks():
    model = nn.Linear(8, 8)
    values = torch.randn(2, 8)
    changed = Runnable(copy.deepcopy(model), (values.repeat(4, 1),), items=4.0, compare=lambda a, b: (a, b[: len(a)]))
    result = compare(Runnable(model, (values,)), changed, effect=ROUNDING, seconds=0.0)
    assert result.verdict != DIFFERENT
    assert result.items == 4.0
    assert result.outputs.tensors == 1


def test_rounding_is_judged_by_the_precision_that_the_original_computes_in():
    model = nn.Sequential(nn.Linear(256, 256), nn.Linear(256, 256))
    values = torch.randn(4, 256)

    def autocast():
        return torch.autocast("cpu", torch.bfloat16)

    def as_float(old, new):
        return old.float(), new.float()

    changed = Runnable(copy.deepcopy(model), (values,), contexts=(autocast,), compare=as_float)
    assert compare(Runnable(model, (values,)), changed, effect=ROUNDING, seconds=0.0).verdict == DIFFERENT
    base = Runnable(model, (values,), contexts=(autocast,))
    other = dataclasses.replace(changed, contexts=())
    assert compare(base, other, effect=ROUNDING, seconds=0.0).verdict != DIFFERENT


def test_peak_memory_includes_what_a_pass_allocates_and_shared_weights_once():
    size = 4 * MIB

    def large(values):
        return values + torch.ones(size).sum() * 0

    result = compared(Calling(large), Calling(lambda values: values + 0), torch.randn(8))
    assert result.memory_before.value - result.memory_after.value == pytest.approx(4 * size, rel=0.01)
    tied = nn.Sequential(nn.Linear(512, 512, bias=False), nn.Linear(512, 512, bias=False))
    untied = copy.deepcopy(tied)
    tied[1].weight = tied[0].weight
    result = compared(untied, tied, torch.randn(1, 512), effect=LOSSY)
    assert result.memory_before.value - result.memory_after.value == pytest.approx(512 * 512 * 4, rel=0.01)


def test_an_energy_that_no_sensor_measures_is_unknown_with_the_reason(monkeypatch):
    monkeypatch.setattr("assay.trials.joules.counters_of_device", lambda *_: "no energy sensor on this machine")
    result = compared(nn.Linear(2, 2), nn.Linear(2, 2), torch.randn(1, 2), effect=LOSSY)
    assert result.energy_before.how == result.energy_after.how == Unknown("no energy sensor on this machine")


def test_on_a_busy_machine_the_energy_of_all_processes_is_not_attributed_to_the_model(monkeypatch):
    times = PairedTimes(SAME, 12, "processor", 1.0, 1.0, "", 1.0, 0.99, 1.01, 1.0, 0.99, 1.01)
    monkeypatch.setattr(comparing, "time_pairs", lambda *_, **__: times)
    result = compared(nn.Linear(2, 2), nn.Linear(2, 2), torch.randn(1, 2), effect=LOSSY)
    assert "busy" in result.energy_after.how.why
    assert (result.verdict, result.clock) == (SAME, "processor")
    assert result.before.how == Measured("CPU time of the thread, median of interleaved passes", 24)


def test_moving_weights_changes_their_place_and_nothing_else():
    model = nn.Sequential(nn.Linear(64, 64), nn.LSTM(64, 64), nn.Linear(64, 64))
    model[2].weight = model[0].weight
    before = copy.deepcopy(model.state_dict())
    places = {name: value.data_ptr() for name, value in model.state_dict().items()}
    mover([model], seed=0)()
    after = model.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert all(places[name] != after[name].data_ptr() for name in before)
    assert model[2].weight is model[0].weight


def test_large_weights_and_other_callables_are_not_moved(monkeypatch):
    monkeypatch.setattr("assay.trials.placement._LARGEST", 100)
    model = nn.Linear(64, 64)
    place = model.weight.data_ptr()
    mover([model, print], seed=0)()
    assert model.weight.data_ptr() == place


def test_random_states_are_left_as_they_were():
    one, other = nn.Linear(2, 2), nn.Linear(2, 2)
    torch.manual_seed(7)
    expected = torch.rand(1)
    torch.manual_seed(7)
    compared(one, other, torch.ones(1, 2), effect=LOSSY)
    assert torch.equal(torch.rand(1), expected)


def test_an_error_of_the_changed_model_is_passed_on():
    def fail(_):
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        compared(nn.Linear(2, 2), Calling(fail), torch.ones(1, 2))
