"""Guesses from a transformers config: which inputs the model needs, and the shape of each."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from itertools import islice, product
from typing import Any

from msgspec import structs

from assay.sources.inference import companions, modalities
from assay.sources.inference.facts import Facts
from assay.sources.inference.guess import Guess, parameters, required
from assay.sources.tensors import TensorSpec

_COMBINATIONS = 16
"""Combinations of shapes tried per set of names."""
_MODALITIES = ("pixel_values", "input_features", "input_values", "pixel_values_videos")
"""Inputs that some models need besides or instead of their main input although forward does not require them."""
_COMPANIONS = ("input_ids", *_MODALITIES, "bbox", "input_features_mask")
"""Inputs that some models need besides their main input."""


def from_config(module: Any, config_facts: Facts) -> Iterator[Guess]:
    """Guesses for a transformers model: text only first, then text with images or sound."""
    parameter_names = parameters(module)
    seen: set[tuple[str, ...]] = set()
    for names in _name_sets(module, config_facts.config, parameter_names):
        known = all(name in modalities.TABLE or name in companions.TABLE for name in names)
        if names and names not in seen and known:
            seen.add(names)
            yield from guesses(names, config_facts, module)


def guesses(names: Iterable[str], config_facts: Facts, module: Any) -> Iterator[Guess]:
    """The combinations of possible shapes for the inputs `names`."""
    independent = [name for name in names if name in modalities.TABLE]
    options = [modalities.TABLE[name](config_facts, module) for name in independent]
    for chosen in islice(product(*options), _COMBINATIONS):
        yield assembled(dict(zip(independent, chosen, strict=True)), names, config_facts)


def assembled(chosen: Mapping[str, TensorSpec], names: Iterable[str], config_facts: Facts) -> Guess:
    """The guess for the inputs `names`: the chosen tensors, and the companions that follow from them."""
    specs: list[TensorSpec] = []
    for name in names:
        spec = chosen[name] if name in chosen else companions.TABLE[name](config_facts, chosen)
        if spec is not None:
            specs.append(structs.replace(spec, name=name))
    return Guess(tuple(specs), type(config_facts.config).__name__)


def _name_sets(module: Any, config: Any, parameter_names: Container[str]) -> Iterator[tuple[str, ...]]:
    """Sets of names of forward's parameters, likeliest first."""
    main = getattr(module, "main_input_name", "input_ids")
    required_names = [parameter.name for parameter in required(module)]
    base = [*([main] if isinstance(main, str) else main), *required_names]
    if getattr(config, "is_encoder_decoder", False):
        base.append("decoder_input_ids")
    base += modalities.TOGETHER.get(getattr(config, "model_type", ""), ())
    with_companion = [[*base, name] for name in _COMPANIONS]
    sets = [base, *with_companion, required_names, *([name, *required_names] for name in _MODALITIES)]
    for names in sets:
        yield tuple(dict.fromkeys(name for name in names if name in parameter_names))
