"""Names of stored tensors that differ from the model's by a prefix, or that are parts of others."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.analysis.stored_tensors import Naming, StoredTarget, match_stored
from assay.document.rows import Tensor, TensorType


class File(NamedTuple):
    """A stored tensor."""

    names: tuple[str, ...]
    shape: tuple[int, ...]


def model(*names: str, shape: tuple[int, ...] = (2, 3)) -> list[Tensor]:
    return [Tensor((name,), "parameter", TensorType(shape, "float32"), 24) for name in names]


def expecting(tensors: list[Tensor]) -> Naming:
    return Naming(frozenset(name for each in tensors for name in each.names))


@given(
    names=st.sets(st.sampled_from(["a.weight", "a.bias", "b.0.weight", "b.1.weight", "norm.weight"]), min_size=1),
    prefix=st.sampled_from(["module.", "model.", "_orig_mod.", "model.net."]),
    more=st.booleans(),
)
def test_a_common_prefix_is_found_whichever_side_has_it(names: set[str], prefix: str, more: bool) -> None:
    ordered = sorted(names)
    tensors = model(*(name if more else prefix + name for name in ordered))
    stored = [File((prefix + name if more else name,), (2, 3)) for name in ordered]
    match = match_stored(tensors, stored, expecting(tensors))
    assert match.parts == [(at,) for at in range(len(ordered))]
    assert match.fit.prefix == ("+" if more else "-") + prefix
    assert (match.fit.missing, match.fit.extra, match.fit.conflicts) == ((), (), ())


@given(st.permutations(range(5)))
def test_the_order_of_the_files_does_not_matter(order: list[int]) -> None:
    names = [f"layer.{at}.weight" for at in range(5)]
    tensors = model(*names)
    match = match_stored(tensors, [File((names[at],), (2, 3)) for at in order], expecting(tensors))
    assert [order[parts[0]] for parts in match.parts] == [0, 1, 2, 3, 4]
    assert match.fit.stored_as == {}


def test_one_name_that_agrees_by_chance_is_no_prefix() -> None:
    tensors = model("a.weight", "b.weight", "c.weight")
    stored = [File((name,), (2, 3)) for name in ("x.a.weight", "y.q", "y.r", "y.s")]
    fit = match_stored(tensors, stored, expecting(tensors)).fit
    assert fit.prefix == ""
    assert fit.missing == ("a.weight", "b.weight", "c.weight")
    assert len(fit.extra) == 4


@pytest.mark.parametrize(
    ("experts", "lacked", "conflicts"), [((0, 1, 2, 3), (), 0), ((0, 3), (1, 2), 0), ((0, 1, 2, 3, 4), (), 1)]
)
@pytest.mark.parametrize("partial", [False, True])
def test_parts_must_add_up_to_the_tensor(experts, lacked, conflicts, partial) -> None:
    tensors = model("experts.up", shape=(4, 2, 3))
    naming = expecting(tensors)._replace(target=lambda name: StoredTarget(("experts.up",), converted=True))
    stored = [File((f"experts.{at}.up",), (2, 3)) for at in experts]
    match = match_stored(tensors, stored, naming, partial=partial)
    assert match.parts == [tuple(range(len(experts)))]
    assert len(match.fit.conflicts) == conflicts
    missing = ("experts.up",) if lacked else ()
    assert (match.fit.unread if partial else match.fit.missing) == missing
    assert not (match.fit.missing if partial else match.fit.unread)
    expected = {} if partial or not lacked else {"experts.up": tuple(f"experts.{at}.up" for at in lacked)}
    assert match.fit.missing_parts == expected


def test_missing_parts_are_not_listed_without_end() -> None:
    tensors = model("experts.up", shape=(1 << 40, 1))
    naming = expecting(tensors)._replace(target=lambda name: StoredTarget(("experts.up",), converted=True))
    for size in (1, 1 << 38):
        stored = [File((f"experts.{at}.up",), (size, 1)) for at in range(2)]
        assert len(match_stored(tensors, stored, naming).fit.conflicts) == 1


def test_one_stored_tensor_can_hold_several_of_the_model() -> None:
    tensors = model("q", "k", "v")
    naming = expecting(tensors)._replace(target=lambda name: StoredTarget(("q", "k", "v"), converted=True))
    stored = [File(("qkv",), (6, 3))]
    match = match_stored(tensors, stored, naming)
    assert match.parts == [(0,), (0,), (0,)]
    assert match.names_of(tensors, stored) == {}
    assert (match.fit.missing, match.fit.conflicts) == ((), ())
    assert match.fit.stored_as == {"q": ("qkv",), "k": ("qkv",), "v": ("qkv",)}
