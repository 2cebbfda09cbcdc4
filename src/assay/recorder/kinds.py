"""Building the `OpKind` of a dispatched op: attributes by schema name, operands, aliases.

This is the slow path: it runs once per kind of op, not once per execution.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

import torch

from assay.document.op_names import public_name
from assay.document.rows import Operand, OpKind
from assay.recorder import config, quantized
from assay.recorder.inventory import tensor_type


def target_of(func: Any) -> str:
    """The dispatcher's name: `aten.conv2d.default`; higher-order operators are `higher_order.cond`."""
    if isinstance(func, torch._ops.OpOverload):
        return str(func)
    return f"higher_order.{func.name()}"


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """The tensors in an argument or result, in order, including those in lists, tuples and dictionaries."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors_in(item)


def build(
    func: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    roles: Sequence[str],
    aliases: Sequence[int | None],
    result: Any,
    result_aliases: Sequence[int | None],
    nominal_device: str | None = None,
) -> OpKind:
    """The kind of an executed op.

    `roles` and `aliases` are those of the input tensors, `result_aliases` those of the outputs, each in order.
    An alias is the index of the input with the same storage. `nominal_device` replaces `meta` in attributes.
    """
    target = target_of(func)
    inputs: list[Operand] = []
    attributes: dict[str, Any] = {}
    for name, value, written, takes_tensor in _all_arguments(func, args, kwargs):
        operands = list(_operands(name, value))
        for label, tensor in operands:
            position = len(inputs)
            inputs.append(Operand(label, tensor_type(tensor), roles[position], aliases[position], written))
        if not operands and not (takes_tensor and value is None):
            attributes[name] = _attribute(value, nominal_device)
    outputs = tuple(
        Operand(f"output[{index}]" if index else "output", tensor_type(tensor), "activation", result_aliases[index])
        for index, tensor in enumerate(tensors_in(result))
    )
    namespace, base = target.split(".")[:2]
    return OpKind(
        name=public_name(namespace, base),
        target=target,
        attributes=attributes,
        inputs=tuple(inputs),
        outputs=outputs,
        facts=_facts(base, args),
    )


def _all_arguments(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[tuple[str, Any, bool, bool]]:
    """Name, value, whether it is written and whether it takes a tensor, for every argument."""
    if not isinstance(func, torch._ops.OpOverload):
        names = _HIGHER_ORDER_NAMES.get(func.name(), ())
        for position, value in enumerate(args):
            yield names[position] if position < len(names) else f"arg{position}", value, False, False
        for name, value in kwargs.items():
            yield name, value, False, False
        return
    for position, argument in enumerate(_arguments(func)):
        if position < len(args):
            value = args[position]
        elif argument.name in kwargs:
            value = kwargs[argument.name]
        elif argument.has_default:
            value = argument.default
        else:
            continue
        yield argument.name, value, argument.written, argument.takes_tensor


class _Argument(NamedTuple):
    name: str
    has_default: bool
    default: Any
    written: bool
    takes_tensor: bool


@cache
def _arguments(func: Any) -> list[_Argument]:
    """The arguments of an op's schema, cached because every access to the schema calls into C++."""
    return [
        _Argument(
            name=argument.name,
            has_default=argument.has_default_value(),
            default=argument.default_value,
            written=argument.alias_info is not None and argument.alias_info.is_write,
            takes_tensor="Tensor" in str(argument.type),
        )
        for argument in func._schema.arguments
    ]


_HIGHER_ORDER_NAMES = {
    "flex_attention": ("query", "key", "value", "score_mod", "block_mask", "scale", "kernel_options"),
    "flex_attention_backward": ("query", "key", "value", "out", "logsumexp", "grad_out", "grad_logsumexp"),
    "cond": ("pred", "true_fn", "false_fn", "operands"),
    "while_loop": ("cond_fn", "body_fn", "carried_inputs", "additional_inputs"),
    "scan": ("combine_fn", "init", "xs", "additional_inputs"),
    "associative_scan": ("combine_fn", "xs", "additional_inputs"),
    "map_impl": ("f", "xs", "pos_args"),
}


def _operands(name: str, value: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors in an argument with their labels: `name`, `name[0]`, `name.key`."""
    if isinstance(value, torch.Tensor):
        yield name, value
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from _operands(f"{name}[{index}]", item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _operands(f"{name}.{key}", item)


def _attribute(value: Any, nominal_device: str | None) -> Any:
    if nominal_device and isinstance(value, torch.device) and value.type == "meta":
        return nominal_device
    return config.plain_value(value)


def _facts(base: str, args: tuple[Any, ...]) -> dict[str, int]:
    """The sizes of a packed quantized weight, which determine the op's cost; empty for all other ops."""
    packed = [value for value in args if isinstance(value, torch.ScriptObject)]
    stem = base
    for ending in ("_relu", "_dynamic", "_relu", "_add"):
        stem = stem.removesuffix(ending)
    if not packed or stem not in quantized.PACKED:
        return {}
    weight = quantized.unpack(stem, packed[0])[0]
    shape = [int(size) for size in weight.shape]
    return {
        "weight_numel": weight.numel(),
        "weight_bytes": weight.numel() * weight.element_size(),
        "out_channels": shape[0],
        "in_channels_per_group": shape[1],
        "kernel_numel": math.prod(shape[2:]),
    }
