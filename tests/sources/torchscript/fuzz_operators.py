"""Calls the operators that may run with extreme arguments, each in a forked process, and prints those that harm.

python fuzz_operators.py SEED DRAWS [OPERATOR ...]

An operator harms if it crashes, or takes much more time or memory than a harmless one.
"""

from __future__ import annotations

import contextlib
import os
import random
import resource
import signal
import sys
import warnings
from typing import Any, NamedTuple

import torch
from torch import nn

from assay.recorder import passes
from assay.sources.torchscript import operators, tensor_ops
from assay.sources.torchscript.allowed import ALLOWED
from assay.sources.torchscript.refusal import StepBudget

CPU_S, MEMORY, ADDRESSES = 4, 256 << 20, 2 << 30
"""Limits of one call: seconds, bytes in memory, and bytes of addresses."""
LONG = 49_000
"""About as many items as a list may have."""

NUMBERS = (0, 1, 2, -1, 10**5, 10**9, 10**18)
LISTS = (
    [1],
    [0],
    [10**9],
    [1, 1],
    [2, 2],
    [0, 1],
    [1, 1, 1],
    [10**5] * 2,
    [1000] * 2,
    [2] * 40,
    [1] * LONG,
    [0] * LONG,
)
PLAIN: dict[str, tuple[Any, ...]] = {
    "int": NUMBERS,
    "number": (*NUMBERS, 0.5, 1e30),
    "float": (0.5, 1.0, 1e30),
    "bool": (True, False),
    "str": ("reflect", "constant", "linear", "ab,bc->ac", "none", "sum"),
    "List[int]": LISTS,
    "List[float]": ([1.0], [1e9, 1e9], [1.0] * LONG),
    "List[bool]": ([True], [True] * 3, [False] * 2),
}
"""Values of arguments by type; of other types, None."""
FLOAT, INTEGER, BOOL = 6, 4, 11


class Extreme(nn.Module):
    """Calls one operator with arguments that follow from a seed."""

    def __init__(self, name: str, seed: int, log: int) -> None:
        super().__init__()
        self.call, self.log = (name, seed), log

    def forward(self, unused: torch.Tensor) -> Any:
        name, seed = self.call
        ops = tensor_ops.TensorOps(StepBudget())
        ops.begin()
        args, kwargs = Arguments(ops, random.Random(seed)).of(name)
        os.pwrite(self.log, repr((*map(_shown, args), *kwargs.items()))[:500].encode(), 0)
        return operators.apply(ops, f"torch.{name}", tuple(args), kwargs)


def _shown(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return f"{value.device.type} {value.dtype} {tuple(value.shape)}"
    return f"{len(value)} times {_shown(value[0])}" if isinstance(value, list) and value else value


class Arguments:
    """Draws arguments for an operator."""

    def __init__(self, ops: tensor_ops.TensorOps, draw: random.Random) -> None:
        self._ops, self._draw = ops, draw
        self._shared = self._tensor() if draw.random() < 0.7 else None
        """A tensor that most arguments are, since many operators need several that fit."""

    def of(self, name: str) -> tuple[list[Any], dict[str, Any]]:
        """Arguments for one of the overloads of an operator; of one without overloads, a few values."""
        packet = getattr(torch.ops.aten, name, None)
        overloads = [each for each in packet.overloads() if not each.endswith("out")] if packet is not None else []
        if not overloads:
            return [self._value(self._draw.choice(["Tensor", "int", "List[int]"])) for _ in range(3)], {}
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for argument in getattr(packet, self._draw.choice(overloads))._schema.arguments:
            keep = argument.has_default_value() and self._draw.random() < 0.4
            if argument.kwarg_only and not keep:
                kwargs[argument.name] = self._value(str(argument.type))
            elif not argument.kwarg_only:
                args.append(argument.default_value if keep else self._value(str(argument.type)))
        return args, kwargs

    def _value(self, kind: str) -> Any:
        if kind.startswith("Optional["):
            return None if self._draw.random() < 0.5 else self._value(kind[len("Optional[") : -1])
        if kind == "Tensor":
            return self._shared if self._shared is not None and self._draw.random() < 0.6 else self._tensor()
        if kind in ("List[Tensor]", "List[Optional[Tensor]]"):
            return [self._value("Tensor")] * self._draw.choice([1, 2, 60, 9000])
        return self._draw.choice(PLAIN[kind]) if kind in PLAIN else None

    def _tensor(self) -> torch.Tensor:
        """A huge tensor without values, a large one with known ones, or few extreme values."""
        made = [
            *(("zeros", shape) for shape in ([10**12], [10**6] * 2, [1, 16, 10**5, 10**5], [1, 3, 8, 8])),
            *(("ones", shape) for shape in ([2_000_000], [2000, 1000], [1, 1, 1500, 1500])),
            *(("tensor", data) for data in ([10**9, 2 * 10**9, 5], [1e30, 0.5, -3.0], [1.0] * 4000, 10**9)),
        ]
        name, data = self._draw.choice(made)
        settings = {} if name == "tensor" else {"dtype": self._draw.choice([FLOAT, FLOAT, INTEGER, BOOL])}
        result: torch.Tensor = self._ops.run(name, (data,), settings)
        return result


class Used(NamedTuple):
    """What a call took, and its arguments."""

    code: int
    cpu_s: float
    peak_bytes: int
    arguments: str


def _attempt(name: str, seed: int, log: int) -> None:
    model = Extreme(name, seed, log)
    with contextlib.suppress(Exception):  # an error of any kind is harmless
        passes.observe(model, (torch.zeros(1),), {}, mode="meta")


def call(name: str, seed: int, log: int) -> Used:
    """Call an operator in a fork with limits."""
    os.ftruncate(log, 0)
    child = os.fork()
    if child == 0:
        with open("/proc/self/statm") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + ADDRESSES,) * 2)
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(signal.SIGXCPU, signal.SIG_DFL)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        try:
            _attempt(name, seed, log)
        except MemoryError:
            os._exit(1)
        os._exit(0)
    _, status, usage = os.wait4(child, 0)
    text = os.pread(log, 500, 0).decode()
    return Used(os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime, usage.ru_maxrss << 10, text)


def main() -> int:
    """Print one line per harmful call; return how many there were, at most 1."""
    seed, draws, chosen = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    passes._order = lambda *_: ["meta"]  # type: ignore[assignment]  # as for interpreted code
    log = os.memfd_create("arguments")
    _attempt("relu", 0, log)
    harmless = call("relu", 0, log)
    harmful = calls = 0
    for name in sorted(chosen or (ALLOWED | {*tensor_ops._SPECIAL})):
        for number in range(draws):
            own = random.Random(f"{seed} {name} {number}").getrandbits(32)
            used = call(name, own, log)
            calls += 1
            if used.code or used.cpu_s > CPU_S / 2 or used.peak_bytes - harmless.peak_bytes > MEMORY:
                harmful += 1
                more = (used.peak_bytes - harmless.peak_bytes) >> 20
                sys.stdout.write(f"{name} exit {used.code}, {used.cpu_s:.1f} s, {more} MB: {used.arguments}\n")
    sys.stdout.write(f"{calls} calls, {harmful} harmful\n")
    return int(harmful > 0)


if __name__ == "__main__":
    sys.exit(main())
