"""Work and memory are bounded by what a file contains, whatever its header claims."""

from __future__ import annotations

import json
import os
import pickle
import struct
import sys
import zipfile

import pytest
import torch
from checkpoint_files import gguf_file, gguf_text, info, peak_of_child, plain_bytes, safetensors_file, torch_file
from safetensors import SafetensorError, safe_open

from assay.checkpoint.listing import MAX_NAME_LENGTH, MAX_TENSORS
from assay.checkpoint.open import open_checkpoint
from assay.cli.main import run
from assay.errors import ReadError

MAX_MEMORY = 256 << 20
HUGE = 1 << 62


def torch_accepts(shape):
    try:
        return list(torch.empty(shape).shape) == list(shape)
    except (RuntimeError, TypeError):
        return False


@pytest.mark.parametrize(
    "shape", [(HUGE, 0), (0, HUGE), (1 << 33, 0, 1 << 29), (2, 1 << 61, 0), (1 << 63, 0), (0, 1 << 70)]
)
def test_an_empty_tensor_is_listed_if_torch_can_hold_its_shape(tmp_path, shape):
    path = safetensors_file(tmp_path / "a.safetensors", {"w": info(shape=shape, end=0)})
    if torch_accepts(shape):
        (entry,) = open_checkpoint(path).entries
        assert (entry.shape, entry.span, entry.bytes) == (shape, None, 0)
    else:
        with pytest.raises(ReadError, match="tensor w: its shape is larger than any tensor can be"):
            open_checkpoint(path)


def test_safetensors_rejects_the_shapes_that_are_rejected(tmp_path):
    path = safetensors_file(tmp_path / "a.safetensors", {"w": info(shape=(HUGE, HUGE, 0), end=0)})
    with pytest.raises(SafetensorError), safe_open(path, "pt"):
        pass
    with pytest.raises(ReadError, match="larger than any tensor"):
        open_checkpoint(path)


@pytest.mark.parametrize(("dims", "accepted"), [((0, HUGE), True), ((HUGE, 0), True), ((HUGE, HUGE, 0), False)])
def test_an_empty_gguf_tensor(tmp_path, dims, accepted):
    path = gguf_file(tmp_path / "a.gguf", [("w", dims, 0, 0)])
    if accepted:
        (entry,) = open_checkpoint(path).entries
        assert (entry.shape, entry.span, entry.bytes) == (dims[::-1], None, 0)
    else:
        with pytest.raises(ReadError, match="tensor w: its shape is larger than any tensor can be"):
            open_checkpoint(path)


def test_empty_tensors_with_huge_dimensions_are_shown(tmp_path, capsys):
    names = [f"layers.{i}.experts.weight" for i in range(3)]
    path = safetensors_file(tmp_path / "a.safetensors", {name: info(shape=(1 << 50, 64, 0), end=0) for name in names})
    for form in ("table", "csv", "json"):
        assert run(["params", str(path), "--list", "--format", form]) == 0
    assert "layers.0–2.experts.weight ×3" in capsys.readouterr().out


def texts(length, total):
    """A pickled list of strings, which has about `total` bytes."""
    item = b"X" + struct.pack("<I", length) + b"a" * length
    return b"\x80\x04](" + item * (total // len(item)) + b"e."


@pytest.mark.parametrize("length", [20, 200, 255, 2000, 4096])
def test_a_pickle_of_many_strings_is_rejected_cheaply(tmp_path, length):
    (tmp_path / "a.pkl").write_bytes(texts(length, 320 << 20))
    output, peak = peak_of_child(tmp_path / "a.pkl")
    assert "more values than any checkpoint has" in output
    assert peak < MAX_MEMORY


def test_wide_characters_count_as_what_they_take(tmp_path):
    item = "\U0001f600".encode() + b"a" * 200
    (tmp_path / "a.pkl").write_bytes(b"\x80\x04](" + (b"\x8c" + bytes([len(item)]) + item) * 1_000_000 + b"e.")
    output, peak = peak_of_child(tmp_path / "a.pkl")
    assert "more values than any checkpoint has" in output
    assert peak < MAX_MEMORY


def test_strings_of_python_2_that_are_not_utf8_are_read_in_linear_time(tmp_path):
    """Each used to read the window of 256 KB again: 50 GB here."""
    strings = b"U\x02\xff\xff" * 200_000
    (tmp_path / "a.pkl").write_bytes(b"\x80\x02](" + strings + b"e.")
    with pytest.raises(ReadError, match="a list with 200,000 items"):
        open_checkpoint(tmp_path / "a.pkl")


def test_one_wide_name_is_rejected_before_it_is_decoded(tmp_path):
    header = (
        b'{"' + "\U0001f600".encode() + b"a" * 90_000_000 + b'":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
    )
    output, peak = peak_of_child(safetensors_file(tmp_path / "a.safetensors", header, bytes(4)))
    assert "is rejected: its header describes more tensors than fit in memory" in output
    assert peak < MAX_MEMORY


def test_a_long_name_is_rejected(tmp_path):
    name = "n" * (MAX_NAME_LENGTH + 1)
    for path in (
        safetensors_file(tmp_path / "a.safetensors", {name: info()}, bytes(8)),
        gguf_file(tmp_path / "a.gguf", [(name, (2,), 0, 0)], data=bytes(32)),
    ):
        with pytest.raises(ReadError, match="name"):
            open_checkpoint(path)


def test_nested_dictionaries_do_not_multiply_the_length_of_names(tmp_path):
    """One tensor with 50,000 names of 150 KB each would take 7 GB."""
    value = dict.fromkeys(range(50_000), torch.ones(1))
    for level in range(300):
        value = {f"{level}".ljust(500, "x"): value}
    torch.save(value, tmp_path / "a.pt")
    output, peak = peak_of_child(tmp_path / "a.pt")
    assert "has no tensors" in output
    assert "nested more than" in output
    assert peak < MAX_MEMORY


@pytest.mark.parametrize("kind", ["safetensors", "gguf", "shards"])
def test_more_tensors_than_any_model_has_are_rejected(tmp_path, kind):
    count = MAX_TENSORS + 1
    if kind == "safetensors":
        rows = b",".join(b'"%d":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}' % i for i in range(count))
        path = safetensors_file(tmp_path / "a.safetensors", b"{" + rows + b"}")
    elif kind == "gguf":
        path = gguf_file(tmp_path / "a.gguf", [(str(i), (0,), 0, 0) for i in range(count)])
    else:
        path = tmp_path
        for part in range(3):
            rows = (
                b'"%d.%d":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}' % (part, i) for i in range(count // 2)
            )
            safetensors_file(tmp_path / f"{part}.safetensors", b"{" + b",".join(rows) + b"}")
    output, peak = peak_of_child(path)
    assert "160,00" in output
    assert "is rejected" in output
    assert peak < MAX_MEMORY


def test_150_000_tensors_of_a_torch_file_are_listed(tmp_path):
    base = torch.zeros(150_000)
    torch.save({f"layers.{i // 500}.experts.{i % 500}.weight": base[i] for i in range(150_000)}, tmp_path / "a.pt")
    output, peak = peak_of_child(tmp_path / "a.pt")
    assert output == "150000 entries"
    assert peak < MAX_MEMORY


def test_tiny_tensors_are_not_analysed_if_their_statistics_would_take_more_memory(tmp_path, capsys):
    count = 60_000
    rows = {f"t{i}": info(shape=(1,), begin=4 * i, end=4 * i + 4) for i in range(count)}
    path = safetensors_file(tmp_path / "a.safetensors", rows, bytes(4 * count))
    assert run(["params", str(path)]) == 3
    assert "has 60,000 tensors of 4 B on average" in capsys.readouterr().err
    assert run(["params", str(path), "--filter", "t1234.$"]) == 0
    assert run(["params", str(path), "--list"]) == 0


def test_metadata_of_gguf_is_kept_up_to_a_limit(tmp_path):
    values = [(f"k{i}", 8, gguf_text("v" * 60_000)) for i in range(1000)]
    path = gguf_file(tmp_path / "a.gguf", [("w", (2,), 0, 0)], values, data=bytes(32))
    kept = [value for key, value in open_checkpoint(path).metadata.items() if key.startswith("k")]
    assert len(kept) == 1000
    assert sum(isinstance(value, str) for value in kept) == (8 << 20) // 60_000
    assert all(value == {"length": 60_000} for value in kept if not isinstance(value, str))


def test_a_table_of_weights_that_would_exhaust_memory_is_rejected(tmp_path):
    sizes = (
        b'{"config":{"w":{"path_name":"w","is_param":true,"tensor_meta":{"dtype":7,"sizes":[' + b"{}," * 14_000_000
    )
    with zipfile.ZipFile(tmp_path / "a.pt2", "w") as archive:
        archive.writestr("a/archive_format", "pt2")
        archive.writestr("a/data/weights/model_weights_config.json", sizes + b"{}]}}}}")
    output, peak = peak_of_child(tmp_path / "a.pt2")
    assert "is too large to parse" in output
    assert peak < MAX_MEMORY


def test_json_of_an_unknown_kind_is_not_built_in_memory(tmp_path):
    (tmp_path / "a.json").write_bytes(b'{"a":[' + b"{}," * 7_000_000 + b"{}]}")
    output, peak = peak_of_child(tmp_path / "a.json")
    assert "is JSON of an unknown kind" in output
    assert peak < MAX_MEMORY


def index_of(folder, shards):
    path = folder / "model.safetensors.index.json"
    path.write_text(json.dumps({"metadata": {}, "weight_map": {f"w{i}": name for i, name in enumerate(shards)}}))
    return path


def test_missing_shards_are_neither_opened_nor_resolved(tmp_path, monkeypatch):
    path = index_of(tmp_path, [f"model-{i}.safetensors" for i in range(1000)])
    resolved = []
    monkeypatch.setattr("os.path.realpath", lambda given, **_: resolved.append(given) or str(given))
    with pytest.raises(ReadError, match=r"cannot read any of its 1,000 shards; shard model-0.safetensors is missing"):
        open_checkpoint(path)
    assert resolved == []


def test_only_some_of_many_missing_shards_are_named(tmp_path):
    safetensors_file(tmp_path / "here.safetensors", {"w0": info()}, bytes(8))
    path = index_of(tmp_path, ["here.safetensors", *(f"gone-{i}.safetensors" for i in range(500))])
    failures = open_checkpoint(path).failures
    assert len(failures) == 21
    assert failures[0] == "shard gone-0.safetensors is missing: 1 tensor not read"
    assert failures[-1] == "480 more shards of 501 missing or unreadable"


def test_names_of_many_numbers_are_folded_in_linear_memory(tmp_path, capsys):
    numbers = ".".join("1" * 1500)
    rows = {f"{numbers}.{i}": info(begin=8 * i, end=8 * i + 8) for i in range(500)}
    path = safetensors_file(tmp_path / "a.safetensors", rows, bytes(8 * 500))
    assert run(["params", str(path), "--list"]) == 0
    assert "500" in capsys.readouterr().out


def test_a_missing_pickle_of_an_archive_is_named(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.pt", "w") as archive:
        archive.writestr("a/constants.pkl", pickle.dumps(()))
        archive.writestr("b/data.pkl", pickle.dumps({}))
    with pytest.raises(ReadError, match=r"is damaged: it lacks b/constants.pkl"):
        open_checkpoint(tmp_path / "a.pt")


def test_a_hostile_distributed_checkpoint_states_the_code_that_was_not_run(tmp_path):
    (tmp_path / ".metadata").write_bytes(b"cos\nsystem\n(S'touch hacked'\ntR.")
    with pytest.raises(ReadError, match=r"code not run: .* import 1 global and call os.system"):
        open_checkpoint(tmp_path)


def test_code_in_a_piece_of_a_distributed_checkpoint_is_stated(tmp_path):
    import torch.distributed.checkpoint as dcp

    dcp.save({"w": torch.ones(4)}, checkpoint_id=tmp_path)
    assert not open_checkpoint(tmp_path).notes
    (file,) = tmp_path.glob("*.distcp")
    with zipfile.ZipFile(file) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    (name,) = [name for name in members if name.endswith("data.pkl")]
    # The call is made and dropped before the tensor is described.
    members[name] = members[name][:2] + b"cos\nsystem\n(X\x04\0\0\0truetR0" + members[name][2:]
    with zipfile.ZipFile(file, "w") as archive:
        for member, data in members.items():
            archive.writestr(member, data)
    metadata = pickle.loads((tmp_path / ".metadata").read_bytes())  # noqa: S301  written above
    for row in metadata.storage_data.values():
        row.length = file.stat().st_size
    (tmp_path / ".metadata").write_bytes(pickle.dumps(metadata))
    checkpoint = open_checkpoint(tmp_path)
    assert [entry.names for entry in checkpoint.entries] == [("w",)]
    assert "call os.system" in checkpoint.notes[-1]
    assert checkpoint.globals == ("os.system",)


def test_an_empty_state_dict_is_not_said_to_run_code(tmp_path, capsys):
    torch.save({}, tmp_path / "a.pt")
    for command in ("check", "summary"):
        assert run([command, str(tmp_path / "a.pt")]) == 3
        assert "has no tensors: it is a torch.save file of an empty dictionary" in capsys.readouterr().err


def test_an_object_that_may_build_a_model_can_still_be_trusted(tmp_path, capsys):
    torch_file(tmp_path / "a.pt", b"\x80\x02cmine\nbuild\n)R.", {})
    assert run(["summary", str(tmp_path / "a.pt")]) == 3
    assert "call mine.build: allow it with --trust" in capsys.readouterr().err


def numbers_pickle(count):
    """A dictionary of that many numbers, in the memo at 0."""
    return b"}(" + b"".join(b"J" + struct.pack("<i", i) + b"K\1" for i in range(count)) + b"uq\0"


BIG = numbers_pickle(100_000)
ONCE = b"\x80\x02" + BIG + b"0"
ORDERED, LIST, OBJECT = b"ccollections\nOrderedDict\nq\1", b"cbuiltins\nlist\nq\1", b"cmine\nC\nq\1"
CALLS = b"0](" + b"h\1h\0\x85R" * 20_000 + b"e."
NESTED = b"h\1)\x81h\0}X\4\0\0\0next" * 400 + b"K\1" + b"s\x86b" * 400 + b"."
REPEATS = {
    "copies of a dictionary": ONCE + ORDERED + CALLS,
    "copies of a list": b"\x80\x02](" + b"K\1" * 100_000 + b"eq\0000" + LIST + CALLS,
    "one dictionary again and again": ONCE + b"](" + b"h\0" * 99_000 + b"e.",
    "one state of many objects": ONCE + OBJECT + b"0](" + b"h\1)\x81h\0b" * 20_000 + b"e.",
    "states of two dictionaries": ONCE + OBJECT + b"0" + NESTED,
}  # fmt: skip


@pytest.mark.parametrize("case", REPEATS)
def test_a_short_pickle_that_repeats_itself_is_rejected(tmp_path, case):
    (tmp_path / "a.pkl").write_bytes(REPEATS[case])
    output, peak = peak_of_child(tmp_path / "a.pkl")
    assert "more values than any checkpoint has" in output or "refer to each other endlessly" in output
    assert peak < MAX_MEMORY


def test_a_text_that_many_arrays_share_is_measured_once(tmp_path, monkeypatch):
    from assay.checkpoint.pickle import texts

    measured, count = [], texts._characters
    monkeypatch.setattr(texts, "_characters", lambda region: measured.append(region.size) or count(region))
    text = ("\xff" * 5000).encode()
    array = (
        b"cnumpy._core.numeric\n_frombuffer\n(c_codecs\nencode\nh\0X\6\0\0\0latin1\x86R"
        b"cnumpy\ndtype\nX\2\0\0\0u1\x85RM\x88\x13X\1\0\0\0CtR"
    )
    data = b"\x80\x02](X" + struct.pack("<I", len(text)) + text + b"q\0" + array * 50 + b"e."
    (tmp_path / "a.pkl").write_bytes(data)
    entries = open_checkpoint(tmp_path / "a.pkl").entries
    assert [entry.shape for entry in entries] == [(5000,)] * 50
    assert plain_bytes(entries[-1]) == b"\xff" * 5000
    assert measured == [10_000]


def test_a_shard_with_several_spellings_is_read_once(tmp_path):
    safetensors_file(tmp_path / "a.safetensors", {"w0": info()}, bytes(8))
    path = index_of(tmp_path, ["./" * i + "a.safetensors" for i in range(5)])
    checkpoint = open_checkpoint(path)
    assert [entry.names for entry in checkpoint.entries] == [("w0",)]


def test_pieces_that_overlap_are_rejected(tmp_path):
    import torch.distributed.checkpoint as dcp

    dcp.save({"v": torch.ones(4), "w": torch.ones(4)}, checkpoint_id=tmp_path)
    metadata = pickle.loads((tmp_path / ".metadata").read_bytes())  # noqa: S301  written above
    first, *others = metadata.storage_data.values()
    for row in others:
        row.offset, row.length = first.offset, first.length
    (tmp_path / ".metadata").write_bytes(pickle.dumps(metadata))
    with pytest.raises(ReadError, match="overlaps other data"):
        open_checkpoint(tmp_path)


def test_too_many_tables_of_weights_are_rejected(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.pt2", "w") as archive:
        archive.writestr("a/archive_format", "pt2")
        for i in range(201):
            archive.writestr(f"a/data/weights/m{i}_weights_config.json", "{}")
    with pytest.raises(ReadError, match="it has 201 tables of weights"):
        open_checkpoint(tmp_path / "a.pt2")


@pytest.mark.skipif(os.name == "nt" or sys.platform == "darwin", reason="file names are Unicode")
@pytest.mark.parametrize(
    "arguments",
    [
        ["params"], ["params", "--list", "--format", "json"], ["params", "--format", "csv"],
        ["params", "--save", "a.assay.json"], ["check", "--format", "json"], ["report", "-o", "a.html"],
    ],
)  # fmt: skip
def test_a_file_name_that_is_not_utf8(tmp_path, monkeypatch, capsys, arguments):
    monkeypatch.chdir(tmp_path)
    name = os.fsdecode(b"a\xff.safetensors")
    safetensors_file(tmp_path / name, {"w": info()}, bytes(8))
    assert run([arguments[0], name, *arguments[1:]]) == 0
    captured = capsys.readouterr()
    text = captured.out + "".join(path.read_text() for path in tmp_path.glob("a.assay.json"))
    assert "csv" in arguments or "report" in arguments or "udcff" in text
