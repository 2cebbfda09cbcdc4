"""Guesses from forward's parameters: their names say what they are, the first layers what they look like."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

from msgspec import structs

from assay.sources.inference.guess import Guess, parameters, required
from assay.sources.inference.layers import Layer, layers, learned_positions, vocabularies
from assay.sources.tensors import TensorSpec

_IMAGE = TensorSpec((1, 3, 224, 224))
_IDS = TensorSpec((1, 128), "int64", low=0, high=2)


def from_signature(module: Any) -> Iterator[Guess]:
    """Guesses at what forward's required parameters want, likeliest first."""
    # Where every parameter has a default the first is still the data.
    wanted = required(module) or list(parameters(module).values())[:1]
    found = layers(module)
    if not wanted and _takes_nothing(module):
        yield Guess((), "forward, which takes nothing")
    elif found:
        yield from _guesses(module, wanted, found)
    elif wanted and all(parameter.name in _ROLES for parameter in wanted):
        specs = _arguments(wanted, _IMAGE, [])
        yield Guess(specs, f"forward({', '.join(parameter.name for parameter in wanted)})")


def _guesses(module: Any, wanted: list[inspect.Parameter], found: list[Layer]) -> Iterator[Guess]:
    vocabulary, longest = vocabularies(module), learned_positions(module)
    if wanted and wanted[0].name in _TOKENS:
        found = sorted(found, key=lambda layer: not layer.tokens)
    for likely in (True, False):
        for layer in found:
            for spec in layer.inputs if likely else layer.unlikely:
                if not layer.tokens or spec.shape[-1] <= longest:
                    yield Guess(_arguments(wanted, spec, vocabulary), layer.source)


def _arguments(wanted: list[inspect.Parameter], spec: TensorSpec, vocabulary: list[int]) -> tuple[TensorSpec, ...]:
    """One tensor for each wanted parameter, made after `spec`; keyword-only ones carry their name."""
    if not wanted:
        return (spec,)
    specs: list[TensorSpec] = []
    for parameter in wanted:
        made = _ROLES[parameter.name](spec) if parameter.name in _ROLES else spec
        if made.high is not None and not made.floating and parameter.name not in (*_MASKS, *_TIMESTEPS, *_LENGTHS):
            made = structs.replace(made, high=_ids(made.high, len(specs), vocabulary))
        name = parameter.name if parameter.kind is inspect.Parameter.KEYWORD_ONLY else None
        specs.append(structs.replace(made, name=name))
    return tuple(specs)


def _ids(high: int, index: int, vocabulary: list[int]) -> int:
    """An upper end that also fits the embedding a further argument may be looked up in."""
    return min(high, vocabulary[index]) if 0 < index < len(vocabulary) else high


def _takes_nothing(module: Any) -> bool:
    try:
        return not inspect.signature(module.forward).parameters
    except (TypeError, ValueError):
        return False


def _length(spec: TensorSpec) -> TensorSpec:
    steps = spec.shape[1] if len(spec.shape) > 1 else 1
    return TensorSpec((1,), "int64", low=steps, high=steps + 1)


_TOKENS = ("input_ids", "token_ids", "tokens", "idx", "ids", "decoder_input_ids")
_IMAGES = ("pixel_values", "image", "images", "img")
_MASKS, _TIMESTEPS = ("attention_mask", "padding_mask"), ("t", "timestep", "timesteps")
_LENGTHS = ("lengths", "input_lengths")
_ROLES: dict[str, Callable[[TensorSpec], TensorSpec]] = {
    **dict.fromkeys(_TOKENS, lambda spec: _IDS if spec.floating else spec),
    **dict.fromkeys(_IMAGES, lambda spec: spec if len(spec.shape) == 4 else _IMAGE),
    **dict.fromkeys(_MASKS, lambda spec: TensorSpec(spec.shape[:2], "int64", low=1, high=2)),
    **dict.fromkeys(_TIMESTEPS, lambda spec: TensorSpec((1,), "int64", low=0, high=1000)),
    **dict.fromkeys(_LENGTHS, _length),
}
"""Parameter names that say what they want, whatever the first layer takes."""
