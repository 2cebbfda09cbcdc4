"""The inputs a model is called with: given, returned by a function, described by a literal, or inferred."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from assay import units
from assay.document.document import EXAMPLE, FUNCTION, GIVEN, INFERRED, LITERAL
from assay.errors import InputsError
from assay.messages import one_line, type_name
from assay.sources import literals
from assay.sources.holders import outermost_modules
from assay.sources.inference.infer import infer, name_of
from assay.sources.named import attribute
from assay.sources.needs import is_module, is_tensor, need
from assay.sources.opened import Model, Opened
from assay.sources.placing import model_device, place, place_loaded
from assay.sources.specifier import file_function
from assay.sources.tensors import literal_text, make
from assay.sources.usercode import call

AFFORDABLE_FLOPS = 50 * 10**12
"""The largest pass on inferred inputs that runs with data on a CPU: minutes on a small machine."""
_ACCEPTED = "a tensor, a tuple or list of arguments, a dict of keyword arguments, or (args, kwargs)"


@dataclass(frozen=True)
class Inputs:
    """The arguments of one call of the model, and a line that describes where they came from."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    how: str
    """`given`, `my_model.py:get_inputs`, `literal 1x3x224x224:float32` or `inferred: ... from ...`."""
    kind: str = GIVEN
    """`given`, `function`, `literal`, `inferred` or `example` (stored in an exported program)."""
    flops: int = 0
    """Operations of a pass on inferred inputs on a CPU, if they were counted; else 0."""
    placeholders: int = 0
    """Leading tokens that stand for images or sound: their number is fixed when the text is resized."""


def find_inputs(inputs: Any, opened: Opened, *, device: str | None = None, dtype: str | None = None) -> Inputs:
    """The inputs for `opened`; if `inputs` is None, its stored example inputs, else inferred ones."""
    model = opened.model
    _reject_holder(model.holder)
    _reject_uncallable(model.module)
    if opened.origin.kind == "scripted" and not opened.interpreted:
        place_loaded(model.module, device, dtype)
    if isinstance(inputs, Inputs):
        return inputs
    target_device = "meta" if device is None and model.on_meta else device
    if inputs is None and model.inputs is not None:
        return _placed(*model.inputs, model.inputs_from, EXAMPLE, target_device, dtype)
    if inputs is None:
        return _inferred(model, target_device, dtype)
    if not isinstance(inputs, str):
        label = f"{getattr(inputs, '__qualname__', type_name(inputs))}()"
        args, kwargs = _split(_call_if_function(inputs, label), "the inputs")
        return _placed(args, kwargs, "given", GIVEN, target_device, dtype)
    named = file_function(inputs)
    if named is None:
        specs = literals.parse(inputs)
        values = make(specs, target_device or model_device(model.module))
        return _placed(*values, f"literal {literal_text(specs)}", LITERAL, target_device, dtype)
    with attribute(named) as value:
        value = _call_if_function(value, named.label)
    args, kwargs = _split(value, f"the return value of {named.label}")
    return _placed(args, kwargs, named.location, FUNCTION, target_device, dtype)


def check_affordable(inputs: Inputs) -> None:
    """Raise if a pass with data on inferred inputs would take longer than anyone expects."""
    if inputs.flops > AFFORDABLE_FLOPS:
        raise InputsError(
            f"a pass on the inferred inputs takes {units.count(inputs.flops, 'FLOP')}, more than the limit of "
            f"{units.count(AFFORDABLE_FLOPS, 'FLOP')}: give smaller ones with --inputs, or use --meta ({inputs.how})"
        )


def _reject_holder(holder: object) -> None:
    """Raise if the opened object contains several models instead of being one."""
    if holder is None:
        return
    names = one_line(", ".join(path for path, _ in outermost_modules(holder)))
    raise InputsError(
        f"{type(holder).__name__} (models: {names}) cannot be run as one model: give one of them, for example a "
        "function that returns it"
    )


def _reject_uncallable(module: Any) -> None:
    """Raise if the module has no `forward`."""
    forward = getattr(module, "forward", None)
    if forward is None or getattr(forward, "__func__", None) is need("torch").nn.Module.forward:
        raise InputsError(f"{name_of(module)} has no forward method: give one of its submodules instead")


def _inferred(model: Model, device: str | None, dtype: str | None) -> Inputs:
    module = model.module if model.interpreted_form is None else model.interpreted_form()
    guess = infer(module, model.config, model.processor)
    args, kwargs = guess.values or make(guess.specs, device or model_device(model.module))
    args, kwargs = _split((args, kwargs), "the inferred inputs")
    how = f"inferred: {guess.text} from {one_line(guess.source)}"
    how += f", because {model.inputs_from}" if model.inputs_from else ""
    placed = _placed(args, kwargs, how, INFERRED, device, dtype)
    on_cpu = (device or model_device(model.module) or "cpu").startswith("cpu")
    return replace(placed, flops=guess.flops if on_cpu else 0, placeholders=guess.placeholders)


def _placed(args: Any, kwargs: Any, how: str, kind: str, device: str | None, dtype: str | None) -> Inputs:
    return Inputs(place(tuple(args), device, dtype), place(dict(kwargs), device, dtype), how, kind)


def _call_if_function(value: Any, label: str) -> Any:
    """The return value of `value` if it is a function, else `value` itself."""
    return call(value, label) if callable(value) and not is_tensor(value) and not is_module(value) else value


def _split(value: Any, what: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The positional and keyword arguments that `value` stands for; `what` names it in the error."""
    if is_tensor(value):
        return (value,), {}
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], (tuple, list)) and _has_names(value[1]):
        return tuple(value[0]), dict(value[1])
    if isinstance(value, (tuple, list)):
        return tuple(value), {}
    if _has_names(value):
        return (), dict(value)
    raise InputsError(f"cannot use {what} ({type_name(value)}) as arguments: expected {_ACCEPTED}")


def _has_names(value: Any) -> bool:
    """Whether `value` is a mapping whose keys can be keyword arguments."""
    return isinstance(value, Mapping) and all(isinstance(name, str) for name in value)
