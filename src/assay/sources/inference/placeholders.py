"""Placeholder tokens: the ids in a text that a multimodal model replaces by embeddings of images, videos or sound.

Their number must equal the number of embeddings, which a trial counts.
"""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Mapping
from typing import Any

from assay.sources.inference.facts import Facts
from assay.sources.needs import is_tensor
from assay.sources.tensors import TensorSpec

_CHECK = "get_placeholder_mask"
"""The method in which transformers models compare the number of placeholders with that of the embeddings."""
_TEXT = ("input_ids", "inputs_embeds")
"""Its arguments that are not embeddings of another modality."""
_SHORTEST = 8
"""Text tokens beside the placeholders, if positions are scarce."""


def count_placeholders(module: Any, rows: list[int]) -> None:
    """Make the parts of `module`, a copy, add to `rows` how many embeddings they compare with placeholders."""
    for child in module.modules():
        check = getattr(child, _CHECK, None)
        if callable(check):
            child.__dict__[_CHECK] = _reporting(check, rows)


def _reporting(check: Callable[..., Any], rows: list[int]) -> Callable[..., Any]:
    signature = inspect.signature(check)

    def report(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind_partial(*args, **kwargs).arguments
        width = given["inputs_embeds"].shape[-1] if is_tensor(given.get("inputs_embeds")) else None
        for name, value in given.items():
            if name not in _TEXT and is_tensor(value) and value.is_floating_point():
                rows.append(value.numel() // (width or value.shape[-1]))
        return check(*args, **kwargs)

    return report


def ids(facts: Facts, length: int, tokens: Mapping[int, int], longest: int) -> TensorSpec:
    """Text of `length` tokens after the placeholders: `tokens` of each id; shorter where positions are limited."""
    # A text token before each block: models find the blocks by where they start.
    low, high = facts.vocabulary
    generator = random.Random(0)
    values: list[int] = []
    for token, count in tokens.items():
        values += [generator.randrange(low, high), *(token,) * count]
    room = min(longest, facts.positions) - len(values)
    text = max(_SHORTEST, min(length, room))
    values += [generator.randrange(low, high) for _ in range(text)]
    return TensorSpec((1, len(values)), "int64", values=tuple(values))
