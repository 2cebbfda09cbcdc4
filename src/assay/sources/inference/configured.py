"""Guesses from a transformers config: which inputs the model needs, and the shape of each."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from itertools import islice, product
from typing import Any

from msgspec import structs

from assay.sources.inference import modalities
from assay.sources.inference.facts import Facts, facts
from assay.sources.inference.guess import Guess, parameters, required
from assay.sources.tensors import TensorSpec

_COMBINATIONS = 16
"""Combinations of shapes tried per set of names."""
_MODALITIES = ("pixel_values", "input_features", "input_values", "pixel_values_videos")
"""Inputs that some models need besides or instead of their main input although forward does not require them."""
_COMPANIONS = ("input_ids", *_MODALITIES, "bbox", "input_features_mask")
"""Inputs that some models need besides their main input."""


def from_config(module: Any, config: Any) -> Iterator[Guess]:
    """Guesses for a transformers model: text only first, then text with images or sound."""
    parameter_names = parameters(module)
    config_facts = facts(config)
    seen: set[tuple[str, ...]] = set()
    for names in _name_sets(module, config, parameter_names):
        if names and names not in seen and all(name in modalities.TABLE for name in names):
            seen.add(names)
            for specs in _shapes(names, config_facts, module):
                yield Guess(specs, type(config).__name__)


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


def _shapes(names: Sequence[str], config_facts: Facts, module: Any) -> Iterator[tuple[TensorSpec, ...]]:
    """The combinations of possible shapes for these inputs."""
    options = [modalities.TABLE[name](config_facts, module) for name in names]
    for chosen in islice(product(*options), _COMBINATIONS):
        yield tuple(structs.replace(spec, name=name) for name, spec in zip(names, chosen, strict=True))
