"""Helpers that build checkpoint files by hand and compare what is read with the tensors that torch reads."""

from __future__ import annotations

import io
import json
import os
import pickle
import struct
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import torch
from clocks import HANG_S

import assay
from assay.checkpoint.reading import RangeReader

SOURCE = str(Path(assay.__file__).parents[1])


def plain_bytes(entry):
    """The decoded bytes of an entry."""
    return RangeReader().read(entry.span.file, entry.span.offset, entry.span.length, entry.encoded)


def tensor_of(entry):
    """The tensor that an entry describes, built only from its bytes."""
    dtype = getattr(torch, entry.dtype)
    if entry.span is None:
        return torch.empty(entry.shape, dtype=dtype)
    flat = torch.frombuffer(bytearray(plain_bytes(entry)), dtype=dtype)
    if entry.strides is None:
        return flat.reshape(entry.shape)
    return flat.as_strided(entry.shape, entry.strides, entry.storage_offset)


def bits(tensor):
    """The dtype, shape and exact bytes of a tensor."""
    flat = tensor.detach().contiguous().reshape(-1)
    return tensor.dtype, tuple(tensor.shape), flat.view(torch.uint8).numpy().tobytes()


def assert_same(checkpoint, expected):
    """Check that the checkpoint has exactly the tensors of `expected`, bit for bit."""
    entries = {name: entry for entry in checkpoint.entries for name in entry.names}
    assert sorted(entries) == sorted(expected)
    for name, tensor in expected.items():
        entry = entries[name]
        assert not entry.problem
        assert bits(tensor_of(entry)) == bits(tensor), name
        if entry.span:
            assert entry.bytes == tensor.numel() * tensor.element_size()
        if entry.span and not entry.encoded:
            first = entry.span.offset + entry.storage_offset * tensor.element_size()
            assert entry.alignment
            assert first % entry.alignment == 0
            assert first % (2 * entry.alignment)


def safetensors_file(path, header, data=b"", length=None):
    """Write a safetensors file with this header (an object, or raw bytes)."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text) if length is None else length) + text + data)
    return path


def info(dtype="F32", shape=(2,), begin=0, end=8):
    """The description of a tensor in a safetensors header."""
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}


def text(value):
    return b"X" + struct.pack("<I", len(value)) + value.encode()


def number(value):
    size = value.to_bytes((value.bit_length() + 8) // 8, "little", signed=True)
    return b"\x8a" + bytes([len(size)]) + size


def numbers(values):
    return b"(" + b"".join(map(number, values)) + b"t"


def storage_pickle(key="0", kind="FloatStorage", numel=4):
    return (
        b"(" + text("storage") + b"ctorch\n" + kind.encode() + b"\n" + text(key) + text("cpu") + number(numel) + b"tQ"
    )


def tensor_pickle(shape=(4,), strides=(1,), offset=0, **storage):
    """The opcodes with which torch.save describes one tensor."""
    head = b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage_pickle(**storage) + number(offset)
    return head + numbers(shape) + numbers(strides) + b"\x89ccollections\nOrderedDict\n)RtR"


def dict_pickle(**values):
    """A pickled dictionary; the values are given as opcodes."""
    return b"\x80\x02}(" + b"".join(text(name) + value for name, value in values.items()) + b"u."


def torch_file(path, pickle, records=None, method=zipfile.ZIP_STORED, extra=()):
    """Write a torch.save file with this pickle and these storages."""
    records = {"0": bytes(range(16))} if records is None else records
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", pickle)
        for name, data in records.items():
            archive.writestr(f"archive/data/{name}", data, compress_type=method)
        for name, data in extra:
            archive.writestr(name, data)
    return path


def gguf_text(value):
    return struct.pack("<Q", len(value.encode())) + value.encode()


def gguf_file(path, tensors=(), values=(), version=3, data=b"", counts=None):
    """Write a GGUF file: tensors are (name, dims, type, offset), values are (key, type, bytes)."""
    count = counts or (len(tensors), len(values))
    head = b"GGUF" + struct.pack("<IQQ", version, *count)
    for key, kind, value in values:
        head += gguf_text(key) + struct.pack("<I", kind) + value
    for name, dims, kind, offset in tensors:
        head += gguf_text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, offset)
    path.write_bytes(head + b"\0" * (-len(head) % 32) + data)
    return path


def tar_file(path, tensors, shape=(2, 3), strides=(3, 1), offset=1):
    """Write a torch.save file of the oldest kind, a tar archive, with one view `w` of the storage of `tensors`."""

    def member(archive, name, data):
        entry = tarfile.TarInfo(name)
        entry.size = len(data)
        archive.addfile(entry, io.BytesIO(data))

    def dumped(*values):
        return b"".join(pickle.dumps(value, protocol=2) for value in values)

    class Reference:
        """Pickled as a persistent id, as the old writer did."""

    class Pickler(pickle._Pickler):
        def persistent_id(self, value):
            return "7" if isinstance(value, Reference) else None

    floats = dumped(1, (1, "cpu", torch.FloatStorage)) + struct.pack("<q", tensors.numel())
    floats += tensors.numpy().tobytes() + dumped([])
    rows = dumped(1, (7, 1, torch.FloatTensor)) + struct.pack("<ii", len(shape), 0)
    rows += struct.pack(f"<{len(shape)}q", *shape) + struct.pack(f"<{len(shape)}q", *strides)
    rows += struct.pack("<q", offset)
    buffer = io.BytesIO()
    Pickler(buffer, protocol=2).dump({"w": Reference()})
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
        member(archive, "sys_info", dumped({"little_endian": True}))
        member(archive, "storages", floats)
        member(archive, "tensors", rows)
        member(archive, "pickle", buffer.getvalue())
    return path


LISTING = """
from assay.checkpoint.open import open_checkpoint
def describe(path):
    return f"{len(open_checkpoint(path).entries)} entries"
"""
STATISTICS = """
from assay import analyze_weights
def describe(path):
    return "; ".join(row.problem or "fine" for row in analyze_weights(path).tensors)
"""


def peak_of_child(path, *, statistics=False):
    """The output of a child process that opens `path`, and its peak memory in bytes."""
    program = (STATISTICS if statistics else LISTING) + (
        "import re, sys\n"
        "from assay.errors import ReadError\n"
        "try:\n"
        "    print(describe(sys.argv[1]))\n"
        "except ReadError as error:\n"
        "    print(error)\n"
        "print(re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1])\n"
    )
    # Not getrusage: its peak for a child starts at that of the parent.
    if not Path("/proc/self/status").exists():
        pytest.skip("peak memory is read from /proc")
    command = [sys.executable, "-c", program, str(path)]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": SOURCE}, capture_output=True, text=True, timeout=HANG_S, check=False
    )
    assert not done.stderr
    output, peak = done.stdout.rsplit("\n", 2)[:2]
    return output, int(peak) * 1024
