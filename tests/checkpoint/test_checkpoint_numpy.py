"""Files of numpy.save and numpy.savez, compared with numpy.load."""

from __future__ import annotations

import io
import struct
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest
from checkpoint_files import bits, plain_bytes, tensor_of
from test_checkpoint_light import HEAVY, imported

from assay.api.weights import analyze_weights
from assay.checkpoint.dtypes import NUMPY
from assay.checkpoint.open import open_checkpoint
from assay.cli.main import run
from assay.document.weights import QUANTILES
from assay.errors import ReadError

RNG = np.random.default_rng(7)
CODES = [f"{order}{code}" for code in NUMPY for order in ("<>" if code[1:] != "1" else "|")]


def values(code, shape=(3, 5)):
    """Different numbers of this dtype."""
    dtype = np.dtype(code)
    if dtype.kind == "c":
        return (RNG.normal(size=shape) + 1j * RNG.normal(size=shape)).astype(dtype)
    return RNG.integers(0, 2 if dtype.kind == "b" else 100, shape).astype(dtype)


def listed(entry):
    """The array that an entry describes, built only from its decoded bytes."""
    dtype = np.dtype(entry.dtype)
    flat = np.frombuffer(plain_bytes(entry), dtype)
    if entry.strides is None:
        return flat.reshape(entry.shape)
    return np.lib.stride_tricks.as_strided(flat, entry.shape, [step * dtype.itemsize for step in entry.strides])


def assert_equal(entry, expected):
    assert not entry.problem
    assert entry.shape == expected.shape
    assert entry.bytes == expected.nbytes
    assert entry.dtype == expected.dtype.newbyteorder("=").name
    if expected.size:
        found = listed(entry)
        assert found.tobytes() == expected.astype(expected.dtype.newbyteorder("=")).tobytes()
        first = entry.encoded.span.offset if entry.encoded else entry.span.offset
        assert entry.encoded or (first % entry.alignment == 0 and first % (2 * entry.alignment))


def headed(descr="<f4", shape=(2,), data=bytes(8), fortran=False, text=None, version=b"\1\0"):
    """The bytes of a .npy file with this header."""
    text = text if text is not None else f"{{'descr': {descr!r}, 'fortran_order': {fortran}, 'shape': {shape}, }}\n"
    width = "<H" if version[0] == 1 else "<I"
    return b"\x93NUMPY" + version + struct.pack(width, len(text.encode())) + text.encode() + data


def only(path, data=None):
    if data is not None:
        path.write_bytes(data)
    (entry,) = open_checkpoint(path).entries
    return entry


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("order", ["C", "F"])
def test_every_dtype_and_order(tmp_path, code, order):
    array = np.asarray(values(code), order=order)
    np.save(tmp_path / "layer.weight.npy", array)
    entry = only(tmp_path / "layer.weight.npy")
    assert entry.names == ("layer.weight",)
    assert_equal(entry, np.load(tmp_path / "layer.weight.npy"))


@pytest.mark.parametrize("shape", [(), (1,), (0,), (3, 0, 2), (1, 1), (4, 1, 2), (1, 5), (2,) * 9])
@pytest.mark.parametrize("order", ["C", "F"])
def test_shapes(tmp_path, shape, order):
    np.save(tmp_path / "a.npy", np.asarray(RNG.normal(size=shape), order=order))
    assert_equal(only(tmp_path / "a.npy"), np.load(tmp_path / "a.npy"))


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_versions(tmp_path, version):
    array = values("<f4")
    with open(tmp_path / "a.npy", "wb") as file:
        np.lib.format.write_array(file, array, version=version)
    assert_equal(only(tmp_path / "a.npy"), array)


def test_headers_of_other_writers(tmp_path):
    """Other key orders, double quotes, no trailing comma, sizes of Python 2."""
    for text in (
        '{"shape":(2,),"fortran_order":False,"descr":"<f4"}',
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2L,), }   \n",
    ):
        assert only(tmp_path / "a.npy", headed(text=text)).shape == (2,)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert np.load(tmp_path / "a.npy").shape == (2,)


@pytest.mark.parametrize(("descr", "dtype"), [("<V2", "bfloat16"), ("<f1", "float8_e5m2")])
def test_dtypes_of_ml_dtypes(tmp_path, descr, dtype):
    """What numpy.save writes for arrays of ml_dtypes 0.5, whose names it does not store."""
    import torch

    tensor = torch.arange(6.0).reshape(2, 3).to(getattr(torch, dtype))
    data = tensor.view(torch.uint8).numpy().tobytes()
    assert bits(tensor_of(only(tmp_path / "a.npy", headed(descr, (2, 3), data)))) == bits(tensor)


@pytest.mark.parametrize(
    ("array", "dtype", "problem"),
    [
        (np.array(["ab", "c"]), "U2", "numpy dtype <U2 is not supported"),
        (np.array([b"abc"]), "S3", "numpy dtype |S3 is not supported"),
        (np.array(["2020-01-01"], "M8[s]"), "M8[s]", "numpy dtype <M8[s] is not supported"),
        (np.ones(3, "V2"), "V2", "numpy dtype |V2 is not supported"),
        (np.ones(3, [("a", "<f4"), ("b", "<i2", (2,))]), "structured", "a structured array"),
    ],
)
def test_arrays_that_are_not_plain_numbers(tmp_path, array, dtype, problem):
    np.save(tmp_path / "a.npy", array)
    entry = only(tmp_path / "a.npy")
    assert (entry.dtype, entry.shape, entry.bytes) == (dtype, array.shape, array.nbytes)
    assert entry.problem.startswith(problem)


def test_an_unnamed_type_of_one_byte_is_not_guessed(tmp_path):
    assert "numpy does not store which" in only(tmp_path / "a.npy", headed("<V1", (2,), b"\0\0")).problem


class Canary:
    def __reduce__(self):
        return Path.touch, (Path("ran"),)


def test_object_arrays_are_listed_and_never_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", np.array([Canary(), None]))
    np.savez("b.npz", objects=np.array([Canary()]), numbers=np.ones(3))
    assert only(tmp_path / "a.npy").problem == "an array of Python objects, which is a pickle: not loaded"
    rows = {row.names[0]: row for row in analyze_weights("b.npz").tensors}
    assert "not loaded" in rows["objects"].problem
    assert rows["numbers"].mean == 1
    assert run(["params", "a.npy", "--list"]) == 0
    assert run(["params", "a.npy"]) == 4
    assert "not loaded" in capsys.readouterr().err
    assert not Path("ran").exists()
    assert np.load("a.npy", allow_pickle=True).shape == (2,)
    assert Path("ran").exists()


BAD = {
    "magic": (b"\x93NUMPY", "unknown .npy header"),
    "version": (headed(version=b"\4\0"), "version 4.0"),
    "short": (headed()[:9], "truncated"),
    "header cut": (headed()[:40], "truncated"),
    "data cut": (headed()[:-1], "array a takes 8 bytes, and 7 are left"),
    "huge shape": (headed(shape=(1 << 40, 1 << 40)), "larger than any array"),
    "huge size": (headed(shape=(1 << 62, 0)), ""),
    "negative": (headed(shape=(-2,)), "lacks a valid"),
    "float": (headed(shape=(2.0,)), "lacks a valid"),
    "bool": (headed(shape=(True,)), "lacks a valid"),
    "no tuple": (headed(shape=2), "lacks a valid"),
    "code": (headed(text="__import__('os').mkdir('ran')"), "lacks a valid"),
    "deep": (headed(text="(" * 60_000), "lacks a valid"),
    "deep and closed": (headed(text="(" * 9000 + ")" * 9000), "lacks a valid"),
    "digits": (headed(shape="(" + "9" * 60_000 + ",)"), "lacks a valid"),
    "unhashable": (headed(text="{[]: 1}"), "lacks a valid"),
    "extra key": (headed(text="{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'x': 1}"), "lacks a valid"),
    "long header": (headed(version=b"\2\0", text=" " * 70_000), "the limit is 65536"),
    "dimensions": (headed(shape=(1,) * 65, data=bytes(4)), "larger than any array"),
}


@pytest.mark.parametrize("case", sorted(BAD))
def test_bad_files(tmp_path, monkeypatch, case):
    monkeypatch.chdir(tmp_path)
    data, expected = BAD[case]
    path = tmp_path / "a.npy"
    path.write_bytes(data)
    if expected:
        with pytest.raises(ReadError, match=expected) as caught:
            open_checkpoint(path)
        assert "\n" not in str(caught.value)
        with pytest.raises((ValueError, EOFError, TypeError, MemoryError, SyntaxError, RecursionError)):
            np.load(path)
    else:
        assert only(path).bytes == 0
    assert not Path("ran").exists()


def test_every_truncation_is_an_error(tmp_path):
    np.save(tmp_path / "whole.npy", values("<f4"))
    data = (tmp_path / "whole.npy").read_bytes()
    for length in range(1, len(data)):
        (tmp_path / "a.npy").write_bytes(data[:length])
        with pytest.raises(ReadError):
            open_checkpoint(tmp_path / "a.npy")


def test_bytes_after_the_array_are_noted(tmp_path):
    (tmp_path / "a.npy").write_bytes(headed(data=bytes(20)))
    assert open_checkpoint(tmp_path / "a.npy").notes == ("12 bytes after the array ignored",)
    assert np.load(tmp_path / "a.npy").shape == (2,)


@pytest.mark.parametrize("write", [np.savez, np.savez_compressed])
def test_archives(tmp_path, write):
    arrays = {f"block/{code}": values(code) for code in CODES} | {
        "fortran": np.asfortranarray(values("<f4")),
        "scalar": np.array(3.5),
        "empty": np.ones((0, 4)),
    }
    write(tmp_path / "a.npz", **arrays)
    entries = {entry.names[0]: entry for entry in open_checkpoint(tmp_path / "a.npz").entries}
    with np.load(tmp_path / "a.npz") as loaded:
        assert list(entries) == list(loaded)
        for name, entry in entries.items():
            if entry.problem:
                assert entry.problem.startswith("big-endian numbers that are also compressed")
                assert write is np.savez_compressed
                assert loaded[name].dtype.byteorder == ">"
            else:
                assert_equal(entry, loaded[name])


def test_a_large_compressed_array(tmp_path):
    array = RNG.integers(0, 9, (700, 9001)).astype(np.float16)
    np.savez_compressed(tmp_path / "a.npz", w=array)
    (row,) = analyze_weights(tmp_path / "a.npz").tensors
    assert row.mean == pytest.approx(array.mean(dtype=np.float64), rel=1e-12)
    assert_equal(only(tmp_path / "a.npz"), array)


@pytest.mark.parametrize("code", ["<f4", ">f4", "<f8", "<f2", "<i4", ">i8", "|u1", "<c8"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_statistics_are_those_of_numpy(tmp_path, code, order):
    np.save(tmp_path / "a.npy", np.asarray(values(code, (70, 41)), order=order))
    (row,) = analyze_weights(tmp_path / "a.npy").tensors
    loaded = np.load(tmp_path / "a.npy")
    flat = loaded.astype(np.complex128 if code == "<c8" else np.float64).ravel().view(np.float64)
    assert not row.problem
    assert (row.count, row.bytes) == (loaded.size, loaded.nbytes)
    assert (row.min, row.max) == (flat.min(), flat.max())
    assert row.mean == pytest.approx(flat.mean(), rel=1e-12)
    assert row.std == pytest.approx(flat.std(), rel=1e-12)
    assert row.quantiles == pytest.approx(tuple(np.quantile(flat, QUANTILES)), rel=1e-12)
    if loaded.dtype.kind == "f":
        norms = np.linalg.norm(loaded.astype(np.float64), axis=1)
        assert (row.rows.min, row.rows.max) == pytest.approx((norms.min(), norms.max()), rel=1e-6)


def test_other_members_are_noted_and_damaged_ones_are_failures(tmp_path):
    np.savez(tmp_path / "a.npz", good=np.ones(3))
    with zipfile.ZipFile(tmp_path / "a.npz", "a") as archive:
        archive.writestr("readme.txt", "x")
        archive.writestr("bad.npy", headed()[:-1])
        archive.writestr("packed.npy", headed(), compress_type=zipfile.ZIP_BZIP2)
    checkpoint = open_checkpoint(tmp_path / "a.npz")
    assert [entry.names[0] for entry in checkpoint.entries] == ["good"]
    assert checkpoint.notes == ("1 other member of the archive not read, such as readme.txt",)
    assert [("truncated" in line, "zip method 12" in line) for line in checkpoint.failures] == [
        (True, False),
        (False, True),
    ]
    assert run(["params", str(tmp_path / "a.npz")]) == 4


def test_an_archive_without_a_readable_array_is_an_error(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("bad.npy", b"hello")
    with pytest.raises(ReadError, match="cannot read any of its arrays"):
        open_checkpoint(tmp_path / "a.npz")


def test_a_deflate_bomb_is_not_unpacked(tmp_path):
    buffer = io.BytesIO()
    np.save(buffer, np.zeros(1 << 24))
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("w.npy", buffer.getvalue())
    with pytest.raises(ReadError, match="above the limit"):
        open_checkpoint(tmp_path / "a.npz")


def test_a_directory_of_arrays_is_one_checkpoint(tmp_path):
    np.save(tmp_path / "b.npy", np.ones(2))
    np.savez(tmp_path / "a.npz", x=np.ones(3), y=np.ones(4))
    checkpoint = open_checkpoint(tmp_path)
    assert sorted(name for entry in checkpoint.entries for name in entry.names) == ["b", "x", "y"]
    assert not checkpoint.failures


def test_listing_imports_nothing_heavy(tmp_path):
    np.savez_compressed(tmp_path / "a.npz", w=np.ones(3, ">f4"), v=np.ones(3))
    np.save(tmp_path / "b.npy", np.ones((2, 3)))
    assert not imported(tmp_path / "b.npy") & HEAVY
    assert not imported(tmp_path / "a.npz") & HEAVY
