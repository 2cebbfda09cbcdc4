"""The cost of capturing every pass (trace, export, table of layers), compared with a bare pass and torch.profiler.

    python benchmarks/trace_capture.py [--device cpu|cuda] [--rounds N] [--out FILE]

On the CPU, figures are CPU time on one thread. On an accelerator, they are wall time with the device synchronized,
and the share of device time attributed to modules is printed too. Every row includes the whole pass: starting the
profiler, the forward pass, stopping it, writing the file, and the table of layers as text.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from harness import PLAIN, ROOT, Row, give_back, hardware, in_child, interleaved, own_cpu_s, table
from torch import nn

LIMIT = 1.5
"""Target for a captured pass ÷ the bare pass, for models of the size of ResNet-50."""

DEFAULTS = "captured with defaults (shapes and memory of every op)"
LIGHT = "captured, record_shapes=False, profile_memory=False"
OFF = "decorated, not captured (the same class)"
FLOOR = "only torch's profiler: the same trace without labels, table and metadata"
TORCH_PLAIN = "torch.profiler, exported, key_averages().table()"
TORCH_FULL = "torch.profiler with shapes, memory and stacks, exported, read with json"


class Subject(NamedTuple):
    """A model and its inputs."""

    model: nn.Module
    args: tuple[torch.Tensor, ...]


class Bottleneck(nn.Module):
    """Three convolutions and a shortcut."""

    def __init__(self, wide_in: int, wide: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(wide_in, wide, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(wide)
        self.conv2 = nn.Conv2d(wide, wide, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(wide)
        self.conv3 = nn.Conv2d(wide, 4 * wide, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(4 * wide)
        self.relu = nn.ReLU(inplace=True)
        shortcut = [nn.Conv2d(wide_in, 4 * wide, 1, stride, bias=False), nn.BatchNorm2d(4 * wide)]
        self.downsample = nn.Sequential(*shortcut) if stride > 1 or wide_in != 4 * wide else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The block's output."""
        around = x if self.downsample is None else self.downsample(x)
        x = self.relu(self.bn1(self.conv1(x)))
        x = self.relu(self.bn2(self.conv2(x)))
        return self.relu(self.bn3(self.conv3(x)) + around)


class ResNet50(nn.Module):
    """A ResNet-50 that needs only torch."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        wide_in = 64
        for number, (wide, blocks) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3)), start=1):
            layer = []
            for block in range(blocks):
                layer.append(Bottleneck(wide_in, wide, 2 if block == 0 and number > 1 else 1))
                wide_in = 4 * wide
            self.add_module(f"layer{number}", nn.Sequential(*layer))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(wide_in, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits."""
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(self.avgpool(x).flatten(1))


class Block(nn.Module):
    """A decoder block with the shape of GPT-2's."""

    def __init__(self, wide: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(wide), nn.LayerNorm(wide)
        self.qkv, self.proj = nn.Linear(wide, 3 * wide), nn.Linear(wide, wide)
        self.mlp = nn.Sequential(nn.Linear(wide, 4 * wide), nn.GELU(), nn.Linear(4 * wide, wide))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The block's output."""
        batch, length, wide = x.shape
        parts = self.qkv(self.ln_1(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(*parts, is_causal=True)
        x = x + self.proj(mixed.transpose(1, 2).reshape(batch, length, wide))
        return x + self.mlp(self.ln_2(x))


class GPT2(nn.Module):
    """A decoder of the size of GPT-2: 12 blocks of width 768."""

    def __init__(self) -> None:
        super().__init__()
        self.wte = nn.Embedding(50257, 768)
        self.blocks = nn.ModuleList(Block(768, 12) for _ in range(12))
        self.ln_f = nn.LayerNorm(768)
        self.lm_head = nn.Linear(768, 50257, bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Logits."""
        x = self.wte(ids)
        for block in self.blocks:
            x = block(x)
        return self.lm_head(self.ln_f(x))


def small_layers() -> Subject:
    """Three hundred layers so small that only overhead remains: the worst case."""
    return Subject(nn.Sequential(*[nn.Linear(64, 64) for _ in range(300)]), (torch.randn(1, 64),))


SUBJECTS: dict[str, Callable[[], Subject]] = {
    "ResNet-50, 64 px": lambda: Subject(ResNet50(), (torch.randn(1, 3, 64, 64),)),
    "ResNet-50, 224 px": lambda: Subject(ResNet50(), (torch.randn(1, 3, 224, 224),)),
    "GPT-2, 32 tokens": lambda: Subject(GPT2(), (torch.randint(0, 50257, (1, 32)),)),
    "300 tiny layers": small_layers,
}
ON_ACCELERATOR: dict[str, Callable[[], Subject]] = {
    "ResNet-50, 32 x 224 px": lambda: Subject(ResNet50(), (torch.randn(32, 3, 224, 224),)),
    "GPT-2, 8 x 512 tokens": lambda: Subject(GPT2(), (torch.randint(0, 50257, (8, 512)),)),
}
WITH_TARGET = frozenset({"ResNet-50, 64 px", "ResNet-50, 224 px", "ResNet-50, 32 x 224 px", "GPT-2, 8 x 512 tokens"})
"""Models for which the target of a captured pass applies."""


class Tables:
    """Receives every pass and renders its table of layers, as for a terminal."""

    def __init__(self) -> None:
        self.text = ""
        self.path: Path | None = None

    def debug(self, line: str) -> None:
        """Ignore debug output."""

    def warn(self, line: str) -> None:
        """Stop: a benchmark that cannot write has no figures."""
        raise SystemExit(line)

    def passed(self, captured: Any) -> None:
        """Render the table of the pass."""
        from assay.api.capture.tables import layer_lines
        from assay.views.text.layer_table import layer_text

        self.text = layer_text(layer_lines(captured), width=120)
        self.path = captured.path


def runs(subject: Subject, directory: Path, device: str) -> Iterator[tuple[str, Callable[[], object]]]:
    """Every way to run the model, with its name."""
    from assay import capture_model
    from assay.trace.write import gate
    from assay.trace.write.plan import CapturePlan

    plain_call = nn.Module.__call__
    tables = Tables()
    captures = gate.Gate(tables)
    plan = CapturePlan(directory, "model")
    assert capture_model(type(subject.model)) is type(subject.model)
    models = {OFF: subject.model}
    for name, how in {DEFAULTS: plan, LIGHT: replace(plan, record_shapes=False, profile_memory=False)}.items():
        models[name] = _again(subject.model)
        captures.add_object(models[name], how)
    watched_call = nn.Module.__call__

    def call(model: nn.Module, method: Any) -> None:
        nn.Module.__call__ = method
        with torch.no_grad():
            model(*subject.args)
        nn.Module.__call__ = watched_call
        if device != "cpu":
            torch.cuda.synchronize()

    yield PLAIN, lambda: call(subject.model, plain_call)
    yield OFF, lambda: call(models[OFF], plain_call)
    yield DEFAULTS, lambda: (call(models[DEFAULTS], watched_call), _clear(directory))
    yield LIGHT, lambda: (call(models[LIGHT], watched_call), _clear(directory))
    yield FLOOR, lambda: _floor(lambda: call(subject.model, plain_call), directory / "torch.json", device)
    yield TORCH_PLAIN, lambda: _torch(lambda: call(subject.model, plain_call), directory / "torch.json", full=False)
    yield TORCH_FULL, lambda: _torch(lambda: call(subject.model, plain_call), directory / "torch.json", full=True)


def _again(model: nn.Module) -> nn.Module:
    import copy

    return copy.deepcopy(model)


def _clear(directory: Path) -> None:
    """Delete the traces to save disk space; this takes a few microseconds per file."""
    for path in directory.iterdir():
        path.unlink()


def _floor(run: Callable[[], object], path: Path, device: str) -> None:
    """The minimum for any capture with shapes and memory: only torch's profiler."""
    with torch.autograd.profiler.profile(
        use_kineto=True, use_device=None if device == "cpu" else device, record_shapes=True, profile_memory=True
    ) as profile:
        run()
    profile.export_chrome_trace(str(path))


def _torch(run: Callable[[], object], path: Path, *, full: bool) -> object:
    """A hand-written version with torch.profiler around each pass."""
    with torch.profiler.profile(record_shapes=full, profile_memory=full, with_stack=full) as profile:
        run()
    profile.export_chrome_trace(str(path))
    if full:
        with path.open() as file:
            return len(json.load(file)["traceEvents"])
    return profile.key_averages().table(sort_by="self_cpu_time_total", row_limit=24)


def child(job: str, rounds: int, device: str) -> list[Row]:
    """The rows of one model, and on an accelerator the share of its time attributed to modules."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")
    made = {**SUBJECTS, **ON_ACCELERATOR}[job]()
    subject = Subject(made.model.eval().to(device), tuple(value.to(device) for value in made.args))
    clock = own_cpu_s if device == "cpu" else time.perf_counter
    with tempfile.TemporaryDirectory() as place:
        rows = list(interleaved(dict(runs(subject, Path(place), device)), rounds, clock).values())
        for row in rows:
            row.group = job
            row.limit_ratio = {DEFAULTS: LIMIT, LIGHT: LIMIT}.get(row.what) if job in WITH_TARGET else None
        if device != "cpu":
            rows.append(attributed(subject, Path(place), job))
    return rows


def attributed(subject: Subject, directory: Path, job: str) -> Row:
    """A row with the share of device time that one captured pass attributes to modules."""
    import assay
    from assay.trace.read.reading import read_trace

    with torch.no_grad(), assay.capture(subject.model, directory) as capture:
        subject.model(*subject.args)
    trace = read_trace(str(capture.path))
    attributed_ns = sum(layer.gpu_self_ns or 0 for layer in trace.layers)
    share = attributed_ns / trace.gpu_ns if trace.gpu_ns else 0.0
    return Row(
        job, "device time attributed to modules", why_not=f"{100 * share:.2f} % of {(trace.gpu_ns or 0) / 1e6:.2f} ms"
    )


def main() -> None:
    """Measure all models and print the table; --out also writes it to a file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", default="", help="run only models whose names contain this text")
    parser.add_argument("--child")
    given = parser.parse_args()
    device = os.environ.get("ASSAY_BENCHMARK_DEVICE", given.device)
    if given.child:
        give_back(child(given.child, given.rounds, device))
        return
    os.environ["ASSAY_BENCHMARK_DEVICE"] = device
    jobs = [job for job in (SUBJECTS if device == "cpu" else ON_ACCELERATOR) if given.only in job]
    rows = [row for job in jobs for row in in_child(__file__, job, given.rounds)]
    where = "" if device == "cpu" else f", {torch.cuda.get_device_name()}"
    date = datetime.date.today().isoformat()
    unit = "CPU time" if device == "cpu" else "wall time"
    text = (
        f"Captured passes, {date}. {hardware()}{where}. {unit}, {given.rounds} interleaved rounds.\n\n{table(rows)}\n"
    )
    print(text)
    if given.out is not None:
        (ROOT / given.out).write_text(text)


if __name__ == "__main__":
    main()
