"""The order in which the places that can tell are asked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import structs

from assay.errors import InputsError
from assay.sources.inference.configured import from_config
from assay.sources.inference.declared import declared, from_graph
from assay.sources.inference.guess import Guess
from assay.sources.inference.signature import from_signature
from assay.sources.inference.trial import choose
from assay.sources.literals import EXAMPLE
from assay.sources.needs import need
from assay.sources.placing import model_dtype


def infer(module: Any, config: Any | None) -> Guess:
    """The likeliest inputs of `module`, from its own example, config, graph, or signature and layers."""
    if getattr(module.forward, "__func__", None) is need("torch").nn.Module.forward:
        raise InputsError(f"{type(module).__name__} has no forward: open a part of it that has one")
    example = declared(module, config)
    if example is not None:
        return example
    floats = model_dtype(module)
    for guesses in _places(module, config):
        chosen = choose(module, (_with_floats(guess, floats) for guess in guesses))
        if chosen is not None:
            return chosen
    raise InputsError(
        f"the inputs of {type(module).__name__} cannot be inferred: give them with --inputs, "
        f"as file.py::function or a literal like {EXAMPLE}"
    )


def _places(module: Any, config: Any | None) -> Iterator[Iterator[Guess]]:
    if config is not None:
        yield from_config(module, config)
    yield from_graph(module)
    yield from_signature(module)


def _with_floats(guess: Guess, floats: str) -> Guess:
    """`guess` with its floating tensors in the model's own dtype."""
    specs = (structs.replace(spec, dtype=floats) if spec.dtype == "float32" else spec for spec in guess.specs)
    return structs.replace(guess, specs=tuple(specs))
