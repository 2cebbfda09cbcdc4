"""Files that are damaged, malicious or not checkpoints: each gives a result or a one-line ReadError.

Every file is built here. Files that try to exhaust memory are opened in a child process, whose peak is measured.
"""

from __future__ import annotations

import json
import struct
import zipfile

import pytest
import torch
from checkpoint_files import (
    dict_pickle,
    gguf_file,
    gguf_text,
    info,
    number,
    numbers,
    peak_of_child,
    safetensors_file,
    storage_pickle,
    tensor_of,
    tensor_pickle,
    text,
    torch_file,
)

from assay.checkpoint.open import open_checkpoint
from assay.errors import ReadError

MAX_MEMORY = 256 << 20
DATA = bytes(8)


def error_for(path):
    """The one-line error message for `path`."""
    with pytest.raises(ReadError) as caught:
        open_checkpoint(path)
    message = str(caught.value)
    assert "\n" not in message
    assert message.isprintable()
    assert path.name in message
    return message


def only(path, **options):
    (entry,) = open_checkpoint(path, **options).entries
    return entry


HEADERS = {
    "1 a header of 2**62 bytes": ({"header": b"{}", "length": 1 << 62}, "its header has 4611686018427387904 bytes"),
    "2 a header longer than the file": ({"header": {}, "length": 100}, "its header has 100 bytes, the file"),
    "3 overlapping ranges": (
        {"header": {"a": info(), "b": info(begin=4, end=12)}, "data": bytes(12)},
        "tensor b: its bytes overlap",
    ),
    "4 a gap": (
        {"header": {"a": info(), "b": info(begin=12, end=20)}, "data": bytes(20)},
        "tensor b: there is a gap of 4 bytes",
    ),
    "4 a gap at the start": (
        {"header": {"a": info(begin=8, end=16)}, "data": bytes(16)},
        "tensor a: there is a gap of 8 bytes",
    ),
    "5 extra bytes": ({"header": {"a": info()}, "data": bytes(10)}, "2 extra bytes after the last tensor"),
    "6 truncated data": ({"header": {"a": info()}, "data": bytes(5)}, "truncated: tensor a"),
    "7 a duplicate name": (
        {"header": b'{"a":%b,"a":%b}' % ((json.dumps(info()).encode(),) * 2), "data": DATA},
        "contains the key a twice",
    ),
    "7 a duplicate field": (
        {"header": b'{"a":{"dtype":"F32","dtype":"I32","shape":[2],"data_offsets":[0,8]}}', "data": DATA},
        "contains the key dtype twice",
    ),
    "7 a duplicate field, spelt differently": (
        {"header": b'{"a":{"dtype":"F32","d\\u0074ype":"I32","shape":[2],"data_offsets":[0,8]}}', "data": DATA},
        "contains the key dtype twice",
    ),
    "7 a duplicate name, spelt differently": (
        {"header": b'{"a":%b,"\\u0061":%b}' % ((json.dumps(info()).encode(),) * 2), "data": DATA},
        "contains the key a twice",
    ),
    "8 a shape that overflows": (
        {"header": {"a": info(shape=[1 << 40, 1 << 40])}, "data": DATA},
        "larger than any tensor",
    ),
    "8 a shape that overflows to zero": (
        {"header": {"a": info(shape=[1 << 40, 1 << 40], end=0)}},
        "larger than any tensor",
    ),
    "9 a shape that does not fit": ({"header": {"a": info(shape=[3])}, "data": DATA}, "takes 12 bytes, not 8"),
    "10 a negative size": ({"header": {"a": info(shape=[-2])}, "data": DATA}, "is not a list of sizes"),
    "12 deeply nested": ({"header": b'{"a":' + b"[" * 200_000}, "nested too deep"),
    "13 a name that is not UTF-8": ({"header": b'{"\xff\xfe":{}}'}, "not UTF-8"),
    "13 half a surrogate": ({"header": b'{"\\ud800":%b}' % json.dumps(info()).encode(), "data": DATA}, "not UTF-8"),
    "20 offsets that are not integers": (
        {"header": b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0.0,8.0]}}', "data": DATA},
        "not a byte range",
    ),
    "20 a size that is a float": (
        {"header": b'{"a":{"dtype":"F32","shape":[2.0],"data_offsets":[0,8]}}', "data": DATA},
        "is not a list of sizes",
    ),
    "20 a size that is true": (
        {"header": b'{"a":{"dtype":"F32","shape":[2,true],"data_offsets":[0,8]}}', "data": DATA},
        "is not a list of sizes",
    ),
    "offsets in the wrong order": ({"header": {"a": info(begin=8, end=0)}, "data": DATA}, "not a byte range"),
    "not JSON": ({"header": b"{abc}"}, "is not valid JSON"),
    "a tensor without a shape": (
        {"header": {"a": {"dtype": "F32"}}, "data": DATA},
        "tensor a: its description lacks",
    ),
    "metadata that is not text": ({"header": {"__metadata__": {"a": 1}}}, "not an object with string values"),
    "a number of a million digits": ({"header": b'{"a":%b}' % (b"9" * 1_000_000)}, "is not valid JSON"),
    "terminal escapes in a name": (
        {"header": {"\x1b[31m\u202e": info(shape=[3])}, "data": DATA},
        r"\x1b[31m\u202e",
    ),
}


@pytest.mark.parametrize("case", HEADERS)
def test_a_bad_safetensors_header_is_rejected(tmp_path, case):
    arguments, message = HEADERS[case]
    assert message in error_for(safetensors_file(tmp_path / "bad.safetensors", **arguments))


def test_5_extra_bytes_are_ignored_if_lenient(tmp_path):
    path = safetensors_file(tmp_path / "left.safetensors", {"a": info()}, bytes(10))
    assert only(path, lenient=True).bytes == 8
    assert "2 extra bytes" in open_checkpoint(path, lenient=True).notes[0]


def test_11_an_unknown_dtype_is_listed_with_its_problem(tmp_path):
    entry = only(safetensors_file(tmp_path / "new.safetensors", {"a": info("F9_E1M7")}, DATA))
    assert (entry.dtype, entry.shape, entry.bytes) == ("F9_E1M7", (2,), 8)
    assert "unknown dtype F9_E1M7" in entry.problem
    packed = only(safetensors_file(tmp_path / "f4.safetensors", {"a": info("F4", [16])}, DATA))
    assert (packed.bytes, "packed" in packed.problem) == (8, True)


@pytest.mark.parametrize("name", ["../../etc/passwd", "\x1b[31mred", "\u202ereversed", "a\nb", "名前", ""])
def test_14_and_15_names_are_data(tmp_path, name):
    assert only(safetensors_file(tmp_path / "n.safetensors", {name: info()}, DATA)).names == (name,)


def test_16_an_empty_tensor_is_listed(tmp_path):
    path = safetensors_file(tmp_path / "e.safetensors", {"a": info(shape=[0, 5], end=0), "b": info()}, DATA)
    empty, _ = open_checkpoint(path).entries
    assert (empty.shape, empty.bytes, empty.span, empty.problem) == ((0, 5), 0, None, "")


LFS = b"version https" + b"://git-lfs.github." + b"com/spec/v1\noid sha256:00\nsize 5\n"
NOT_CHECKPOINTS = {
    "17 an empty file": (b"", "is empty"),
    "18 an HTML page": (b"\n<!DOCTYPE html><html><body>404</body></html>", "is an HTML page"),
    "19 a git-LFS pointer": (LFS, "git-LFS pointer"),
    "an HDF5 file": (b"\x89HDF\r\n\x1a\n" + bytes(100), "HDF5"),
    "a gzip file": (b"\x1f\x8b" + bytes(50), "compressed"),
    "noise": (bytes(range(255, 100, -1)), "not a file that Assay reads"),
    "text": (b"hello, world", "not a file that Assay reads"),
}


@pytest.mark.parametrize("case", NOT_CHECKPOINTS)
def test_the_error_for_another_file_says_what_it_is(tmp_path, case):
    data, message = NOT_CHECKPOINTS[case]
    (tmp_path / "model.safetensors").write_bytes(data)
    assert message in error_for(tmp_path / "model.safetensors")


GOOD = {"0": bytes(range(16))}
TENSORS = {
    "21 a record shorter than declared": (
        tensor_pickle(),
        {"0": bytes(12)},
        "storage 0 has 12 bytes, not 16",
    ),
    "22 a missing record": (tensor_pickle(key="5"), GOOD, "storage 5 is missing"),
    "25 a view outside its storage": (tensor_pickle(shape=(5,)), GOOD, "tensor w: it reaches element 4"),
    "25 a strided view outside": (
        tensor_pickle(shape=(2, 2), strides=(3, 1)),
        GOOD,
        "tensor w: it reaches element 4",
    ),
    "25 an offset outside": (tensor_pickle(offset=1), GOOD, "tensor w: it reaches element 4"),
    "26 a negative offset": (tensor_pickle(shape=(1,), offset=-1), GOOD, "tensor w: its storage offset -1"),
    "28 a negative stride": (tensor_pickle(strides=(-1,), offset=3), GOOD, "tensor w: negative stride"),
    "28 a negative size": (tensor_pickle(shape=(-1,)), GOOD, "tensor w: negative size"),
    "29 a record longer than declared": (
        tensor_pickle(shape=(3,), numel=3),
        GOOD,
        "has 16 bytes, not 12",
    ),
    "29 a negative number of elements": (tensor_pickle(numel=-4), GOOD, "storage 0 has no valid size"),
    "8 a shape that overflows": (tensor_pickle((1 << 40, 1 << 40), (0, 0)), GOOD, "larger than any tensor"),
    "a shape of 65 dimensions": (tensor_pickle((1,) * 65, (1,) * 65), GOOD, "at most 64"),
    "shape and strides of different lengths": (tensor_pickle((2, 2), (1,)), GOOD, "tensor w: its shape and strides"),
    "two sizes for one storage": (
        tensor_pickle() + text("v") + tensor_pickle(numel=3),
        GOOD,
        "storage 0 has two sizes",
    ),
}


@pytest.mark.parametrize("case", TENSORS)
def test_the_error_for_a_bad_tensor_in_a_torch_file_names_it(tmp_path, case):
    pickle, records, message = TENSORS[case]
    assert message in error_for(torch_file(tmp_path / "bad.pt", dict_pickle(w=pickle), records))


def test_23_a_highly_compressed_tensor_is_listed_but_not_decompressed(tmp_path):
    pickle = dict_pickle(w=tensor_pickle(shape=(1 << 26,), numel=1 << 26))
    path = torch_file(tmp_path / "bomb.pt", pickle, {"0": bytes(1 << 28)}, zipfile.ZIP_DEFLATED)
    entry = only(path)
    assert (entry.shape, entry.bytes, entry.span) == ((1 << 26,), 1 << 28, None)
    assert "compressed" in entry.problem
    output, peak = peak_of_child(path)
    assert output == "1 entries"
    assert peak < MAX_MEMORY


@pytest.mark.parametrize("size", [1 << 20, 1 << 30])
def test_23_a_pickle_that_is_a_zip_bomb_is_rejected(tmp_path, size):
    path = tmp_path / "bomb.pt"
    packed = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1)
    with packed as archive, archive.open("a/data.pkl", "w") as member:
        for _ in range(size >> 20):
            member.write(bytes(1 << 20))
    output, peak = peak_of_child(path)
    assert "is rejected" in output
    assert peak < MAX_MEMORY


def test_a_compressed_pickle_of_sensible_size_is_read(tmp_path):
    path = tmp_path / "rezipped.pt"
    torch.save({"w": torch.arange(4.0)}, tmp_path / "w.pt")
    with zipfile.ZipFile(tmp_path / "w.pt") as source, zipfile.ZipFile(path, "w") as target:
        for item in source.infolist():
            deflated = item.filename.endswith("data.pkl")
            target.writestr(
                item.filename, source.read(item), zipfile.ZIP_DEFLATED if deflated else zipfile.ZIP_STORED
            )
    assert torch.equal(tensor_of(only(path)), torch.arange(4.0))


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("name", ["archive/data/0", "archive/data.pkl"])
def test_24_a_duplicate_member_is_rejected(tmp_path, name):
    path = torch_file(tmp_path / "twice.pt", dict_pickle(w=tensor_pickle()), extra=[(name, bytes(16))])
    assert f"it contains {name} twice" in error_for(path)


def test_27_an_expanded_view_counts_its_storage_once(tmp_path):
    entry = only(torch_file(tmp_path / "x.pt", dict_pickle(w=tensor_pickle((10**6, 10**6, 4), (0, 0, 1)))))
    assert entry.shape == (10**6, 10**6, 4)
    assert entry.strides == (0, 0, 1)
    assert (entry.bytes, entry.span.length) == (16, 16)
    half = only(torch_file(tmp_path / "y.pt", dict_pickle(w=tensor_pickle((1000, 2), (0, 1)))))
    assert (half.bytes, half.span.length) == (8, 16)


def hostile(module, name, argument):
    return b"c" + module.encode() + b"\n" + name.encode() + b"\n(" + text(argument) + b"tR"


@pytest.mark.parametrize(("module", "name"), [("os", "system"), ("builtins", "exec"), ("__builtin__", "eval"),
                                              ("subprocess", "Popen"), ("nt", "system"), ("pip", "main"),
                                              ("torch.hub", "load"), ("_interpreters", "run_string"),
                                              ("torch.storage", "_load_from_bytes")])  # fmt: skip
def test_30_globals_that_a_pickle_would_call_are_listed_and_not_run(tmp_path, module, name):
    marker = tmp_path / "ran"
    pickle = dict_pickle(w=tensor_pickle(), x=hostile(module, name, f"touch {marker}"))
    checkpoint = open_checkpoint(torch_file(tmp_path / "evil.pt", pickle))
    assert [entry.names for entry in checkpoint.entries] == [("w",)]
    assert checkpoint.globals == (f"{module}.{name}",)
    assert f"call {module}.{name}" in checkpoint.notes[0]
    assert not marker.exists()


def check_peak_memory(path, message):
    output, peak = peak_of_child(path)
    assert message in output
    assert peak < MAX_MEMORY
    return peak


def many(*pieces, times):
    return b"\x80\x04" + b"".join(piece * times for piece in pieces) + b"."


TRAPS = {
    "31 a memo index of 2**32": (b"\x80\x02}r\xff\xff\xff\xff.", "has no tensors"),
    "31 a memo index of 2**27": (b"\x80\x02}r\0\0\0\x08.", "has no tensors"),
    "a text of 4 GB": (b"\x80\x02X\xff\xff\xff\xffab.", "truncated"),
    "bytes of 2**63": (b"\x80\x04\x8e" + b"\xff" * 7 + b"\x7f" + b".", "truncated"),
    "a number of 2 GB": (b"\x80\x02\x8b\xff\xff\xff\x7f1.", "damaged"),
    "a frame of 2**63": (b"\x80\x04\x95" + b"\xff" * 8 + b"}.", "has no tensors"),
    "8 million None values": (many(b"N", times=8_000_000), "more values than any checkpoint has"),
    "3 million lists": (many(b"]", times=3_000_000), "more values than any checkpoint has"),
    "3 million dictionaries": (many(b"}", times=3_000_000), "more values than any checkpoint has"),
    "3 million marks": (many(b"(", times=3_000_000), "more values than any checkpoint has"),
    "3 million small dictionaries": (many(b"}K\1K\2s", times=3_000_000), "more values than any checkpoint has"),
    "3 million numbers": (many(b"Jabcd", times=3_000_000), "more values than any checkpoint has"),
    "3 million texts": (many(b"\x8c\2ab", times=3_000_000), "more values than any checkpoint has"),
    "2 million memo entries": (
        b"\x80\x02N" + b"".join(b"r" + struct.pack("<I", i * 7 + 3) for i in range(2_000_000)) + b".",
        "more values than any checkpoint has"),
    "a tensor with 50,000 names": (
        b"\x80\x02}(" + text("w") + tensor_pickle() + b"r\xff\0\0\0"
        + b"".join(text(f"w{i}") + b"h\xff" for i in range(50_000)) + b"u.", "1 entries"),
    "a tuple a million deep": (b"\x80\x02)" + b"\x85" * 1_000_000 + b".", "has no tensors"),
    "a key a million deep": (b"\x80\x02})" + b"\x85" * 1_000_000 + b"K\1s.", "has no tensors"),
    "keys that all collide": (
        b"\x80\x02}(" + b"".join(number(i * ((1 << 61) - 1)) + b"N" for i in range(1, 60_000)) + b"u.",
        "has no tensors"),
    "lists of lists of lists": (b"\x80\x02]" + b"".join(b"](" + b"h%c" % (i - 1) * 10 + b"eq%c" % i if i else b"q\0"
                                                          for i in range(12)) + b".", "endlessly"),
    "an array of 10,000 huge dimensions": (
        b"\x80\x02}" + text("a") + b"cnumpy._core.numeric\n_frombuffer\n(Ncnumpy\ndtype\n(" + text("f4") + b"tR("
        + number(1 << 62) * 10_000 + b"t" + text("C") + b"tRs.", "not lists of at most 64 integers"),
}  # fmt: skip


@pytest.mark.parametrize("case", TRAPS)
def test_a_pickle_that_would_exhaust_memory_is_rejected_cheaply(tmp_path, case):
    pickle, message = TRAPS[case]
    check_peak_memory(torch_file(tmp_path / "trap.pt", pickle), message)


def test_a_header_that_would_exhaust_memory_is_rejected_cheaply(tmp_path):
    many_keys = b"{" + b",".join(b'"%d":1' % i for i in range(3_000_000)) + b"}"
    for number_of, header in enumerate([b'{"a":' + b"[]," * 7_000_000, b"{}".ljust(90 << 20), many_keys,
                                        b'{"a":"' + "\U0001f600".encode() * 5_000_000 + b'"}',
                                        b'{"a":[' + b"1," * 5_000_000 + b"1]}"]):  # fmt: skip
        path = safetensors_file(tmp_path / f"{number_of}.safetensors", header)
        check_peak_memory(path, "has no tensors" if number_of == 1 else "")


def test_32_a_truncated_zip(tmp_path):
    path = torch_file(tmp_path / "cut.pt", dict_pickle(w=tensor_pickle()))
    whole = path.read_bytes()
    for length in (10, 60, len(whole) // 2, len(whole) - 30, len(whole) - 1):
        path.write_bytes(whole[:length])
        assert "truncated" in error_for(path)


def test_33_a_zip_without_a_pickle(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.pt", "w") as archive:
        archive.writestr("readme.txt", "hello")
    assert "zip archive without data.pkl" in error_for(tmp_path / "a.pt")
    with zipfile.ZipFile(tmp_path / "a.pt", "w"):
        pass
    assert "zip archive without data.pkl" in error_for(tmp_path / "a.pt")


def test_overlapping_members_are_rejected(tmp_path):
    path = torch_file(tmp_path / "o.pt", dict_pickle(w=tensor_pickle()), {"0": bytes(16), "1": bytes(16)})
    data = bytearray(path.read_bytes())
    first, second = data.index(b"archive/data/0", 300), data.index(b"archive/data/1", 300)
    data[second - 4 : second] = data[first - 4 : first]
    path.write_bytes(data)
    assert "overlaps another member" in error_for(path)


def test_a_member_that_is_not_where_the_directory_says(tmp_path):
    path = torch_file(tmp_path / "o.pt", dict_pickle(w=tensor_pickle()))
    data = bytearray(path.read_bytes())
    data[0:4] = b"PK\5\6"
    path.write_bytes(data)
    assert "is not where the zip directory says" in error_for(path)


GGUF = {
    "36 five dimensions": ({"tensors": [("w", (1,) * 5, 0, 0)], "data": bytes(32)}, "tensor w has 5 dimensions"),
    "36 an alignment of 3": (
        {"values": [("general.alignment", 4, struct.pack("<I", 3))]},
        "alignment 3 is not a power",
    ),
    "36 an alignment of 0": (
        {"values": [("general.alignment", 4, struct.pack("<I", 0))]},
        "alignment 0 is not a power",
    ),
    "36 2**60 tensors": ({"counts": (1 << 60, 0)}, "it declares 1152921504606846976 tensors"),
    "36 a list of 2**50 texts": ({"values": [("k", 9, struct.pack("<IQ", 8, 1 << 50))]}, "a list of"),
    "36 a list of 2**50 numbers": ({"values": [("k", 9, struct.pack("<IQ", 0, 1 << 50))]}, "a list of"),
    "36 lists in lists in lists": (
        {"values": [("k", 9, struct.pack("<IQ", 9, 1) * 6 + struct.pack("<IQ", 0, 0))]},
        "nested too deep",
    ),
    "36 a truncated tensor": ({"tensors": [("w", (16,), 0, 0)], "data": bytes(32)}, "truncated: tensor w"),
    "36 a shape that overflows": (
        {"tensors": [("w", (1 << 40, 1 << 40), 0, 0)], "data": bytes(32)},
        "larger than any",
    ),
    "36 an offset that is not aligned": ({"tensors": [("w", (1,), 0, 5)], "data": bytes(32)}, "offset 5 of tensor w"),
    "36 tensors that overlap": (
        {"tensors": [("w", (16,), 0, 0), ("v", (8,), 0, 32)], "data": bytes(64)},
        "tensor w overlaps",
    ),
    "36 rows that are not whole blocks": (
        {"tensors": [("w", (33,), 2, 0)], "data": bytes(64)},
        "not a multiple of the block size",
    ),
    "36 a value of an unknown type": ({"values": [("k", 77, b"")]}, "unknown metadata type 77"),
    "36 a duplicate key": ({"values": [("k", 0, b"\1"), ("k", 0, b"\1")]}, "the metadata key k appears twice"),
    "36 version 9": ({"version": 9}, "GGUF version 9"),
    "36 a duplicate name": ({"tensors": [("w", (1,), 0, 0), ("w", (1,), 0, 32)], "data": bytes(64)}, "the same name"),
}


@pytest.mark.parametrize("case", GGUF)
def test_a_bad_gguf_file_is_rejected(tmp_path, case):
    arguments, message = GGUF[case]
    assert message in error_for(gguf_file(tmp_path / "bad.gguf", **arguments))


def test_36_a_gguf_string_longer_than_the_file(tmp_path):
    path = gguf_file(tmp_path / "bad.gguf", values=[("k", 8, struct.pack("<Q", 1 << 40))])
    assert "truncated" in error_for(path)
    path = tmp_path / "name.gguf"
    path.write_bytes(b"GGUF" + struct.pack("<IQQQ", 3, 1, 0, 1 << 40) + bytes(100))
    assert "a name of 1099511627776 bytes" in error_for(path)
    assert gguf_text("ab") == b"\2\0\0\0\0\0\0\0ab"


def test_truncated_or_inconsistent_legacy_files_are_rejected(tmp_path):
    path = tmp_path / "old.pt"
    torch.save({"w": torch.arange(4.0)}, path, _use_new_zipfile_serialization=False)
    whole = path.read_bytes()
    for length in (20, len(whole) // 2, len(whole) - 17, len(whole) - 1):
        path.write_bytes(whole[:length])
        assert "truncated" in error_for(path)
    path.write_bytes(whole[:-24] + struct.pack("<q", 5) + whole[-16:])
    assert "has size 5, not 4" in error_for(path)


def test_unreadable_torchscript_code_gives_a_note(tmp_path):
    code = {"deep": "def f(x):\n  return " + "(" * 50_000 + "x" + ")" * 50_000, "chain": "y = x" + ".a" * 50_000,
            "calls": "y = x" + "(1)" * 50_000, "signs": "y = " + "-" * 50_000 + "1",
            "long": "y = x" + ".a" * 400,
            "branches": "if a:\n  b\n" + "elif a:\n  b\n" * 5_000, "broken": "def f(:\n"}  # fmt: skip
    members = [("archive/constants.pkl", b"\x80\x02).")]
    members += [(f"archive/code/{name}.py", source) for name, source in code.items()]
    members.append(("archive/code/fine.py", "def f(x: Tensor) -> Tensor:\n  return torch.relu(x)\n"))
    checkpoint = open_checkpoint(torch_file(tmp_path / "s.pt", dict_pickle(w=tensor_pickle()), extra=members))
    assert [note.split()[3] for note in checkpoint.notes] == list(code)
    assert [(function.name, function.calls[0].target) for function in checkpoint.functions] == [
        ("fine.f", "torch.relu")
    ]


def test_a_tensor_without_a_storage_is_rejected(tmp_path):
    strange = b"ctorch._utils\n_rebuild_tensor_v2\n(K\1K\0" + numbers((1,)) + numbers((1,)) + b"\x89}tR"
    assert "tensor w: it has no storage" in error_for(torch_file(tmp_path / "a.pt", dict_pickle(w=strange)))
    lying = storage_pickle().replace(text("storage"), text("module_"))
    assert "not a storage" in error_for(torch_file(tmp_path / "b.pt", dict_pickle(w=lying)))
