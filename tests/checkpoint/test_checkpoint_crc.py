"""CRC-32 of zip archives: a damaged record is reported, and a file without checksums is never called damaged."""

from __future__ import annotations

import zipfile
import zlib

import pytest
import torch
from checkpoint_files import assert_same, dict_pickle, plain_bytes, tensor_pickle, torch_file
from torch.serialization import set_crc32_options, skip_data

from assay.checkpoint.open import open_checkpoint
from assay.errors import ReadError


@pytest.fixture
def without_sums():
    set_crc32_options(False)
    yield
    set_crc32_options(True)


def damage(path, member, data=None):
    """Change one byte of the stored bytes of a member, or of `data` in it."""
    raw = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        info = archive.getinfo(next(name for name in archive.namelist() if name.endswith(member)))
    start = info.header_offset + 30
    start += int.from_bytes(raw[start - 4 : start - 2], "little") + int.from_bytes(raw[start - 2 : start], "little")
    at = raw.index(data, start) if data else start + info.compress_size // 2
    raw[at] ^= 1
    path.write_bytes(raw)


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_damaged_pickle_is_reported(tmp_path, method):
    path = torch_file(tmp_path / "a.pt", dict_pickle(weight=tensor_pickle()))
    if method == zipfile.ZIP_DEFLATED:
        with zipfile.ZipFile(path) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        with zipfile.ZipFile(path, "w", method, compresslevel=0) as archive:
            for name, data in members.items():
                archive.writestr(name, data)
    assert [entry.names for entry in open_checkpoint(path).entries] == [("weight",)]
    damage(path, "data.pkl", b"weight")
    with pytest.raises(ReadError, match=r"is damaged: archive/data.pkl does not match its CRC-32"):
        open_checkpoint(path)


def test_stored_records_have_their_checksum(tmp_path):
    base = torch.arange(12.0)
    torch.save({"a": base, "part": base[2:4], "b": torch.ones(3, dtype=torch.int64)}, tmp_path / "a.pt")
    for entry in open_checkpoint(tmp_path / "a.pt").entries:
        span = entry.checksum.span
        data = (tmp_path / "a.pt").read_bytes()[span.offset : span.offset + span.length]
        assert zlib.crc32(data) == entry.checksum.crc
        assert span.offset <= entry.span.offset
        assert entry.span.offset + entry.span.length <= span.offset + span.length
        assert (span == entry.span) == (entry.names != ("part",))


def test_a_damaged_compressed_record_is_reported_when_it_is_read(tmp_path):
    data = torch.arange(65536.0)
    pickle = dict_pickle(w=tensor_pickle(shape=(65536,), numel=65536))
    with zipfile.ZipFile(tmp_path / "a.pt", "w", zipfile.ZIP_DEFLATED, compresslevel=0) as archive:
        archive.writestr("archive/data.pkl", pickle)
        archive.writestr("archive/data/0", data.numpy().tobytes())
    (entry,) = open_checkpoint(tmp_path / "a.pt").entries
    assert entry.checksum is None
    assert plain_bytes(entry) == data.numpy().tobytes()
    damage(tmp_path / "a.pt", "data/0")
    with pytest.raises(ReadError, match="does not match its CRC-32"):
        plain_bytes(entry)


def test_a_compressed_record_is_verified_whatever_the_order_of_reading(tmp_path):
    from assay.checkpoint.reading import RangeReader

    values = bytes(range(256)) * 64
    path = torch_file(
        tmp_path / "a.pt",
        dict_pickle(w=tensor_pickle(shape=(4096,), numel=4096)),
        {"0": values},
        zipfile.ZIP_DEFLATED,
    )
    (entry,) = open_checkpoint(path).entries
    read, span = RangeReader().read, entry.span
    for offset in (8192, 0, 12000, 4096):
        assert read(span.file, offset, 4096, entry.encoded) == values[offset : offset + 4096]


def test_files_without_checksums_are_not_damaged(tmp_path, without_sums):
    tensors = {"a": torch.randn(5), "b": torch.randn(3, 3)}
    torch.save(tensors, tmp_path / "a.pt")
    with zipfile.ZipFile(tmp_path / "a.pt") as archive:
        assert {info.CRC for info in archive.infolist()} == {0}
    checkpoint = open_checkpoint(tmp_path / "a.pt")
    assert_same(checkpoint, tensors)
    assert all(entry.checksum is None for entry in checkpoint.entries)


def test_records_that_were_skipped_have_no_checksum(tmp_path):
    with skip_data():
        torch.save({"a": torch.ones(5)}, tmp_path / "a.pt")
    (entry,) = open_checkpoint(tmp_path / "a.pt").entries
    assert entry.checksum is None


def test_torch_files_of_every_kind_have_right_checksums(tmp_path):
    model = torch.nn.Linear(3, 4)
    torch.jit.save(torch.jit.script(model), tmp_path / "a.pt")
    torch.export.save(torch.export.export(model, (torch.ones(1, 3),)), tmp_path / "a.pt2")
    for path in tmp_path.iterdir():
        entries = open_checkpoint(path).entries
        assert len(entries) == 2
        for entry in entries:
            assert zlib.crc32(plain_bytes(entry)) == entry.checksum.crc
