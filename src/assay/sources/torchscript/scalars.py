"""Operators on plain values: numbers, strings, lists and dictionaries. None of them touches a tensor's values."""

from __future__ import annotations

import cmath
import math
import operator
import re
from collections.abc import Callable, Iterable
from typing import Any

import torch

from assay.sources.torchscript.refusal import MAX_ITEMS, checked_integer, checked_text, exceed, leaves, refuse

Operator = Callable[..., Any]

_SPECIFIER = re.compile("%(.?)", re.DOTALL)
_NOT_GIVEN = object()
_ANY_OTHER_DEVICE = "privateuseone"


def _number(function: Operator) -> Operator:
    """`function` with its integer result checked."""

    def apply(*args: Any) -> Any:
        result = function(*args)
        return checked_integer(result) if type(result) is int else result

    return apply


def _add(left: Any, right: Any, alpha: Any = 1) -> Any:
    if isinstance(left, list) and isinstance(right, list):
        return _checked([*left, *right])
    if isinstance(left, str) and isinstance(right, str):
        return checked_text(left + right)
    return left + right * alpha


def _multiply(left: Any, right: Any) -> Any:
    for items, times in ((left, right), (right, left)):
        if isinstance(items, (list, str)):
            if len(items) * max(times, 0) > MAX_ITEMS:
                exceed(f"a list or string of more than {MAX_ITEMS:,} items")
            return _checked(items * times)
    return left * right


def _power(base: Any, exponent: Any) -> Any:
    if isinstance(base, int) and isinstance(exponent, int) and exponent >= 0:
        if base.bit_length() * exponent > 128:
            exceed("an integer of more than 64 bits")
        return base**exponent
    return float(base) ** exponent if not isinstance(base, complex) else base**exponent


def _shift_left(value: int, bits: int) -> int:
    return value << bits if 0 <= bits < 64 else exceed("an integer of more than 64 bits")


def _round_to_zero(left: int, right: int) -> int:
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _checked(value: Any) -> Any:
    leaves(value)
    return value


def _contains(container: Any, item: Any) -> bool:
    if hasattr(item, "shape"):
        refuse("a search for a tensor in a list")
    if isinstance(container, list) and _ANY_OTHER_DEVICE in container:
        return False  # torch asks for the devices with fused layers: without them, each module is called
    return item in container


def _slice(items: Any, start: Any = None, end: Any = None, step: Any = 1) -> Any:
    return items[start:end:step]


def text_of(value: Any) -> str:
    """`value` as TorchScript prints it; of a tensor, only that it is one."""
    if isinstance(value, (int, float, str, bool, complex, type(None), torch.device)):
        return str(value)
    if isinstance(value, (list, tuple)):
        leaves(value)
        return f"[{_joined(', ', map(text_of, value))}]"
    return f"({type(value).__name__})"


def _joined(separator: str, texts: Iterable[str]) -> str:
    """The texts with the separator between them; stops before the result is too long."""
    parts, length = [], 0
    for text in texts:
        parts.append(text)
        length += len(text) + len(separator)
        if length > MAX_ITEMS + len(separator):
            exceed(f"a string of more than {MAX_ITEMS:,} characters")
    return separator.join(parts)


def _format(template: str, *values: Any) -> str:
    """The template with each `{}` replaced; format specifications have no meaning in TorchScript."""
    parts = template.split("{}")
    texts = [*map(text_of, values), *[""] * len(parts)]
    return _joined("", (part + text for part, text in zip(parts, [*texts[: len(parts) - 1], ""], strict=True)))


def _percent_format(template: str, *values: Any) -> str:
    """The template with each specifier replaced; TorchScript knows no widths and precisions."""
    given = iter(values[0] if len(values) == 1 and isinstance(values[0], tuple) else values)
    texts, *rest = _SPECIFIER.split(template)
    parts = [texts]
    for kind, text in zip(rest[::2], rest[1::2], strict=True):
        parts += ("%" if kind == "%" else _formatted(kind, next(given, _NOT_GIVEN)), text)
    if next(given, _NOT_GIVEN) is not _NOT_GIVEN:
        raise ValueError("more values than specifiers in a format string")
    return _joined("", parts)


def _formatted(kind: str, value: Any) -> str:
    if value is _NOT_GIVEN:
        raise ValueError("fewer values than specifiers in a format string")
    if kind == "s":
        return text_of(value)
    if kind not in "dieEfFc" or not isinstance(value, (int, float, str)) or (isinstance(value, str) and kind != "c"):
        raise ValueError(f"the specifier %{kind} of a value of type {type(value).__name__}")
    if kind == "c":
        return value if isinstance(value, str) else chr(int(value))
    return str(int(value)) if kind in "di" else format(float(value), kind)


def _append(items: list[Any], item: Any) -> list[Any]:
    if len(items) >= MAX_ITEMS:
        exceed(f"a list of more than {MAX_ITEMS:,} items")
    if isinstance(item, (list, tuple, dict)):
        leaves(item, forbidden=(items,), limit=max(MAX_ITEMS - leaves(items), 0))
    items.append(item)
    return items


def _extend(items: list[Any], more: Any) -> list[Any]:
    for item in list(more):
        _append(items, item)
    return items


def _insert(items: list[Any], index: int, item: Any) -> None:
    _append(items, item)
    items.insert(index, items.pop())


def _set_item(container: Any, key: Any, value: Any) -> Any:
    if isinstance(value, (list, tuple, dict)):
        leaves(value, forbidden=(container,), limit=max(MAX_ITEMS - leaves(container), 0))
    if isinstance(container, dict):
        _check_key(key)
        if len(container) >= MAX_ITEMS:
            exceed(f"a dictionary of more than {MAX_ITEMS:,} items")
    container[key] = value
    return container


def _check_key(key: Any) -> None:
    if not isinstance(key, (str, int, float, bool, complex)):
        refuse("a dictionary key that is not a number or string")


def _pop(container: Any, *args: Any) -> Any:
    return container.pop(*args)


def _delete(container: Any, key: Any) -> None:
    del container[key]


def _sort(items: list[Any], reverse: Any = False) -> None:
    items.sort(reverse=bool(reverse))


def _split(text: str, separator: str | None = None, most: int = -1) -> list[str]:
    return text.split(separator, most)


def _replace(text: str, old: str, new: str, most: int = -1) -> str:
    if (len(text) + 1) * (len(new) + 1) > MAX_ITEMS * 100:
        exceed("a replacement in a long string")
    return checked_text(text.replace(old, new, most))


def _dictionary(items: Any = ()) -> dict[Any, Any]:
    pairs = dict(items)
    for key in pairs:
        _check_key(key)
    return pairs


def _update(items: dict[Any, Any], more: dict[Any, Any]) -> None:
    for key, value in more.items():
        _set_item(items, key, value)


def _range_length(low: int, high: int, step: int) -> int:
    return len(range(low, high, step))


def _minimum(first: Any, *others: Any) -> Any:
    return min(first, *others) if others else min(first)


def _maximum(first: Any, *others: Any) -> Any:
    return max(first, *others) if others else max(first)


def _of_math(name: str) -> Operator:
    real, imaginary = getattr(math, name), getattr(cmath, name, None)
    return lambda *args: imaginary(*args) if imaginary and isinstance(args[0], complex) else real(*args)


def _of_text(method: Operator) -> Operator:
    return lambda text, *args: method(text, *args)


_MATH = """
sqrt exp log log2 log10 log1p expm1 sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh fmod hypot erf
erfc gamma lgamma degrees radians copysign isnan isinf isfinite modf frexp ldexp
"""
_TEXT = """
lower upper title capitalize strip lstrip rstrip startswith endswith find rfind rindex isdigit isalpha isalnum
isdecimal isnumeric isspace isupper islower istitle isidentifier isprintable swapcase splitlines partition rpartition
rsplit
"""

ALWAYS: dict[str, Operator] = {
    "__is__": operator.is_,
    "__isnot__": operator.is_not,
    "__contains__": _contains,
    "format": _format,
    "percentFormat": _percent_format,
    "append": _append,
    "_set_item": _set_item,
    "Delete": _delete,
    "warn": lambda *args, **kwargs: None,
    "_unwrap_optional": lambda value: value,
    "set_grad_enabled": lambda *args: None,
    "manual_seed": lambda *args: None,
    "is_grad_enabled": lambda: False,
    "is_autocast_enabled": lambda *args: False,
    "is_autocast_cpu_enabled": lambda: False,
    "is_scripting": lambda: True,
    "has_torch_function": lambda *args: False,
    "wait": lambda value: value,
}
"""Operators that do the same whatever they are given."""

NUMBERS: dict[str, Operator] = {
    **{name: _number(_of_math(name)) for name in _MATH.split()},
    **{name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
    "add": _number(_add),
    "sub": _number(operator.sub),
    "mul": _number(_multiply),
    "div": operator.truediv,
    "true_divide": operator.truediv,
    "floordiv": _number(operator.floordiv),
    "floor_divide": _number(operator.floordiv),
    "__round_to_zero_floordiv": _number(_round_to_zero),
    "remainder": _number(operator.mod),
    "mathremainder": math.remainder,
    "divmod": divmod,
    "pow": _number(_power),
    "neg": _number(operator.neg),
    "abs": _number(abs),
    "fabs": math.fabs,
    "floor": _number(math.floor),
    "ceil": _number(math.ceil),
    "trunc": _number(math.trunc),
    "round": lambda value: float(round(value)),
    "gcd": _number(math.gcd),
    "factorial": lambda value: math.factorial(value) if value < 21 else exceed("an integer of more than 64 bits"),
    "__and__": operator.and_,
    "__or__": operator.or_,
    "__xor__": operator.xor,
    "bitwise_and": operator.and_,
    "bitwise_or": operator.or_,
    "bitwise_xor": operator.xor,
    "bitwise_not": operator.invert,
    "__lshift__": _number(_shift_left),
    "__rshift__": operator.rshift,
    "__not__": operator.not_,
    "Int": _number(int),
    "Float": float,
    "Bool": bool,
    "Complex": complex,
    "__range_length": _range_length,
    "__derive_index": _number(lambda index, start, step: start + index * step),
    "chr": chr,
    "hex": hex,
    "oct": oct,
    "bin": bin,
    "str": text_of,
    "min": _minimum,
    "max": _maximum,
}
"""Operators on numbers, if no argument is a tensor."""

CONTAINERS: dict[str, Operator] = {
    "len": len,
    "add": _add,
    "add_": _extend,
    "mul": _multiply,
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "slice": _slice,
    "select": operator.getitem,
    "__getitem__": operator.getitem,
    "extend": _extend,
    "insert": _insert,
    "pop": _pop,
    "popitem": lambda items: items.popitem(),
    "clear": lambda items: items.clear(),
    "reverse": lambda items: items.reverse(),
    "remove": lambda items, item: items.remove(item),
    "index": lambda items, *args: items.index(*args),
    "count": lambda items, item: items.count(item),
    "sort": _sort,
    "sorted": lambda items: sorted(items),
    "copy": lambda items: items.copy(),
    "list": list,
    "keys": lambda items: list(items.keys()),
    "values": lambda items: list(items.values()),
    "items": lambda items: list(items.items()),
    "get": lambda items, *args: items.get(*args),
    "setdefault": lambda items, key, value: items[key] if key in items else _set_item(items, key, value)[key],
    "update": _update,
    "dict": _dictionary,
    "any": any,
    "all": all,
    "sum": sum,
    "min": _minimum,
    "max": _maximum,
    "Int": lambda text: checked_integer(int(checked_text(text)[:64])),
    "Float": float,
    "str": text_of,
    "ord": ord,
    "join": _joined,
    "split": _split,
    "replace": _replace,
    **{name: _of_text(getattr(str, name)) for name in _TEXT.split()},
}
"""Operators on lists, tuples, dictionaries and strings, by the type of their first argument."""
