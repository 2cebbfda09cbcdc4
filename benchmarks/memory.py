"""Predicted beside measured peak memory of a forward pass and a training step, as a Markdown table.

python benchmarks/memory.py --device cpu
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import torch
from device_models import Decoder, convolutional
from torch import nn

import assay
from assay.analysis.memory import compared_peaks, memory_of

MIB = 1 << 20
HEADINGS = ("model", "pass", "predicted", "on shapes", "allocated", "÷", "resident", "peak reached in")


class Outputs(nn.Module):
    """A recurrent network without its final states."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The outputs of all steps."""
        outputs: torch.Tensor = self.network(x)[0]
        return outputs


def cases(scale: int) -> Iterator[tuple[str, nn.Module, torch.Tensor]]:
    """Models and inputs with at least 50 MiB of activations; batches grow with `scale`."""
    sequences = torch.randn(64 * scale, 256, 256)
    yield "LSTM 256→512", Outputs(nn.LSTM(256, 512, batch_first=True)), sequences
    yield "LSTM 256→256, 2 layers, bidirectional", Outputs(nn.LSTM(256, 256, 2, bidirectional=True)), sequences
    yield "GRU 256→512, 2 layers", Outputs(nn.GRU(256, 512, 2, batch_first=True)), sequences
    yield "RNN 256→512, 2 layers", Outputs(nn.RNN(256, 512, 2)), sequences
    yield "ResNet-50", convolutional(), torch.randn(8 * scale, 3, 224, 224)
    yield "GPT-2, 512 tokens", Decoder(), torch.randint(1000, (1 * scale, 512))
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(256, 4, batch_first=True, dropout=0.0), 2)
    yield "TransformerEncoder of 256, 2 layers", encoder, torch.randn(32 * scale, 256, 256)
    yield (
        "MLP 512→2048→512",
        nn.Sequential(nn.Linear(512, 2048), nn.GELU(), nn.Linear(2048, 512)),
        torch.randn(8192, 512),
    )


def rows(name: str, model: nn.Module, inputs: torch.Tensor, device: str) -> Iterator[list[str]]:
    """One row for the forward pass and one for the training step."""
    document = assay.profile(model, inputs, device=device, backward=True, passes=1, warmup=1)
    shapes: Any = {}
    for mode in ("meta", "fake"):
        recorded = assay.observe(model, inputs, mode=mode, backward=True)
        memory = memory_of(recorded, device=device)
        if memory.training is not None:
            shapes = {"forward pass": memory.inference, "training step": memory.training}
            break
    measured = document.profile
    assert measured is not None
    ops = {"forward pass": measured.memory, "training step": measured.step.memory if measured.step else None}
    for peak in compared_peaks(document, memory_of(document)):
        on_shapes = shapes.get(peak.name)
        added = None if on_shapes is None else on_shapes.total.value - on_shapes.resident.value
        op = getattr(ops[peak.name], "allocator_op", "")
        ratio = "–" if peak.ratio is None else f"{peak.ratio:.2f}"
        sizes = [_mib(size) for size in (peak.predicted.value, added, peak.measured.value)]
        yield [name, peak.name, *sizes, ratio, _mib(peak.process_growth.value), op.removeprefix("aten::")]


def _mib(size: float | None) -> str:
    return "–" if size is None else f"{size / MIB:.0f}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--scale", type=int, default=1, help="Multiply all batches by this.")
    arguments = parser.parse_args()
    print(f"torch {torch.__version__}, {arguments.device}, {torch.get_num_threads()} threads. Values in MiB.\n")
    print(f"| {' | '.join(HEADINGS)} |\n|{' --- |' * len(HEADINGS)}")
    for case in cases(arguments.scale):
        for row in rows(*case, arguments.device):
            print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
