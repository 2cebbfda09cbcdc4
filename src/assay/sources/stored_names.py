"""How a model names the tensors in its files: its state dict, and the conversions that transformers applies."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from assay.analysis.stored_tensors import Naming, StoredTarget
from assay.document.roles import PARAMETER
from assay.document.rows import Tensor
from assay.sources.opened import Model

_LEGACY = ((r"LayerNorm\.gamma$", "LayerNorm.weight"), (r"LayerNorm\.beta$", "LayerNorm.bias"))
"""Names that versions of transformers before 5 convert in their code."""
_MOVED_BUFFERS = (r"rotary_emb\.inv_freq", r"(^|\.)position_ids$")
"""Buffers that old checkpoints contain and models now compute, which transformers ignores."""


def naming_of(model: Model | None, tensors: Sequence[Tensor]) -> Naming:
    """The names that files of `model`, which has these tensors, should contain, and what other names stand for."""
    module: Any = None if model is None else model.module
    if model is None or model.config is None or not hasattr(module, "_keys_to_ignore_on_load_missing"):
        return Naming(frozenset(name for each in tensors if each.role == PARAMETER for name in each.names))
    known = frozenset(module.state_dict())
    computed = (name for name, _ in module.named_buffers() if name not in known)
    ignored = [*(module._keys_to_ignore_on_load_unexpected or ()), *_MOVED_BUFFERS, *map(re.escape, computed)]
    return Naming(
        known,
        _target(module, _first_names(module)),
        _any_of(module._keys_to_ignore_on_load_missing or ()),
        _any_of(ignored),
        quantization_of(model.config),
    )


def _first_names(module: Any) -> dict[str, str]:
    """The first name of each tensor, by all its names, also those through a module that has several."""
    first: dict[int, str] = {}
    both = (module.named_parameters(remove_duplicate=False), module.named_buffers(remove_duplicate=False))
    return {name: first.setdefault(id(tensor), name) for name, tensor in chain(*both)}


def _any_of(patterns: Iterable[str]) -> re.Pattern[str] | None:
    each = [f"(?:{pattern})" for pattern in patterns]
    return re.compile("|".join(each)) if each else None


def quantization_of(config: Any) -> str:
    """The quantization method that a transformers config names; empty if it names none, or there is no config."""
    settings = getattr(config, "quantization_config", None) or {}
    method = settings.get("quant_method", "") if isinstance(settings, dict) else getattr(settings, "quant_method", "")
    return str(getattr(method, "value", method))


def _target(module: Any, known: Mapping[str, str]) -> Callable[[str], StoredTarget]:
    """The function from a stored name to names of the model, with the base model's prefix added or removed."""
    convert = _conversions(module) or _renamings(module)
    base = module.base_model_prefix

    def target(name: str) -> StoredTarget:
        converted = convert(name)
        found = tuple(own for each in converted.names if (own := _based(each, base, known)))
        return (
            StoredTarget(found, converted.converted) if found else StoredTarget((_based(name, base, known) or name,))
        )

    return target


def _based(name: str, base: str, known: Mapping[str, str]) -> str:
    """The tensor of this name, with or without the prefix of the base model; empty if there is none."""
    candidates = (name, name.removeprefix(f"{base}."), f"{base}.{name}") if base else (name,)
    return next((known[each] for each in candidates if each in known), "")


def _conversions(module: Any) -> Callable[[str], StoredTarget] | None:
    """What transformers 5 makes of a stored name; None in earlier versions."""
    try:
        from transformers.conversion_mapping import get_model_conversion_mapping
        from transformers.core_model_loading import WeightConverter, WeightRenaming, rename_source_key

        mapping = get_model_conversion_mapping(module)
    except (ImportError, AttributeError, TypeError):  # private parts of transformers, which change
        return None
    renamings = [each for each in mapping if isinstance(each, WeightRenaming)]
    converters = [each for each in mapping if isinstance(each, WeightConverter)]
    split = {source: each.target_patterns for each in converters for source in each.source_patterns}

    def convert(name: str) -> StoredTarget:
        renamed, source = rename_source_key(name, renamings, converters)
        first, *others = split.get(source, ("",))
        names = (renamed, *(renamed.replace(first, other) for other in others))
        return StoredTarget(names, source is not None)

    return convert


def _renamings(module: Any) -> Callable[[str], StoredTarget]:
    """What transformers 4 makes of a stored name."""
    patterns = [*_LEGACY, *getattr(module, "_checkpoint_conversion_mapping", {}).items()]

    def convert(name: str) -> StoredTarget:
        for pattern, replacement in patterns:
            name = re.sub(pattern, replacement, name)
        return StoredTarget((name,))

    return convert
