"""Repeated stretches of a sequence, against a search that tries everything."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from assay.analysis.repeats import Repeat, grouped, grouped_loosely, repeats

words = st.text("abc", max_size=24)


def test_a_stretch_with_an_item_twice_is_found_from_one_that_is_once():
    assert repeats("xabacabacabacy", range(14), 3) == [Repeat(1, 4, 3)]
    assert repeats("xabacabacabacy", [4, 8, 12], 3) == [Repeat(1, 4, 3)]


def test_too_few_turns_are_no_repeat():
    assert repeats("abab", range(4), 3) == []
    assert grouped("abab", range(4), 3) == [[0], [1], [2], [3]]


def test_places_of_each_turn_are_grouped():
    assert grouped("xababaBy".lower(), range(8), 3) == [[0], [1, 3, 5], [2, 4, 6], [7]]


def test_a_loop_that_skips_steps_is_grouped_by_item():
    assert grouped_loosely("x1m21m1m2y", [2, 5, 7], 3) == [[0], [1, 4, 6], [2, 5, 7], [3, 8], [9]]
    assert grouped_loosely("x1m2y", [2], 3) == [[0], [1], [2], [3], [4]]


@given(words, st.integers(2, 4))
def test_repeats_are_real_and_do_not_overlap(text, least):
    end = 0
    for found in repeats(text, range(len(text)), least):
        stretch = text[found.start : found.start + found.length]
        assert text[found.start : found.end] == stretch * found.times
        assert found.start >= end
        assert found.times >= least
        end = found.end


@given(words, st.integers(1, 4), st.integers(3, 5))
def test_a_stretch_of_different_items_is_always_found(text, length, times):
    stretch = "defg"[:length]
    found = repeats(text + stretch * times + text, range(len(text), len(text) + length * times), 3)
    assert [(each.length, each.times) for each in found] == [(length, times)]


@given(words, st.sets(st.integers(0, 23)), st.integers(2, 4))
def test_every_place_is_in_one_group_with_equal_items(text, anchors, least):
    here = [place for place in anchors if place < len(text)]
    for groups in (grouped(text, here, least), grouped_loosely(text, here, least)):
        assert sorted(place for group in groups for place in group) == list(range(len(text)))
        assert all(len({text[place] for place in group}) == 1 for group in groups)
        assert [group[0] for group in groups] == sorted(group[0] for group in groups)
