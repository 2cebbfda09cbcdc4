"""No exception of torch reaches a user: every verb on the zoo returns a result or raises an error of Assay.

The architectures of transformers take too long for the tests; `benchmarks/zoo.py` applies the same check to them.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from zoo_models import detection, generative, hard_cases, oracle, recommend, sequence, special, torch_nn, vision
from zoo_models.checks import arguments
from zoo_models.verbs import raw_errors, raw_errors_of_document

pytestmark = pytest.mark.filterwarnings("ignore")

SLOW = ("hard/many_modules", "hard/deep_nesting")
UNUSUAL = [entry for entry in (*special.entries(), *hard_cases.entries()) if entry.name not in SLOW]
USUAL = [
    entry for shelf in (torch_nn, vision, detection, generative, sequence, recommend) for entry in shelf.entries()
]


def _options(entry):
    return {"train": entry.trains and not entry.keeps_modes, "as_is": entry.keeps_modes}


@pytest.mark.parametrize("entry", UNUSUAL, ids=lambda entry: entry.name)
def test_every_verb_on_an_unusual_model(entry):
    model, inputs = oracle.fresh(entry)
    assert raw_errors(model, arguments(inputs), **_options(entry)) == []


@pytest.mark.parametrize("entry", USUAL, ids=lambda entry: entry.name)
def test_every_verb_on_the_document_of_a_model(entry):
    model, inputs = oracle.fresh(entry)
    assert raw_errors_of_document(model, arguments(inputs), **_options(entry)) == []
