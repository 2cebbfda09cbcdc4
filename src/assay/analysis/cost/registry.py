"""The registry of cost formulas: one per op; registering a second one for the same op is an error."""

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
    """How the cost of one op is counted."""

    target: str
    """`aten::conv2d`, or `aten::add.Tensor` for a single overload."""
    category: str
    work: WorkRule
    traffic: TrafficRule = streamed


_FORMULAS: dict[str, Formula] = {}


def register(
    *names: str, category: str, traffic: TrafficRule = streamed, namespace: str = "aten", override: bool = False
) -> Callable[[WorkRule], WorkRule]:
    """A decorator that registers a formula for ops: `@register("mm bmm quantized::matmul", category=MATMUL)`.

    A string may contain several names; a name without a namespace is in `namespace`.
    """

    def add(work: WorkRule) -> WorkRule:
        for name in " ".join(names).split():
            target = name if "::" in name else f"{namespace}::{name}"
            if target in _FORMULAS and not override:
                raise ValueError(f"{target} already has a formula: pass override=True to replace it")
            _FORMULAS[target] = Formula(target, category, work, traffic)
        return work

    return add


def register_table(table: Mapping[int, str], rule: Callable[[int], WorkRule], *, category: str) -> None:
    """Register names by their ops per element: `register_table({4: "sigmoid"}, per_element, category=...)`."""
    for ops, names in table.items():
        register(names, category=category)(rule(ops))


def target_key(target: object) -> str:
    """The name of an op in the registry: `target_key("mylib.op") == "mylib::op"`."""
    text = str(target).strip()
    matched = _CUSTOM_OP.fullmatch(text)
    text = matched["target"] if matched else text
    namespace, _, name = text.partition("::" if "::" in text else ".")
    if not namespace or not name:
        raise ValueError(f"invalid op name {text!r}: expected a namespace and a name, such as 'mylib::op'")
    return f"{namespace}::{name}"


def formula_of(target: str) -> Formula | None:
    """The formula for a dispatcher name such as `aten.add_.Tensor`; None if there is none."""
    return next((_FORMULAS[key] for key in _keys(target) if key in _FORMULAS), None)


def formulas() -> Mapping[str, Formula]:
    """All registered formulas by target."""
    return MappingProxyType(_FORMULAS)


def _keys(target: str) -> Iterable[str]:
    """Registry names to look up for an op, most specific first.

    An in-place or `_foreach_` variant does the same arithmetic as the op it is named after.
    """
    exact = target_key(target)
    yield exact
    packet = exact.partition(".")[0]
    yield packet
    base = packet[:-1] if packet.endswith("_") and not packet.endswith("__") else packet
    yield base
    yield base.replace("::_foreach_", "::")
