"""Nested and quantized models through the public functions: answered, or refused in one line of our own."""

from __future__ import annotations

import pytest
import torch
from recorder import test_nested, test_quantized
from torch import nn

import assay
from assay.errors import AssayError

pytestmark = pytest.mark.filterwarnings("ignore")


class NestedBuffer(nn.Module):
    """Holds a nested tensor itself."""

    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.nested.nested_tensor([torch.randn(3, 4), torch.randn(2, 4)]))
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return self.linear(self.table).to_padded_tensor(0.0).sum() + x.sum()


CASES = {
    "strided": lambda: (test_nested.Mixer(), (test_nested.nested(test_nested.pieces(), torch.strided),)),
    "jagged": lambda: (test_nested.Mixer(), (test_nested.nested(test_nested.pieces(), torch.jagged),)),
    "encoder": lambda: (test_nested.encoder(), test_nested.padded()),
    "buffer": lambda: (NestedBuffer(), (torch.randn(2, 2),)),
    **{name: lambda build=build: _with_arguments(*build()) for name, build in test_quantized.CASES.items()},
}


def _with_arguments(model, x):
    return model, (x,)


VERBS = {
    "cost": assay.cost,
    "cost on meta": lambda model, inputs: assay.cost(model, inputs, mode="meta"),
    "summary": lambda model, inputs: str(assay.summary(model, inputs)),
    "memory": assay.memory,
    "check": assay.check,
    "modules": assay.extract_unique_modules,
    "weights": lambda model, inputs: assay.analyze_weights(model),
}
MAY_REFUSE = {
    "vary": lambda model, inputs: assay.vary(model, inputs, over="batch"),
    "cost on fake": lambda model, inputs: assay.cost(model, inputs, mode="fake"),
    "training": lambda model, inputs: assay.observe(model, inputs, backward=True),
    "bfloat16": lambda model, inputs: assay.observe(model, inputs, dtype="bfloat16"),
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("name", CASES)
def test_every_verb_answers(name, verb):
    model, inputs = CASES[name]()
    VERBS[verb](model.eval(), inputs)


@pytest.mark.parametrize("verb", MAY_REFUSE)
@pytest.mark.parametrize("name", CASES)
def test_what_torch_cannot_do_is_refused_in_one_line(name, verb):
    model, inputs = CASES[name]()
    try:
        MAY_REFUSE[verb](model.eval(), inputs)
    except AssayError as error:
        assert "\n" not in str(error)  # noqa: PT017
