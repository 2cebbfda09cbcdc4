"""Live exported programs, their modules and pipeline objects: opened as what they are, never called as builders."""

from __future__ import annotations

import textwrap

import pytest
import torch
from torch import nn

import assay
from assay.errors import AssayError, InputsError
from assay.sources.open import is_builder

pytestmark = pytest.mark.filterwarnings("ignore")

MACS = 3 * (4 * 8 + 8 * 2)


def network():
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).eval()


def program():
    return torch.export.export(network(), (torch.randn(3, 4),))


class Pipeline:
    """Holds two models and must not be called."""

    def __init__(self):
        self.encoder, self.decoder = nn.Linear(4, 4), nn.Linear(4, 2)

    def __call__(self):
        raise AssertionError("the pipeline was called")


class Deep(Pipeline):
    """Holds its model several objects deep."""

    def __init__(self):
        inner = nn.Linear(4, 4)
        for _ in range(5):
            outer = type("Part", (), {})()
            outer.part = inner
            inner = outer
        self.parts = inner


class Slotted:
    """Holds its model in a slot."""

    __slots__ = ("empty", "network")

    def __init__(self):
        self.network = nn.Linear(4, 4)

    def __call__(self):
        raise AssertionError("the pipeline was called")


VERBS = {
    "observe": assay.observe,
    "meta": lambda model: assay.observe(model, mode="meta"),
    "cost": assay.cost,
    "summary": assay.summary,
    "memory": assay.memory,
    "check": assay.check,
    "modules": assay.extract_unique_modules,
    "weights": assay.analyze_weights,
    "stats": assay.record_forward_stats,
    "analyze": lambda model: assay.analyze(model, depth="structure"),
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("build", [program, lambda: program().module()], ids=["program", "module"])
def test_every_verb_takes_a_live_program_and_its_module(build, verb):
    VERBS[verb](build())


@pytest.mark.parametrize("build", [program, lambda: program().module()], ids=["program", "module"])
def test_a_live_program_and_its_module_cost_what_the_model_costs(build):
    model = build()
    assert not is_builder(model)
    for inputs in (None, (torch.randn(3, 4),)):
        document = assay.observe(model, inputs)
        assert document.complete
        assert document.cost.forward.macs == MACS


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("build", [Pipeline, Deep, Slotted])
def test_no_verb_calls_a_pipeline(build, verb):
    holder = build()
    assert not is_builder(holder)
    try:
        VERBS[verb](holder)
    except AssayError as error:
        assert isinstance(error, InputsError)  # noqa: PT017
        assert "cannot be run as one model" in str(error)  # noqa: PT017


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "objects.py"
    path.write_text(
        textwrap.dedent(
            """
            import torch
            from torch import nn

            def network():
                return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).eval()

            def program():
                return torch.export.export(network(), (torch.randn(3, 4),))

            def module():
                return program().module()

            class Pipeline:
                def __init__(self):
                    self.encoder, self.decoder = nn.Linear(4, 4), nn.Linear(4, 2)

                def __call__(self):
                    raise AssertionError("the pipeline was called")

            def pipeline():
                return Pipeline()

            live_program = program()
            live_module = live_program.module()
            live_pipeline = Pipeline()
            """
        )
    )
    return path


@pytest.mark.parametrize("name", ["program", "module", "live_program", "live_module"])
def test_a_file_can_name_a_program_or_its_module(file, name):
    assert assay.observe(f"{file}::{name}").cost.forward.macs == MACS


@pytest.mark.parametrize("name", ["pipeline", "live_pipeline", "Pipeline"])
def test_a_file_can_name_a_pipeline(file, name):
    with pytest.raises(InputsError, match="encoder, decoder"):
        assay.observe(f"{file}::{name}")
