"""The intact files that the fuzzer damages: `python fuzz_seeds.py FOLDER` writes FOLDER/FORMAT/FILE for every format.

A program of its own, because it imports torch: the processes that open the damaged files must not.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import struct
import sys
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed.checkpoint as dcp
from checkpoint_files import info, safetensors_file, tar_file
from safetensors.torch import save_file


class Canary:
    """Creates a directory if it is unpickled by running its code."""

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        return os.mkdir, ("canary",)


def model() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))


def state() -> dict[str, Any]:
    weight = torch.arange(12.0).reshape(3, 4)
    return {
        "a": weight,
        "b": weight.t(),
        "c": [weight[1], 5, "text", Canary()],
        "d": torch.ones(2, dtype=torch.bfloat16),
        "e": torch.ones(1, 1).expand(3, 2),
    }


def arrays() -> dict[str, Any]:
    return {
        "f": np.arange(6.0).reshape(2, 3),
        "g": np.asfortranarray(np.arange(6, dtype=">i4").reshape(2, 3)),
        "h": np.arange(300, dtype=np.int64) - 7,
        "i": np.float32(3),
        "j": Canary(),
    }


def _file(name: str, write: Callable[[Path], object]) -> Callable[[Path], None]:
    """A seed that is one file."""
    return lambda folder: void(write(folder / name))


def void(_: object) -> None:
    """Nothing."""


def _pickled(value: Callable[[], Any], protocol: int) -> Callable[[Path], None]:
    return _file("model.pkl", lambda path: path.write_bytes(pickle.dumps(value(), protocol)))


def _exported(path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.export.save(torch.export.export(model().eval(), (torch.ones(1, 3),)), path)


def _deflated(path: Path) -> None:
    buffer = io.BytesIO()
    torch.save({**state(), "zeros": torch.zeros(5000)}, buffer)
    with zipfile.ZipFile(buffer) as old, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new:
        for item in old.infolist():
            new.writestr(item.filename, old.read(item))


def _scripted(path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.script(model()).save(path)


def _gguf(version: int, order: str) -> Callable[[Path], None]:
    """A GGUF file with plain and block-quantised tensors, texts and lists."""
    count = "I" if version == 1 else "Q"

    def text(value: str) -> bytes:
        return struct.pack(f"{order}{count}", len(value)) + value.encode()

    def pair(key: str, kind: int, value: bytes) -> bytes:
        return text(key) + struct.pack(f"{order}I", kind) + value

    def tensor(name: str, dims: tuple[int, ...], kind: int, offset: int) -> bytes:
        return text(name) + struct.pack(f"{order}I{len(dims)}{count}IQ", len(dims), *dims, kind, offset)

    def write(path: Path) -> None:
        words = b"".join(text(word) for word in ("a", "b", "longer"))
        values = [
            pair("general.architecture", 8, text("llama")),
            pair("n", 4, struct.pack(f"{order}I", 7)),
            pair("general.alignment", 4, struct.pack(f"{order}I", 32)),
            pair("words", 9, struct.pack(f"{order}I{count}", 8, 3) + words),
            pair("floats", 9, struct.pack(f"{order}I{count}12f", 6, 12, *range(12))),
        ]
        tensors = [
            tensor("w", (4, 2), 0, 0),
            tensor("h", (16,), 1, 32),
            tensor("q8", (32, 2), 8, 64),
            tensor("q4", (32,), 2, 160),
            tensor("q4k", (256,), 12, 192),
        ]
        head = b"GGUF" + struct.pack(f"{order}I2{count}", version, len(tensors), len(values))
        head += b"".join((*values, *tensors))
        path.write_bytes(head + bytes(-len(head) % 32) + bytes(range(1, 193)) + bytes(144))

    return _file("model.gguf", write)


def _distributed(folder: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dcp.save({"w": torch.ones(2, 3), "v": torch.arange(5), "n": 4}, checkpoint_id=folder, no_dist=True)


def _index(folder: Path) -> None:
    shards = {"a": torch.ones(2), "b": torch.zeros(3)}
    for name, tensor in shards.items():
        save_file({name: tensor}, folder / f"{name}.safetensors")
    weight_map = {name: f"{name}.safetensors" for name in shards}
    text = json.dumps({"metadata": {"total_size": 20}, "weight_map": weight_map})
    (folder / "model.safetensors.index.json").write_text(text)


def _numpy(folder: Path) -> None:
    for name, array in arrays().items():
        np.save(folder / f"{name}.npy", np.asarray(array), allow_pickle=True)
    np.save(folder / "s.npy", np.ones(2, [("a", "<f4"), ("b", "<i2")]))


SEEDS: dict[str, Callable[[Path], None]] = {
    "safetensors": _file(
        "model.safetensors",
        lambda path: safetensors_file(
            path, {"__metadata__": {"k": "v"}, "a": info(), "b": info("BF16", (2, 3), 8, 20)}, bytes(20)
        ),
    ),
    "torch-zip": _file("model.pt", lambda path: torch.save(state(), path)),
    "pickled-module": _file("model.pt", lambda path: torch.save(model(), path)),
    "torch-legacy": _file("model.pt", lambda path: torch.save(state(), path, _use_new_zipfile_serialization=False)),
    **{f"pickle-{protocol}": _pickled(state, protocol) for protocol in range(6)},
    **{f"numpy-pickle-{protocol}": _pickled(arrays, protocol) for protocol in (0, 2, 5)},
    "deflated-zip": _file("model.pt", _deflated),
    "torchscript": _file("model.pt", _scripted),
    "pt2": _file("model.pt2", _exported),
    "tar": _file("model.pt", lambda path: tar_file(path, torch.arange(8.0))),
    "gguf-1": _gguf(1, "<"),
    "gguf-2": _gguf(2, "<"),
    "gguf-3": _gguf(3, "<"),
    "gguf-2-big-endian": _gguf(2, ">"),
    "gguf-3-big-endian": _gguf(3, ">"),
    "distributed": _distributed,
    "index": _index,
    "npy": _numpy,
    "npz": _file("model.npz", lambda path: np.savez(path, **arrays())),
    "npz-deflated": _file("model.npz", lambda path: np.savez_compressed(path, **arrays())),
    "json-config": _file("config.json", lambda path: path.write_text('{"model_type": "bert", "hidden_size": 4}')),
    "json-trace": _file("trace.json", lambda path: path.write_text('{"traceEvents": [{"ph": "X", "ts": 1}]}')),
    "json-other": _file("data.json", lambda path: path.write_text('{"a": [1, 2.5, null, "x", {"b": true}]}')),
}
"""Writes the files of each format into an empty directory."""


def write_seeds(folder: Path) -> None:
    """Write the seeds of all formats."""
    torch.manual_seed(0)
    for name, write in SEEDS.items():
        (folder / name).mkdir(parents=True)
        write(folder / name)


if __name__ == "__main__":
    write_seeds(Path(sys.argv[1]))
