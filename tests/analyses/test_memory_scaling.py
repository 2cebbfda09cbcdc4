"""Inputs at another batch."""

from __future__ import annotations

import pytest
import torch

from assay.errors import InputsError
from assay.sources.inputs import Inputs
from assay.sources.scaling import batch_of, scaled


def test_every_tensor_with_the_batch_first_is_resized_and_values_repeat():
    ids = torch.arange(6).reshape(2, 3)
    mask, table, scale = torch.ones(2, 1, 3), torch.randn(5, 2), torch.tensor(0.5)
    given = Inputs((ids,), {"mask": mask, "nested": [table, {"scale": scale}], "flag": True}, "given")
    made = scaled(given, 5)
    assert torch.equal(made.args[0], ids[[0, 1, 0, 1, 0]])
    assert made.kwargs["mask"].shape == (5, 1, 3)
    assert made.kwargs["nested"][0] is table
    assert made.kwargs["nested"][1]["scale"] is scale
    assert made.kwargs["flag"] is True
    assert made.how == "given, batch 5"
    assert torch.equal(given.args[0], ids)


@pytest.mark.parametrize("batch", [1, 2, 7])
def test_there_and_back_is_the_same(batch):
    ids = torch.arange(12).reshape(3, 4)
    again = scaled(scaled(Inputs((ids,), {}, "given"), 3 * batch), 3)
    assert torch.equal(again.args[0], ids)


def test_without_data_only_the_shape_changes():
    made = scaled(Inputs((torch.empty(1, 4, device="meta"),), {}, "given"), 9)
    assert made.args[0].is_meta
    assert made.args[0].shape == (9, 4)
    assert made.args[0].is_contiguous()


def test_the_batch_is_that_of_the_first_tensor_with_dimensions():
    assert batch_of(Inputs((torch.tensor(3.0), torch.ones(4, 2)), {}, "given")) == 4


@pytest.mark.parametrize("inputs", [Inputs((), {}, "given"), Inputs((torch.tensor(1),), {"n": 3}, "given")])
def test_inputs_without_a_batch_are_refused(inputs):
    with pytest.raises(InputsError, match="none of the inputs has a dimension"):
        scaled(inputs, 2)


def test_a_batch_of_none_is_refused():
    with pytest.raises(InputsError, match="1 or more"):
        scaled(Inputs((torch.ones(1),), {}, "given"), 0)
