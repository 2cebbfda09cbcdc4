"""Unique ops: which are equal, their order, and the modules that executed them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from handmade import FEATURES, conv_kind, conv_stack, relu_kind
from hypothesis import given
from hypothesis import strategies as st

from assay.analysis.uniques import unique_modules, unique_ops
from assay.analysis.uniques.entries import UniqueOp
from assay.document.document import Document
from assay.document.rows import Call, Module, Op, Operand, OpKind, TensorType


def uniques(document: Document) -> list[UniqueOp]:
    return unique_ops(document, unique_modules(document))


def executed(*kinds: OpKind) -> Document:
    """A root that executes `kinds` one after another."""
    root = Module("", "Root", "pkg.Root", None)
    return Document(
        modules=[root],
        calls=[Call(0, None)],
        kinds=list(kinds),
        ops=[Op(index, 0) for index in range(len(kinds))],
    )


def named(target: str) -> OpKind:
    return OpKind(f"torch.{target}", target, {}, (), ())


def test_two_rounds_of_layers_are_four_unique_ops():
    entries = uniques(conv_stack())
    assert [(entry.id, entry.op_name, entry.count) for entry in entries] == [
        ("op_000", "torch.conv2d", 1),
        ("op_001", "torch.batch_norm", 2),
        ("op_002", "torch.relu", 2),
        ("op_003", "torch.conv2d", 1),
    ]
    assert [(entry.source_module_id, entry.source_module_class) for entry in entries] == [
        ("mod_001", "Conv2d"),
        ("mod_002", "BatchNorm2d"),
        ("mod_003", "ReLU"),
        ("mod_004", "Conv2d"),
    ]


def test_an_entry_in_the_file():
    assert msgspec.to_builtins(uniques(conv_stack())[3]) == {
        "id": "op_003",
        "op_name": "torch.conv2d",
        "source_module_id": "mod_004",
        "source_module_class": "Conv2d",
        "attributes": {"stride": [1, 1], "padding": [1, 1], "dilation": [1, 1], "groups": 1},
        "tensor_types": {
            "output": {"shape": "1x64x224x224", "dtype": "float32"},
            "inputs": [
                {"name": "input", "shape": "1x64x224x224", "dtype": "float32"},
                {"name": "weight", "shape": "64x64x3x3", "dtype": "float32"},
            ],
            "outputs": [{"shape": "1x64x224x224", "dtype": "float32"}],
        },
        "occurrences": [{"source_module_id": "mod_004", "node_name": "conv2d_1", "module_path": "3"}],
        "target": "aten.conv2d.default",
        "count": 1,
        "cost": None,
    }


def test_every_execution_has_a_node_name_in_order():
    nodes = [(each.node_name, each.module_path) for entry in uniques(conv_stack()) for each in entry.occurrences]
    assert nodes == [
        ("conv2d", "0"),
        ("batch_norm", "1"),
        ("batch_norm_1", "4"),
        ("relu", "2"),
        ("relu_1", "5"),
        ("conv2d_1", "3"),
    ]


@pytest.mark.parametrize(
    ("target", "node"),
    [("aten.add_.Tensor", "add_"), ("pkg.my-op.default", "my_op"), ("bare", "bare"), ("aten.mm", "mm")],
)
def test_node_names_come_from_the_op(target, node):
    assert uniques(executed(named(target)))[0].occurrences[0].node_name == node


def test_an_op_named_like_a_numbered_node_gets_another_name():
    entries = uniques(executed(named("aten.mm.a"), named("aten.mm_1.a"), named("aten.mm.b"), named("aten.mm_1.b")))
    assert [entry.occurrences[0].node_name for entry in entries] == ["mm", "mm_1", "mm_2", "mm_1_1"]


def test_roles_strides_and_aliases_do_not_matter():
    plain = relu_kind()
    strided = TensorType(FEATURES.shape, FEATURES.dtype, strides=(1, 2, 3, 4))
    operand = Operand("self", strided, "parameter", alias=0, written=True)
    other = msgspec.structs.replace(plain, inputs=(operand,), outputs=(Operand("y", strided),), facts={"rows": 3})
    assert [entry.count for entry in uniques(executed(plain, other))] == [2]


@pytest.mark.parametrize(
    "changes",
    [
        {"target": "aten.conv2d.padding"},
        {"attributes": {"stride": [2, 2]}},
        {"inputs": ()},
        {"inputs": (Operand("other", FEATURES), *conv_kind(FEATURES, 64).inputs[1:])},
        {"inputs": (Operand("input", TensorType((1, 3, 224, 224), "float16")),)},
        {"outputs": (Operand("out", FEATURES), Operand("mask", FEATURES))},
    ],
)
def test_target_attributes_and_tensor_types_matter(changes):
    plain = conv_kind(FEATURES, 64)
    assert len(uniques(executed(plain, msgspec.structs.replace(plain, **changes)))) == 2


def test_the_output_of_an_op_without_outputs_is_null():
    assert msgspec.to_builtins(uniques(executed(named("aten.foo.default")))[0].tensor_types)["output"] is None


def test_kinds_that_were_never_executed_are_not_listed():
    document = conv_stack()
    assert uniques(msgspec.structs.replace(document, ops=document.ops[:1]))[-1].id == "op_000"


@given(st.lists(st.sampled_from(["aten.mm.x", "aten.mm.y", "aten.mm_1.x", "aten.add.x", "b.add.x"]), max_size=40))
def test_executions_add_up_and_names_are_unique(targets):
    document = executed(*map(named, targets))
    entries = uniques(document)
    names = [each.node_name for entry in entries for each in entry.occurrences]
    assert sorted({entry.target for entry in entries}) == sorted(set(targets))
    assert {entry.target: entry.count for entry in entries} == {target: targets.count(target) for target in targets}
    assert len(set(names)) == len(names) == len(targets)


def test_the_order_does_not_depend_on_hash_seeds():
    program = (
        "from handmade import conv_stack; from assay.views.json.files import *; import sys;"
        "sys.stdout.buffer.write(encode(modules_file(conv_stack())) + encode(ops_file(conv_stack())))"
    )
    path = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "2")
    }
    assert len(outputs) == 1
    assert outputs != {b""}
