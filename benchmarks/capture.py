"""The cost of recording a model, compared with a plain forward pass and other tools, all measured in one run.

    python benchmarks/capture.py [--only a,b] [--rounds N] [--out FILE]

Each case runs in separate processes, on one thread. Figures are CPU time. A dash means that a tool is not installed
or does not support the case.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.util
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from harness import (
    PLAIN,
    ROOT,
    Row,
    Run,
    children_cpu_s,
    environment,
    failure,
    give_back,
    hardware,
    in_child,
    interleaved,
    own_cpu_s,
    peak_bytes,
    table,
)

if TYPE_CHECKING:
    import torch
    from torch import nn

OURS = "Assay"
FLOPS = "FlopCounterMode"
EXPORT = "torch.export"
MODE = "empty TorchDispatchMode"
LENS = "torchlens, nothing saved"

ADDS = 10_000
LEAVES, OPS_IN_LEAF = 7, 10
BLOCKS = 1_250

EXAMPLE = "examples/resnet.py"
BY_HAND = (
    f"import runpy, torch; m = runpy.run_path({EXAMPLE!r}); model = m['load_model']().eval()\n"
    "with torch.no_grad(): model(m['get_inputs']())"
)


class Subject(NamedTuple):
    """A model and the arguments of its call."""

    model: nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


# --- the tools


def plain(subject: Subject) -> None:
    """A plain forward pass."""
    import torch

    with torch.no_grad():
        subject.model(*subject.args, **subject.kwargs)


def ours(subject: Subject) -> None:
    """A complete recording: the document with every module, tensor, call, op and storage."""
    from assay import observe

    document = observe(subject.model, (subject.args, subject.kwargs))
    if document.run.failure is not None:
        raise RuntimeError(document.run.failure.error)


def flop_counter(subject: Subject) -> None:
    """Torch's own FLOP counter."""
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False):
        plain(subject)


def export(subject: Subject) -> None:
    """Export a language model with torch.export (non-strict), without the KV cache, which it cannot return."""
    import torch

    with torch.no_grad():
        torch.export.export(subject.model, subject.args, {**subject.kwargs, "use_cache": False}, strict=False)


def empty_mode(subject: Subject) -> None:
    """A dispatch mode that does nothing: the minimum overhead of recording in Python."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Through(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return func(*args, **(kwargs or {}))

    with Through():
        plain(subject)


def torchlens(subject: Subject) -> None:
    """A torchlens trace of the graph that saves no activations."""
    import torch
    import torchlens as lens

    nothing = lens.options.CaptureOptions(layers_to_save="none")
    with torch.no_grad():
        lens.trace(subject.model, subject.args, subject.kwargs, capture=nothing)


TOOLS: dict[str, Callable[[Subject], None]] = {
    PLAIN: plain,
    OURS: ours,
    FLOPS: flop_counter,
    EXPORT: export,
    MODE: empty_mode,
    LENS: torchlens,
}


# --- the models


def llama_70b() -> Subject:
    """A Llama of 70 billion parameters, on meta, with 512 tokens."""
    from transformers import LlamaConfig

    return _causal_on_meta(
        LlamaConfig(
            hidden_size=8192,
            num_hidden_layers=80,
            num_attention_heads=64,
            num_key_value_heads=8,
            intermediate_size=28672,
            vocab_size=128256,
        )
    )


def deepseek_671b() -> Subject:
    """DeepSeek-V3 with its 671 billion parameters, on meta, with 512 tokens."""
    from transformers import DeepseekV3Config

    return _causal_on_meta(DeepseekV3Config())


def _causal_on_meta(config: Any) -> Subject:
    import torch
    from transformers import AutoModelForCausalLM

    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).eval()
        ids = torch.zeros(1, 512, dtype=torch.long)
    return Subject(model, (), {"input_ids": ids})


def many_modules() -> Subject:
    """10,001 modules (a root, 1,250 blocks, 8,750 leaves) that run 87,500 ops, on meta."""
    import torch
    from torch import nn
    from torch.nn import functional

    class Leaf(nn.Module):
        def __init__(self, width: int, hidden: int) -> None:
            super().__init__()
            self.up = nn.Parameter(torch.empty(hidden, width))
            self.down = nn.Parameter(torch.empty(width, hidden))
            self.scale = nn.Parameter(torch.empty(width))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = functional.layer_norm(x, x.shape[-1:], self.scale)
            y = y.transpose(1, 2).transpose(1, 2)
            y = functional.gelu(functional.linear(y, self.up)) * 0.5
            y = functional.linear(y, self.down).view(x.shape)
            return torch.tanh(x + y)

    with torch.device("meta"):
        blocks = [nn.Sequential(*(Leaf(64, 64 * (1 + leaf)) for leaf in range(LEAVES))) for _ in range(BLOCKS)]
        return Subject(nn.Sequential(*blocks).eval(), (torch.empty(1, 16, 64),), {})


def adds() -> Subject:
    """A chain of additions of eight numbers: only overhead."""
    import torch
    from torch import nn

    class Adds(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = x
            for _ in range(ADDS):
                y = torch.add(x, y)
            return y

    return Subject(Adds().eval(), (torch.zeros(8),), {})


def resnet50() -> Subject:
    """The ResNet-50 of the examples with one image."""
    import runpy

    made = runpy.run_path(str(ROOT / EXAMPLE))
    return Subject(made["load_model"]().eval(), (made["get_inputs"](),), {})


def bert_base() -> Subject:
    """BERT-base with 128 tokens."""
    from transformers import BertConfig, BertModel

    return Subject(BertModel(BertConfig()).eval(), (), {"input_ids": _ids()})


def gpt2_124m() -> Subject:
    """GPT-2 of 124 million parameters with 128 tokens."""
    from transformers import GPT2Config, GPT2LMHeadModel

    return Subject(GPT2LMHeadModel(GPT2Config()).eval(), (), {"input_ids": _ids()})


def _ids() -> torch.Tensor:
    import torch

    return torch.randint(0, 30_000, (1, 128))


# --- the jobs: each runs in a child


class Limits(NamedTuple):
    """The targets for Assay in a case."""

    limit_s: float | None = None
    limit_ratio: float | None = None
    limit_bytes: int | None = None


def warm(
    group: str,
    make: Callable[[], Subject],
    names: list[str],
    limits: Limits,
    rounds: int,
    each: int = 1,
    most: int = 100,
) -> Iterator[Row]:
    """Alternate the tools, each warmed up, for at most `most` rounds; times are divided by `each`."""
    subject = make()
    present = [name for name in names if name != LENS or importlib.util.find_spec("torchlens")]
    rows = interleaved({name: partial(TOOLS[name], subject) for name in present}, min(rounds, most))
    for name in names:
        row = rows.get(name, Row("", name, why_not="not installed"))
        row.group, row.samples = group, [sample / each for sample in row.samples]
        yield _limited(row, limits) if name == OURS else row


def first(group: str, make: Callable[[], Subject], name: str, limits: Limits, rounds: int) -> Iterator[Row]:
    """The first call of a tool in a fresh process after its import, with the peak memory of the process."""
    from assay import api  # noqa: F401  imported before the timing, like torch

    run = partial(TOOLS[name], make())
    began = own_cpu_s()
    row = Row(f"{group}, first call", name, why_not=failure(run))
    if not row.why_not:
        row.samples, row.peak_bytes = [own_cpu_s() - began], peak_bytes()
    yield _limited(row, limits) if name == OURS else row


def command(rounds: int) -> Iterator[Row]:
    """The command line minus the import of torch, as a multiple of a forward pass of the model."""
    subject = resnet50()
    forward = interleaved({PLAIN: partial(plain, subject)}, max(rounds, 5))[PLAIN]
    watch = ["-m", "assay", "modules", f"{EXAMPLE}::load_model", "--inputs", f"{EXAMPLE}::get_inputs"]
    processes = {
        'python -c "import torch"': ["-c", "import torch"],
        "load and one forward pass, without Assay": ["-c", BY_HAND],
        "assay modules": watch,
        'python -c ""': ["-c", ""],
        "assay --help": ["-m", "assay", "--help"],
    }
    rows = interleaved({name: _process(rest) for name, rest in processes.items()}, rounds, children_cpu_s)
    torch_alone, by_hand, modules, _, help_row = rows.values()
    help_row.limit_s = 0.12
    forward.group = "ResNet-50"
    yield forward
    yield _less("load and one forward pass, minus import torch", by_hand, torch_alone)
    yield _limited(_less("assay modules, minus import torch", modules, torch_alone), Limits(limit_ratio=3.0))
    for row in rows.values():
        row.group = "whole processes"
        yield row


def _less(what: str, row: Row, other: Row) -> Row:
    """The difference between the best samples of `row` and `other`."""
    known = row.best_s is not None and other.best_s is not None
    return Row("ResNet-50", what, [min(row.samples) - min(other.samples)] if known else [])


def _process(rest: list[str]) -> Run:
    def run() -> None:
        subprocess.run([sys.executable, *rest], env=environment(), cwd=ROOT, check=True, capture_output=True)

    return run


def _limited(row: Row, limits: Limits) -> Row:
    row.limit_s, row.limit_ratio, row.limit_bytes = limits
    return row


Job = Callable[..., Iterator[Row]]


def _firsts(group: str, make: Callable[[], Subject], names: list[str], limits: Limits) -> list[Job]:
    return [partial(first, group, make, name, limits) for name in names]


CASES: dict[str, tuple[str, list[Job]]] = {
    "a": (
        "Llama, 70 billion parameters, on meta, 512 tokens",
        [
            *_firsts("Llama-70B", llama_70b, [PLAIN, OURS, FLOPS, EXPORT], Limits(0.5, None, 10**9)),
            partial(warm, "Llama-70B, again", llama_70b, [PLAIN, OURS, FLOPS], Limits(0.5)),
        ],
    ),
    "b": (
        "DeepSeek-V3, 671 billion parameters, on meta, 512 tokens",
        [
            *_firsts("DeepSeek-V3", deepseek_671b, [PLAIN, OURS], Limits(1.0)),
            partial(warm, "DeepSeek-V3, again", deepseek_671b, [PLAIN, OURS], Limits(1.0)),
        ],
    ),
    "c": (
        "10,001 modules and 87,500 ops, on meta",
        [partial(warm, "synthetic", many_modules, [PLAIN, OURS], Limits(3.0), most=3)],
    ),
    "d": (
        "An op on eight numbers, with data",
        [partial(warm, "an op", adds, [PLAIN, MODE, FLOPS, OURS], Limits(20e-6), each=ADDS)],
    ),
    "e": (
        "Forward passes with data",
        [
            partial(warm, group, make, [PLAIN, OURS, FLOPS, LENS], Limits(limit_ratio=1.5))
            for group, make in (("ResNet-50", resnet50), ("BERT-base", bert_base), ("GPT-2 124M", gpt2_124m))
        ],
    ),
    "f": ("The command, as a multiple of a forward pass of its model", [command]),
}


def main() -> int:
    """Run the chosen cases; return 0."""
    options = _options()
    if options.child:
        case, index = options.child.split(":")
        give_back(CASES[case][1][int(index)](rounds=options.rounds))
        return 0
    chosen = [name for name in CASES if not options.only or name in options.only.split(",")]
    parts = [f"# Capture, {datetime.date.today().isoformat()}", hardware("torchlens") + "."]
    for name in chosen:
        title, jobs = CASES[name]
        rows = [row for i in range(len(jobs)) for row in in_child(__file__, f"{name}:{i}", options.rounds)]
        parts += [f"## ({name}) {title}", table(rows)]
        print(f"{parts[-2]}\n\n{parts[-1]}\n", flush=True)
    if options.out:
        Path(options.out).write_text("\n\n".join(parts) + "\n")
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure the cost of recording a model.")
    parser.add_argument("--only", default="", help=f"cases to run, from {','.join(CASES)}")
    parser.add_argument("--rounds", type=int, default=7, help="timed runs of each tool, after one warm-up")
    parser.add_argument("--out", help="also write a Markdown file")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
