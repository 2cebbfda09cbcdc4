"""Guesses from forward's parameters: their names give the role of each input, the first layers its shape."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

from msgspec import structs

from assay.sources.inference.guess import Guess, parameters, required
from assay.sources.inference.layers import Layer, layers, learned_positions, vocabularies
from assay.sources.inference.sizes import input_sizes
from assay.sources.tensors import TensorSpec

_OTHER = re.compile(r"(list|tuple|dict|int|float|bool|str)\b", re.IGNORECASE)
"""Declared types of parameters that do not take a tensor."""
_IMAGE = TensorSpec((1, 3, 224, 224))
_IDS = TensorSpec((1, 128), "int64", low=0, high=2)


def from_signature(module: Any) -> Iterator[Guess]:
    """Guesses at the inputs for forward's required parameters, likeliest first."""
    needed = _needed(module)
    first_layers = layers(module)
    if other_than_tensors(module):
        return
    if not needed and _takes_nothing(module):
        yield Guess((), "forward, which takes no arguments")
    elif first_layers:
        yield from _guesses_from_sizes(module, needed, first_layers)
        yield from _guesses_from_layers(module, needed, first_layers)
    elif needed and all(parameter.name in _ROLES for parameter in needed):
        specs = _arguments(needed, _IMAGE, [])
        yield Guess(specs, f"forward({', '.join(parameter.name for parameter in needed)})")


def other_than_tensors(module: Any) -> str:
    """The first parameter that is declared as something else, such as `boxes: List[Tensor]`: it is not inferred."""
    for parameter in _needed(module):
        kind = parameter.annotation
        declared = kind if isinstance(kind, str) else inspect.formatannotation(kind)
        if _OTHER.match(declared) and parameter.name not in _ROLES:
            return f"{parameter.name}: {declared}"
    return ""


def _needed(module: Any) -> list[inspect.Parameter]:
    """The parameters that need a value; if each has a default, the first one is still the data."""
    return required(module) or list(parameters(module).values())[:1]


def _guesses_from_sizes(module: Any, needed: list[inspect.Parameter], first_layers: list[Layer]) -> Iterator[Guess]:
    """One guess per size that the model was built for, with the channels that its first convolution takes."""
    if needed and needed[0].name in _TOKENS:
        return
    likely = [spec.shape for layer in first_layers for spec in layer.inputs if "convolution" in layer.source]
    channels = next((shape[1] for shape in likely), None)
    for size in input_sizes(module):
        if channels or size.channels:
            spec = TensorSpec((1, channels or size.channels or 0, *size.dims))
            yield Guess(_arguments(needed, spec, []), size.source)


def _guesses_from_layers(module: Any, needed: list[inspect.Parameter], first_layers: list[Layer]) -> Iterator[Guess]:
    """One guess per input that a first layer may take, all likely ones before the unlikely ones."""
    vocabulary, longest = vocabularies(module), learned_positions(module)
    if needed and needed[0].name in _TOKENS:
        first_layers = sorted(first_layers, key=lambda layer: not layer.tokens)
    for likely in (True, False):
        for layer in first_layers:
            for spec in layer.inputs if likely else layer.unlikely:
                if not layer.tokens or spec.shape[-1] <= longest:
                    yield Guess(_arguments(needed, spec, vocabulary), layer.source)


def _arguments(needed: list[inspect.Parameter], spec: TensorSpec, vocabulary: list[int]) -> tuple[TensorSpec, ...]:
    """One tensor per parameter, modelled on `spec`; only those of keyword-only parameters have a name."""
    if not needed:
        return (spec,)
    specs: list[TensorSpec] = []
    for parameter in needed:
        argument = _ROLES[parameter.name](spec) if parameter.name in _ROLES else spec
        is_ids = not argument.floating and parameter.name not in (*_MASKS, *_TIMESTEPS, *_LENGTHS)
        if argument.high is not None and is_ids:
            argument = structs.replace(argument, high=_ids(argument.high, len(specs), vocabulary))
        name = parameter.name if parameter.kind is inspect.Parameter.KEYWORD_ONLY else None
        specs.append(structs.replace(argument, name=name))
    return tuple(specs)


def _ids(high: int, index: int, vocabulary: list[int]) -> int:
    """An upper bound of ids that is also valid for the embedding that belongs to argument `index`."""
    return min(high, vocabulary[index]) if 0 < index < len(vocabulary) else high


def _takes_nothing(module: Any) -> bool:
    try:
        return not inspect.signature(module.forward).parameters
    except (TypeError, ValueError):
        return False


def _length(spec: TensorSpec) -> TensorSpec:
    """A length argument that equals the number of steps in `spec`."""
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
"""Parameter names that determine the tensor, whatever the first layer takes."""
