"""Guesses from a transformers config: which inputs the model wants, and what each looks like."""

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
"""Shapes tried for one set of names."""
_SENSES = ("pixel_values", "input_features", "input_values", "pixel_values_videos")
"""What some models want beside or instead of their main input although forward does not demand it."""
_COMPANIONS = ("input_ids", *_SENSES, "bbox", "input_features_mask")
"""What some models want beside it."""


def from_config(module: Any, config: Any) -> Iterator[Guess]:
    """Guesses for a transformers model, text alone before text with images or sound."""
    known = parameters(module)
    told = facts(config)
    seen: set[tuple[str, ...]] = set()
    for names in _wanted(module, config, known):
        if names and names not in seen and all(name in modalities.TABLE for name in names):
            seen.add(names)
            for specs in _shapes(names, told, module):
                yield Guess(specs, f"the {type(config).__name__}")


def _wanted(module: Any, config: Any, known: Container[str]) -> Iterator[tuple[str, ...]]:
    """Sets of names that forward knows, likeliest first."""
    main = getattr(module, "main_input_name", "input_ids")
    demanded = [found.name for found in required(module)]
    base = [*([main] if isinstance(main, str) else main), *demanded]
    if getattr(config, "is_encoder_decoder", False):
        base.append("decoder_input_ids")
    base += modalities.TOGETHER.get(getattr(config, "model_type", ""), ())
    sets = [base, *([*base, name] for name in _COMPANIONS), demanded, *([name, *demanded] for name in _SENSES)]
    for names in sets:
        yield tuple(dict.fromkeys(name for name in names if name in known))


def _shapes(names: Sequence[str], told: Facts, module: Any) -> Iterator[tuple[TensorSpec, ...]]:
    """The combinations of what each input may look like."""
    options = [modalities.TABLE[name](told, module) for name in names]
    for chosen in islice(product(*options), _COMBINATIONS):
        yield tuple(structs.replace(spec, name=name) for name, spec in zip(names, chosen, strict=True))
