"""Inferring inputs: the sources of guesses, in the order in which they are tried."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import structs

from assay.errors import InputsError
from assay.messages import one_line
from assay.sources.inference.configured import from_config
from assay.sources.inference.declared import declared, from_graph
from assay.sources.inference.facts import Facts, facts
from assay.sources.inference.guess import Guess, with_floats
from assay.sources.inference.multimodal import enriched
from assay.sources.inference.signature import from_signature, other_than_tensors
from assay.sources.inference.trial import Trial, choose
from assay.sources.literals import EXAMPLE
from assay.sources.placing import model_dtype


def infer(module: Any, config: Any | None, processor: Mapping[str, Any] = {}) -> Guess:
    """The likeliest inputs of `module`, from its own example, its config, its graph, or its signature and layers."""
    example = declared(module, config)
    if example is not None:
        return example
    floats = model_dtype(module)
    trial = Trial(module, floats)
    for guesses in _guesses(module, config and facts(config, processor), trial):
        chosen = choose(trial, guesses)
        if chosen is not None:
            return structs.replace(with_floats(chosen, floats), flops=trial.flops(chosen))
    other = other_than_tensors(module)
    because = f", because of {one_line(other)}" if other else ""
    raise InputsError(
        f"the inputs of {name_of(module)} cannot be inferred{because}: give the inputs as file.py::function "
        f"or as a literal, for example {EXAMPLE}"
    )


def name_of(module: Any) -> str:
    """The name of the module's class for messages; of TorchScript, of the class it was made from."""
    name = str(getattr(module, "original_name", type(module).__name__))
    return "this function" if name == "PlaceholderModule" else name


def _guesses(module: Any, config_facts: Facts | None, trial: Trial) -> Iterator[Iterable[Guess]]:
    """The guesses of each source, most reliable source first."""
    if config_facts is not None:
        chosen = choose(trial, from_config(module, config_facts))
        yield () if chosen is None else (enriched(chosen, trial, module, config_facts),)
    yield from_graph(module)
    yield from_signature(module)
