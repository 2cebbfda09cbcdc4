"""Model types of transformers as entries: small configurations and inputs from tables, without downloads."""

from __future__ import annotations

import importlib
from functools import partial
from typing import Any

from torch import nn

from zoo_models.hf_table import ROWS
from zoo_models.registry import Entry, Inputs


def entries() -> list[Entry]:
    """One entry per model type of the table; `type:Class` selects another class than the base model."""
    return [
        Entry(f"hf/{item}", family, partial(build, item, recipe))
        for family, recipe, items in ROWS
        for item in items.split()
    ]


def build(item: str, recipe: str) -> tuple[nn.Module, Inputs]:
    """A small model of type `item` with the inputs that `recipe` lists."""
    from zoo_models import hf_inputs

    config, model = small_model(item)
    return model, hf_inputs.make(recipe, config)


def small_model(item: str) -> tuple[Any, nn.Module]:
    """The small configuration of `item` and its model with fresh weights."""
    from transformers import CONFIG_MAPPING
    from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

    from zoo_models.hf_exceptions import EXCEPTIONS
    from zoo_models.shrink import merged, shrink

    kind, _, class_name = item.partition(":")
    config_class = CONFIG_MAPPING[kind]
    config = config_class(**merged(shrink(config_class()), EXCEPTIONS.get(kind, {})))
    default = MODEL_MAPPING_NAMES.get(kind, "")
    name = class_name or (default if isinstance(default, str) else default[0])
    package = importlib.import_module(config_class.__module__.rpartition(".")[0])
    return config, getattr(package, name)(config).eval()
