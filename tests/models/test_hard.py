"""The hard cases in CASES complete, those in FAILING raise."""

from __future__ import annotations

import pytest
import torch

from models import hard


@pytest.mark.parametrize("name", hard.CASES)
def test_a_case_completes(name: str):
    model, inputs = hard.CASES[name]()
    assert isinstance(model, torch.nn.Module)
    hard.call(model, inputs)


@pytest.mark.parametrize("name", hard.FAILING)
def test_a_failing_case_raises(name: str):
    model, inputs = hard.FAILING[name]()
    with pytest.raises((RuntimeError, ValueError, KeyError)):
        hard.call(model, inputs)
