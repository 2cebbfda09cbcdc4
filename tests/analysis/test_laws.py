"""Exact polynomials, proofs about them, and the range in which a scaling formula holds."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.analysis.laws import reach
from assay.analysis.laws.comparing import never_above, possible_maxima
from assay.analysis.laws.law import Law, Laws, Part, VerifiedRange
from assay.analysis.laws.polynomials import Polynomial, grid, interpolate, polynomial
from assay.errors import UsageError

NAMES = ("batch", "seq")
few = settings(max_examples=30)
COEFFICIENTS = st.fractions(-1000, 1000, max_denominator=12)


@st.composite
def polynomials(draw, degrees=(2, 3), coefficients=COEFFICIENTS):
    powers = list(product(*(range(degree + 1) for degree in degrees)))
    return polynomial(NAMES, {each: Fraction(draw(coefficients)) for each in powers})


@st.composite
def nodes(draw, count):
    return tuple(draw(st.lists(st.integers(1, 60), min_size=count, max_size=count, unique=True)))


def law(*parts: Part, **spans: VerifiedRange) -> Law:
    return Law(NAMES, parts, {name: spans.get(name, VerifiedRange(1, 100)) for name in NAMES})


@few
@given(polynomials(), nodes(3), nodes(4))
def test_a_polynomial_is_recovered_from_its_grid(expected, first, second):
    points = grid((first, second))
    assert interpolate(NAMES, (first, second), [expected.at(point) for point in points]) == expected


@few
@given(polynomials(degrees=(1, 1)), nodes(3), nodes(4))
def test_extra_nodes_add_no_terms(expected, first, second):
    fitted = interpolate(NAMES, (first, second), [expected.at(point) for point in grid((first, second))])
    assert fitted == expected
    assert all(max(powers) <= 1 for powers in fitted.terms)


@few
@given(st.integers(1, 20), nodes(4))
def test_a_polynomial_does_not_fit_n_log_n_outside_its_grid(scale, chosen):
    def value(size: int) -> int:
        return scale * size * (size.bit_length() - 1)

    fitted = interpolate(("seq",), (chosen,), [value(each) for each in chosen])
    assert any(fitted.at((size,)) != value(size) for size in (64, 128, 256, 512, 1024))


@few
@given(polynomials(), st.integers(0, 30), st.integers(0, 30))
def test_from_one_shifts_the_variables(expected, batch, seq):
    assert expected.from_one().at((batch, seq)) == expected.at((batch + 1, seq + 1))


@few
@given(polynomials(degrees=(1, 2)), polynomials(degrees=(1, 2)), st.integers(1, 9), st.integers(1, 9))
def test_a_polynomial_proven_never_above_is_never_above(lower, upper, batch, seq):
    if never_above(lower, upper, {"batch": 9, "seq": 9}):
        assert lower.at((batch, seq)) <= upper.at((batch, seq))


@few
@given(st.lists(polynomials(degrees=(1, 2), coefficients=st.integers(-3, 9)), min_size=1, max_size=6))
def test_dropped_candidates_never_change_the_maximum(candidates):
    kept = possible_maxima(candidates)
    assert all(each in candidates for each in kept)
    for point in product((1, 2, 5, 40), (1, 3, 17, 1000)):
        assert max(each.at(point) for each in kept) == max(each.at(point) for each in candidates)


def test_a_polynomial_below_a_mean_of_two_others_is_dropped():
    square, line = polynomial(("n",), {(2,): Fraction(4)}), polynomial(("n",), {(1,): Fraction(40)})
    between = polynomial(("n",), {(2,): Fraction(2), (1,): Fraction(19)})
    assert possible_maxima([square, between, line]) == [square, line]


def test_a_limit_proves_that_a_lookup_never_exceeds_its_table():
    rows, table = polynomial(("seq",), {(1,): Fraction(4)}), polynomial(("seq",), {(0,): Fraction(2048)})
    assert never_above(rows, table, {"seq": 512})
    assert not never_above(rows, table, {"seq": 513})
    assert not never_above(rows, table, {})


@pytest.mark.parametrize(
    ("terms", "text"),
    [
        ({(1, 2): 24, (1, 1): 1024}, "24·batch·seq² + 1,024·batch·seq"),
        ({(1, 2): -1, (0, 0): 5}, "−batch·seq² + 5"),
        ({(0, 3): Fraction(1, 2), (1, 0): Fraction(-3, 4)}, "1/2·seq³ − 3/4·batch"),
        ({(1, 0): 1}, "batch"),
        ({(0, 0): 1}, "1"),
        ({}, "0"),
    ],
)
def test_text_of_polynomials(terms, text):
    assert str(polynomial(NAMES, {powers: Fraction(value) for powers, value in terms.items()})) == text


def test_a_formula_is_the_sum_of_its_parts():
    line, table = (polynomial(NAMES, {powers: Fraction(value)}) for powers, value in (((1, 1), 4), ((0, 0), 100)))
    both = law(Part((table,)), Part((line, table), "min"))
    assert str(both) == "100 + min(4·batch·seq, 100)"
    assert both(batch=2, seq=3) == 124
    assert both(batch=20, seq=30) == 200
    assert law(Part((line, table), "max"))(batch=20, seq=30) == 2400


def test_a_formula_gives_none_for_sizes_at_which_it_fails():
    half = Part((polynomial(NAMES, {(0, 1): Fraction(1, 2)}),))
    seq = VerifiedRange(8, 64, multiple=2, ends_below=True)
    confined = law(half, seq=seq)
    assert [confined(batch=1, seq=size) for size in (6, 8, 9, 10, 128)] == [None, 4, None, 5, 64]
    assert confined.condition == "8 ≤ seq, a multiple of 2"
    assert confined.covers(batch=1, seq=64)
    assert not confined.covers(batch=1, seq=128)
    assert law(half, seq=VerifiedRange(8, 64, ends_above=True))(batch=1, seq=66) is None


@pytest.mark.parametrize("sizes", [{"batch": 1}, {"batch": 1, "seq": 0}, {"batch": 1, "seq": 2, "more": 3}])
def test_wrong_sizes_are_refused(sizes):
    with pytest.raises(UsageError, match="size"):
        law(Part((Polynomial(NAMES, {}),)))(**sizes)


def test_formulas_by_quantity_name():
    constant = law(Part((polynomial(NAMES, {(0, 0): Fraction(7)}),)))
    laws = Laws("Net", NAMES, {"macs": constant}, {"ops": "not a polynomial"}, {}, ())
    assert laws["ops"] is None
    assert laws.at(batch=1, seq=1) == {"macs": 7, "ops": None}
    with pytest.raises(UsageError, match="unknown quantity 'speed': expected one of macs, ops"):
        laws["speed"]


def test_the_verified_range_is_searched_along_a_variable():
    along = reach.size_plan("seq", 16, limit=None, far=True)
    assert along.nodes == (16, 32, 48)
    assert reach.verified_range(lambda size: size >= 5, along) == VerifiedRange(8, 256, ends_below=True)
    assert reach.verified_range(lambda size: size % 4 == 0 or None, along) == VerifiedRange(4, 256, multiple=4)
    assert reach.verified_range(lambda size: size <= 128, along) == VerifiedRange(1, 128, ends_above=True)
    assert reach.verified_range(lambda size: None, along) == VerifiedRange(16, 112, multiple=16)


@pytest.mark.parametrize("limit", [112, 120, 1000])
def test_no_size_is_above_the_limit(limit):
    along = reach.size_plan("seq", 16, limit=limit, far=True)
    assert along.far == min(limit // 16 * 16, 256)
    assert max(*along.nodes, along.check) <= limit


def test_a_size_of_one_is_not_in_the_grid():
    assert reach.size_plan("batch", 1, limit=None, far=False).nodes == (2, 3)


@pytest.mark.parametrize("sizes", [(4,), (4, 4), (0, 4)])
def test_chosen_points_must_include_a_check(sizes):
    with pytest.raises(UsageError, match="two or more different positive sizes"):
        reach.given("seq", sizes)
