"""The files of `extract` keep their bytes from version to version, except for keys that were added.

`python tests/api/test_extract_golden.py` writes the golden files again: only if the format must change.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import torch
from torch import nn

import assay

GOLDEN = Path(__file__).parents[1] / "golden" / "extract"
NAMES = ("unique_modules.json", "pytorch_ops.json")


class Branch(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convs = nn.ModuleList([nn.Conv2d(4, 4, 3, padding=1, bias=False) for _ in range(2)])
        self.norm = nn.BatchNorm2d(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for conv in self.convs:
            x = torch.relu(self.norm(conv(x))) + x
        return x


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3, stride=2)
        self.branches = nn.Sequential(Branch(), Branch())
        self.unused = nn.Dropout(0.1)
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)
        self.recurrent = nn.GRU(4, 4, batch_first=True)
        self.head = nn.Linear(4, 10)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        rows = self.branches(self.stem(x)).flatten(2).transpose(1, 2)
        attended, _ = self.attention(rows, rows, rows, need_weights=False)
        return {"logits": self.head(self.recurrent(attended)[0].mean(1)), "rows": rows}


def load_model() -> nn.Module:
    return Net().eval()


def get_inputs() -> torch.Tensor:
    return torch.zeros(2, 3, 9, 9)


def extract(directory: Path) -> None:
    """Write the two files into `directory`."""
    modules, ops = (directory / name for name in NAMES)
    assay.extract_unique_modules(load_model, get_inputs, modules)
    assay.extract_pytorch_ops(modules, load_model, get_inputs, ops)


def comparable(path: Path) -> str:
    """The text of the file without what depends on the time and the versions."""
    text = re.sub(r'"timestamp": "[^"]*"', '"timestamp": "…"', path.read_text(encoding="utf-8"))
    return re.sub(r'"(assay|torch)": "[^"]*"', r'"\1": "…"', text)


def without_added(value: Any, golden: Any) -> Any:
    """`value` without the keys that `golden` does not have."""
    if isinstance(value, dict) and isinstance(golden, dict):
        return {key: without_added(each, golden[key]) for key, each in value.items() if key in golden}
    if isinstance(value, list) and isinstance(golden, list) and len(value) == len(golden):
        return [without_added(*pair) for pair in zip(value, golden, strict=True)]
    return value


def test_the_files_keep_their_bytes_except_for_added_keys(tmp_path):
    extract(tmp_path)
    for name in NAMES:
        old, new = comparable(GOLDEN / name), comparable(tmp_path / name)
        kept = without_added(json.loads(new), json.loads(old))
        assert msgspec.json.format(msgspec.json.encode(kept), indent=2).decode() + "\n" == old


if __name__ == "__main__":
    extract(GOLDEN)
