"""The CRC-32 of zip records is verified while they are read, in any number of pieces."""

from __future__ import annotations

import random
import zlib

import numpy as np
import pytest
import torch

import assay
from assay.checkpoint.statistics import run
from assay.checkpoint.statistics.checksums import check
from assay.errors import ReadError


def flipped(path, needle, at=0):
    """The file with one bit of the record that starts with `needle` flipped."""
    data = bytearray(path.read_bytes())
    data[data.index(needle) + at] ^= 1
    path.write_bytes(data)
    return path


def rows(path):
    return {row.names[0]: row for row in assay.analyze_weights(path).tensors}


def test_the_checksum_of_pieces_is_that_of_the_whole():
    order = random.Random(3)
    for size in (0, 1, 7, 1000, 70_000):
        data, pieces, start = order.randbytes(size), [], 0
        while start < size:
            length = order.randint(1, size - start)
            pieces.append((start, length, zlib.crc32(data[start : start + length])))
            start += length
        order.shuffle(pieces)
        check("file", zlib.crc32(data), pieces)
        if size:
            with pytest.raises(ReadError, match="damaged: the CRC-32 of this record is"):
                check("file", zlib.crc32(data) ^ 1, pieces)


@pytest.mark.parametrize("chunk_bytes", [1 << 20, 1 << 14])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8])
def test_a_flipped_bit_is_found_and_the_rest_is_analysed(tmp_path, monkeypatch, dtype, chunk_bytes):
    monkeypatch.setattr(run, "MIN_CHUNK_BYTES", chunk_bytes)
    monkeypatch.setattr(run, "CHUNK_BYTES", chunk_bytes)
    values = torch.arange(200_000).reshape(200, 1000).to(dtype)
    path = tmp_path / "a.pt"
    torch.save({"good": torch.ones(5), "bad": values}, path)
    assert {row.problem for row in rows(path).values()} == {""}
    found = rows(flipped(path, values.view(torch.uint8).numpy().tobytes()[:64], 40_000))
    assert found["good"].mean == 1
    assert "is damaged: the CRC-32 of this record is" in found["bad"].problem
    assert found["bad"].mean is None


def test_a_record_of_which_no_tensor_is_the_whole(tmp_path):
    whole, path = torch.arange(5000.0), tmp_path / "a.pt"
    torch.save({"first": whole[:2000], "last": whole[3000:], "good": torch.ones(5)}, path)
    assert {row.problem for row in rows(path).values()} == {""}
    found = rows(flipped(path, whole.numpy().tobytes()[:64], 4 * 2500))
    assert [name for name, row in found.items() if row.problem] == ["first", "last"]


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_numpy_archives(tmp_path, save):
    values = np.arange(3000.0)
    save(tmp_path / "a.npz", w=values, v=np.ones(3))
    assert {row.problem for row in rows(tmp_path / "a.npz").values()} == {""}
    if save is np.savez:
        found = rows(flipped(tmp_path / "a.npz", values.tobytes()[:64], 9000))
        assert "CRC-32" in found["w"].problem
        assert found["v"].mean == 1


def test_a_compressed_record_that_decodes_to_something_else(tmp_path):
    """Also when the read is tried again."""
    values, path = np.random.default_rng(1).standard_normal(30_000), tmp_path / "a.npz"
    np.savez_compressed(path, w=values)
    intact, problems = path.read_bytes(), set()
    for place in range(20_000, 60_000, 2_500):
        damaged = bytearray(intact)
        damaged[place] ^= 8
        path.write_bytes(damaged)
        problems.add(rows(path)["w"].problem.partition(" the record at byte ")[2].partition(" ")[2])
    assert "" not in problems
    assert "does not match its CRC-32; copy or download the file again" in problems


def test_a_file_saved_without_checksums_is_not_damaged(tmp_path):
    torch.serialization.set_crc32_options(False)
    try:
        torch.save({"w": torch.ones(1000)}, tmp_path / "a.pt")
    finally:
        torch.serialization.set_crc32_options(True)
    assert rows(tmp_path / "a.pt")["w"].mean == 1
