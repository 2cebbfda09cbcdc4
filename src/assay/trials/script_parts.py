"""What scripts that apply changes contain besides the changes: loading, comparing outputs and measuring.

The source of these functions is copied into scripts, so they use only torch and Python.
"""

from __future__ import annotations

import copy
import ctypes  # noqa: F401  used by keep_freed_memory, which is copied
import importlib
import importlib.util
import math
import random
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from assay.trials.freed_memory import keep_freed_memory
from assay.trials.runnable import Runnable


def from_file(file: Path, name: str) -> Any:
    """What a Python file defines under this name; it can import its neighbours and the rest of its package."""
    packages: list[str] = []
    root = file.parent
    while (root / "__init__.py").is_file():
        packages.insert(0, root.name)
        root = root.parent
    sys.path += [str(folder) for folder in (root, file.parent, Path.cwd()) if str(folder) not in sys.path]
    if packages:
        importlib.import_module(".".join(packages))
    spec = importlib.util.spec_from_file_location(".".join((*packages, file.stem)), file)
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot import {file}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return attribute_of(module, name)


def from_module(module: str, name: str) -> Any:
    """What a module defines under this name."""
    sys.path.insert(0, str(Path.cwd()))
    return attribute_of(importlib.import_module(module), name)


def attribute_of(value: Any, name: str) -> Any:
    """The attribute at a path such as `Models.small`."""
    for part in name.split("."):
        value = getattr(value, part)
    return value


def built(value: Any, arguments: dict[str, Any]) -> Any:
    """The model that a function or class builds; an existing model is returned as it is."""
    return value if isinstance(value, torch.nn.Module) else value(**arguments)


def call_arguments(value: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The positional and keyword arguments that a value stands for."""
    if (
        isinstance(value, tuple)
        and len(value) == 2
        and isinstance(value[0], (tuple, list))
        and type(value[1]) is dict
    ):
        return tuple(value[0]), value[1]
    if isinstance(value, (tuple, list)):
        return tuple(value), {}
    return ((), dict(value)) if isinstance(value, dict) else ((value,), {})


def placed_runnable(model: Any, inputs: Any, device: str | None, dtype: Any, training: bool | None) -> Runnable:
    """The model with its inputs on this device, in this dtype and in this mode; None leaves each as it is."""

    def move(tensor: Any) -> Any:
        return tensor.to(device=device, dtype=dtype if tensor.is_floating_point() else None)

    if device is not None or dtype is not None:
        model = model.to(device=device, dtype=dtype)
    if training is not None:
        for module in model.modules():
            module.training = training
    args, kwargs = torch.utils._pytree.tree_map_only(torch.Tensor, move, inputs)
    return Runnable(model, args, kwargs)


def copied_runnable(runnable: Runnable, again: Callable[[], Runnable]) -> Runnable:
    """A copy of the model with its inputs; loaded again if it cannot be copied."""
    try:
        return Runnable(*copy.deepcopy((runnable.model, runnable.args, runnable.kwargs)))
    except Exception:  # noqa: BLE001  a model may raise anything when it is copied
        return again()


def one_pass(runnable: Runnable, backward: bool) -> Any:
    """The outputs of one pass, or of the forward part of one training step."""
    if not backward:
        with torch.no_grad():
            return runnable()
    outputs = runnable()
    tensors = [each for each in torch.utils._pytree.tree_leaves(outputs) if isinstance(each, torch.Tensor)]
    torch.stack([each.float().sum() for each in tensors if each.requires_grad]).sum().backward()
    for parameter in runnable.model.parameters():
        parameter.grad = None
    return outputs


def relative_error(expected: Any, actual: Any) -> tuple[float, float]:
    """The largest difference of two outputs, relative to their largest value, and the coarsest precision of both.

    The difference is NaN if their structures differ, or if one has NaN or infinities where the other has none.
    """
    pairs = [torch.utils._pytree.tree_leaves(each) for each in (expected, actual)]
    tensors = [[leaf.detach() for leaf in leaves if isinstance(leaf, torch.Tensor)] for leaves in pairs]
    if [each.shape for each in tensors[0]] != [each.shape for each in tensors[1]]:
        return math.nan, 0.0
    worst, precision = 0.0, 0.0
    for one, other in zip(*tensors, strict=True):
        if one.is_floating_point() and other.is_floating_point():
            precision = max(precision, torch.finfo(one.dtype).eps, torch.finfo(other.dtype).eps)
        a, b = one.double().flatten(), other.double().flatten().to(one.device)
        if not torch.equal(a.isfinite(), b.isfinite()):
            return math.nan, precision
        a, b = a[a.isfinite()], b[b.isfinite()]
        if a.numel():
            worst = max(worst, float((a - b).abs().max() / a.abs().max().clamp_min(1e-30)))
    return worst, precision


def pass_clock(runnables: tuple[Runnable, ...], backward: bool) -> Callable[[], float]:
    """The CPU time of this thread if it does all the work, as other processes do not lengthen it; else a clock."""
    thread, process = time.thread_time(), time.process_time()
    for runnable in runnables:
        one_pass(runnable, backward)
    thread, process = time.thread_time() - thread, time.process_time() - process
    alone = process - thread < 0.02 * process and not torch.cuda.is_initialized()
    return time.thread_time if alone else time.perf_counter


def pass_seconds(runnable: Runnable, backward: bool, clock: Callable[[], float]) -> float:
    """Seconds of one pass, including the wait for the device."""
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
    begin = clock()
    one_pass(runnable, backward)
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
    return clock() - begin


def paired_speedup(
    original: Runnable, changed: Runnable, backward: bool, seconds: float
) -> tuple[float, float, float]:
    """The median speedup per item over interleaved pairs in random order, and its 99 % interval.

    The interval is a bootstrap over blocks of consecutive pairs, because neighbouring pairs are disturbed alike.
    """
    for _ in range(3):
        clock = pass_clock((original, changed), backward)
    ratios: list[float] = []
    end = time.perf_counter() + seconds
    while len(ratios) < 24 or time.perf_counter() < end:
        order = random.sample((original, changed), 2)
        times = {id(each): pass_seconds(each, backward, clock) for each in order}
        ratios.append(times[id(original)] / times[id(changed)] * changed.items)
    size = max(len(ratios) // 12, 1)
    blocks = [ratios[begin : begin + size] for begin in range(0, len(ratios), size)]
    medians = sorted(
        statistics.median([ratio for block in random.choices(blocks, k=len(blocks)) for ratio in block])
        for _ in range(2000)
    )
    return statistics.median(ratios), medians[9], medians[-10]


def speed_verdict(low: float, high: float) -> str:
    """What an interval of the speedup shows: differences of less than 2 % do not count."""
    if low > 1.02 or high < 0.98:
        return "faster" if low > 1.02 else "slower"
    return "no difference" if low > 0.98 and high < 1.02 else "inconclusive"


def verify_changes(original: Runnable, changed: Runnable, backward: bool, tolerance: float, seconds: float) -> bool:
    """Print how outputs and speed compare; whether outputs agree within the tolerance."""
    outputs = []
    for runnable in (original, changed):
        torch.manual_seed(0)
        outputs.append(one_pass(runnable, backward))
    expected, actual = outputs if changed.compare is None else changed.compare(*outputs)
    error, precision = relative_error(expected, actual)
    allowed = max(tolerance, 8 * precision) if tolerance else 0.0
    agree = error <= allowed
    print(f"outputs: largest difference {error:.2g} of the largest value, {allowed:.2g} allowed")  # noqa: T201
    median, low, high = paired_speedup(original, changed, backward, seconds)
    print(f"speed: {median:.2f}x [{low:.2f}-{high:.2f}], {speed_verdict(low, high)}")  # noqa: T201
    return agree


LOADING = (
    keep_freed_memory,
    from_file,
    from_module,
    attribute_of,
    built,
    call_arguments,
    placed_runnable,
    copied_runnable,
)
VERIFYING = (one_pass, relative_error, pass_clock, pass_seconds, paired_speedup, speed_verdict, verify_changes)
