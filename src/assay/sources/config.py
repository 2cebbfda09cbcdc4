"""Building a model from a transformers config: no network access, and no third-party code unless trusted."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from assay.errors import ReadError, TrustError
from assay.messages import ALLOW_CODE, one_line, unreadable
from assay.sources.needs import need, usable
from assay.sources.opened import Model
from assay.sources.usercode import guarded

_AUTO = (
    "AutoModel",
    "AutoModelForCausalLM",
    "AutoModelForSeq2SeqLM",
    "AutoModelForImageTextToText",
    "AutoModelForPreTraining",
    "AutoModelForImageClassification",
)
"""The Auto classes tried for a config without `architectures`, most general first."""

_REMEDY = ": correct the config, install a transformers that supports it, or give file.py::function"
_WEIGHTS_REMEDY = ": see what differs with assay check {}, which does not load them"
_PROCESSORS = ("processor_config.json", "preprocessor_config.json", "video_preprocessor_config.json")
"""Files beside a config with the sizes of the inputs that a processor prepares."""
MAX_MODULES = 10_000
"""Limit for each number of layers or experts."""
_COUNT = re.compile(r"(layers?|blocks?|depths?|experts?)$")
_PART_MARKS = {"image_processor_type", "feature_extractor_type", "video_processor_type"}
"""Keys that mark the settings of one processor inside those of a combined one."""


def build(path: str, *, trust: bool, weights: bool = False) -> Model:
    """The model and its config, built from a directory with config.json or from the file itself.

    With `weights`, the stored weights are loaded on the CPU; otherwise the module is on the meta device.
    """
    file = Path(path, "config.json") if os.path.isdir(path) else Path(path)
    fields = _fields(file)
    _check_counts(file, fields)
    torch = need("torch")
    transformers = need("transformers")
    architectures = [name for name in fields.get("architectures") or () if isinstance(name, str)]
    with usable("transformers"):
        built_in = [model for name in architectures if (model := _built_in(transformers, name)) is not None]
        config_class = _config_class(transformers, fields.get("model_type"), built_in)
    if fields.get("auto_map") and not built_in and (architectures or config_class is None):
        return _remote(file, fields, trust=trust, weights=weights)
    if config_class is None:
        raise ReadError(
            f"{one_line(file)} is not a config that transformers {transformers.__version__} supports "
            f"(model_type {one_line(fields.get('model_type'))!r}, architectures {one_line(architectures)}): "
            "upgrade transformers, or give file.py::function"
        )
    what = f"{'loading the weights of' if weights else 'building'} {one_line(path)} with transformers"
    remedy = _WEIGHTS_REMEDY.format(one_line(path)) if weights else _REMEDY
    with guarded(what, remedy), torch.device("cpu" if weights else "meta"):
        # The config class's own reader handles the way transformers writes infinities.
        stored = config_class._dict_from_json_file(str(file))
        part_class = built_in[0].config_class if built_in else config_class
        part = stored.get(getattr(part_class, "base_config_key", ""))  # such as text_config, for a CLIPTextModel
        config = config_class.from_dict(stored) if part is None else part_class.from_dict(part)
        model_class = built_in[0] if built_in else _auto_class(transformers, config)
        if weights:
            model = model_class.from_pretrained(str(file.parent), config=config, local_files_only=True)
        else:
            model = model_class._from_config(config) if built_in else model_class.from_config(config)
    return Model(model.eval(), config, processor=_processor(file.parent))


def _check_counts(file: Path, fields: Mapping[str, Any]) -> None:
    """Raise for a number of modules that would take the memory of the machine, even without weights."""
    for name, value in fields.items():
        if isinstance(value, dict):
            _check_counts(file, value)
        for count in value if isinstance(value, list) else [value]:
            if type(count) is int and count > MAX_MODULES and _COUNT.search(name):
                raise ReadError(
                    f"{one_line(file)} is rejected: {one_line(name)} is {count:,}, the limit is {MAX_MODULES:,}"
                )


def _processor(folder: Path) -> dict[str, Any]:
    """The settings of the image and audio processors stored in `folder`; empty if there are none."""
    settings: dict[str, Any] = {}
    for name in _PROCESSORS:
        try:
            stored = json.loads((folder / name).read_bytes())
        except (OSError, ValueError, RecursionError):  # only a hint for inputs: the config alone is enough
            continue
        if isinstance(stored, dict):
            parts = [part for part in stored.values() if isinstance(part, dict) and part.keys() & _PART_MARKS]
            for part in (stored, *parts):
                settings.update(part)
    return settings


def _fields(file: Path) -> Mapping[str, Any]:
    """The content of the config file as a dictionary; raises if the file is not a transformers config."""
    try:
        fields = json.loads(file.read_bytes())
    except OSError as error:
        raise ReadError(unreadable(file, error)) from error
    except (ValueError, RecursionError) as error:
        raise ReadError(f"{one_line(file)} is not valid JSON: {one_line(error)}") from error
    if not isinstance(fields, dict) or not fields.keys() & {"model_type", "architectures", "auto_map"}:
        raise ReadError(
            f"{one_line(file)} is not a transformers config: no model_type, architectures or auto_map in it; "
            "for a model of another library, give file.py::function"
        )
    for name, types, expected in (("architectures", (list, str), "a list"), ("auto_map", (dict,), "an object")):
        if fields.get(name) and not isinstance(fields[name], types):
            raise ReadError(f"{one_line(file)} is damaged: {name} must be {expected}, got {one_line(fields[name])!r}")
    return fields


def _built_in(transformers: Any, name: str) -> Any:
    """The model class `name` that transformers itself defines, or None."""
    value = getattr(transformers, name, None)
    return value if isinstance(value, type) and issubclass(value, transformers.PreTrainedModel) else None


def _config_class(transformers: Any, model_type: Any, built_in: list[Any]) -> Any:
    """The config class for `model_type`, else that of the first built-in architecture, else None."""
    config_classes = transformers.CONFIG_MAPPING
    if isinstance(model_type, str) and model_type in config_classes:
        return config_classes[model_type]
    return built_in[0].config_class if built_in else None


def _auto_class(transformers: Any, config: Any) -> Any:
    """The first Auto class that has a model for `config`."""
    for name in _AUTO:
        auto_class = getattr(transformers, name, None)
        if auto_class is not None and type(config) in auto_class._model_mapping:
            return auto_class
    raise ValueError(f"no Auto class of transformers has a model for {type(config).__name__}")


def _remote(file: Path, fields: Mapping[str, Any], *, trust: bool, weights: bool) -> Model:
    """The model whose Python code is stored next to its config."""
    code = {name: str(reference) for name, reference in fields["auto_map"].items()}
    if not trust:
        raise TrustError(
            f"{one_line(file)} needs the Python code in its directory ({one_line(', '.join(code.values()))}): "
            f"{ALLOW_CODE}"
        )
    other_repositories = [reference for reference in code.values() if "--" in reference]
    auto_classes = [name for name in code if name.startswith("AutoModel")]
    if other_repositories or not auto_classes:
        reason = (
            f"keeps its code in another repository ({one_line(other_repositories[0])})"
            if other_repositories
            else "has no AutoModel class in auto_map"
        )
        raise ReadError(f"{one_line(file)} {reason}: write a function that builds it and give file.py::function")
    architectures = fields.get("architectures") or ()
    matches = (name for name in auto_classes if code[name].rpartition(".")[2] in architectures)
    auto_class = next(matches, auto_classes[0])
    torch, transformers = need("torch"), need("transformers")
    with guarded(f"the code next to {one_line(file)}"), torch.device("cpu" if weights else "meta"):
        folder, model_class = str(file.parent), getattr(transformers, auto_class)
        # local_files_only: a file missing from the directory is an error, never a download.
        options = {"trust_remote_code": True, "local_files_only": True}
        config = transformers.AutoConfig.from_pretrained(folder, **options)
        if weights:
            model = model_class.from_pretrained(folder, config=config, **options)
        else:
            model = model_class.from_config(config, trust_remote_code=True)
    return Model(model.eval(), config, processor=_processor(file.parent))
