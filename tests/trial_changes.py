"""Changes and models for tests of trials, with a comparison that depends on no clock.

A model states its own cost per pass, and a change states what it does to it, so that every speedup is known exactly.
A child process imports this module because a change is defined in it, and registers the changes if the tests ask.
"""

from __future__ import annotations

import os
import signal
import sys
import time

import torch
from torch import nn

from assay.document.provenance import Figure, Measured
from assay.document.trials import DIFFERENT, EXACT, FASTER, LOSSY, SAME, SLOWER, TrialResult
from assay.trials import worker
from assay.trials.change import Change, NotApplicable, register
from assay.trials.runnable import Runnable

ENABLED = "ASSAY_TEST_CHANGES"
"""The environment variable with which tests ask child processes for these changes."""


class Costly(nn.Module):
    """A small model that states what a pass costs."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.cost = 1.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        os.write(1, b"written by the user's code")
        return self.linear(x)


def load() -> Costly:
    print("printed by the user's code")  # noqa: T201
    return Costly()


def load_uncopyable() -> Costly:
    model = Costly()
    model.kept = model.linear.weight * 2  # not a leaf: deepcopy refuses it
    return model


def known_costs(
    base: Runnable, changed: Runnable, *, effect: str, training: bool, seconds: float, energy: bool, seed: int
) -> TrialResult:
    """A comparison of stated costs, and of real outputs; its detail holds the process that ran it."""
    equal = torch.equal(base(), changed())
    speedup = base.model.cost / changed.model.cost
    verdict = FASTER if speedup > 1.02 else SLOWER if speedup < 0.98 else SAME
    return TrialResult(
        (),
        verdict=DIFFERENT if not equal and effect != LOSSY else verdict,
        detail=f"process {os.getpid()} {'forked' if 'pytest' in sys.modules else 'fresh'}",
        effect=effect,
        speedup=Figure(speedup, Measured("stated", 12, range=(speedup * 0.98, speedup * 1.02))),
        training=training,
    )


def times(factor: float):
    def apply(runnable: Runnable) -> Runnable:
        runnable.model.cost *= factor
        return runnable

    return apply


def useless_after_another(runnable: Runnable) -> Runnable:
    runnable.model.cost *= 0.8 if runnable.model.cost == 1.0 else 1.25
    return runnable


def rounded_up(runnable: Runnable) -> Runnable:
    with torch.no_grad():
        runnable.model.linear.weight += 1
    return times(0.25)(runnable)


def write_to_everything(runnable: Runnable) -> Runnable:
    torch.manual_seed(1234)
    torch.set_num_threads(3)
    with torch.no_grad():
        for tensor in (*runnable.model.parameters(), *runnable.args):
            tensor.zero_()
    runnable.model.train()
    runnable.model.added = True
    return runnable


def segfault(runnable: Runnable) -> Runnable:
    signal.signal(signal.SIGSEGV, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGSEGV)
    return runnable


def hang(runnable: Runnable) -> Runnable:
    while True:
        time.sleep(1)


def leave(runnable: Runnable) -> Runnable:
    os._exit(3)


def exhaust(runnable: Runnable) -> Runnable:
    raise MemoryError


def fail(runnable: Runnable) -> Runnable:
    raise ValueError("no luck")


def decline(runnable: Runnable) -> Runnable:
    raise NotApplicable("nothing to change")


def divided(runnable: Runnable, value: int) -> Runnable:
    return times(1 / value)(runnable)


def product(runnable: Runnable) -> Runnable:
    """Starts threads of OpenMP, which hang after a fork unless it is done well."""
    big = torch.ones(512, 512)
    torch.mm(big, big)
    return runnable


APPLY = {
    "t_half": times(0.5),
    "t_most": times(0.8),
    "t_worse": times(1.25),
    "t_nothing": times(1.0),
    "t_alone": useless_after_another,
    "t_write": write_to_everything,
    "t_segfault": segfault,
    "t_hang": hang,
    "t_leave": leave,
    "t_exhaust": exhaust,
    "t_fail": fail,
    "t_decline": decline,
    "t_product": product,
}
CHANGES = (
    *(Change(name, f"Test {name}", (), EXACT, apply) for name, apply in APPLY.items()),
    Change("t_lossy", "Be coarse", ("C401",), LOSSY, rounded_up),
    Change("t_wrong", "Be wrong", ("C401",), EXACT, rounded_up),
    Change("t_own", "Need a process", ("S203",), EXACT, times(0.9), isolated=True),
    Change("t_divide", "Divide", ("S203",), EXACT, divided, options=lambda runnable: (2, 4)),
)

if os.environ.get(ENABLED) and "pytest" not in sys.modules:
    for change in CHANGES:
        register(change)
    worker.compare = known_costs
