"""Checkpoints made to exhaust memory or time: each function writes one into a folder and returns the path to open."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import struct
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
import torch.distributed.checkpoint as dcp
from checkpoint_files import (
    dict_pickle,
    gguf_file,
    info,
    safetensors_file,
    tar_file,
    tensor_pickle,
    text,
    torch_file,
)
from fuzz_mutations import zipped

HUGE = 1 << 62
MANY = 300_000
STRING_BYTES = 4000
"""Strings of a pickle up to about this length are kept."""


def _saved(folder: Path, value: object) -> Path:
    torch.save(value, folder / "model.pt")
    return folder / "model.pt"


def _pickled(folder: Path, *codes: bytes) -> Path:
    path = folder / "model.pkl"
    with open(path, "wb") as file:
        file.write(b"\x80\x02")
        file.writelines(codes)
    return path


def safetensors_huge_empty(folder: Path) -> Path:
    return safetensors_file(folder / "model.safetensors", {"w": info(shape=(HUGE, 0), end=0)})


def gguf_huge_empty(folder: Path) -> Path:
    return gguf_file(folder / "model.gguf", [("w", (0, HUGE), 0, 0)])


def npy_huge_empty(folder: Path) -> Path:
    with open(folder / "w.npy", "wb") as file:
        header = {"descr": "<f4", "fortran_order": True, "shape": (HUGE, 0)}
        np.lib.format.write_array_header_1_0(file, header)
    return folder / "w.npy"


def overlapping_view(folder: Path) -> Path:
    return _saved(folder, {"w": torch.zeros(2**18).as_strided((2**16,) * 3, (1, 1, 1))})


def shifted_views(folder: Path) -> Path:
    base = torch.zeros(1_010_000)
    return _saved(folder, {str(first): base[first : first + 1_000_000] for first in range(10_000)})


def expanded(folder: Path) -> Path:
    views = {"a": torch.zeros(1, 1).expand(50, 40), "b": torch.ones(1).expand(2**40)}
    return _saved(folder, views)


def medium_strings(folder: Path, size: int) -> Path:
    """A pickled list of distinct strings that take `size` bytes together."""
    strings = (text(f"{index:0{STRING_BYTES}d}") for index in range(size // STRING_BYTES))
    return _pickled(folder, b"](", *strings, b"e.")


def safetensors_of_many(folder: Path, count: int = MANY) -> Path:
    row = b'"layers.%d.w":{"dtype":"BF16","shape":[1],"data_offsets":[%d,%d]}'
    rows = (row % (i, 2 * i, 2 * i + 2) for i in range(count))
    return safetensors_file(folder / "model.safetensors", b"{" + b",".join(rows) + b"}", bytes(2 * count))


def zip_of_many(folder: Path, count: int = MANY) -> Path:
    """Tensors of a torch.save file, one storage each; the globals are pickled once."""
    head = b"ctorch._utils\n_rebuild_tensor_v2\nq\0ctorch\nFloatStorage\nq\1ccollections\nOrderedDict\nq\x02" + b"000"
    storage, rest = b"h\0((" + text("storage") + b"h\1", text("cpu") + b"K\1tQK\0K\1\x85K\1\x85\x89h\2)RtR"
    rows = (text(f"layers.{i}.w") + storage + text(str(i)) + rest for i in range(count))
    body = b"\x80\x02" + head + b"}(" + b"".join(rows) + b"u."
    members = [("archive/data.pkl", 0, body), *((f"archive/data/{i}", 0, b"1234") for i in range(count))]
    (folder / "model.pt").write_bytes(zipped(members))
    return folder / "model.pt"


def zip_of_many_members(folder: Path) -> Path:
    members = [("archive/data.pkl", 0, dict_pickle()), *((f"archive/other/{i}", 0, b"") for i in range(100_000))]
    (folder / "model.pt").write_bytes(zipped(members))
    return folder / "model.pt"


def npz_of_many(folder: Path) -> Path:
    buffer = io.BytesIO()
    np.save(buffer, np.ones(2))
    (folder / "model.npz").write_bytes(zipped([(f"{i}.npy", 8, buffer.getvalue()) for i in range(100_000)]))
    return folder / "model.npz"


def index_of_missing_shards(folder: Path) -> Path:
    path = folder / "model.safetensors.index.json"
    path.write_text(json.dumps({"weight_map": {f"w{i}": f"s{i}.safetensors" for i in range(200_000)}}))
    return path


def zip_bomb_pickle(folder: Path) -> Path:
    return _bomb(folder / "model.pt", "archive/data.pkl", b"]" * (40 << 20))


def zip_bomb_record(folder: Path) -> Path:
    return torch_file(
        folder / "model.pt",
        dict_pickle(w=tensor_pickle((1 << 28,), numel=1 << 28)),
        {"0": bytes(1 << 30)},
        zipfile.ZIP_DEFLATED,
    )


def npz_bomb(folder: Path) -> Path:
    buffer = io.BytesIO()
    np.save(buffer, np.zeros(1 << 26))
    return _bomb(folder / "model.npz", "w.npy", buffer.getvalue())


def _bomb(path: Path, name: str, data: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, data)
    return path


def gzip_bomb(folder: Path) -> Path:
    path = folder / "model.assay.json.gz"
    with gzip.open(path, "wb") as file:
        file.write(b'{"assay_schema": 1, "x": "')
        for _ in range(64):
            file.write(bytes(b"a" * (16 << 20)))
        file.write(b'"}')
    return path


def nested_pickle(folder: Path) -> Path:
    return _pickled(folder, b"](" * 3000, b"]", b"\x85" * 2_000_000, b"e" * 3000, b".")


def nested_index(folder: Path) -> Path:
    path = folder / "model.safetensors.index.json"
    path.write_text('{"weight_map": ' + "[" * 5_000_000)
    return path


def nested_header(folder: Path) -> Path:
    return safetensors_file(folder / "model.safetensors", b'{"w": ' + b"[" * 1_000_000 + b"]" * 1_000_000 + b"}")


def doubled_lists(folder: Path) -> Path:
    """Each of 60 lists contains the one before it twice."""
    steps = (b"](h%bh%beq%b" % (bytes([i]), bytes([i]), bytes([i + 1])) for i in range(60))
    return _pickled(folder, b"]q\0", *steps, b".")


def doubled_arguments(folder: Path) -> Path:
    """The same with the arguments of unknown calls."""
    steps = (b"cx\ny\n(h%bh%btRq%b" % (bytes([i]), bytes([i]), bytes([i + 1])) for i in range(60))
    return _pickled(folder, b"]q\0", *steps, b".")


def doubled_key(folder: Path) -> Path:
    """Each of 60 tuples contains the one before it twice, so that its text and its comparison never end."""
    return _pickled(folder, b"}", _doubled(), b"0cx\ny\nh\x3c\x85RNs.")


def doubled_dtype(folder: Path) -> Path:
    return _pickled(folder, _doubled(), b"0cnumpy\ndtype\nh\x3c\x85R.")


def doubled_layout(folder: Path) -> Path:
    layout = b"ctorch.serialization\n_get_layout\nh\x3c\x85R"
    return _pickled(folder, _doubled(), b"0ctorch._utils\n_rebuild_sparse_tensor\n", layout, b")\x86R.")


def doubled_attribute(folder: Path) -> Path:
    function = b"ctorch._tensor\n_rebuild_from_type_v2\n(NN)}cx\ny\nh\x3c\x85RNstR."
    return _pickled(folder, _doubled(), b"0", function)


def doubled_number_of_elements(folder: Path) -> Path:
    """Two persistent ids of one storage whose numbers of elements are equal tuples, built separately."""
    pid = b"(" + text("storage") + b"ctorch\nFloatStorage\n" + text("0") + text("cpu") + b"h\x3ctQ"
    return torch_file(folder / "model.pt", b"\x80\x02" + (_doubled() + b"0" + pid) * 2 + b".")


def doubled_list_of_storages(folder: Path) -> Path:
    head = b"".join(pickle.dumps(value, 2) for value in (0x1950A86A20F9469CFC6C, 1001, {}, {}))
    (folder / "model.pt").write_bytes(head + b"\x80\x02]" + _doubled() + b"a.")
    return folder / "model.pt"


def _doubled() -> bytes:
    """Opcodes that push a tuple of 2^60 empty ones, which is entry 60 of the memo."""
    return b")q\0" + b"".join(b"0h%bh%b\x86q%b" % (bytes([i]), bytes([i]), bytes([i + 1])) for i in range(60))


def sparse_memo(folder: Path) -> Path:
    puts = (b"r" + struct.pack("<I", (index * 2_654_435_761) % (1 << 32)) for index in range(5_000_000))
    return _pickled(folder, b"]", *puts, b".")


def many_marks(folder: Path) -> Path:
    return _pickled(folder, b"(" * 100_000_000, b".")


def many_values(folder: Path) -> Path:
    return _pickled(folder, b"](" + b"]" * 100_000_000, b"e.")


def long_metadata(folder: Path) -> Path:
    return _large_header(folder, b'{"__metadata__":{"k":"', b"x", b'"}}')


def many_brackets(folder: Path) -> Path:
    return _large_header(folder, b'{"w":[', b"[],", b"[]]}")


def many_colons(folder: Path) -> Path:
    return _large_header(folder, b"{", b'"":0,', b'"w":0}')


def blank_header(folder: Path) -> Path:
    return _large_header(folder, b"{", b" ", b"}")


def _large_header(folder: Path, head: bytes, item: bytes, tail: bytes) -> Path:
    count = (99_999_000 - len(head) - len(tail)) // len(item)
    return safetensors_file(folder / "model.safetensors", head + item * count + tail)


def gguf_list_of_numbers(folder: Path) -> Path:
    return _gguf_list(folder, 0, b"")


def gguf_list_of_texts(folder: Path) -> Path:
    return _gguf_list(folder, 8, bytes(8) * 1000)


def gguf_list_of_lists(folder: Path) -> Path:
    return _gguf_list(folder, 9, struct.pack("<IQ", 9, 1 << 60) * 1000)


def _gguf_list(folder: Path, kind: int, items: bytes) -> Path:
    value = struct.pack("<IQ", kind, 1 << 60) + items
    return gguf_file(folder / "model.gguf", values=[("k", 9, value)])


def gguf_nested_empty_lists(folder: Path) -> Path:
    """Lists of empty lists, four million of them."""
    value = struct.pack("<IQ", 9, 4_000_000) + struct.pack("<IQ", 0, 0) * 4_000_000
    return gguf_file(folder / "model.gguf", values=[("k", 9, value)])


def tar_with_huge_member(folder: Path) -> Path:
    path = tar_file(folder / "model.pt", torch.arange(8.0))
    data = bytearray(path.read_bytes())
    for start in range(0, len(data), 512):
        if data[start + 257 : start + 262] == b"ustar" and data[start : start + 8] == b"storages":
            data[start + 124 : start + 136] = b"\x80" + bytes(3) + struct.pack(">Q", HUGE)
            data[start + 148 : start + 156] = b" " * 8
            data[start + 148 : start + 156] = b"%06o\0 " % sum(data[start : start + 512])
    path.write_bytes(data)
    return path


def tar_of_many_storages(folder: Path) -> Path:
    """A member that declares 2^60 storages."""
    return _tar(folder, pickle.dumps(1 << 60, 2))


def tar_with_doubled_count(folder: Path) -> Path:
    return _tar(folder, b"\x80\x02" + _doubled() + b".")


def tar_with_doubled_key(folder: Path) -> Path:
    row = b"\x80\x02" + _doubled() + b"0h\x3cNctorch\nFloatStorage\n\x87."
    return _tar(folder, pickle.dumps(1, 2) + row + bytes(8))


def _tar(folder: Path, storages: bytes) -> Path:
    path = folder / "model.pt"
    members = {
        "sys_info": pickle.dumps({"little_endian": True}, 2),
        "storages": storages,
        "tensors": pickle.dumps(1 << 60, 2),
        "pickle": pickle.dumps({}, 2),
    }
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as archive:
        for name, data in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return path


def distributed_items(folder: Path) -> Path:
    """Tensors whose bytes are the same archive, almost as many as a pickle may describe."""

    dcp.save({"w": torch.ones(2)}, checkpoint_id=folder, no_dist=True)
    metadata = pickle.loads((folder / ".metadata").read_bytes())  # noqa: S301
    (whole,), (((index, item),)) = metadata.state_dict_metadata.values(), metadata.storage_data.items()
    names = [f"w{i}" for i in range(80_000)]
    metadata.state_dict_metadata = dict.fromkeys(names, whole)
    metadata.planner_data = None
    metadata.storage_data = {replace(index, fqn=name): item for name in names}
    (folder / ".metadata").write_bytes(pickle.dumps(metadata))
    return folder


def pt2_payloads(folder: Path) -> Path:
    return _pt2(folder, bytes(8))


def pt2_archive_payloads(folder: Path) -> Path:
    """The payload is a torch.save file of 100 tensors, as those of tensor subclasses are."""
    buffer = io.BytesIO()
    torch.save({str(i): torch.ones(2) for i in range(100)}, buffer)
    return _pt2(folder, buffer.getvalue())


def _pt2(folder: Path, payload: bytes) -> Path:
    meta = {
        "dtype": 7, "sizes": [{"as_int": 2}], "requires_grad": True, "device": {"type": "cpu", "index": None},
        "strides": [{"as_int": 1}], "storage_offset": {"as_int": 0}, "layout": 7,
    }  # fmt: skip
    described = {"path_name": "weight_0", "is_param": True, "use_pickle": False, "tensor_meta": meta}
    config = {"config": {f"w{i}": described for i in range(100_000)}}
    members = [
        ("model/archive_format", 0, b"pt2"),
        ("model/data/weights/model_weights_config.json", 0, json.dumps(config).encode()),
        ("model/data/weights/weight_0", 0, payload),
    ]
    (folder / "model.pt2").write_bytes(zipped(members))
    return folder / "model.pt2"


HOSTILE: tuple[Callable[[Path], Path], ...] = (
    safetensors_huge_empty,
    gguf_huge_empty,
    npy_huge_empty,
    overlapping_view,
    shifted_views,
    expanded,
    safetensors_of_many,
    zip_of_many,
    zip_of_many_members,
    npz_of_many,
    index_of_missing_shards,
    zip_bomb_pickle,
    zip_bomb_record,
    npz_bomb,
    gzip_bomb,
    nested_pickle,
    nested_index,
    nested_header,
    doubled_lists,
    doubled_arguments,
    doubled_key,
    doubled_dtype,
    doubled_layout,
    doubled_attribute,
    doubled_number_of_elements,
    doubled_list_of_storages,
    sparse_memo,
    many_marks,
    many_values,
    long_metadata,
    many_brackets,
    many_colons,
    blank_header,
    gguf_list_of_numbers,
    gguf_list_of_texts,
    gguf_list_of_lists,
    gguf_nested_empty_lists,
    tar_with_huge_member,
    tar_of_many_storages,
    tar_with_doubled_count,
    tar_with_doubled_key,
    distributed_items,
    pt2_payloads,
    pt2_archive_payloads,
)
