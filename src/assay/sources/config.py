"""A model that transformers builds from a config: no weights, no network, no foreign code unless trusted."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from assay.errors import ReadError, TrustError
from assay.messages import brief, error_line
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
"""The automatic classes tried for a config that names no architecture, the plainest first."""


def build(path: str, *, trust: bool, weights: bool = False) -> Model:
    """The model and its config, from a folder with config.json or that file itself.

    Without `weights` the module is on the meta device; with them it is loaded from the folder, on the CPU.
    """
    file = Path(path, "config.json") if os.path.isdir(path) else Path(path)
    fields = _fields(file)
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
            f"{brief(file)} is not a config that transformers {transformers.__version__} knows "
            f"(model_type {brief(fields.get('model_type'))!r}, architectures {brief(architectures)})"
        )
    with guarded(f"transformers, building {brief(path)},"), torch.device("cpu" if weights else "meta"):
        # The class's own reader knows how transformers writes infinities.
        config = config_class.from_dict(config_class._dict_from_json_file(str(file)))
        kind = built_in[0] if built_in else _automatic_class(transformers, config)
        if weights:
            model = kind.from_pretrained(str(file.parent), config=config, local_files_only=True)
        else:
            model = kind._from_config(config) if built_in else kind.from_config(config)
    return Model(model.eval(), config)


def _fields(file: Path) -> Mapping[str, Any]:
    """The config's content."""
    try:
        fields = json.loads(file.read_bytes())
    except OSError as error:
        raise ReadError(f"cannot read {brief(file)}: {error.strerror or error_line(error)}") from error
    except (ValueError, RecursionError) as error:
        raise ReadError(f"{brief(file)} is not JSON: {brief(error)}") from error
    if not isinstance(fields, dict) or not fields.keys() & {"model_type", "architectures", "auto_map"}:
        raise ReadError(f"{brief(file)} is neither a transformers config nor an Assay document")
    for name, kinds in (("architectures", (list, str)), ("auto_map", (dict,))):
        if fields.get(name) and not isinstance(fields[name], kinds):
            raise ReadError(f"{brief(file)} is damaged: its {name} cannot be {brief(fields[name])!r}")
    return fields


def _built_in(transformers: Any, name: str) -> Any:
    """The model class called `name` in transformers itself, or None."""
    found = getattr(transformers, name, None)
    return found if isinstance(found, type) and issubclass(found, transformers.PreTrainedModel) else None


def _config_class(transformers: Any, model_type: Any, built_in: list[Any]) -> Any:
    known = transformers.CONFIG_MAPPING
    if isinstance(model_type, str) and model_type in known:
        return known[model_type]
    return built_in[0].config_class if built_in else None


def _automatic_class(transformers: Any, config: Any) -> Any:
    """The first automatic class that has a model for `config`."""
    for name in _AUTO:
        automatic = getattr(transformers, name, None)
        if automatic is not None and type(config) in automatic._model_mapping:
            return automatic
    raise ValueError(f"no automatic model class takes a {type(config).__name__}")


def _remote(file: Path, fields: Mapping[str, Any], *, trust: bool, weights: bool) -> Model:
    """The model whose code lies beside its config."""
    code = {name: str(where) for name, where in fields["auto_map"].items()}
    if not trust:
        raise TrustError(
            f"{brief(file)} brings code of its own ({brief(', '.join(code.values()))}): "
            "pass --trust (trust=True) to run it"
        )
    elsewhere = [where for where in code.values() if "--" in where]
    makers = [name for name in code if name.startswith("AutoModel")]
    if elsewhere or not makers:
        reason = f"has its code in another place ({brief(elsewhere[0])})" if elsewhere else "names no model class"
        raise ReadError(f"{brief(file)} {reason}: write a function that builds it and give file.py::function")
    wanted = fields.get("architectures") or ()
    maker = next((name for name in makers if code[name].rpartition(".")[2] in wanted), makers[0])
    torch, transformers = need("torch"), need("transformers")
    with guarded(f"the code beside {brief(file)}"), torch.device("cpu" if weights else "meta"):
        folder, kind = str(file.parent), getattr(transformers, maker)
        # local_files_only: what the folder lacks is an error, never a download.
        here = {"trust_remote_code": True, "local_files_only": True}
        config = transformers.AutoConfig.from_pretrained(folder, **here)
        if weights:
            model = kind.from_pretrained(folder, config=config, **here)
        else:
            model = kind.from_config(config, trust_remote_code=True)
    return Model(model.eval(), config)
