"""Where and why a pass stopped, in words a person can act on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from assay import units
from assay.document.document import Failure
from assay.document.rows import Call, Module, TensorType
from assay.document.tree import shown
from assay.messages import error_line
from assay.recorder.calls import CallLog

_LONGEST = 500
"""Characters of the message that a document keeps."""


def place(calls: CallLog, call: int) -> str:
    """The module that a call belongs to, as people see it: `'layers.0.attn'`."""
    module = calls.module_of(call)
    return "no module" if module is None else f"'{shown(module.path)}'"


def failure(error: BaseException, calls: CallLog, failed_op: tuple[BaseException, str] | None) -> Failure:
    """What `error` says about the pass that it ended."""
    index = calls.failed_call()
    module = calls.module_of(index)
    op = failed_op[1] if failed_op is not None and _caused(error, failed_op[0]) else None
    text = error_line(error, _LONGEST)
    if module is None:
        return Failure(text, "(root)", "", op)
    misfit = _misfit(module, calls.rows()[index])
    return Failure(f"{text} [{misfit}]" if misfit else text, shown(module.path), module.class_name, op)


def _caused(error: BaseException | None, cause: BaseException) -> bool:
    while error is not None:
        if error is cause:
            return True
        error = error.__cause__ or error.__context__
    return False


_Wanted = Callable[[Mapping[str, Any], TensorType], str | None]
"""(configuration, first input) → what the layer wanted, or None where the input fits."""


def _channels(name: str) -> _Wanted:
    """Layers that want a number of channels in dimension 1, or 0 where a batch may be missing."""

    def wanted(config: Mapping[str, Any], given: TensorType) -> str | None:
        channels = config.get(name)
        return None if channels is None or channels in given.shape[:2] else f"N x {channels} x …"

    return wanted


def _features(name: str) -> _Wanted:
    """Layers that want certain last dimensions."""

    def wanted(config: Mapping[str, Any], given: TensorType) -> str | None:
        value = config.get(name)
        features = tuple(value) if isinstance(value, list) else (value,)
        fits = value is None or given.shape[-len(features) :] == features
        return None if fits else f"… x {units.shape(features)}"

    return wanted


def _indices(config: Mapping[str, Any], given: TensorType) -> str | None:
    return f"whole numbers below {config['num_embeddings']}" if "num_embeddings" in config else None


_WANTED: dict[str, _Wanted] = {
    "Linear": _features("in_features"),
    "Bilinear": _features("in1_features"),
    **dict.fromkeys(("LayerNorm", "RMSNorm"), _features("normalized_shape")),
    **dict.fromkeys(("LSTM", "GRU", "RNN"), _features("input_size")),
    "MultiheadAttention": _features("embed_dim"),
    **{f"{kind}{n}d": _channels("in_channels") for kind in ("Conv", "ConvTranspose") for n in (1, 2, 3)},
    **{f"{kind}{n}d": _channels("num_features") for kind in ("BatchNorm", "InstanceNorm") for n in (1, 2, 3)},
    "GroupNorm": _channels("num_channels"),
    "Embedding": _indices,
}


def _misfit(module: Module, call: Call) -> str:
    """What the module that failed wanted and what it was given."""
    given = ", ".join(f"{units.shape(entry.shape)} {entry.dtype}" for entry in call.inputs[:6])
    rule = _WANTED.get(module.class_name)
    wanted = rule(module.config, call.inputs[0]) if rule is not None and call.inputs else None
    name = f"{module.class_name} '{shown(module.path)}'"
    if wanted:
        return f"{name} wants {wanted}, got {given}"
    return f"{name} got {given}" if given else ""
