"""The counters: one function each, which takes a model and its arguments and returns the MACs it reports.

Each is called as its documentation shows, in a forked process with a limit on CPU time, so that its crashes and side
effects stay there. None of them requires torchvision.
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
    """A counter returned no figure."""


# --- the counters


def assay(model: nn.Module, args: tuple[Any, ...]) -> float:
    """Assay; an op of unknown cost is an error here, and a Fourier transform counts half its FLOPs."""
    from assay import observe

    document = observe(model, (args, {}))
    if document.run.failure is not None:
        raise Refused(document.run.failure.error)
    if document.cost is None or document.cost.unknown:
        raise Refused("unknown ops")
    forward = document.cost.forward
    return forward.macs or forward.matrix_flops / 2


def flop_counter(model: nn.Module, args: tuple[Any, ...]) -> float:
    """Half of the FLOPs that torch's counter reports."""
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as mode, torch.no_grad():
        model(*args)
    return float(mode.get_total_flops() / 2)


def fvcore(model: nn.Module, args: tuple[Any, ...]) -> float:
    """The FLOPs of fvcore, which are MACs."""
    from fvcore.nn import FlopCountAnalysis

    with torch.no_grad():
        analysis = FlopCountAnalysis(model, args)
        return float(analysis.unsupported_ops_warnings(False).uncalled_modules_warnings(False).total())


def torchinfo(model: nn.Module, args: tuple[Any, ...]) -> float:
    """The multiply-adds of torchinfo."""
    from torchinfo import summary

    return float(summary(model, input_data=list(args), verbose=0).total_mult_adds)


def ptflops_pytorch(model: nn.Module, args: tuple[Any, ...]) -> float:
    """MACs of ptflops with hooks and patched functions, its default."""
    return _ptflops(model, args, "pytorch")


def ptflops_aten(model: nn.Module, args: tuple[Any, ...]) -> float:
    """MACs of ptflops with a dispatch mode."""
    return _ptflops(model, args, "aten")


class _Packed(nn.Module):
    """Wraps a model to take one list of one element, since ptflops passes one argument and divides by its length."""

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
    """MACs of thop, including norms and pooling."""
    from thop import profile

    return float(profile(model, inputs=args, verbose=False)[0])


def calflops(model: nn.Module, args: tuple[Any, ...]) -> float:
    """MACs of calflops."""
    from calflops import calculate_flops

    return float(calculate_flops(model=model, args=list(args), print_results=False, output_as_string=False)[1])


def deepspeed(model: nn.Module, args: tuple[Any, ...]) -> float:
    """MACs of DeepSpeed's FLOPs profiler."""
    from deepspeed.profiling.flops_profiler import get_model_profile

    return float(get_model_profile(model, args=list(args), print_profile=False, as_string=False, warm_up=0)[1])


class Tool(NamedTuple):
    """A counter, the module to import first, and the name of its distribution, if it has one."""

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
    """The installed peers with their versions."""
    names = dict.fromkeys(tool.distribution for tool in COUNTERS.values() if tool.distribution)
    return ", ".join(f"{name} {found}" for name in names if (found := _version(name)))


def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return ""


def missing(tool: Tool) -> str:
    """The type of the error if the tool cannot be imported, otherwise empty."""
    try:
        importlib.import_module(tool.module)
    except Exception as error:  # noqa: BLE001  a peer may fail at import in any way
        return type(error).__name__
    return ""


# --- processes


class Answer(NamedTuple):
    """The result of a forked process: a value, or the error that stopped it."""

    value: Any = None
    error: str = ""
    at_first: str = ""
    """The error in a process in which the model had not run before."""


def forked(run: Callable[[], Any], cpu_s: int = 60) -> Answer:
    """The value of `run` in a separate process, sent back as JSON; its output is discarded."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        _answer(run, writing, cpu_s)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        data = pipe.read()
    _, status = os.waitpid(child, 0)
    return Answer(*json.loads(data)) if data else Answer(error=f"status {status}")


def _answer(run: Callable[[], Any], writing: int, cpu_s: int) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s))
    signal.alarm(5 * cpu_s)  # a process that waits forever uses no CPU time
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    warnings.simplefilter("ignore")
    try:
        answer = Answer(run())
    except Refused as error:
        answer = Answer(error=str(error)[:60])
    except BaseException as error:  # noqa: BLE001  any error of a peer is its result
        answer = Answer(error=type(error).__name__)
    with os.fdopen(writing, "wb") as pipe:
        pipe.write(json.dumps(answer).encode())
    os._exit(0)
