"""Where the time goes: rows that add up to the pass, repeated blocks in one row, the odd one named."""

from __future__ import annotations

import pytest
from handmade import timed_tree
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from assay.analysis.time_split import MAX_ROWS, OUTSIDE, time_split
from assay.document.document import Document
from assay.document.provenance import Counted, Figure
from assay.document.rows import Module
from assay.document.timing import ModuleTime, Timing


@st.composite
def timed(draw) -> Document:
    """A random tree of modules with self times, some of which are zero or not called."""
    modules = [Module("", "Model", "m.Model", None)]
    for number in range(draw(st.integers(0, 60))):
        parent = draw(st.integers(0, len(modules) - 1))
        above = modules[parent].path
        name = draw(st.sampled_from(["", "block"])) + str(number)
        kind = draw(st.sampled_from(["A", "B"]))
        modules.append(Module(f"{above}.{name}" if above else name, kind, f"m.{kind}", parent))
    own = [draw(st.one_of(st.none(), st.integers(0, 1000))) for _ in modules]
    times = [None if time is None else ModuleTime(1, None, time / 1e3) for time in own]
    outside = draw(st.integers(0, 100)) / 1e3
    whole = sum(time or 0 for time in own) / 1e3 + outside
    return Document(modules=modules, timing=Timing(times, whole=Figure(whole, Counted("test"))))


@given(timed())
def test_the_rows_add_up_to_the_pass(document):
    split = time_split(document)
    whole = document.timing.whole.value
    if split is None:
        assert not any(time is not None for time in document.timing.modules)
        return
    rows = [*split.rows, *split.rest]
    assert sum(row.seconds for row in rows) == pytest.approx(whole)
    assert len(split.rows) <= MAX_ROWS
    assert [row.seconds for row in split.rows] == sorted((row.seconds for row in split.rows), reverse=True)
    if whole:
        assert sum(row.share for row in rows) == pytest.approx(1)


def rows_of(document):
    split = time_split(document)
    return [(row.name, row.class_name, row.count, round(row.share, 3), row.own) for row in split.rows]


def test_blocks_of_one_class_share_a_row_although_their_inside_differs():
    tree = {"": 0, "stem:Conv": 40, "layer:Sequential": 0, "layer.0:Block": 5, "layer.0.down:Conv": 10}
    tree |= {"layer.1:Block": 5, "layer.2:Block": 5, "head:Linear": 35}
    assert rows_of(timed_tree(tree))[2] == ("layer.0–2", "Block", 3, 0.25, False)


def test_the_largest_row_is_split_until_all_are_below_a_third():
    tree = {"": 2, "body:Body": 0, "head:Linear": 8}
    for number in range(3):
        tree |= {f"body.{number}:Block": 1, f"body.{number}.attn:Attention": 10, f"body.{number}.mlp:MLP": 19}
    assert rows_of(timed_tree(tree)) == [
        ("body.0–2.mlp", "MLP", 3, 0.57, False),
        ("body.0–2.attn", "Attention", 3, 0.3, False),
        ("head", "Linear", 1, 0.08, False),
        ("body.0–2", "Block", 3, 0.03, True),
        ("(root)", "Model", 1, 0.02, True),
    ]


def test_a_single_row_inside_replaces_the_row_around_it():
    tree = {"": 0, "a:Wrapper": 0, "a.inner:Wrapper": 0, "a.inner.0:Linear": 5, "a.inner.1:Linear": 5}
    tree |= {f"{name}:Linear": 30 for name in "xyz"}
    assert ("a.inner.0–1", "Linear", 2, 0.1, False) in rows_of(timed_tree(tree))


@pytest.mark.parametrize(
    ("times", "odd"),
    [
        ([10, 10, 21, 10], ("b.2", 2.1)),
        ([10, 12, 25, 10], ("b.2", 2.5)),
        ([10, 10, 14, 10], None),
        ([10, 25], None),
        ([5, 10, 25, 10], ("b.2", 2.5)),
        ([5, 20, 25, 10], None),
    ],
)
def test_the_one_member_that_takes_much_longer_is_named(times, odd):
    tree = {"": 0, **{f"b.{number}:Block": time for number, time in enumerate(times)}}
    (row,) = time_split(timed_tree(tree)).rows
    assert row.odd == (None if odd is None else (odd[0], pytest.approx(odd[1])))


def test_small_rows_and_the_time_outside_are_summed():
    tree = {"": 0, **{f"part{number}:Kind{number}": 100 - number for number in range(14)}}
    split = time_split(timed_tree(tree, outside=7))
    assert (len(split.rows), [row.name for row in split.rest]) == (MAX_ROWS, ["4 more", OUTSIDE])
    assert split.rest[0].seconds == pytest.approx(sum(100 - number for number in range(10, 14)) / 1e3)
    assert split.rest[1].seconds == pytest.approx(7 / 1e3)


def test_without_times_there_are_shares_and_without_shares_nothing():
    modules = timed_tree({"": 0, "a:A": 1, "b:B": 3}).modules
    times = [ModuleTime(1, None, None, self_share=share) for share in (0.1, 0.2, 0.6)]
    split = time_split(Document(modules=modules, timing=Timing(times)))
    assert [(row.name, row.seconds, row.share) for row in split.rows] == [
        ("b", None, 0.6),
        ("a", None, 0.2),
        ("(root)", None, pytest.approx(0.1)),
    ]
    assert [(row.name, row.share) for row in split.rest] == [(OUTSIDE, pytest.approx(0.1))]
    assert time_split(Document(modules=modules, timing=Timing([ModuleTime(1, None, None)] * 3))) is None
    assert time_split(Document(modules=modules)) is None


def test_on_a_device_kernel_times_count():
    modules = timed_tree({"": 0, "a:A": 1, "b:B": 3}).modules
    times = [ModuleTime(1, 9.0, own, device_self_s=kernels) for own, kernels in ((1.0, 0.0), (7.0, 1.0), (1.0, 3.0))]
    split = time_split(Document(modules=modules, timing=Timing(times, device=Figure(4.0, Counted("kernels")))))
    assert split.on_device
    assert [(row.name, row.seconds, row.share) for row in split.rows] == [("b", 3.0, 0.75), ("a", 1.0, 0.25)]


def test_a_module_whose_own_time_is_unknown_has_the_rest_of_its_total():
    modules = timed_tree({"": 0, "a:A": 1, "a.b:B": 3, "c:C": 1}).modules
    times = [ModuleTime(1, 10.0, 0.0), ModuleTime(1, 6.0, None), ModuleTime(1, 2.0, 2.0), ModuleTime(1, 4.0, 4.0)]
    split = time_split(Document(modules=modules, timing=Timing(times, whole=Figure(10.0, Counted("test")))))
    assert {(row.name, row.own, row.seconds) for row in split.rows} == {
        ("a", True, 4.0),
        ("c", False, 4.0),
        ("a.b", False, 2.0),
    }


def test_shares_of_withheld_times_single_out_no_member():
    document = timed_tree({"": 0, "b.0:Block": 10, "b.1:Block": 10, "b.2:Block": 40})
    assert time_split(document).rows[0].odd == ("b.2", pytest.approx(4))
    rough = [ModuleTime(1, None, None, self_share=time.self_share) for time in document.timing.modules]
    (row,) = time_split(replace(document, timing=replace(document.timing, modules=rough))).rows
    assert (row.count, row.odd) == (3, None)
