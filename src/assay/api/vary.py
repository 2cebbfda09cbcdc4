"""How a model's costs grow with its inputs: captures at a few sizes, a law for each cost, and how far it holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from assay.analysis.laws import reach
from assay.analysis.laws.law import Laws
from assay.analysis.laws.polynomials import Sizes
from assay.analysis.laws.reach import Line
from assay.analysis.laws.samples import Sample, sample
from assay.analysis.laws.searching import along, search
from assay.api.observe import observe
from assay.api.open import open
from assay.document.document import Document
from assay.errors import ReadError, UsageError
from assay.sources.inputs import Inputs, find_inputs
from assay.sources.open import Opened
from assay.sources.placing import place
from assay.sources.resizing import Axis, axes, position_limit, resized

_MASK_ELEMENTS = 1 << 24
"""Masks are computed with their values, batch · length² of them: no more than this."""


class _Captures:
    """Samples at any sizes, each made once."""

    def __init__(self, opened: Opened, inputs: Inputs, found: Mapping[str, Axis], options: Mapping[str, Any]) -> None:
        self.variables = tuple(found)
        self.made: dict[Sizes, Sample | str] = {}
        self.modes: dict[str, None] = {}
        self._opened, self._inputs, self._axes, self._options = opened, inputs, found, options

    def __call__(self, sizes: Sizes) -> Sample | str:
        """The sample at these sizes, or why the model stopped there."""
        if sizes not in self.made:
            inputs = resized(self._inputs, base=self._axes, **self.named(sizes))
            self.made[sizes] = self._kept(sizes, _watched(self._opened, inputs, self._options))
        return self.made[sizes]

    def samples(self) -> list[Sample]:
        """Everything that ran."""
        return [made for made in self.made.values() if isinstance(made, Sample)]

    def named(self, sizes: Sizes) -> dict[str, int]:
        """The sizes by their variables."""
        return dict(zip(self.variables, sizes, strict=True))

    def text(self, sizes: Sizes) -> str:
        """The sizes in words."""
        return ", ".join(f"{name}={size}" for name, size in self.named(sizes).items())

    def _kept(self, sizes: Sizes, document: Document) -> Sample | str:
        failure = document.run.failure
        if failure is not None:
            # Where several passes were tried, the first one's error is about the sizes.
            history = (line for line in document.run.assumptions if "pass stopped" in line)
            return next(history, f"{failure.error} (in '{failure.module}')")
        self.modes[document.run.mode] = None
        return sample(sizes, document)


def vary(
    model: Any,
    inputs: Any = None,
    *,
    over: Sequence[str] = ("batch", "seq"),
    points: Mapping[str, Sequence[int]] | None = None,
    mode: str = "auto",
    model_args: Mapping[str, Any] | None = None,
    trust: bool = False,
    **options: Any,
) -> Laws:
    """The laws of a model's costs in the sizes named by `over`, from captures without data where that works.

    `points` gives the sizes to use for a variable instead, the last of them to verify with. Other options are
    those of `capture`.
    """
    opened = model if isinstance(model, Opened) else open(model, model_args=model_args, trust=trust)
    if opened.module is None:
        raise ReadError(f"{opened.origin.location} holds no model that could run: laws need several captures")
    base, mode = _settled(opened, inputs, mode, options)
    found = axes(base, over)
    captures = _Captures(opened, base, found, {**options, "mode": mode})
    limit = position_limit(opened)
    limits = {name: limit for name in found if name == "seq" and limit is not None}
    lines = _lines(captures, found, points or {}, limits, far=mode != "real")
    laws, refused = search(captures, lines, limits, captures.variables)
    return Laws(
        model=type(opened.module).__name__,
        variables=captures.variables,
        laws=laws,
        refused=refused,
        base={name: axis.size for name, axis in found.items()},
        points=tuple(captures.named(each.sizes) for each in captures.samples()),
        follows={name: axis.text for name, axis in found.items()},
        limits=limits,
        mode=", ".join(captures.modes),
        inputs_from=base.how,
        notes=_notes(captures),
    )


def _watched(opened: Opened, inputs: Inputs, options: Mapping[str, Any]) -> Document:
    return observe(opened, (inputs.args, inputs.kwargs), **options)


def _settled(opened: Opened, inputs: Any, mode: str, options: Mapping[str, Any]) -> tuple[Inputs, str]:
    """The inputs as they come and the mode to run in: without data where the model allows that."""
    base = find_inputs(inputs, opened, device=options.get("device"), dtype=options.get("dtype"))
    if mode == "auto":
        tried = _watched(opened, base, {**options, "mode": "meta"})
        mode = "meta" if tried.run.mode in ("meta", "fake") and tried.run.failure is None else "real"
    if mode == "meta":
        base = replace(base, args=place(base.args, "meta", None), kwargs=place(base.kwargs, "meta", None))
    return base, mode


def _lines(
    captures: _Captures,
    found: Mapping[str, Axis],
    points: Mapping[str, Sequence[int]],
    limits: Mapping[str, int],
    *,
    far: bool,
) -> list[Line]:
    """The sizes of every variable; each step is small enough that the model runs at its check."""
    if set(points) - set(found):
        raise UsageError(f"points were given for {', '.join(points)}, but what varies is {', '.join(found)}")
    steps = [_first_step(axis, limits.get(name)) for name, axis in found.items()]
    lines: list[Line] = []
    for index, name in enumerate(found):
        if name in points:
            lines.append(reach.given(name, points[name]))
            steps[index] = lines[index].nodes[0]
        else:
            steps[index] = _working_step(captures, tuple(steps), index)
            lines.append(reach.line(name, steps[index], limit=limits.get(name), far=far))
    return lines


def _first_step(axis: Axis, limit: int | None) -> int:
    """The size the inputs came with, halved until the check is neither too long for the model nor for masks."""
    step = 1 if axis.name == "batch" else axis.size
    while axis.name == "seq" and step > 1 and _too_long(reach.CHECK * step, limit):
        step //= 2
    return step


def _too_long(length: int, limit: int | None) -> bool:
    return reach.CHECK * length**2 > _MASK_ELEMENTS or (limit is not None and length > limit)


def _working_step(captures: _Captures, steps: Sizes, index: int) -> int:
    """The largest step, halved from where it starts, at whose check the model runs."""
    name, step = captures.variables[index], steps[index]
    first = captures(along(steps, index, reach.CHECK * step))
    tried = first
    while isinstance(tried, str):
        if step % 2:
            at = captures.text(along(steps, index, reach.CHECK * steps[index]))
            raise UsageError(f"{name} cannot be varied: at {at} the model stops: {first}")
        step //= 2
        tried = captures(along(steps, index, reach.CHECK * step))
    return step


def _notes(captures: _Captures) -> tuple[str, ...]:
    unknown = max(each.forward.totals.unknown_ops for each in captures.samples())
    if not unknown:
        return ()
    return (f"{unknown} operations have no formula; the laws of FLOPs and MACs leave them out",)
