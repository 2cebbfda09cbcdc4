"""Folded names cover exactly the given names: expanding their ranges gives them back, each once."""

from __future__ import annotations

import re
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.analysis.name_ranges import CUT, family_names, fold_names, fold_rows, odd_one, odd_text, ranges_text

PARTS = st.sampled_from(["a", "b3", "0", "1", "2", "3", "17", "007"])
NAMES = st.lists(st.lists(PARTS, min_size=1, max_size=4).map(".".join), max_size=40)
RANGES = re.compile(r"[0-9]+(?:–[0-9]+)?(?:,[0-9]+(?:–[0-9]+)?)*")


def expanded_part(part: str) -> list[str]:
    """The names a part such as `0–2,5` or `b3` stands for."""
    if not RANGES.fullmatch(part) or part == "007":
        return [part]
    spans = [piece.split("–") for piece in part.split(",")]
    return [str(number) for span in spans for number in range(int(span[0]), int(span[-1]) + 1)]


def expanded(folded: str) -> list[str]:
    return [".".join(parts) for parts in product(*map(expanded_part, folded.split(".")))]


@given(NAMES)
def test_expanding_the_ranges_gives_the_members_back(names):
    folded = fold_names(names, whole=True)
    for one in folded:
        if CUT not in one.text:
            assert set(expanded(one.text)) == {names[at] for at in one.members}
    assert sorted(at for one in folded for at in one.members) == list(range(len(names)))


@given(NAMES, st.booleans())
def test_every_name_is_in_exactly_one_folded_name(names, whole):
    folded = fold_names(names, whole=whole)
    assert sorted(at for one in folded for at in one.members) == list(range(len(names)))
    assert [min(one.members) for one in folded] == sorted(min(one.members) for one in folded)
    by_name = {}
    for place, one in enumerate(folded):
        for at in one.members:
            assert by_name.setdefault(names[at], place) == place


NAME = st.lists(PARTS, min_size=1, max_size=3).map(".".join)


@given(st.lists(st.tuples(NAME, st.integers(0, 2), st.integers()), max_size=30))
def test_folded_rows_partition_the_rows_and_sums_are_kept(rows):
    merged = fold_rows(
        rows, lambda row: row[0], lambda row: row[1],
        lambda folded, some: (folded.text, some[0][1], sum(row[2] for row in some)),
    )  # fmt: skip
    assert len(merged) <= len(rows)
    for key in range(3):
        assert sum(row[2] for row in merged if row[1] == key) == sum(row[2] for row in rows if row[1] == key)


def test_names_with_two_numbers_fold_only_into_full_grids():
    names = [f"h.{i}.e.{j}" for i in range(3) for j in range(4) if (i, j) != (1, 2)]
    assert [one.text for one in fold_names(names)] == ["h.0,2.e.0–3", "h.1.e.0–1,3"]


def test_members_are_in_numerical_order_with_their_numbers():
    (one,) = fold_names(["l.10.w", "l.2.w", "l.1.w"], whole=True)
    assert (one.text, one.counted) == ("l.1–2,10.w", "l.1–2,10.w ×3")
    assert (one.members, one.labels) == ((2, 1, 0), ("l.1", "l.2", "l.10"))
    (grid,) = fold_names([f"h.{i}.e.{j}" for i in range(2) for j in range(2)])
    assert grid.labels == ("h.0.e.0", "h.0.e.1", "h.1.e.0", "h.1.e.1")
    (glued,) = fold_names([f"model.blocks_{i}.w" for i in range(3)], indices=True)
    assert glued.labels == ("blocks_0", "blocks_1", "blocks_2")


def test_numbers_inside_words_fold_only_if_asked():
    names = ["conv1.weight", "conv2.weight"]
    assert [one.text for one in fold_names(names, whole=True)] == names
    assert [one.text for one in fold_names(names)] == ["conv1–2.weight"]


INDICES = {
    "blocks of words": ([f"blocks_{i}.w" for i in range(3)], ["blocks_0–2.w"]),
    "two parts with parts": (["layer0.conv.w", "layer1.conv.w"], ["layer0–1.conv.w"]),
    "two roles": (["layers.0.conv1.w", "layers.0.conv2.w", "layers.1.conv1.w", "layers.1.conv2.w"],
                  ["layers.0–1.conv1.w", "layers.0–1.conv2.w"]),
    "gates": (["h.0.wi_0.weight", "h.0.wi_1.weight"], ["h.0.wi_0.weight", "h.0.wi_1.weight"]),
    "recurrent": ([f"rnn.weight_ih_l{i}" for i in range(4)], ["rnn.weight_ih_l0–3"]),
    "with a gap": ([f"b{i}.w" for i in (0, 1, 2, 5)], ["b0–2,5.w"]),
    "in the middle of a word": ([f"branch{i}x7.w" for i in range(1, 5)], [f"branch{i}x7.w" for i in range(1, 5)]),
    "leading zeros": (["b00.w", "b01.w", "b02.w"], ["b00.w", "b01.w", "b02.w"]),
    "two of three kinds of layers": ([f"layer{i}.{part}" for i in range(6) for part in ("a.w", "b.w", f"c{i % 2}.w")],
                                     ["layer0–5.a.w", "layer0–5.b.w", "layer0,2,4.c0.w", "layer1,3,5.c1.w"]),
    "tensorflow": ([f"encoder/layer_{i}/kernel" for i in range(3)], ["encoder/layer_0–2/kernel"]),
}  # fmt: skip


@pytest.mark.parametrize("case", INDICES)
def test_numbers_of_words_that_count_equal_parts_fold(case):
    given_names, expected = INDICES[case]
    assert [one.text for one in fold_names(given_names, indices=True)] == expected


def test_norms_of_a_bottleneck_keep_their_rows():
    """The counters of all three are equal, but the norms are not."""
    sizes = {1: 64, 2: 64, 3: 256}
    names = [f"layer1.0.bn{at}.{part}" for at in sizes for part in ("weight", "bias", "num_batches_tracked")]
    keys = [() if name.endswith("tracked") else (sizes[int(name[11])],) for name in names]
    assert [one.text for one in fold_names(names, keys, indices=True)] == names


@given(st.lists(st.from_regex(r"[a-c]{1,2}_?[0-9]{1,2}(\.[a-b][0-2])?", fullmatch=True), max_size=30, unique=True))
def test_families_are_the_names_that_fold_and_all_names_are_kept(several):
    folded = fold_names(several, indices=True)
    assert sorted(at for one in folded for at in one.members) == list(range(len(several)))
    family = family_names(several)
    for one in folded:
        assert len({family[at] for at in one.members}) == 1


def test_names_with_different_keys_are_not_folded():
    assert [one.text for one in fold_names(["a.0", "a.1", "a.2"], ["x", "y", "x"])] == ["a.0,2", "a.1"]


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ([7], "7"),
        ([0, 1], "0–1"),
        ([0, 1, 2, 4, 7, 8], "0–2,4,7–8"),
        ([0, 2, 4, 6], "0,2,4,6"),
        (range(0, 20, 2), "0,2,…,18"),
    ],
)
def test_ranges(numbers, text):
    assert ranges_text(numbers) == text


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ([1.0, 1.0, 2.1, 1.1], (2, 2.1)),
        ([1.0, 1.0, 1.4], None),
        ([1.0, 2.0], None),
        ([1.0, 2.0, 3.0, 9.0], (3, 4.5)),
        ([1.0, 2.0, 7.0, 9.0], None),
        ([0.0, 0.0, 1.0], None),
        ([1.0, None, 1.0, 5.0], None),
        ([1.0, 1.0, 5.0, 5.0], None),
    ],
)
def test_the_odd_one_stands_out_from_all_others(values, found):
    assert odd_one(values) == found


def test_the_odd_one_is_named_by_what_varies():
    assert odd_text("m.layers.0–11.mlp", "m.layers.7.mlp", 2.1) == "layers.7: 2.1× the others"
    assert odd_text("0–3", "2", 1.96) == "2: 2.0× the others"
