"""The pickle interpreter compared with Python's: the same plain values in every protocol, and no code is run."""

from __future__ import annotations

import pickle
import pickletools
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.checkpoint.files import BytesFile, Region
from assay.checkpoint.pickle.machine import PickleMachine
from assay.checkpoint.pickle.values import Blob, Stub
from assay.checkpoint.stream import WINDOW, Stream
from assay.errors import ReadError


def load(data):
    return PickleMachine(Stream(Region(BytesFile("here", data))), lambda pid: ("stored", pid)).load()


def plain():
    numbers = st.integers() | st.integers(-(1 << 300), 1 << 300)
    leaves = st.none() | st.booleans() | numbers | st.floats(allow_nan=False) | st.text(max_size=300)
    keys = st.text(max_size=5) | st.integers(-1000, 1000)
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(keys, inner),
        max_leaves=30,
    )


@settings(max_examples=120)
@given(plain(), st.integers(0, 5), st.booleans())
def test_plain_values_equal_those_that_python_loads(value, protocol, optimize):
    data = pickle.dumps(value, protocol=protocol)
    assert load(pickletools.optimize(data) if optimize else data) == value


@pytest.mark.parametrize("protocol", range(6))
def test_a_value_larger_than_the_window(protocol):
    value = {f"key {i}": [i, str(i) * 30, (i,) * 4] for i in range(8000)}
    value["long"] = "é" * (WINDOW if protocol else 1000)
    data = pickle.dumps(value, protocol=protocol)
    assert len(data) > 4 * WINDOW
    loaded = load(data)
    if protocol:  # long strings are skipped
        blob = loaded["long"]
        loaded["long"] = data[blob.start : blob.start + blob.length].decode()
    assert loaded == value


def test_several_pickles_in_one_stream():
    data = b"".join(pickle.dumps(value) for value in (1, "two", [3]))
    machine = PickleMachine(Stream(Region(BytesFile("here", data))), lambda pid: pid)
    assert [machine.load() for _ in range(3)] == [1, "two", [3]]
    with pytest.raises(ReadError, match="truncated"):
        machine.load()


class Thing:
    def __init__(self, value):
        self.value = value


@pytest.mark.parametrize("protocol", range(6))
def test_an_object_becomes_a_stub_with_its_state(protocol):
    data = pickle.dumps([Thing({"a": 1}), Path("a/b")], protocol=protocol)
    machine = PickleMachine(Stream(Region(BytesFile("here", data))), lambda pid: pid)
    thing, path = machine.load()
    assert isinstance(thing, Stub)
    assert thing.class_path == f"{Thing.__module__}.Thing"
    assert thing.state == {"value": {"a": 1}}
    assert isinstance(path, Stub)
    assert set(machine.foreign) >= {f"{Thing.__module__}.Thing"}


@pytest.mark.parametrize("protocol", [3, 4, 5])
def test_skipped_bytes_can_be_located(protocol):
    content = bytes(range(256)) * 2000
    data = pickle.dumps({"small": b"ab", "large": content, "array": bytearray(b"xyz")}, protocol=protocol)
    value = load(data)
    for name, expected in (("small", b"ab"), ("large", content)):
        blob = value[name]
        assert isinstance(blob, Blob)
        assert data[blob.start : blob.start + blob.length] == expected


def test_persistent_ids_are_resolved():
    assert load(b"P17\n.") == ("stored", "17")
    assert load(b"\x80\x02K\x05Q.") == ("stored", 5)


@pytest.mark.parametrize(
    "data",
    [b"", b"\x80", b"\x80\x02", b"\x80\x02.", b".", b"\x80\x02K", b"R.", b"}}s.", b"h\0.", b"\xffabc", b"t.", b"u.",
     b"K\1K\2a.", b"N}K\1u.", b"(d", b"I12", b"Iab\n.", b"S'ab\n.", b"Fx\n.", b"K\1K\2\x93.", b"\x80\x02}(K\1u.",
     b"cos\n", b"\x8a\xff.", b"Xabc", b"ccollections\nOrderedDict\nK\1R)R.", b"cnumpy\ndtype\n)R."],
)  # fmt: skip
def test_the_error_for_an_invalid_pickle_is_one_line(data):
    with pytest.raises(ReadError) as caught:
        load(data)
    assert "\n" not in str(caught.value)


def test_keys_that_could_collide_become_text():
    """All multiples of 2**61 - 1 hash to zero, so building a dictionary of them takes quadratic time."""
    value = load(pickle.dumps({i * ((1 << 61) - 1): i for i in range(1, 50)}))
    assert len({hash(key) for key in value}) == len(value) == 49
    assert list(load(pickle.dumps({(0, "a"): 1}))) == ["(0, a)"]
