"""Listing a checkpoint is cheap: it imports neither torch nor numpy, and its memory is independent of file size."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch
from checkpoint_files import SOURCE, assert_same, peak_of_child, safetensors_file
from safetensors.torch import save_file

from assay.checkpoint.open import open_checkpoint

HEAVY = {"torch", "numpy", "safetensors", "fsspec", "rich", "click"}


def imported(path):
    program = (
        "import sys; from assay.checkpoint.open import open_checkpoint\n"
        "from assay.checkpoint.reading import RangeReader\nread = RangeReader().read\n"
        "for entry in open_checkpoint(sys.argv[1]).entries: read(entry.span.file, 0, entry.span.length)\n"
        "print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)],
        env={**os.environ, "PYTHONPATH": SOURCE},
        capture_output=True,
        text=True,
        check=True,
    )
    return {name.split(".")[0] for name in done.stdout.split()}


@pytest.mark.parametrize(
    "write", [torch.save, save_file, lambda value, path: torch.save(torch.nn.Linear(2, 2), path)]
)
def test_reading_imports_nothing_heavy(tmp_path, write):
    write({"w": torch.ones(3)}, tmp_path / "w")
    assert not imported(tmp_path / "w") & HEAVY


@pytest.mark.parametrize("write", [torch.save, save_file])
def test_twenty_thousand_tensors(tmp_path, write):
    tensors = {f"layers.{i // 10}.part{i % 10}.weight": torch.full((2, 3), float(i)) for i in range(20_000)}
    write(tensors, tmp_path / "many")
    output, peak = peak_of_child(tmp_path / "many")
    assert output == "20000 entries"
    assert peak < 200 << 20
    checkpoint = open_checkpoint(tmp_path / "many")
    some = {name: value for i, (name, value) in enumerate(tensors.items()) if not i % 997}
    kept = [entry for entry in checkpoint.entries if entry.names[0] in some]
    assert_same(type(checkpoint)(checkpoint.format, checkpoint.path, kept), some)


def test_a_header_of_150_000_tensors(tmp_path):
    count = 150_000
    names = [f"model.layers.{i // 500}.mlp.experts.{i % 500}.up_proj.weight_scale_inv" for i in range(count)]
    rows = (
        b'"%b":{"dtype":"BF16","shape":[1],"data_offsets":[%d,%d]}' % (name.encode(), 2 * i, 2 * i + 2)
        for i, name in enumerate(names)
    )
    path = safetensors_file(tmp_path / "many.safetensors", b"{" + b",".join(rows) + b"}", bytes(2 * count))
    assert path.stat().st_size > 15 << 20
    output, peak = peak_of_child(path)
    assert output == f"{count} entries"
    assert peak < 256 << 20


def test_a_header_above_the_limit_is_rejected_before_it_is_read(tmp_path):
    path = safetensors_file(tmp_path / "large.safetensors", b"{}", length=100_000_001)
    os.truncate(path, 200_000_000)
    output, peak = peak_of_child(path)
    assert output.endswith("is rejected: its header has 100000001 bytes, the limit is 100000000")
    assert peak < 60 << 20


def test_only_the_header_of_a_huge_file_is_read(tmp_path):
    """The file is sparse: it has 8 GB but takes no disk space."""
    import json
    import struct

    size = 8 << 30
    header = json.dumps({"w": {"dtype": "BF16", "shape": [size // 2], "data_offsets": [0, size]}}).encode()
    path = tmp_path / "large.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header)
    os.truncate(path, 8 + len(header) + size)
    output, peak = peak_of_child(path)
    assert output == "1 entries"
    assert peak < 100 << 20
