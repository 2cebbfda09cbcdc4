"""`assay.vary`: scaling formulas for a model's costs, fitted to passes recorded at a few input sizes and verified."""

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
from assay.api.arguments import check_whole, list_of
from assay.api.observe import check_can_run, inputs_for, observe_opened
from assay.api.options import OnProgress, Progress, RunOptions, unreported
from assay.document.document import Document
from assay.errors import UsageError
from assay.messages import plural
from assay.sources.inputs import Inputs
from assay.sources.open import open_source
from assay.sources.opened import Opened
from assay.sources.placing import place
from assay.sources.resizing import Axis, axes, position_limit, resized

_MASK_ELEMENTS = 1 << 24
"""Maximum elements of an attention mask (batch · length²), because masks are computed even on shapes."""


class _Captures:
    """Captures the model at any sizes, once per combination of sizes."""

    def __init__(
        self, opened: Opened, inputs: Inputs, varied: Mapping[str, Axis], options: RunOptions, on_progress: OnProgress
    ) -> None:
        self._on_progress = on_progress
        self.variables = tuple(varied)
        self.results: dict[Sizes, SizeSample | str] = {}
        self.modes: dict[str, None] = {}
        self._opened, self._inputs, self._axes, self._options = opened, inputs, varied, options

    def __call__(self, sizes: Sizes) -> SizeSample | str:
        """The sample at these sizes, or the reason why the model failed."""
        if sizes not in self.results:
            done = len(self.results)
            self._on_progress(Progress(f"recording at {self.text(sizes)}", items=done, unit="pass"))
            inputs = resized(self._inputs, base=self._axes, **self.named(sizes))
            self.results[sizes] = self._result(sizes, observe_opened(self._opened, inputs, self._options))
        return self.results[sizes]

    def samples(self) -> list[SizeSample]:
        """The samples at all sizes where the model ran."""
        return [result for result in self.results.values() if isinstance(result, SizeSample)]

    def named(self, sizes: Sizes) -> dict[str, int]:
        """The sizes by name of the variable."""
        return dict(zip(self.variables, sizes, strict=True))

    def text(self, sizes: Sizes) -> str:
        """The sizes as text, for example `batch=1, seq=8`."""
        return ", ".join(f"{name}={size}" for name, size in self.named(sizes).items())

    def _result(self, sizes: Sizes, document: Document) -> SizeSample | str:
        failure = document.failure
        if failure is not None:
            # If several passes were tried, only the first one's error is about the sizes.
            first = document.run.attempts[0].failure if document.partial and document.run.attempts else failure
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
    as_is: bool = False,
    backward: bool = False,
    model_args: Mapping[str, Any] | None = None,
    trust: bool = False,
) -> Laws:
    """Find how the costs of a model grow with its inputs: one exact scaling formula per cost.

    Args:
        model: Anything `assay.open` accepts that can be run.
        inputs: What to call the model with, in any form `assay.observe` accepts. If None, they are inferred.
        over: The sizes to vary: any of `"batch"`, `"seq"`, `"height"`, `"width"` and `"frames"`.
        points: The values to record at, by name of the size; the last one verifies the formula. None, or a size that
            is not listed, chooses values automatically.
        mode: `"auto"` uses shapes only if the model allows it, and data otherwise; or `"real"`, `"meta"` or `"fake"`,
            as for `assay.observe`.
        device: The torch device to run on, such as `"cuda:0"`. Default: where the model is.
        dtype: The floating-point dtype to run in, such as `"bfloat16"`. Default: the model's own.
        train: Run in training mode instead of evaluation mode.
        as_is: Run every module in the mode it is in, training or evaluation.
        backward: Also record training steps, in training mode.
        model_args: Keyword arguments for the function or class that builds the model. Default: no arguments.
        trust: Allow code stored in a file to run.

    Returns:
        The scaling formulas by name of the cost, such as `laws["macs"]`, with the sizes they were verified at. Costs
        without an exact formula are listed in `refused`, with the reason. `laws.at(batch=8, seq=128)` evaluates all.

    Raises:
        UsageError: An argument is not valid, or the model does not run at other sizes.
        InputsError: The inputs do not match the arguments of forward, or cannot be parsed or inferred.
        ReadError: The model or file cannot be read.
    """
    options = RunOptions(mode, device, dtype, train, backward, model_args, trust, as_is=as_is)
    names = (over,) if isinstance(over, str) else list_of("over", over)
    sizes = _checked_points(points)
    return scaling_formulas(open_source(model, model_args=model_args, trust=trust), inputs, options, names, sizes)


def _checked_points(points: Any) -> dict[str, list[int]] | None:
    """The points as lists by name of the size; UsageError if they are not positive integers."""
    if points is None:
        return None
    if not isinstance(points, Mapping):
        raise UsageError(f"points must map sizes to values, such as {{'batch': [1, 2, 4]}}, got {points!r:.80}")
    lists = {name: list_of(f"points of {name}", values) for name, values in points.items()}
    for name, values in lists.items():
        for value in values:
            check_whole(f"points of {name}", value)
    return lists


def scaling_formulas(
    opened: Opened,
    inputs: Any,
    options: RunOptions,
    over: Sequence[str],
    points: Mapping[str, Sequence[int]] | None = None,
    on_progress: OnProgress = unreported,
) -> Laws:
    """The scaling formulas of an opened model in the sizes named by `over`."""
    base, options = _base_inputs_and_mode(opened, inputs, options, on_progress)
    varied = axes(base, over)
    captures = _Captures(opened, base, varied, options, on_progress)
    limit = position_limit(opened)
    limits = {name: limit for name in varied if name == "seq" and limit is not None}
    plans = _plans(captures, varied, points or {}, limits, far=options.mode != "real")
    laws, refused = search(captures, plans, limits, captures.variables)
    return Laws(
        model=type(opened.module).__name__,
        variables=captures.variables,
        laws=laws,
        refused=refused,
        base={name: axis.size for name, axis in varied.items()},
        points=tuple(captures.named(each.sizes) for each in captures.samples()),
        follows={name: axis.text for name, axis in varied.items()},
        limits=limits,
        mode=", ".join(captures.modes),
        inputs_from=base.how,
        inputs_kind=base.kind,
        notes=_notes(captures),
    )


def _base_inputs_and_mode(
    opened: Opened, inputs: Any, options: RunOptions, on_progress: OnProgress
) -> tuple[Inputs, RunOptions]:
    """The inputs before resizing, and the options with mode `auto` resolved: `meta` if the model runs on shapes."""
    check_can_run(opened, options)
    base = inputs_for(opened, inputs, device=options.device, dtype=options.dtype, on_progress=on_progress)
    if options.mode == "auto":
        attempt = observe_opened(opened, base, replace(options, mode="meta"))
        works = attempt.run.mode in ("meta", "fake") and attempt.run.failure is None
        options = replace(options, mode="meta" if works else "real")
    if options.mode == "meta":
        base = replace(base, args=place(base.args, "meta", None), kwargs=place(base.kwargs, "meta", None))
    return base, options


def _plans(
    captures: _Captures,
    varied: Mapping[str, Axis],
    points: Mapping[str, Sequence[int]],
    limits: Mapping[str, int],
    *,
    far: bool,
) -> list[SizePlan]:
    """The sizes to capture at, per variable; steps are small enough for the model to run at the verifying size."""
    if set(points) - set(varied):
        raise UsageError(f"points were given for {', '.join(points)}, but the varied sizes are {', '.join(varied)}")
    steps = [_first_step(axis, limits.get(name)) for name, axis in varied.items()]
    plans: list[SizePlan] = []
    for index, name in enumerate(varied):
        if name in points:
            plans.append(reach.given(name, points[name]))
            steps[index] = plans[index].nodes[0]
        else:
            steps[index] = _working_step(captures, tuple(steps), index)
            plans.append(reach.size_plan(name, steps[index], limit=limits.get(name), far=far))
    return plans


def _first_step(axis: Axis, limit: int | None) -> int:
    """The size of the given inputs, halved until the verifying size fits the model's limit and the mask limit."""
    step = 1 if axis.name == "batch" else axis.size
    while axis.name == "seq" and step > 1 and _too_long(reach.CHECK * step, limit):
        step //= 2
    return step


def _too_long(length: int, limit: int | None) -> bool:
    return reach.CHECK * length**2 > _MASK_ELEMENTS or (limit is not None and length > limit)


def _working_step(captures: _Captures, steps: Sizes, index: int) -> int:
    """The step of variable `index`, halved until the model runs at the verifying size."""
    name, step = captures.variables[index], steps[index]
    first = captures(along(steps, index, reach.CHECK * step))
    result = first
    while isinstance(result, str):
        if step % 2:
            at = captures.text(along(steps, index, reach.CHECK * steps[index]))
            raise UsageError(f"{name} cannot be varied: the model fails at {at}: {first}")
        step //= 2
        result = captures(along(steps, index, reach.CHECK * step))
    return step


def _notes(captures: _Captures) -> tuple[str, ...]:
    unknown = max(each.forward.totals.unknown_ops for each in captures.samples())
    if not unknown:
        return ()
    return (f"{plural(unknown, 'op')} without a cost formula: not included in FLOPs and MACs",)
