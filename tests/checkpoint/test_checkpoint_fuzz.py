"""Opening a mutated file of any format gives a checkpoint or a ReadError.

`ASSAY_FUZZ_EXAMPLES` sets the number of mutations per format.
"""

from __future__ import annotations

import io
import os
import pickle
import warnings
import zipfile

import numpy as np
import pytest
import torch
import torch.distributed.checkpoint as dcp
from checkpoint_files import gguf_file, gguf_text, info, safetensors_file, tar_file
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from assay.checkpoint.open import open_checkpoint
from assay.checkpoint.reading import RangeReader
from assay.errors import ReadError

EXAMPLES = int(os.environ.get("ASSAY_FUZZ_EXAMPLES", "80"))


def model():
    return torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))


def state():
    weight = torch.arange(12.0).reshape(3, 4)
    return {"a": weight, "b": weight.t(), "c": [weight[1], 5, "text"], "d": torch.ones(2, dtype=torch.bfloat16)}


def exported(path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.export.save(torch.export.export(model().eval(), (torch.ones(1, 3),)), path)


def deflated(path):
    torch.save({**state(), "zeros": torch.zeros(5000)}, path)
    with (
        zipfile.ZipFile(io.BytesIO(path.read_bytes())) as old,
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for item in old.infolist():
            new.writestr(item.filename, old.read(item))


SEEDS = {
    "safetensors": lambda path: safetensors_file(
        path, {"__metadata__": {"k": "v"}, "a": info(), "b": info("BF16", (2, 3), 8, 20)}, bytes(20)
    ),
    "zip": lambda path: torch.save(state(), path),
    "module": lambda path: torch.save(model(), path),
    "legacy": lambda path: torch.save(state(), path, _use_new_zipfile_serialization=False),
    "pickle": lambda path: path.write_bytes(pickle.dumps(state())),
    "text": lambda path: path.write_bytes(pickle.dumps((state(), np.arange(2500) - 7.5), protocol=2)),
    "deflated": deflated,
    "script": lambda path: torch.jit.script(model()).save(path),
    "pt2": exported,
    "tar": lambda path: tar_file(path, torch.arange(8.0)),
    "gguf": lambda path: gguf_file(
        path,
        [("w", (4,), 0, 0), ("q", (32,), 2, 32)],
        [("k", 8, gguf_text("v")), ("n", 4, b"\1\0\0\0")],
        data=bytes(64),
    ),
}


class Seeds(dict):
    def __repr__(self):
        return "the seeds"


@pytest.fixture(scope="module")
def seeds(tmp_path_factory):
    folder = tmp_path_factory.mktemp("seeds")
    contents = Seeds()
    for name, write in SEEDS.items():
        write(folder / name)
        contents[name] = (folder / name).read_bytes()
    return contents


mutations = st.lists(
    st.tuples(
        st.sampled_from(["set", "cut", "insert", "copy", "number"]),
        st.floats(0, 1, exclude_max=True),
        st.floats(0, 1, exclude_max=True),
        st.binary(min_size=1, max_size=9),
    ),
    min_size=1,
    max_size=6,
)
EDGES = [0, 1, 0x7F, 0xFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 1 << 62, (1 << 64) - 1]


def mutated(data, steps):
    """`data` with bytes overwritten, removed, inserted, copied, or replaced by the limit of an integer type."""
    for kind, first, second, piece in steps:
        at, to = int(first * len(data)), int(second * len(data))
        if kind == "set":
            data = data[:at] + piece + data[at + len(piece) :]
        elif kind == "cut":
            data = data[:at] + data[at + len(piece) :] if second < 0.7 else data[: max(at, 1)]
        elif kind == "insert":
            data = data[:at] + piece + data[at:]
        elif kind == "copy":
            data = data[:at] + data[to : to + 40] + data[at:]
        else:
            width = (1, 2, 4, 8)[piece[0] % 4]
            edge = EDGES[piece[-1] % len(EDGES)] % (1 << 8 * width)
            data = data[:at] + edge.to_bytes(width, "little") + data[at + width :]
    return data


def check_opening(path):
    """Open `path` and read the last byte of every tensor; only ReadError may be raised."""
    try:
        checkpoint = open_checkpoint(path)
    except ReadError as error:
        assert "\n" not in str(error)  # noqa: PT017
        return
    for entry in checkpoint.entries:
        if entry.span is not None and entry.span.length:
            _read_end(entry)
            assert entry.bytes <= entry.span.length
        if entry.shares_storage_with is not None:
            assert entry.shares_storage_with < len(checkpoint.entries)


def _read_end(entry):
    """Read the last byte of a tensor; ReadError is allowed only if it must be decoded."""
    try:
        assert (
            len(RangeReader().read(entry.span.file, entry.span.offset + entry.span.length - 1, 1, entry.encoded)) == 1
        )
    except ReadError:
        assert entry.encoded


@pytest.mark.parametrize("seed", SEEDS)
@settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck), derandomize=EXAMPLES <= 80)
@given(steps=mutations)
def test_a_mutated_file_is_a_checkpoint_or_a_read_error(seeds, tmp_path_factory, seed, steps):
    path = tmp_path_factory.getbasetemp() / f"mutated-{seed}"
    path.write_bytes(mutated(seeds[seed], steps))
    check_opening(path)


@pytest.mark.parametrize("inner", ["data.pkl", "constants.pkl", ".json", ".py"])
@settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck), derandomize=EXAMPLES <= 80)
@given(steps=mutations)
def test_a_mutated_member_of_an_intact_archive(seeds, tmp_path_factory, inner, steps):
    """The archive itself is intact, so the mutation reaches the reader of the member."""
    seed = seeds["pt2" if inner == ".json" else "script" if inner != "data.pkl" else "zip"]
    path = tmp_path_factory.getbasetemp() / f"member-{inner}"
    with zipfile.ZipFile(io.BytesIO(seed)) as source, zipfile.ZipFile(path, "w") as target:
        for item in source.infolist():
            data = source.read(item)
            target.writestr(item.filename, mutated(data, steps) if item.filename.endswith(inner) else data)
    check_opening(path)


@settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck), derandomize=EXAMPLES <= 80)
@given(steps=mutations)
def test_mutated_metadata_of_a_distributed_checkpoint(tmp_path_factory, steps):
    folder = tmp_path_factory.getbasetemp() / "mutated-dcp"
    kept = tmp_path_factory.getbasetemp() / "kept.metadata"
    if not kept.exists():
        dcp.save({"w": torch.ones(2, 3), "n": 4}, checkpoint_id=folder, no_dist=True)
        kept.write_bytes((folder / ".metadata").read_bytes())
    (folder / ".metadata").write_bytes(mutated(kept.read_bytes(), steps))
    check_opening(folder)
