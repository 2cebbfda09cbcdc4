"""Unique modules compared with expected lists and with a pairwise comparison that does not use keys."""

from __future__ import annotations

import msgspec
import pytest
from handmade import FEATURES, IMAGE, conv_stack
from hypothesis import given
from hypothesis import strategies as st

from assay.analysis.uniques import unique_modules
from assay.document import files
from assay.document.document import Document
from assay.document.rows import Call, Module, Tensor, TensorType
from assay.document.tree import path_text

SMALL = TensorType((2, 3), "float32")
HALF = TensorType((2, 3), "float16")


def leaf(path: str, **changes: object) -> Module:
    return Module(**{"path": path, "class_name": "Leaf", "class_path": "pkg.Leaf", "parent": 0, **changes})


def pair(first: Module, second: Module, *calls: Call, tensors: list[Tensor] | None = None) -> Document:
    root = Module("", "Root", "pkg.Root", None)
    return Document(modules=[root, first, second], calls=list(calls), tensors=tensors or [])


def groups(document: Document) -> list[list[str]]:
    return [entry.occurrences for entry in unique_modules(document).entries]


def test_two_rounds_of_layers_are_five_unique_modules():
    entries = unique_modules(conv_stack()).entries
    assert [(entry.id, entry.class_name, entry.occurrences) for entry in entries] == [
        ("mod_000", "Sequential", ["(root)"]),
        ("mod_001", "Conv2d", ["0"]),
        ("mod_002", "BatchNorm2d", ["1", "4"]),
        ("mod_003", "ReLU", ["2", "5"]),
        ("mod_004", "Conv2d", ["3"]),
    ]


def test_an_entry_describes_its_first_module():
    root, conv, norm, *_ = unique_modules(conv_stack()).entries
    assert (root.module_path, root.parent, conv.module_path, conv.parent) == ("(root)", None, "0", "(root)")
    assert (conv.input_shapes, conv.output_shapes) == (["1x3x224x224"], ["1x64x224x224"])
    assert (conv.input_dtypes, conv.output_dtypes) == (["float32"], ["float32"])
    assert conv.parameters["kernel_size"] == [3, 3]
    assert (conv.called, conv.calls, conv.class_path) == (True, 1, "torch.nn.modules.conv.Conv2d")
    assert msgspec.to_builtins(conv.tensors) == {
        "weight": {"shape": "64x3x3x3", "dtype": "float32", "role": "parameter"}
    }
    assert norm.tensors["running_mean"].role == "buffer"


def test_the_parent_of_a_nested_module_is_its_full_path():
    modules = [
        Module("", "A", "p.A", None),
        Module("block1", "B", "p.B", 0),
        Module("block1.layer2", "C", "p.C", 1),
    ]
    assert unique_modules(Document(modules=modules)).entries[2].parent == "block1"


def test_required_keys_come_first_and_in_order():
    written = msgspec.to_builtins(unique_modules(conv_stack()).entries[1])
    required = ["id", "class_name", "module_path", "parent", "input_shapes", "output_shapes"]
    required += ["input_dtypes", "output_dtypes", "parameters", "occurrences"]
    assert list(written) == [*required, "class_path", "called", "calls", "aliases", "tensors", "cost"]


@pytest.mark.parametrize(
    ("changes", "same"),
    [
        ({}, True),
        ({"training": True}, True),
        ({"created_in_forward": True}, True),
        ({"class_name": "Other"}, True),
        ({"class_path": "elsewhere.Leaf"}, False),
        ({"config": {"a": 1, "b": 2.0}}, False),
        ({"config": {"a": 1, "b": 3}}, False),
        ({"config": {"b": 2, "a": 1}}, True),
        ({"config": {"a": True, "b": 2}}, False),
        ({"tensors": {}}, False),
        ({"tensors": {"v": 0}}, False),
        ({"tensors": {"w": 1}}, True),
        ({"tensors": {"w": 2}}, False),
        ({"tensors": {"w": 3}}, False),
        ({"tensors": {"w": 4}}, False),
    ],
)
def test_what_makes_two_modules_equal(changes, same):
    tensors = [
        Tensor(("a.w",), "parameter", SMALL, 24),
        Tensor(("b.w",), "parameter", SMALL, 24, requires_grad=True),
        Tensor(("c",), "buffer", SMALL, 24),
        Tensor(("d",), "parameter", HALF, 12),
        Tensor(("e",), "parameter", TensorType((3, 2), "float32"), 24),
    ]
    plain = {"config": {"a": 1, "b": 2}, "tensors": {"w": 0}}
    document = pair(leaf("x", **plain), leaf("y", **{**plain, **changes}), tensors=tensors)
    assert (groups(document)[1:] == [["x", "y"]]) is same


def test_the_order_of_tensors_does_not_matter():
    tensors = [Tensor(("w",), "parameter", SMALL, 24), Tensor(("b",), "parameter", HALF, 12)]
    document = pair(leaf("x", tensors={"w": 0, "b": 1}), leaf("y", tensors={"b": 1, "w": 0}), tensors=tensors)
    assert groups(document)[1:] == [["x", "y"]]


def test_all_call_signatures_count_and_their_order_matters():
    first, second = Call(1, None, (IMAGE,), (FEATURES,)), Call(1, None, (SMALL,), (HALF,))
    again = [msgspec.structs.replace(call, module=2) for call in (first, second)]
    together = pair(leaf("x"), leaf("y"), first, second, *again, again[0])
    assert groups(together)[1:] == [["x", "y"]]
    assert groups(pair(leaf("x"), leaf("y"), first, second, *reversed(again)))[1:] == [["x"], ["y"]]
    assert groups(pair(leaf("x"), leaf("y"), first, second, again[0]))[1:] == [["x"], ["y"]]


def test_call_signatures_are_listed_if_there_are_several():
    calls = [
        Call(1, None, (IMAGE,), (FEATURES,)),
        Call(1, None, (SMALL,), (HALF,)),
        Call(1, None, (SMALL,), (HALF,)),
    ]
    entry = unique_modules(pair(leaf("x"), leaf("y"), *calls)).entries[1]
    assert (entry.calls, entry.input_shapes) == (3, ["1x3x224x224"])
    assert [(each.input_shapes, each.output_dtypes, each.count) for each in entry.call_signatures] == [
        (["1x3x224x224"], ["float32"], 1),
        (["2x3"], ["float16"], 2),
    ]


def test_a_module_that_was_never_called_has_no_shapes():
    written = msgspec.to_builtins(unique_modules(pair(leaf("x"), leaf("y"))).entries[1])
    assert (written["called"], written["calls"]) == (False, 0)
    assert written["input_shapes"] == written["output_dtypes"] == []
    assert "call_signatures" not in written
    assert "created_in_forward" not in written


def test_a_call_without_tensors_counts():
    entry = unique_modules(pair(leaf("x"), leaf("y"), Call(1, None))).entries[1]
    assert (entry.called, entry.calls, entry.input_shapes, entry.occurrences) == (True, 1, [], ["x"])


def test_scalars_and_aliases():
    scalar = TensorType((), "int64")
    document = pair(leaf("x", aliases=("z", "deep.z")), leaf("y", created_in_forward=True), Call(1, None, (scalar,)))
    first, second = unique_modules(document).entries[1:]
    assert (first.input_shapes, first.aliases) == (["scalar"], ["z", "deep.z"])
    assert second.created_in_forward is True


def test_ids_follow_the_order_of_the_tree():
    modules = [
        Module("", "A", "p.A", None),
        Module("late", "B", "p.B", 0),
        Module("late.made", "C", "p.C", 1, created_in_forward=True),
    ]
    modules.insert(2, Module("last", "D", "p.D", 0))
    paths = [entry.module_path for entry in unique_modules(Document(modules=modules)).entries]
    assert paths == ["(root)", "late", "late.made", "last"]


documents = st.builds(
    lambda specs, calls: Document(
        modules=[Module("", "Root", "p.Root", None)]
        + [
            Module(
                f"m{index}",
                "Leaf",
                f"p.{kind}",
                0,
                {"size": size},
                {"w": tensor} if tensor is not None else {},
            )
            for index, (kind, size, tensor) in enumerate(specs)
        ],
        tensors=[Tensor(("a",), "parameter", SMALL, 24), Tensor(("b",), "parameter", HALF, 12)],
        calls=[Call(module % (len(specs) + 1), None, (inputs,)) for module, inputs in calls],
    ),
    st.lists(
        st.tuples(st.sampled_from("AB"), st.sampled_from([1, 1.5]), st.sampled_from([0, 1, None])),
        max_size=12,
    ),
    st.lists(st.tuples(st.integers(0, 12), st.sampled_from([SMALL, HALF, IMAGE])), max_size=20),
)


@given(documents)
def test_entries_are_exactly_the_classes_of_equal_modules(document):
    result = unique_modules(document)
    listed = [path for entry in result.entries for path in entry.occurrences]
    assert sorted(listed) == sorted(path_text(module.path) for module in document.modules)
    for one in range(len(document.modules)):
        for other in range(len(document.modules)):
            assert (result.id_of[one] == result.id_of[other]) is _equal(document, one, other)


def _equal(document: Document, one: int, other: int) -> bool:
    """The definition of equal modules, with lists and comparisons only."""

    def signatures(index: int) -> list[object]:
        distinct: list[object] = []
        for call in document.calls:
            if call.module == index and (call.inputs, call.outputs) not in distinct:
                distinct.append((call.inputs, call.outputs))
        return distinct

    first, second = document.modules[one], document.modules[other]
    types = [{name: document.tensors[at].type for name, at in module.tensors.items()} for module in (first, second)]
    same = first.class_path == second.class_path and first.config == second.config
    return same and types[0] == types[1] and signatures(one) == signatures(other)


def test_a_saved_document_gives_the_same_entries(tmp_path):
    document = conv_stack()
    files.save(document, tmp_path / "a.assay.json")
    assert unique_modules(files.load(tmp_path / "a.assay.json")) == unique_modules(document)


def test_an_empty_document_has_no_entries():
    assert unique_modules(Document()).entries == []


def test_containers_with_different_contents_are_different():
    document = containers()
    entries = unique_modules(document).entries
    assert [entry.occurrences for entry in entries] == [["(root)"], ["a", "c"], ["a.0", "c.0"], ["b"], ["b.0", "b.1"]]


def containers():
    """Three containers that are never called; the second has other layers than the first and the third."""
    rows = [("", None), ("a", 0), ("a.0", 1), ("b", 0), ("b.0", 3), ("b.1", 3), ("c", 0), ("c.0", 6)]
    layers = {"a": "Small", "b": "Large", "c": "Small"}
    names = ["Box" if "." not in path else layers[path[0]] for path, _ in rows]
    modules = [Module(path, name, f"nets.{name}", parent) for name, (path, parent) in zip(names, rows, strict=True)]
    return Document(modules=modules)
