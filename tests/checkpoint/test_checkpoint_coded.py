"""Numbers that must be decoded: compressed tensors, bytes stored as text, big-endian numbers."""

from __future__ import annotations

import pickle
import random
import struct
import zipfile
import zlib

import numpy as np
import pytest
import torch
from checkpoint_files import (
    assert_same,
    dict_pickle,
    peak_of_child,
    plain_bytes,
    tensor_of,
    tensor_pickle,
    torch_file,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.api.weights import analyze_weights
from assay.checkpoint import unpacking
from assay.checkpoint.entries import ByteRange, EncodedBytes
from assay.checkpoint.open import open_checkpoint
from assay.checkpoint.reading import RangeReader
from assay.errors import ReadError


def repacked(source, target, method=zipfile.ZIP_DEFLATED):
    """Write the archive `source` to `target` with all members compressed."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w", method) as new:
        for item in old.infolist():
            new.writestr(item.filename, old.read(item))
    return target


def varied():
    torch.manual_seed(3)
    base = torch.randn(300, 40)
    tensors = {"a": base, "turned": base.t(), "row": base[7], "half": torch.randn(33).bfloat16()}
    return {**tensors, "tied": base, "none": torch.empty(0, 3), "steps": torch.arange(1000)}


# Compressed tensors


def test_compressed_tensors_are_those_that_torch_saved(tmp_path):
    torch.save(varied(), tmp_path / "a.pt")
    checkpoint = open_checkpoint(repacked(tmp_path / "a.pt", tmp_path / "b.pt"))
    assert_same(checkpoint, varied())
    assert {entry.encoded.kind for entry in checkpoint.entries if entry.span} == {"deflate"}


def test_compressed_tensors_have_the_statistics_of_uncompressed_ones(tmp_path):
    torch.save({**varied(), "large": torch.randn(1500, 2000)}, tmp_path / "a.pt")
    plain = analyze_weights(tmp_path / "a.pt").tensors
    packed = analyze_weights(repacked(tmp_path / "a.pt", tmp_path / "b.pt")).tensors
    for one, other in zip(plain, packed, strict=True):
        kept = [name for name in one.__struct_fields__ if name != "alignment"]
        assert [getattr(one, name) for name in kept] == [getattr(other, name) for name in kept]


def test_a_compressed_exported_program(tmp_path):
    model = torch.nn.Linear(4, 3)
    torch.export.save(torch.export.export(model, (torch.ones(1, 4),)), tmp_path / "a.pt2")
    checkpoint = open_checkpoint(repacked(tmp_path / "a.pt2", tmp_path / "b.pt2"))
    assert_same(checkpoint, dict(model.state_dict()))


def test_a_tensor_with_an_unsupported_compression_is_listed(tmp_path):
    pickle = dict_pickle(w=tensor_pickle(shape=(40,), numel=40))
    path = torch_file(tmp_path / "b.pt", pickle, {"0": bytes(160)}, zipfile.ZIP_BZIP2)
    (entry,) = open_checkpoint(path).entries
    assert (entry.shape, entry.bytes, entry.span) == ((40,), 160, None)
    assert "zip method 12, which is not supported" in entry.problem


def file_with_wrong_size(path, stored, declared, numel):
    """Write a torch.save file with a compressed storage that declares a size of `declared` bytes."""
    torch_file(path, dict_pickle(w=tensor_pickle(shape=(numel,), numel=numel)), {"0": stored}, zipfile.ZIP_DEFLATED)
    data = bytearray(path.read_bytes())
    place = data.rindex(b"archive/data/0") - 46
    data[place + 24 : place + 28] = struct.pack("<I", declared)
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("stored", "declared", "message"),
    [(1000, 800, "decodes to more bytes than declared"), (1000, 1200, "decodes to fewer bytes than declared")],
)
def test_a_tensor_with_a_wrong_declared_size_has_no_statistics(tmp_path, stored, declared, message):
    path = file_with_wrong_size(tmp_path / "a.pt", random.Random(1).randbytes(stored), declared, declared // 4)
    (row,) = analyze_weights(path).tensors
    assert message in row.problem
    assert row.mean is None


def test_a_zip_bomb_is_not_decompressed(tmp_path):
    """256 MB of compressed zeros, declared once as 4 KB and once as 256 MB."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = b"".join(packer.compress(bytes(1 << 20)) for _ in range(256)) + packer.flush()
    path = tmp_path / "bomb.pt"
    for declared in (4096, 1 << 28):
        torch_file(path, dict_pickle(w=tensor_pickle(shape=(declared // 4,), numel=declared // 4)), {"0": packed})
        data = bytearray(path.read_bytes())
        place = data.rindex(b"archive/data/0") - 46
        data[place + 10 : place + 12] = struct.pack("<H", 8)
        data[place + 24 : place + 28] = struct.pack("<I", declared)
        path.write_bytes(data)
        output, peak = peak_of_child(path, statistics=True)
        assert ("decodes to more bytes than declared" if declared == 4096 else ":1, above the limit") in output
        assert peak < 256 << 20


def test_the_error_for_a_damaged_record_is_one_line(tmp_path):
    path = file_with_wrong_size(tmp_path / "a.pt", random.Random(1).randbytes(4000), 4000, 1000)
    data = bytearray(path.read_bytes())
    first = data.index(b"archive/data/0") + 14
    data[first : first + 8] = b"\xff" * 8
    path.write_bytes(data)
    (entry,) = open_checkpoint(path).entries
    with pytest.raises(ReadError, match=r"a\.pt is damaged: the record at byte"):
        plain_bytes(entry)


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 5000)), max_size=12), st.booleans(), st.integers(1, 4))
def test_encoded_bytes_can_be_read_at_any_offset_in_any_order(ranges, text, window):
    plain = bytes(random.Random(5).choices(range(256), k=5000))
    packed = plain.decode("latin-1").encode() if text else zlib.compress(plain)[2:-4]
    encoded = EncodedBytes(ByteRange("f", 0, len(packed)), "text" if text else "deflate", len(plain))
    start = unpacking.TextDecoder() if text else unpacking.DeflateDecoder()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(unpacking, "STEP", 700)
        patch.setattr(unpacking, "WINDOW", window * 33)
        decoded = unpacking.DecodedRange(encoded, start, lambda offset, length: packed[offset : offset + length])
        for first, length in ranges:
            length = min(length, 5000 - first)
            assert decoded.read(first, length) == plain[first : first + length]


def test_a_decoder_keeps_few_states_of_a_large_record():
    plain = bytes(40 << 20)
    packed = zlib.compress(plain)[2:-4]
    encoded = EncodedBytes(ByteRange("f", 0, len(packed)), "deflate", len(plain))
    read = lambda offset, length: packed[offset : offset + length]  # noqa: E731
    decoded = unpacking.DecodedRange(encoded, unpacking.DeflateDecoder(), read)
    for first in range(0, len(plain), 1 << 20):
        assert decoded.read(first, 1 << 20) == bytes(1 << 20)
    assert 5 < len(decoded._kept) <= 11


def test_a_reader_can_be_pickled(tmp_path):
    torch.save({"w": torch.arange(50.0)}, tmp_path / "a.pt")
    (entry,) = open_checkpoint(repacked(tmp_path / "a.pt", tmp_path / "b.pt")).entries
    reader = pickle.loads(pickle.dumps(RangeReader()))  # noqa: S301
    data = reader.read(entry.span.file, entry.span.offset, entry.span.length, entry.encoded)
    assert data == np.arange(50, dtype="<f4").tobytes()


# Plain pickles


def arrays():
    rng = np.random.default_rng(0)
    return {
        "large": rng.normal(size=(300, 500)).astype(np.float32),
        "small": rng.normal(size=7),
        "turned": np.asfortranarray(rng.normal(size=(90, 50)).astype(np.float16)),
        "flags": rng.integers(0, 2, 60_000).astype(bool),
        "numbers": rng.integers(-128, 128, (100, 100)).astype(np.int8),
        "none": np.zeros((0, 4), np.float32),
        "all": np.arange(256, dtype=np.uint8).repeat(100),
    }


@pytest.mark.parametrize("protocol", [1, 2, 3, 4, 5])
def test_numpy_arrays_in_a_plain_pickle(tmp_path, protocol):
    path = tmp_path / "a.pkl"
    value = arrays()
    path.write_bytes(pickle.dumps({"blobs": value, "step": 3}, protocol=protocol))
    checkpoint = open_checkpoint(path)
    assert_same(checkpoint, {f"blobs.{name}": torch.from_numpy(array.copy()) for name, array in value.items()})
    assert checkpoint.globals == ()
    assert checkpoint.metadata == {"step": 3}


def test_arrays_in_a_torch_file_with_the_default_protocol(tmp_path):
    torch.save(arrays(), tmp_path / "a.pt")
    expected = {name: torch.from_numpy(array.copy()) for name, array in arrays().items()}
    assert_same(open_checkpoint(tmp_path / "a.pt"), expected)
    twice = open_checkpoint(repacked(tmp_path / "a.pt", tmp_path / "b.pt")).entries
    assert [bool(entry.problem) for entry in twice if entry.names == ("large",)] == [True]
    torch.save(arrays(), tmp_path / "c.pt", pickle_protocol=4)
    assert_same(open_checkpoint(repacked(tmp_path / "c.pt", tmp_path / "d.pt")), expected)


def python_two(array):
    """The opcodes with which Python 2 pickles an array: its bytes are a string."""
    data = array.tobytes()
    content = b"U" + bytes([len(data)]) + data if len(data) < 256 else b"T" + struct.pack("<I", len(data)) + data
    shape = b"(" + b"".join(b"M" + struct.pack("<H", size) for size in array.shape) + b"t"
    kind = b"cnumpy\ndtype\n(U\x02" + array.dtype.str[1:].encode() + b"K\0K\1tR"
    kind += b"(K\3U\1" + array.dtype.str[:1].encode() + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\0tb"
    array_opcodes = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(K\0tU\1btR"
    return array_opcodes + b"(K\1" + shape + kind + b"\x89" + content + b"tb"


def test_arrays_in_a_python_2_pickle(tmp_path):
    value = {"long": np.arange(3000.0), "short": np.array([0.1, -7e9]), "plain": np.zeros(4, np.float32)}
    body = b"".join(b"U" + bytes([len(name)]) + name.encode() + python_two(array) for name, array in value.items())
    path = tmp_path / "old.pkl"
    path.write_bytes(b"\x80\x02}(" + body + b"u.")
    for name, array in pickle.loads(path.read_bytes(), encoding="latin1").items():  # noqa: S301
        assert np.array_equal(array, value[name])
    assert_same(open_checkpoint(path), {name: torch.from_numpy(array) for name, array in value.items()})


def test_the_error_for_text_that_does_not_encode_bytes_is_one_line(tmp_path):
    path = tmp_path / "a.pkl"
    data = pickle.dumps({"w": np.full(3000, -1, np.int8)}, protocol=2)
    path.write_bytes(data.replace("\xff".encode() * 10, "\u20ac".encode() * 5 + b"abcde", 1))
    (row,) = analyze_weights(path).tensors
    assert "cannot be decoded" in row.problem


# Big-endian numbers


def test_big_endian_arrays(tmp_path):
    value = {"f": np.linspace(-1, 1, 5000).astype(">f4"), "i": np.arange(-50, 50).astype(">i8")}
    value["c"] = (np.arange(6) + 1j).astype(">c8").reshape(2, 3)
    (tmp_path / "a.pkl").write_bytes(pickle.dumps(value, protocol=4))
    expected = {name: torch.from_numpy(array.astype(array.dtype.newbyteorder("="))) for name, array in value.items()}
    assert_same(open_checkpoint(tmp_path / "a.pkl"), expected)


def test_a_big_endian_torch_file(tmp_path):
    weight = torch.randn(5, 6)
    pickle = dict_pickle(w=tensor_pickle((5, 6), (6, 1), numel=30), t=tensor_pickle((6, 5), (1, 6), numel=30))
    swapped = weight.numpy().astype(">f4").tobytes()
    path = torch_file(
        tmp_path / "a.pt", pickle, {"0": swapped}, extra=[("archive/byteorder", b"big"), ("archive/version", b"3")]
    )
    assert torch.equal(torch.load(path)["w"], weight)
    assert_same(open_checkpoint(path), {"w": weight, "t": weight.t()})


def test_a_big_endian_gguf_file(tmp_path):
    weight = np.linspace(-3, 3, 24, dtype=np.float32).reshape(4, 6)
    head = b"GGUF" + struct.pack(">IQQ", 3, 2, 0)
    for name, dims, kind, offset in (("w", (6, 4), 0, 0), ("q", (32,), 2, 96)):
        head += struct.pack(">Q", len(name)) + name.encode()
        head += struct.pack(f">I{len(dims)}QIQ", len(dims), *dims, kind, offset)
    path = tmp_path / "b.gguf"
    path.write_bytes(head + b"\0" * (-len(head) % 32) + weight.astype(">f4").tobytes() + bytes(18))
    plain, packed = open_checkpoint(path).entries
    assert torch.equal(tensor_of(plain), torch.from_numpy(weight))
    assert "big-endian" in packed.problem
