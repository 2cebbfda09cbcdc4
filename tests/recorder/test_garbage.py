"""Pausing the garbage collector restores its state afterwards."""

from __future__ import annotations

import gc

import pytest

from assay.recorder.watch import garbage_collection_paused


@pytest.fixture(autouse=True)
def collecting():
    gc.enable()
    yield
    gc.enable()


def test_the_collector_is_off_inside_and_on_again_afterwards():
    with garbage_collection_paused():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_an_inner_pause_does_not_end_the_outer_one():
    with garbage_collection_paused():
        with garbage_collection_paused():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()


def test_an_exception_ends_the_pause():
    with pytest.raises(KeyError), garbage_collection_paused():
        raise KeyError
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off():
    gc.disable()
    with garbage_collection_paused():
        pass
    assert not gc.isenabled()
