"""The counters side by side: one small function each, from a model and its arguments to the MACs it reports.

Each is called the way its own documentation does, in a forked process with a limit on CPU time, so that what it
breaks or leaves behind stays there. None needs torchvision here: those that know it do without.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import os
import resource
import signal
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from capture import FLOPS, OURS
from torch import nn

Counter = Callable[[nn.Module, tuple[Any, ...]], float]


class Refused(Exception):
    """A counter gave no figure."""


# --- the counters


def assay(model: nn.Module, args: tuple[Any, ...]) -> float:
    """Ours; an operation without a figure is an error here, and a transform's FLOPs count by halves."""
    from assay import observe

    document = observe(model, (args, {}))
    if document.run.failure is not None:
        raise Refused(document.run.failure.error)
    if document.cost is None or document.cost.unknown:
        raise Refused("unknown operations")
    forward = document.cost.forward
    return forward.macs or forward.matrix_flops / 2


def flop_counter(model: nn.Module, args: tuple[Any, ...]) -> float:
    """FLOPs, halved."""
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as mode, torch.no_grad():
        model(*args)
    return float(mode.get_total_flops() / 2)


def fvcore(model: nn.Module, args: tuple[Any, ...]) -> float:
    """What it calls FLOPs are MACs."""
    from fvcore.nn import FlopCountAnalysis

    with torch.no_grad():
        analysis = FlopCountAnalysis(model, args)
        return float(analysis.unsupported_ops_warnings(False).uncalled_modules_warnings(False).total())


def torchinfo(model: nn.Module, args: tuple[Any, ...]) -> float:
    """Multiply-adds."""
    from torchinfo import summary

    return float(summary(model, input_data=list(args), verbose=0).total_mult_adds)


def ptflops_pytorch(model: nn.Module, args: tuple[Any, ...]) -> float:
    """MACs by hooks and patched functions: its default."""
    return _ptflops(model, args, "pytorch")


def ptflops_aten(model: nn.Module, args: tuple[Any, ...]) -> float:
    """MACs by a dispatch mode."""
    return _ptflops(model, args, "aten")


class _Packed(nn.Module):
    """The model behind one argument, a list of one, as ptflops passes one and divides by its length."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, batch: list[tuple[Any, ...]]) -> Any:
        return self.inner(*batch[0])


def _ptflops(model: nn.Module, args: tuple[Any, ...], backend: str) -> float:
    from ptflops import get_model_complexity_info

    plain = len(args) == 1 and args[0].shape[:1] == (1,)
    macs, _ = get_model_complexity_info(
        model if plain else _Packed(model),
        (1,),
        input_constructor=lambda _: args[0] if plain else [args],
        as_strings=False,
        print_per_layer_stat=False,
        verbose=False,
        backend=backend,
    )
    if macs is None:
        raise Refused("no figure")
    return float(macs)


def thop(model: nn.Module, args: tuple[Any, ...]) -> float:
    """MACs, with norms and pooling in the same sum."""
    from thop import profile

    return float(profile(model, inputs=args, verbose=False)[0])


def calflops(model: nn.Module, args: tuple[Any, ...]) -> float:
    """MACs."""
    from calflops import calculate_flops

    return float(calculate_flops(model=model, args=list(args), print_results=False, output_as_string=False)[1])


def deepspeed(model: nn.Module, args: tuple[Any, ...]) -> float:
    """MACs of its FLOPs profiler."""
    from deepspeed.profiling.flops_profiler import get_model_profile

    return float(get_model_profile(model, args=list(args), print_profile=False, as_string=False, warm_up=0)[1])


class Tool(NamedTuple):
    """A counter, what to import before it, and its distribution where that is one of its own."""

    macs: Counter
    module: str
    distribution: str


COUNTERS: dict[str, Tool] = {
    OURS: Tool(assay, "assay.api", ""),
    FLOPS: Tool(flop_counter, "torch.utils.flop_counter", ""),
    "fvcore": Tool(fvcore, "fvcore.nn", "fvcore"),
    "torchinfo": Tool(torchinfo, "torchinfo", "torchinfo"),
    "ptflops": Tool(ptflops_pytorch, "ptflops", "ptflops"),
    "ptflops, aten": Tool(ptflops_aten, "ptflops", "ptflops"),
    "thop": Tool(thop, "thop", "thop"),
    "calflops": Tool(calflops, "calflops", "calflops"),
    "DeepSpeed": Tool(deepspeed, "deepspeed.profiling.flops_profiler", "deepspeed"),
}


def versions() -> str:
    """The peers that are installed, with their versions."""
    names = dict.fromkeys(tool.distribution for tool in COUNTERS.values() if tool.distribution)
    return ", ".join(f"{name} {found}" for name in names if (found := _version(name)))


def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return ""


def missing(tool: Tool) -> str:
    """Why the tool cannot be imported; empty where it can."""
    try:
        importlib.import_module(tool.module)
    except Exception as error:  # noqa: BLE001  a peer may fail at import in any way
        return type(error).__name__
    return ""


# --- processes


class Answer(NamedTuple):
    """What a forked process gave: a value, or the name of what stopped it."""

    value: Any = None
    error: str = ""
    at_first: str = ""
    """What stopped it in a process in which the model had not run before."""


def forked(run: Callable[[], Any], cpu_s: int = 60) -> Answer:
    """The value of `run` in a process of its own, where what it prints goes nowhere; it travels as JSON."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        _answer(run, writing, cpu_s)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read()
    _, status = os.waitpid(child, 0)
    return Answer(*json.loads(said)) if said else Answer(error=f"status {status}")


def _answer(run: Callable[[], Any], writing: int, cpu_s: int) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s))
    signal.alarm(5 * cpu_s)  # one that waits for ever uses no CPU time
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    warnings.simplefilter("ignore")
    try:
        answer = Answer(run())
    except Refused as error:
        answer = Answer(error=str(error)[:60])
    except BaseException as error:  # noqa: BLE001  whatever stops a peer is its result
        answer = Answer(error=type(error).__name__)
    with os.fdopen(writing, "wb") as pipe:
        pipe.write(json.dumps(answer).encode())
    os._exit(0)
