"""Explaining a failed pass: where it stopped, why, and what the failing module expected."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from assay import units
from assay.document.document import Failure
from assay.document.rows import Call, Module, TensorType
from assay.document.tree import path_text
from assay.messages import error_line, one_line
from assay.recorder.calls import CallLog
from assay.recorder.dispatch import FailedOp
from assay.sources.torchscript.refusal import Refusal

_LONGEST = 500
"""Longest error message in a document, in characters."""


def module_label(calls: CallLog, call: int) -> str:
    """The quoted path of a call's module, for messages: `'layers.0.attn'`."""
    module = calls.module_of(call)
    return "no module" if module is None else f"'{path_text(module.path)}'"


def failure(error: BaseException, calls: CallLog, failed_op: FailedOp | None) -> Failure:
    """The failure of a pass that ended with `error`."""
    index = calls.failed_call()
    module = calls.module_of(index)
    if failed_op is not None and module is not None and module.scripted and failed_op.call == index:
        error = failed_op.error  # TorchScript catches no error, and replaces its message by a traceback
    op = failed_op.target if failed_op is not None and _caused(error, failed_op.error) else None
    if isinstance(error, Refusal):
        text, mismatch = f"{one_line(error, _LONGEST)}{error.remedy}", ""
    else:
        text = error_line(error, _LONGEST)
        mismatch = "" if module is None else _mismatch(module, calls.rows()[index])
    if module is None:
        return Failure(text, "(root)", "", op)
    return Failure(f"{text} [{mismatch}]" if mismatch else text, path_text(module.path), module.class_name, op)


def _caused(error: BaseException | None, cause: BaseException) -> bool:
    """Whether `cause` is `error` or one of the errors it was raised from."""
    while error is not None:
        if error is cause:
            return True
        error = error.__cause__ or error.__context__
    return False


_Expectation = Callable[[Mapping[str, Any], TensorType], str | None]
"""(configuration, first input) → the input that the layer expects, or None if the input is valid."""


def _channels(name: str) -> _Expectation:
    """For layers that expect a number of channels in dimension 1, or in dimension 0 without a batch."""

    def expected(config: Mapping[str, Any], first_input: TensorType) -> str | None:
        channels = config.get(name)
        return None if channels is None or channels in first_input.shape[:2] else f"N x {channels} x …"

    return expected


def _features(name: str) -> _Expectation:
    """For layers that expect certain last dimensions."""

    def expected(config: Mapping[str, Any], first_input: TensorType) -> str | None:
        value = config.get(name)
        features = tuple(value) if isinstance(value, list) else (value,)
        fits = value is None or first_input.shape[-len(features) :] == features
        return None if fits else f"… x {units.shape(features)}"

    return expected


def _indices(config: Mapping[str, Any], first_input: TensorType) -> str | None:
    return f"integers below {config['num_embeddings']}" if "num_embeddings" in config else None


_EXPECTATIONS: dict[str, _Expectation] = {
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


def _mismatch(module: Module, call: Call) -> str:
    """The input that the failing module expected and the inputs it got, as text."""
    inputs = ", ".join(f"{units.shape(entry.shape)} {entry.dtype}" for entry in call.inputs[:6])
    rule = _EXPECTATIONS.get(module.class_name)
    expected = rule(module.config, call.inputs[0]) if rule is not None and call.inputs else None
    name = f"{module.class_name} '{path_text(module.path)}'"
    if expected:
        return f"{name} expected {expected}, got {inputs}"
    return f"{name} got {inputs}" if inputs else ""
