"""The cost of recording forward statistics, compared with a bare forward pass, all measured in one run.

    python benchmarks/forward_stats.py [--only a,b] [--rounds N] [--out FILE]

Each case runs in a separate process, on one thread. Figures are CPU time, measured alternately. `by hooks` is a
hand-written version: a hook on every module that calls min, max, mean and std of the first input and output.
"""

from __future__ import annotations

import argparse
import datetime
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from capture import Subject, gpt2_124m, plain, resnet50
from harness import PLAIN, Row, give_back, hardware, in_child, interleaved, table

if TYPE_CHECKING:
    from torch import nn

VALUES = "values on"
TIMES = "timing only"
HOOKS = "by hooks"

DEPTH, WIDTH, BATCH = 150, 64, 32


def inference(run: Callable[[Subject], None], subject: Subject) -> None:
    """Run in inference mode, which does not track writes, so that no tensor can be skipped."""
    import torch

    with torch.inference_mode():
        run(subject)


def recorded(subject: Subject, values: bool) -> None:
    """A forward pass that records every call; the records are then deleted."""
    import assay

    with assay.record_forward_stats(subject.model, values=values):
        plain(subject)
    assay.clear_forward_stats(subject.model)


def by_hooks(subject: Subject) -> None:
    """A forward pass with hand-written hooks."""
    from torch import Tensor

    kept: list[tuple[float, ...]] = []

    def figures(value: Any) -> None:
        if isinstance(value, Tensor):
            number = value.float()
            kept.append((float(number.min()), float(number.max()), float(number.mean()), float(number.std())))

    def hook(module: nn.Module, args: tuple[Any, ...], out: Any) -> None:
        for value in (*args[:1], out[0] if isinstance(out, tuple) else out):
            figures(value)

    handles = [module.register_forward_hook(hook) for module in subject.model.modules()]
    plain(subject)
    for handle in handles:
        handle.remove()


TOOLS: dict[str, Callable[[Subject], None]] = {
    PLAIN: plain,
    TIMES: partial(recorded, values=False),
    VALUES: partial(recorded, values=True),
    HOOKS: by_hooks,
}
LIMITS = {TIMES: 1.05, VALUES: 1.5}


def mlp() -> Subject:
    """301 modules: alternating linear layers of width 64 and activations, in one list."""
    import torch
    from torch import nn

    layers = [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU())[place] for _ in range(DEPTH) for place in (0, 1)]
    return Subject(nn.Sequential(*layers).eval(), (torch.randn(BATCH, WIDTH),), {})


class Case(NamedTuple):
    """A model and how it is run."""

    title: str
    make: Callable[[], Subject]
    limited: bool = False
    inference: bool = False


CASES = {
    "a": Case("ResNet-50, one image", resnet50, limited=True),
    "b": Case("ResNet-50, one image, in inference mode", resnet50, inference=True),
    "c": Case(f"MLP of {2 * DEPTH} layers of {WIDTH}, batch {BATCH}: only overhead", mlp),
    "d": Case("GPT-2 124M, 128 tokens", gpt2_124m),
}


def measured(case: Case, rounds: int) -> Iterator[Row]:
    """One row per tool, measured alternately."""
    subject = case.make()
    runs = {
        name: partial(inference, run, subject) if case.inference else partial(run, subject)
        for name, run in TOOLS.items()
    }
    for name, row in interleaved(runs, rounds).items():
        row.group = case.title
        row.limit_ratio = LIMITS.get(name) if case.limited else None
        yield row


def main() -> int:
    """Run the chosen cases; return 0."""
    options = _options()
    if options.child:
        give_back(measured(CASES[options.child], options.rounds))
        return 0
    chosen = [name for name in CASES if not options.only or name in options.only.split(",")]
    parts = [f"# Forward statistics, {datetime.date.today().isoformat()}", hardware() + "."]
    for name in chosen:
        parts += [f"## ({name}) {CASES[name].title}", table(in_child(__file__, name, options.rounds))]
        print(f"{parts[-2]}\n\n{parts[-1]}\n", flush=True)
    if options.out:
        Path(options.out).write_text("\n\n".join(parts) + "\n")
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure the cost of recording forward statistics.")
    parser.add_argument("--only", default="", help=f"cases to run, from {','.join(CASES)}")
    parser.add_argument("--rounds", type=int, default=15, help="timed runs of each tool, after one warm-up")
    parser.add_argument("--out", help="also write a Markdown file")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
