"""Fitting on a device, the KV cache as a linear function, and the search for the largest batch."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import assay
from assay.analysis.devices import GIB, device_with_memory, find_device, parse_devices
from assay.analysis.memory import (
    PeakParts,
    Target,
    fits,
    key_value,
    key_value_of_two,
    largest_batch,
    need_of,
    targets,
)
from assay.analysis.memory.totals import memory_of
from assay.document.document import Document, KeyValueCache, Run


def test_a_gibibyte_and_a_percent_are_reserved():
    (fit,) = fits(PeakParts(rest=10 * GIB), [Target(device_with_memory("24GiB"))])
    assert fit.reserve == GIB + round(0.24 * GIB)
    assert (fit.fits, fit.headroom) == (True, 24 * GIB - fit.reserve - 10 * GIB)


@pytest.mark.parametrize("size", ["1MiB", "1GiB", "2GiB", "24GiB"])
def test_headroom_is_memory_less_reserve_and_need(size):
    (fit,) = fits(PeakParts(rest=624), [Target(device_with_memory(size))])
    assert fit.memory - fit.reserve - fit.needed == fit.headroom
    assert fit.fits == (fit.headroom >= 0)


@pytest.mark.parametrize(("over", "verdict"), [(0, True), (1, False)])
def test_one_byte_too_many_does_not_fit(over, verdict):
    device = Target(find_device("T4"))
    (exactly,) = fits(PeakParts(), [device])
    (fit,) = fits(PeakParts(rest=exactly.headroom + over), [device])
    assert (fit.fits, fit.headroom) == (verdict, -over)
    assert "datasheet" in fit.how.by


@pytest.mark.parametrize(
    ("heads", "cache"),
    [(None, 1000), (1, 1000), (3, 334), (8, 125), (12, 167), (64, 125)],
    ids=lambda value: str(value),
)
def test_several_devices_share_what_they_can(heads, cache):
    need = PeakParts(state=8001, cache=1000, rest=50, heads=heads)
    sharded, parallel = fits(need, targets(parse_devices("8xH100")))
    assert [fit.parallelism for fit in (sharded, parallel)] == ["sharded", "tensor-parallel"]
    assert (sharded.needed, parallel.needed) == (1001 + 1000 + 50, 1001 + cache + 50)
    assert {(fit.device, fit.count, fit.memory) for fit in (sharded, parallel)} == {("8xH100 SXM", 8, 80 * GIB)}
    for fit in (sharded, parallel):
        assert fit.memory - fit.reserve - fit.needed == fit.headroom
        assert "divided by 8" in fit.how.assumptions[0]


def test_one_device_of_a_kind_needs_no_parallelism():
    (fit,) = fits(PeakParts(8, 8, 8), targets(parse_devices("1xH100")))
    assert (fit.device, fit.needed, fit.parallelism) == ("H100 SXM", 24, "")


def test_the_parts_of_a_need_add_up_to_the_peak():
    model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Linear(16, 4))
    document = assay.observe(model, torch.zeros(2, 8), backward=True)
    memory = memory_of(document, optimizer="adamw")
    need = need_of(memory)
    parameters = list(model.parameters())
    elements = sum(parameter.numel() for parameter in parameters)
    gradients = memory.training.peak.by_role.get("gradient", 0)
    assert need.total == memory.training.total.value
    assert need.state == 4 * elements + gradients + 8 * elements + 4 * len(parameters)


class Decoder(nn.Module):
    """Returns keys and values of 2 heads of 4 for each of 3 layers, as transformers does."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(10, 8)

    def forward(self, ids):
        states = self.embedding(ids).view(*ids.shape, 2, 4).transpose(1, 2)
        return {"past_key_values": [(states + 1, states + 2) for _ in range(3)]}


def test_a_requested_cache_replaces_the_recorded_one():
    document = assay.observe(Decoder(), torch.zeros(5, 7, dtype=torch.long))
    memory = memory_of(document)
    recorded = 3 * 2 * (5 * 7 * 8 * 4)
    assert (need_of(memory).cache, need_of(memory).heads) == (recorded, 2)
    assert need_of(memory).total == memory.inference.total.value
    larger = need_of(memory, 10 * recorded)
    assert (larger.cache, larger.total) == (10 * recorded, memory.inference.total.value + 9 * recorded)


@given(st.integers(0, 5000), st.integers(1, 50), st.integers(0, 100_000))
def test_the_largest_batch_equals_that_of_an_exhaustive_search(fixed, each, budget):
    result = largest_batch(lambda batch: fixed + each * batch, budget)
    best = max(0, (budget - fixed) // each) if budget >= fixed else 0
    assert result.batch == best
    assert (result.monotone, result.bounded) == (True, True)
    assert result.peak_bytes == (fixed + each * best if best else None)


def test_few_batches_are_captured_and_each_only_once():
    tried = []

    def peak_at(batch: int) -> int:
        tried.append(batch)
        return batch

    result = largest_batch(peak_at, 1000)
    assert result.batch == 1000
    assert result.captures == len(tried) == len(set(tried)) <= 21


def test_a_falling_peak_is_reported():
    assert not largest_batch(lambda batch: 10 if batch == 1 else 5 + batch // 4, 12).monotone


def test_a_peak_that_never_grows_ends_the_search():
    result = largest_batch(lambda batch: 1, 10, limit=64)
    assert (result.batch, result.bounded, result.captures) == (64, False, 7)


def cached(size: int, batch: int, length: int) -> Document:
    return Document(run=Run("meta", cache=KeyValueCache(size, batch, length, 2)))


@given(st.integers(0, 1000), st.integers(0, 1000), st.integers(1, 9), st.integers(1, 50), st.integers(1, 50))
def test_two_captures_predict_every_length(fixed, each, batch, length, more):
    first = cached(batch * (fixed + each * length), batch, length)
    second = cached(2 * (fixed + each * (length + more)), 2, length + more)
    cache = key_value_of_two(first, second)
    assert (cache.fixed, cache.per_token) == (fixed, each)
    assert cache.at(5, 999).value == 5 * (fixed + each * 999)


def test_one_capture_assumes_a_linear_cache():
    cache = key_value(cached(960, 3, 10))
    assert cache.at(1, 1).value == 32
    assert "linearly" in cache.at(1, 1).how.assumptions[0]
    assert type(cache.at(3, 10).how).__name__ == "Counted"
