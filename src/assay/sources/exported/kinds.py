"""Steps of an exported graph as operations and their kinds, equal kinds told once."""

from __future__ import annotations

import msgspec

from assay.document.op_names import public_name
from assay.document.rows import Op, Operand, OpKind
from assay.sources.exported.graph import Step, Value


class Kinds:
    """Numbers kinds as they appear."""

    def __init__(self) -> None:
        self.rows: list[OpKind] = []
        self._index: dict[bytes, int] = {}

    def op(self, step: Step, values: list[Value], call: int) -> Op:
        """One execution of the step's kind in `call`."""
        kind = _kind(step, values)
        key = msgspec.json.encode(kind)
        index = self._index.setdefault(key, len(self.rows))
        if index == len(self.rows):
            self.rows.append(kind)
        return Op(index, call)


def _kind(step: Step, values: list[Value]) -> OpKind:
    namespace, _, rest = step.target.partition(".")
    base, _, overload = rest.partition(".")
    written = _written(base, overload, [label for label, _ in step.tensors])
    first: dict[int, int] = {}
    inputs = []
    for position, (label, value) in enumerate(step.tensors):
        earlier = first.setdefault(value, position)
        alias = earlier if earlier != position else None
        inputs.append(Operand(label, values[value].type, values[value].role, alias, label in written))
    places = [position for position, item in enumerate(inputs) if item.written]
    outputs = tuple(
        Operand(f"output[{index}]" if index else "output", values[value].type, alias=_at(places, index))
        for index, value in enumerate(step.outputs)
    )
    return OpKind(public_name(namespace, base), step.target, step.attributes, tuple(inputs), outputs)


def _written(base: str, overload: str, labels: list[str]) -> set[str]:
    """The operands written into, by the naming rules of torch: `relu_` writes its first, `add.out` its `out`."""
    if base.endswith("_") and not base.endswith("__"):
        return set(labels[:1])
    return {label for label in labels if label.startswith("out")} if overload.endswith("out") else set()


def _at(places: list[int], index: int) -> int | None:
    return places[index] if index < len(places) else None
