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
    *targets: str, category: str, traffic: TrafficRule = streamed, override: bool = False
) -> Callable[[WorkRule], WorkRule]:
    """A decorator that enters a formula for the targets: `@register("aten::mm", category=MATMUL)`."""

    def enter(work: WorkRule) -> WorkRule:
        for target in targets:
            if target in _FORMULAS and not override:
                raise ValueError(f"{target} has a formula already: pass override=True to replace it")
            _FORMULAS[target] = Formula(target, category, work, traffic)
        return work

    return enter


def register_all(
    names: str,
    work: WorkRule,
    *,
    category: str,
    traffic: TrafficRule = streamed,
    namespace: str = "aten",
) -> None:
    """Enter one formula for many names of a namespace: `register_all("exp log", ..., category=...)`."""
    register(*qualified(names, namespace), category=category, traffic=traffic)(work)


def qualified(names: str, namespace: str = "aten") -> list[str]:
    """Targets of a list of names: `qualified("mm bmm") == ["aten::mm", "aten::bmm"]`."""
    return [f"{namespace}::{name}" for name in names.split()]


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
