"""Input literals: what they mean, which are rejected, and that a written literal parses to the same specs."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from opening import open_model

from assay.errors import InputsError
from assay.sources.inputs import find_inputs
from assay.sources.literals import parse
from assay.sources.tensors import DTYPES, TensorSpec, literal_text

IDENTITY = open_model(torch.nn.Identity())


def inputs_from(text, **options):
    return find_inputs(text, IDENTITY, **options)


def test_one_shape_is_one_float_tensor():
    inputs = inputs_from("1x3x8x8")
    assert inputs.args[0].shape == (1, 3, 8, 8)
    assert inputs.args[0].dtype is torch.float32
    assert inputs.kwargs == {}
    assert inputs.how == "literal 1x3x8x8:float32"


def test_names_are_keywords_and_ranges_are_half_open():
    inputs = inputs_from("input_ids=1x2000:int64[3,6]")
    assert inputs.args == ()
    assert set(inputs.kwargs["input_ids"].unique().tolist()) == {3, 4, 5}
    assert inputs.how == "literal input_ids=1x2000:int64[3,6]"


@pytest.mark.parametrize("separator", [",", ", ", ";", "; ", " ", "\n"])
def test_parts_are_separated_outside_brackets(separator):
    inputs = inputs_from(separator.join(["2x3:f16", "ids=4:int32[ -2 , 9 ]", "scalar:i64", "mask=1x2:bool"]))
    assert [tuple(tensor.shape) for tensor in inputs.args] == [(2, 3), ()]
    assert inputs.kwargs["ids"].dtype is torch.int32
    assert inputs.kwargs["mask"].dtype is torch.bool
    assert "\n" not in inputs.how


@pytest.mark.parametrize("name", [short for name, shorts in DTYPES.items() for short in (name, *shorts.split())])
def test_every_dtype_can_be_made(name):
    full = next(full for full, shorts in DTYPES.items() if name in (full, *shorts.split()))
    assert inputs_from(f"2x3:{name}").args[0].dtype is getattr(torch, full)


def test_literals_are_reproducible_and_do_not_use_the_global_generator():
    state = torch.random.get_rng_state()
    first, second = inputs_from("4x4, 4x4").args
    assert torch.equal(first, inputs_from("4x4").args[0])
    assert not torch.equal(first, second)
    assert torch.equal(state, torch.random.get_rng_state())


def test_floats_can_have_a_range():
    tensor = inputs_from("1000:f32[5,6]").args[0]
    assert tensor.min() >= 5
    assert tensor.max() < 6


def test_empty_dimensions_are_allowed():
    assert inputs_from("0x3").args[0].numel() == 0


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "empty"),
        (" , ;", "empty"),
        ("1x3x", "'1x3x'"),
        ("1x3:float33", "float16"),
        ("1xax3", "'1xax3'"),
        ("-1x3", "'-1x3'"),
        ("1x3:int64[5,5]", "empty range"),
        ("1x3:int64[0.5,2]", "not a valid inputs literal"),
        ("1x3:int64[1", "'1x3:int64[1'"),
        ("1x3 ids=2x2:bogus", "'ids=2x2:bogus'"),
        ("a=1, a=2", "'a' twice"),
        ("1,3,224,224", "1x3x224x224"),
        ("ids:int64", "'ids:int64'"),
        ("9" * 30, "has a dimension above"),
        ("1000000x1000000x1000000", "smaller"),
        ("z" * 100_000, "too long"),
        ("1x3\0", "not a valid inputs literal"),
        ("2x2:u8[0,9999999999999999999999]", "cannot create"),
    ],
)
def test_the_error_for_a_bad_literal_names_the_part_on_one_line(text, part):
    with pytest.raises(InputsError) as caught:
        inputs_from(text)
    assert part in str(caught.value)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 600


def test_the_error_for_an_invalid_part_contains_an_example():
    with pytest.raises(InputsError, match="1x3x224x224:float32"):
        inputs_from("what?")


def test_on_meta_only_floats_are_meta_tensors():
    inputs = inputs_from("1000000x1000000, ids=3:int64[0,9], flag=2:bool", device="meta")
    assert inputs.args[0].is_meta
    assert inputs.kwargs["ids"].device.type == inputs.kwargs["flag"].device.type == "cpu"


def test_a_model_on_meta_gets_meta_inputs():
    opened = open_model(torch.nn.Linear(3, 2, device="meta"))
    assert find_inputs("1x3", opened).args[0].is_meta
    assert not find_inputs("1x3", opened, device="cpu").args[0].is_meta


def test_a_dtype_converts_only_floats():
    inputs = inputs_from("1x3, ids=3:int64", dtype="bf16")
    assert inputs.args[0].dtype is torch.bfloat16
    assert inputs.kwargs["ids"].dtype is torch.int64
    with pytest.raises(InputsError, match="unknown dtype 'quarter'"):
        inputs_from("1x3", dtype="quarter")


specs = st.builds(
    TensorSpec,
    st.lists(st.integers(0, 10**6), max_size=5).map(tuple),
    st.sampled_from(list(DTYPES)),
    st.none(),
    st.integers(-100, 0),
    st.integers(1, 100),
)


@given(st.lists(specs, min_size=1, max_size=5))
def test_a_written_literal_parses_to_the_same_specs(written):
    assert parse(literal_text(written)) == tuple(written)


@given(st.text())
def test_any_text_is_parsed_or_rejected_in_one_line(text):
    try:
        parse(text)
    except InputsError as error:
        assert str(error).isprintable()  # noqa: PT017
