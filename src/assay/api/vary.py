"""How a model's costs grow with its inputs: captures at a few sizes, a law for each cost, and how far it holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from assay.analysis.laws import reach
from assay.analysis.laws.law import Laws
from assay.analysis.laws.polynomials import Sizes
from assay.analysis.laws.reach import SizePlan
from assay.analysis.laws.samples import SizeSample, sample
from assay.analysis.laws.searching import along, search
from assay.api.observe import observed
from assay.api.options import RunOptions
from assay.document.document import Document
from assay.errors import UsageError
from assay.sources.inputs import Inputs, find_inputs
from assay.sources.open import open_source
from assay.sources.opened import Opened
from assay.sources.placing import place
from assay.sources.resizing import Axis, axes, position_limit, resized

_MASK_ELEMENTS = 1 << 24
"""Masks are computed with their values, batch · length² of them: no more than this."""


class _Captures:
    """Samples at any sizes, each made once."""

    def __init__(self, opened: Opened, inputs: Inputs, found: Mapping[str, Axis], options: RunOptions) -> None:
        self.variables = tuple(found)
        self.made: dict[Sizes, SizeSample | str] = {}
        self.modes: dict[str, None] = {}
        self._opened, self._inputs, self._axes, self._options = opened, inputs, found, options

    def __call__(self, sizes: Sizes) -> SizeSample | str:
        """The sample at these sizes, or why the model stopped there."""
        if sizes not in self.made:
            inputs = resized(self._inputs, base=self._axes, **self.named(sizes))
            self.made[sizes] = self._kept(sizes, observed(self._opened, inputs, self._options))
        return self.made[sizes]

    def samples(self) -> list[SizeSample]:
        """Everything that ran."""
        return [made for made in self.made.values() if isinstance(made, SizeSample)]

    def named(self, sizes: Sizes) -> dict[str, int]:
        """The sizes by their variables."""
        return dict(zip(self.variables, sizes, strict=True))

    def text(self, sizes: Sizes) -> str:
        """The sizes in words."""
        return ", ".join(f"{name}={size}" for name, size in self.named(sizes).items())

    def _kept(self, sizes: Sizes, document: Document) -> SizeSample | str:
        failure = document.run.failure
        if failure is not None:
            # Where several passes were tried, the first one's error is about the sizes.
            first = document.run.attempts[0].failure if document.run.attempts else failure
            return f"{first.error} (in '{first.module}')"
        self.modes[document.run.mode] = None
        return sample(sizes, document)


def vary(
    model: Any,
    inputs: Any = None,
    *,
    over: Sequence[str] = ("batch", "seq"),
    points: Mapping[str, Sequence[int]] | None = None,
    mode: str = "auto",
    device: str | None = None,
    dtype: str | None = None,
    train: bool = False,
    backward: bool = False,
    model_args: Mapping[str, Any] | None = None,
    trust: bool = False,
) -> Laws:
    """How the costs of a model grow with its inputs: an exact law for each cost in the sizes named by `over`.

    Args:
        model: Anything `assay.open` takes that can be run.
        inputs: What to call the model with, as `assay.observe` takes it; inferred where left out.
        over: The sizes to vary: `batch`, `seq`, `height`, `width` or `frames`.
        points: For a size, the values to record at instead of those chosen here; the last one verifies the law.
        mode: `"auto"` records on shapes alone where that works; or `"real"`, `"meta"` or `"fake"`.
        device: The torch device to run on.
        dtype: The floating-point type to run in, such as `"bfloat16"`.
        train: Run in training mode.
        backward: Record training steps as well, in training mode.
        model_args: Keyword arguments for the function or class that builds the model.
        trust: Allow code from a file to run.
    """
    options = RunOptions(mode, device, dtype, train, backward, model_args, trust)
    names = (over,) if isinstance(over, str) else over
    return laws_of(open_source(model, model_args=model_args, trust=trust), inputs, options, names, points)


def laws_of(
    opened: Opened,
    inputs: Any,
    options: RunOptions,
    over: Sequence[str],
    points: Mapping[str, Sequence[int]] | None = None,
) -> Laws:
    """The laws of what was opened."""
    base, options = _settled(opened, inputs, options)
    found = axes(base, over)
    captures = _Captures(opened, base, found, options)
    limit = position_limit(opened)
    limits = {name: limit for name in found if name == "seq" and limit is not None}
    lines = _lines(captures, found, points or {}, limits, far=options.mode != "real")
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
        inputs_kind=base.kind,
        notes=_notes(captures),
    )


def _settled(opened: Opened, inputs: Any, options: RunOptions) -> tuple[Inputs, RunOptions]:
    """The inputs as they come and how to run: without data where the model allows that."""
    base = find_inputs(inputs, opened, device=options.device, dtype=options.dtype)
    if options.mode == "auto":
        tried = observed(opened, base, replace(options, mode="meta"))
        works = tried.run.mode in ("meta", "fake") and tried.run.failure is None
        options = replace(options, mode="meta" if works else "real")
    if options.mode == "meta":
        base = replace(base, args=place(base.args, "meta", None), kwargs=place(base.kwargs, "meta", None))
    return base, options


def _lines(
    captures: _Captures,
    found: Mapping[str, Axis],
    points: Mapping[str, Sequence[int]],
    limits: Mapping[str, int],
    *,
    far: bool,
) -> list[SizePlan]:
    """The sizes of every variable; each step is small enough that the model runs at its check."""
    if set(points) - set(found):
        raise UsageError(f"points were given for {', '.join(points)}, but what varies is {', '.join(found)}")
    steps = [_first_step(axis, limits.get(name)) for name, axis in found.items()]
    lines: list[SizePlan] = []
    for index, name in enumerate(found):
        if name in points:
            lines.append(reach.given(name, points[name]))
            steps[index] = lines[index].nodes[0]
        else:
            steps[index] = _working_step(captures, tuple(steps), index)
            lines.append(reach.size_plan(name, steps[index], limit=limits.get(name), far=far))
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
