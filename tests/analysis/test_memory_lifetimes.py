"""Peaks from lifetimes: against a replay of every moment, and against what a chain of layers must take."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.analysis.memory import memory_of
from assay.document.document import Document, Training
from assay.document.rows import Call, Module, Op, OpKind, Storage, Tensor, TensorType

ROLES = ("activation", "constant", "gradient", "parameter", "buffer", "input")
RESIDENT = ("parameter", "buffer", "input")


def document(storages: list[Storage], ops: int, **more: object) -> Document:
    kinds = [OpKind("torch.relu", "aten.relu.default", {}, (), ())]
    modules = [Module("", "Net", "net.Net", None), Module("block", "Block", "net.Block", 0)]
    calls = [Call(0, None), Call(1, 0)]
    return Document(modules=modules, calls=calls, kinds=kinds, ops=[Op(0, 1)] * ops, storages=storages, **more)


@st.composite
def lives(draw):
    ops = draw(st.integers(1, 12))
    storages = []
    for _ in range(draw(st.integers(0, 12))):
        born = draw(st.integers(0, ops - 1))
        died = draw(st.none() | st.integers(born + 1, ops))
        role = draw(st.sampled_from(ROLES))
        storages.append(Storage(draw(st.integers(0, 1000)), born, died, role))
    return storages, ops


def replayed(storages: list[Storage], ops: int) -> tuple[list[int], int]:
    """Bytes that move at each operation, one by one, and those that stay."""
    moving = []
    for op in range(ops):
        present = [s for s in storages if s.role not in RESIDENT and s.born <= op and (s.died is None or op < s.died)]
        moving.append(sum(s.bytes for s in present))
    return moving, sum(s.bytes for s in storages if s.role in RESIDENT)


@settings(max_examples=200)
@given(lives())
def test_the_peak_is_that_of_a_replay(case):
    storages, ops = case
    found = memory_of(document(storages, ops)).inference
    moving, stays = replayed(storages, ops)
    assert found.alive == moving
    assert found.resident.value == stays
    assert found.total.value == stays + max(moving)
    assert found.peak.op == moving.index(max(moving))
    assert sum(found.peak.by_role.values()) == found.peak.bytes == max(moving)


@settings(max_examples=100)
@given(lives())
def test_what_is_named_at_the_peak_was_alive_then_and_nothing_larger_was(case):
    storages, ops = case
    peak = memory_of(document(storages, ops)).inference.peak
    living = sorted(
        (
            s.bytes
            for s in storages
            if s.role not in RESIDENT and s.born <= peak.op < (ops if s.died is None else s.died)
        ),
        reverse=True,
    )
    assert [one.bytes for one in peak.largest] == living[:10]


def test_the_peak_names_the_operation_and_the_module():
    storages = [Storage(10, 0, 1), Storage(30, 1, 2), Storage(5, 1, None, "constant")]
    peak = memory_of(document(storages, 3)).inference.peak
    assert (peak.op, peak.target, peak.module, peak.bytes) == (1, "torch.relu", "block", 35)
    assert [(one.bytes, one.target) for one in peak.largest] == [(30, "torch.relu"), (5, "(before)")]


def test_a_storage_that_appears_after_the_last_operation_is_alive_in_it():
    assert memory_of(document([Storage(7, 2, None, "gradient")], 2)).inference.alive == [0, 7]


def test_nothing_watched_is_unknown_and_not_zero():
    found = memory_of(Document(tensors=[Tensor(("w",), "parameter", TensorType((4,), "float32"), 16, True)]))
    assert (found.parameters.value, found.inference, found.inputs.value, found.training_peak.value) == (
        16,
        None,
        None,
        None,
    )
    assert found.gradients.value == 16


def test_a_training_peak_adds_what_the_optimizer_keeps():
    weight = Tensor(("w",), "parameter", TensorType((4,), "float32"), 16, True)
    storages = [Storage(16, 0, None, "parameter"), Storage(40, 0, 1), Storage(16, 1, None, "gradient")]
    base = document(storages[:1], 2, tensors=[weight])
    step = Training(base.kinds, [Op(0, 1), Op(0, 1, (1,), (), "backward")], storages)
    found = memory_of(msgspec.structs.replace(base, training=step), optimizer="sgd-momentum")
    assert found.training.total.value == 16 + 40 + 16
    assert (found.gradients.value, found.saved.value) == (16, 40)


def test_several_names_and_views_of_a_storage_count_once():
    kind = TensorType((4,), "float32")
    tensors = [
        Tensor(("a", "tied"), "parameter", kind, 16, True),
        Tensor(("b",), "parameter", kind, 16, True, shares_storage_with=0),
        Tensor(("mean",), "buffer", TensorType((2,), "float64"), 16),
    ]
    found = memory_of(Document(tensors=tensors))
    assert (found.parameters.value, found.buffers.value) == (16, 16)
    assert found.by_dtype == {"float32": 16, "float64": 16}
    whole = [Storage(32, 0, None, "parameter"), Storage(16, 0, None, "buffer")]
    assert memory_of(Document(tensors=tensors, storages=whole)).parameters.value == 32


def test_a_memory_is_json_and_back():
    found = memory_of(document([Storage(7, 0)], 2))
    assert msgspec.json.decode(msgspec.json.encode(found), type=type(found)) == found


@pytest.mark.parametrize("name", ["adamx", ""])
def test_an_unknown_optimizer_is_refused_with_the_known_ones(name):
    from assay.errors import UsageError

    with pytest.raises(UsageError, match="sgd, sgd-momentum, adam"):
        memory_of(Document(), optimizer=name)
