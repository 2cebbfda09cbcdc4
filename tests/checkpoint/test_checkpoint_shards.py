"""Checkpoints in several files, local and remote, and reading byte ranges."""

from __future__ import annotations

import json
import os
import sys

import pytest
import torch
from checkpoint_files import assert_same, info, plain_bytes, safetensors_file, tensor_of
from safetensors.torch import save_file

from assay.checkpoint.open import open_checkpoint
from assay.checkpoint.reading import RangeReader
from assay.errors import ReadError

TENSORS = {f"layers.{i}.w": torch.randn(i + 1, 3).bfloat16() for i in range(6)}


def write_shards(folder, count=3, save=save_file, suffix="safetensors"):
    """Write TENSORS as shards with an index, and return the path of the index."""
    folder.mkdir(parents=True, exist_ok=True)
    places = {}
    for number in range(count):
        name = f"model-{number + 1:05}-of-{count:05}.{suffix}"
        part = {key: value for i, (key, value) in enumerate(TENSORS.items()) if i % count == number}
        save(part, str(folder / name))
        places.update(dict.fromkeys(part, name))
    index = folder / f"model.{suffix}.index.json"
    index.write_text(json.dumps({"metadata": {"total_size": 126}, "weight_map": places}))
    return index


@pytest.mark.parametrize("suffix", ["safetensors", "bin"])
@pytest.mark.parametrize("point", ["index", "folder", "folder without index"])
def test_shards_are_one_checkpoint(tmp_path, suffix, point):
    index = write_shards(tmp_path / "m", save=save_file if suffix == "safetensors" else torch.save, suffix=suffix)
    if point == "folder without index":
        index.unlink()
    checkpoint = open_checkpoint(index if point == "index" else index.parent)
    assert_same(checkpoint, TENSORS)
    assert checkpoint.failures == ()
    assert checkpoint.format == ("safetensors" if suffix == "safetensors" else "torch-zip")
    if point != "folder without index":
        assert checkpoint.metadata["total_size"] == 126


def test_a_missing_shard_is_reported_and_the_rest_is_read(tmp_path):
    index = write_shards(tmp_path / "m")
    (tmp_path / "m" / "model-00002-of-00003.safetensors").unlink()
    checkpoint = open_checkpoint(index)
    assert len(checkpoint.entries) == 4
    assert checkpoint.failures == ("shard model-00002-of-00003.safetensors is missing: 2 tensors not read",)


def test_a_damaged_shard_is_reported_and_the_rest_is_read(tmp_path):
    index = write_shards(tmp_path / "m")
    shard = tmp_path / "m" / "model-00001-of-00003.safetensors"
    shard.write_bytes(shard.read_bytes()[:-3])
    checkpoint = open_checkpoint(index)
    assert len(checkpoint.entries) == 4
    assert "truncated" in checkpoint.failures[0]


def test_shared_storages_stay_linked_when_shards_are_joined(tmp_path):
    weight = torch.randn(3, 4)
    torch.save({"a": torch.ones(1)}, tmp_path / "1.bin")
    torch.save({"b": weight, "c": weight[1]}, tmp_path / "2.bin")
    entries = open_checkpoint(tmp_path).entries
    assert [entry.shares_storage_with for entry in entries] == [None, None, 1]


@pytest.mark.parametrize(
    "name",
    ["/etc/passwd", "../out.safetensors", "a/../../out.safetensors", "memory://x/out.safetensors", "..\\out", ""],
)
def test_an_index_may_not_point_outside_its_folder(tmp_path, name):
    save_file({"w": torch.ones(1)}, tmp_path / "out.safetensors")
    index = write_shards(tmp_path / "m")
    index.write_text(json.dumps({"weight_map": {"w": name}}))
    with pytest.raises(ReadError, match="only files in the same directory are read"):
        open_checkpoint(index)


def test_a_link_out_of_the_folder_is_rejected_except_in_a_download_cache(tmp_path):
    save_file({"w": torch.ones(1)}, tmp_path / "out.safetensors")
    index = write_shards(tmp_path / "m")
    (tmp_path / "m" / "link.safetensors").symlink_to(tmp_path / "out.safetensors")
    index.write_text(json.dumps({"weight_map": {"w": "link.safetensors"}}))
    with pytest.raises(ReadError, match="link to a file outside"):
        open_checkpoint(index)
    snapshot = tmp_path / "models--a--b" / "snapshots" / "0123"
    write_shards(tmp_path / "models--a--b" / "blobs")
    snapshot.mkdir(parents=True)
    for file in (tmp_path / "models--a--b" / "blobs").iterdir():
        (snapshot / file.name).symlink_to(os.path.relpath(file, snapshot))
    assert_same(open_checkpoint(snapshot), TENSORS)


def test_the_error_for_a_folder_without_a_checkpoint(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ReadError, match="directory without a model"):
        open_checkpoint(tmp_path)
    with pytest.raises(ReadError, match="index of shards with a weight_map"):
        open_checkpoint(tmp_path / "config.json")
    with pytest.raises(ReadError, match="no such file"):
        open_checkpoint(tmp_path / "absent.pt")


def test_a_named_pipe_is_rejected_without_waiting(tmp_path):
    os.mkfifo(tmp_path / "pipe.pt")
    with pytest.raises(ReadError, match="not a regular file"):
        open_checkpoint(tmp_path / "pipe.pt")


# Byte ranges


def test_any_range_inside_a_file_can_be_read(tmp_path):
    path = tmp_path / "w.safetensors"
    save_file({"w": torch.arange(10, dtype=torch.int8)}, path)
    (entry,) = open_checkpoint(path).entries
    file, first = entry.span.file, entry.span.offset
    assert list(RangeReader().read(file, first + 3, 4)) == [3, 4, 5, 6]
    assert RangeReader().read(file, first + 10, 0) == b""
    for start, length in ((first + 8, 3), (-1, 2), (0, -1)):
        with pytest.raises(ReadError, match="truncated"):
            RangeReader().read(file, start, length)


def test_a_file_that_shrinks_while_it_is_read_gives_an_error(tmp_path):
    path = tmp_path / "w.safetensors"
    save_file({"w": torch.zeros(1000)}, path)
    (entry,) = open_checkpoint(path).entries
    os.truncate(path, 500)
    with pytest.raises(ReadError, match="truncated"):
        plain_bytes(entry)


# URLs


@pytest.fixture
def memory(tmp_path):
    """Copies a local folder to fsspec's memory file system and returns its URL."""
    fsspec = pytest.importorskip("fsspec")
    system = fsspec.filesystem("memory")
    system.store.clear()

    def put(folder):
        for file in folder.iterdir():
            system.pipe(f"/models/{file.name}", file.read_bytes())
        return "memory://models"

    yield put
    system.store.clear()


def test_remote_shards(tmp_path, memory):
    url = memory(write_shards(tmp_path / "m").parent)
    for point in (url, f"{url}/model.safetensors.index.json"):
        assert_same(open_checkpoint(point), TENSORS)


@pytest.mark.parametrize("new", [True, False], ids=["zip", "legacy"])
def test_a_remote_torch_file(tmp_path, memory, new):
    (tmp_path / "m").mkdir()
    torch.save(TENSORS, tmp_path / "m" / "w.pt", _use_new_zipfile_serialization=new)
    checkpoint = open_checkpoint(memory(tmp_path / "m") + "/w.pt")
    assert checkpoint.entries[0].span.file == "memory://models/w.pt"
    assert_same(checkpoint, TENSORS)


def test_the_error_for_a_missing_url(memory):
    with pytest.raises(ReadError, match=r"cannot read memory://models/none\.pt"):
        open_checkpoint("memory://models/none.pt")


def test_without_fsspec_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(ReadError, match=r"pip install torch-assay\[remote\]"):
        open_checkpoint("memory://models/none.pt")
    with pytest.raises(ReadError, match=r"torch-assay\[remote\]"):
        RangeReader().read("memory://models/none.pt", 0, 4)


def test_a_local_file_does_not_need_fsspec(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "fsspec", None)
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    torch.save({"w": torch.ones(2)}, tmp_path / "w.pt")
    (entry,) = open_checkpoint(tmp_path / "w.pt").entries
    assert torch.equal(tensor_of(entry), torch.ones(2))


def test_other_weight_files_in_a_folder_are_listed_in_a_note(tmp_path):
    save_file({"a": torch.ones(2)}, tmp_path / "model.safetensors")
    (tmp_path / "other.gguf").write_bytes(b"GGUF")
    (tmp_path / "notes.txt").write_text("nothing")
    checkpoint = open_checkpoint(tmp_path)
    assert [entry.names for entry in checkpoint.entries] == [("a",)]
    assert [note for note in checkpoint.notes if "other.gguf" in note and "notes.txt" not in note]


def test_a_missing_shard_is_noticed_without_an_index(tmp_path):
    safetensors_file(tmp_path / "model-00001-of-00003.safetensors", {"a": info()}, bytes(8))
    safetensors_file(tmp_path / "model-00003-of-00003.safetensors", {"b": info()}, bytes(8))
    checkpoint = open_checkpoint(tmp_path)
    assert [entry.names for entry in checkpoint.entries] == [("a",), ("b",)]
    assert checkpoint.failures == ("shard model-00002-of-00003.safetensors is missing",)


def test_a_distributed_checkpoint_without_metadata_is_named(tmp_path):
    (tmp_path / "__0_0.distcp").write_bytes(b"PK\3\4" + bytes(100))
    with pytest.raises(ReadError, match=r"is a distributed checkpoint without its \.metadata file"):
        open_checkpoint(tmp_path)
