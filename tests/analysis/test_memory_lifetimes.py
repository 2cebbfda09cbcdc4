"""Peaks from lifetimes, compared with a replay of every op."""

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
def lifetimes(draw):
    ops = draw(st.integers(1, 12))
    storages = []
    for _ in range(draw(st.integers(0, 12))):
        born = draw(st.integers(0, ops - 1))
        died = draw(st.none() | st.integers(born + 1, ops))
        role = draw(st.sampled_from(ROLES))
        storages.append(Storage(draw(st.integers(0, 1000)), born, died, role))
    return storages, ops


def is_present(storage: Storage, op: int, ops: int) -> bool:
    """Whether the storage is live during an op; a constant is so from the start, whenever an op first reads it."""
    made = storage.role == "constant" or storage.born <= op
    return made and op < (ops if storage.died is None else storage.died)


def replayed(storages: list[Storage], ops: int) -> tuple[list[int], int]:
    """Live bytes during each op, computed op by op, and resident bytes."""
    moving = []
    for op in range(ops):
        present = [s for s in storages if s.role not in RESIDENT and is_present(s, op, ops)]
        moving.append(sum(s.bytes for s in present))
    return moving, sum(s.bytes for s in storages if s.role in RESIDENT)


@settings(max_examples=200)
@given(lifetimes())
def test_the_peak_equals_that_of_a_replay(case):
    storages, ops = case
    memory = memory_of(document(storages, ops)).inference
    moving, fixed = replayed(storages, ops)
    assert memory.alive == moving
    assert memory.resident.value == fixed
    assert memory.total.value == fixed + max(moving)
    assert memory.peak.op == moving.index(max(moving))
    assert sum(memory.peak.by_role.values()) == memory.peak.bytes == max(moving)


@settings(max_examples=100)
@given(lifetimes())
def test_the_largest_live_storages_are_listed_at_the_peak(case):
    storages, ops = case
    peak = memory_of(document(storages, ops)).inference.peak
    live = sorted((s.bytes for s in storages if s.role not in RESIDENT and is_present(s, peak.op, ops)), reverse=True)
    assert [one.bytes for one in peak.largest] == live[:10]


def test_the_peak_has_its_op_and_module():
    storages = [Storage(10, 0, 1), Storage(30, 1, 2), Storage(5, 1, None, "constant")]
    peak = memory_of(document(storages, 3)).inference.peak
    assert (peak.op, peak.target, peak.module, peak.bytes) == (1, "torch.relu", "block", 35)
    assert [(one.bytes, one.target) for one in peak.largest] == [(30, "torch.relu"), (5, "(before)")]


def test_a_storage_that_appears_after_the_last_op_is_live_during_it():
    assert memory_of(document([Storage(7, 2, None, "gradient")], 2)).inference.alive == [0, 7]


def test_values_that_were_not_recorded_are_unknown_and_not_zero():
    memory = memory_of(Document(tensors=[Tensor(("w",), "parameter", TensorType((4,), "float32"), 16, True)]))
    assert (memory.parameters.value, memory.inference, memory.inputs.value, memory.training_peak.value) == (
        16,
        None,
        None,
        None,
    )
    assert memory.gradients.value == 16


def test_a_training_peak_includes_the_optimizer_state():
    weight = Tensor(("w",), "parameter", TensorType((4,), "float32"), 16, True)
    storages = [Storage(16, 0, None, "parameter"), Storage(40, 0, 1), Storage(16, 1, None, "gradient")]
    base = document(storages[:1], 2, tensors=[weight])
    step = Training(base.kinds, [Op(0, 1), Op(0, 1, (1,), (), "backward")], storages)
    memory = memory_of(msgspec.structs.replace(base, training=step), optimizer="sgd-momentum")
    assert memory.training.total.value == 16 + 40 + 16
    assert (memory.gradients.value, memory.saved.value) == (16, 40)


def test_several_names_and_views_of_a_storage_count_once():
    kind = TensorType((4,), "float32")
    tensors = [
        Tensor(("a", "tied"), "parameter", kind, 16, True),
        Tensor(("b",), "parameter", kind, 16, True, shares_storage_with=0),
        Tensor(("mean",), "buffer", TensorType((2,), "float64"), 16),
    ]
    memory = memory_of(Document(tensors=tensors))
    assert (memory.parameters.value, memory.buffers.value) == (16, 16)
    assert memory.by_dtype == {"float32": 16, "float64": 16}
    whole = [Storage(32, 0, None, "parameter"), Storage(16, 0, None, "buffer")]
    assert memory_of(Document(tensors=tensors, storages=whole)).parameters.value == 32


def test_memory_survives_a_json_round_trip():
    memory = memory_of(document([Storage(7, 0)], 2))
    assert msgspec.json.decode(msgspec.json.encode(memory), type=type(memory)) == memory


@pytest.mark.parametrize("name", ["adamx", ""])
def test_an_unknown_optimizer_is_rejected_with_a_list_of_names(name):
    from assay.errors import UsageError

    with pytest.raises(UsageError, match="sgd, sgd-momentum, adam"):
        memory_of(Document(), optimizer=name)
