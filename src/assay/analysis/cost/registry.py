"""Which formula counts which operation. One entry an operation; a duplicate is refused."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from msgspec import Struct

from assay.analysis.cost.bytes import TrafficRule, streamed
from assay.analysis.cost.work import Work
from assay.document.rows import OpKind

WorkRule = Callable[[OpKind], Work]

_CUSTOM_OP = re.compile(r"<CustomOpDef\((?P<target>.+)\)>")


class Formula(Struct, frozen=True):
    """How one operation is counted."""

    target: str
    """`aten::conv2d`, or `aten::add.Tensor` for one overload alone."""
    category: str
    work: WorkRule
    traffic: TrafficRule = streamed


_FORMULAS: dict[str, Formula] = {}


def register(
    *names: str, category: str, traffic: TrafficRule = streamed, namespace: str = "aten", override: bool = False
) -> Callable[[WorkRule], WorkRule]:
    """A decorator that enters a formula for all the names: `@register("mm bmm quantized::matmul", category=MATMUL)`.

    A text may hold several names; one without a namespace is in `namespace`.
    """

    def enter(work: WorkRule) -> WorkRule:
        for name in " ".join(names).split():
            target = name if "::" in name else f"{namespace}::{name}"
            if target in _FORMULAS and not override:
                raise ValueError(f"{target} has a formula already: pass override=True to replace it")
            _FORMULAS[target] = Formula(target, category, work, traffic)
        return work

    return enter


def register_table(table: Mapping[int, str], rule: Callable[[int], WorkRule], *, category: str) -> None:
    """Enter names by their operations an element: `register_table({4: "sigmoid"}, per_element, category=...)`."""
    for operations, names in table.items():
        register(names, category=category)(rule(operations))


def target_key(target: object) -> str:
    """The registry's name of an operation: `target_key("mylib.op") == "mylib::op"`."""
    text = str(target).strip()
    matched = _CUSTOM_OP.fullmatch(text)
    text = matched["target"] if matched else text
    namespace, _, name = text.partition("::" if "::" in text else ".")
    if not namespace or not name:
        raise ValueError(f"{text!r} names no operation: write it as 'mylib::op'")
    return f"{namespace}::{name}"


def formula_of(target: str) -> Formula | None:
    """The formula for a dispatcher name such as `aten.add_.Tensor`, or None."""
    return next((_FORMULAS[key] for key in _keys(target) if key in _FORMULAS), None)


def formulas() -> Mapping[str, Formula]:
    """Everything registered, by target."""
    return MappingProxyType(_FORMULAS)


def _keys(target: str) -> Iterable[str]:
    """Names to look under, most specific first.

    An in-place or `_foreach_` variant does the arithmetic of the operation it is named after.
    """
    exact = target_key(target)
    yield exact
    packet = exact.partition(".")[0]
    yield packet
    base = packet[:-1] if packet.endswith("_") and not packet.endswith("__") else packet
    yield base
    yield base.replace("::_foreach_", "::")
