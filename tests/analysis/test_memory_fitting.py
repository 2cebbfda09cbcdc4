"""Fitting on a device, the KV cache as a linear function, and the search for the largest batch."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.analysis.devices import GIB, device_with_memory, find_device
from assay.analysis.memory import fits, key_value, key_value_of_two, largest_batch
from assay.document.document import Document, KeyValueCache, Run


def test_a_gibibyte_and_a_percent_are_reserved():
    (fit,) = fits(10 * GIB, [device_with_memory("24GiB")])
    assert fit.reserve == GIB + round(0.24 * GIB)
    assert (fit.fits, fit.headroom) == (True, 24 * GIB - fit.reserve - 10 * GIB)


@pytest.mark.parametrize("size", ["1MiB", "1GiB", "2GiB", "24GiB"])
def test_headroom_is_memory_less_reserve_and_need(size):
    (fit,) = fits(624, [device_with_memory(size)])
    assert fit.memory - fit.reserve - fit.needed == fit.headroom
    assert fit.fits == (fit.headroom >= 0)


@pytest.mark.parametrize(("over", "verdict"), [(0, True), (1, False)])
def test_one_byte_too_many_does_not_fit(over, verdict):
    device = find_device("T4")
    (exactly,) = fits(0, [device])
    (fit,) = fits(exactly.headroom + over, [device])
    assert (fit.fits, fit.headroom) == (verdict, -over)
    assert "datasheet" in fit.how.by


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
