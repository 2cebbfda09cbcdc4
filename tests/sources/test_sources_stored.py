"""Model files: recognised by their bytes, and which of them run code."""

from __future__ import annotations

import json
import pickle
import zipfile

import pytest
import torch
from opening import open_model

from assay.checkpoint.files import Files
from assay.checkpoint.formats.recognise import recognise
from assay.document.document import Document, Origin
from assay.document.files import save
from assay.errors import ReadError, TrustError, UsageError, UserCodeError, VersionError


def small():
    return torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU())


def scripted(path):
    torch.jit.script(small()).save(path)


WRITERS = {
    "scripted": scripted,
    "saved": lambda path: torch.save(small(), path),
    "legacy": lambda path: torch.save(small(), path, _use_new_zipfile_serialization=False),
    "pickled": lambda path: path.write_bytes(pickle.dumps(small())),
    "in a dictionary": lambda path: torch.save({"epoch": 3, "model": small()}, path),
}


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize("name", ["m.bin", "m.assay.json.txt"])
def test_files_that_run_code_need_trust_whatever_their_name(tmp_path, kind, name):
    path = tmp_path / name
    WRITERS[kind](path)
    with pytest.raises(TrustError, match="allow it with --trust"):
        open_model(str(path)).with_weights.module if kind == "scripted" else open_model(str(path))
    opened = open_model(path, trust=True)
    x = torch.ones(1, 3, 5, 5)
    assert opened.module(x).shape == (1, 4, 3, 3)
    assert opened.origin.kind == ("scripted" if kind == "scripted" else "pickled")
    assert opened.origin.name == name


class Evil:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (self.path, "w"))


@pytest.mark.parametrize("write", [torch.save, lambda value, path: path.write_bytes(pickle.dumps(value))])
def test_no_code_runs_without_trust(tmp_path, write):
    write(Evil(str(tmp_path / "ran")), tmp_path / "evil.pt")
    with pytest.raises(TrustError):
        open_model(tmp_path / "evil.pt")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("trust", [True, False])
def test_a_state_dict_is_weights_without_code(tmp_path, zipped, trust):
    path = tmp_path / "w.pt"
    torch.save(small().state_dict(), path, _use_new_zipfile_serialization=zipped)
    with pytest.raises(ReadError, match="weights without code") as caught:
        open_model(path, trust=trust)
    assert not isinstance(caught.value, TrustError)


@pytest.mark.parametrize(
    "data",
    [b"GGUF" + b"\0" * 40, (20).to_bytes(8, "little") + b'{"a":{"dtype":"F32"}}'],
    ids=["gguf", "safetensors"],
)
def test_other_weight_files_are_weights_without_code(tmp_path, data):
    (tmp_path / "w.pt2").write_bytes(data)
    with pytest.raises(ReadError, match="weights without code"):
        open_model(tmp_path / "w.pt2")


def test_a_trusted_pickle_without_its_code_is_a_user_code_error(tmp_path):
    (tmp_path / "m.pkl").write_bytes(b"\x80\x04cnot_there_at_all\nNet\n.")
    with pytest.raises(UserCodeError, match=r"m\.pkl needs the module not_there_at_all, which cannot be imported"):
        open_model(tmp_path / "m.pkl", trust=True)


def test_a_trusted_pickle_of_another_object_is_an_error(tmp_path):
    torch.save([1, 2], tmp_path / "list.pt")
    with pytest.raises(ReadError, match="contains an object of type list"):
        open_model(tmp_path / "list.pt", trust=True)


@pytest.mark.parametrize("suffix", [".assay.json", ".assay.json.gz"])
def test_documents_open_by_name_and_by_bytes(tmp_path, suffix):
    document = Document(origin=Origin("file", "a.py:f", "f"))
    save(document, tmp_path / f"m{suffix}")
    opened = open_model(tmp_path / f"m{suffix}")
    assert opened.document == document
    with pytest.raises(UsageError, match="is read, not run"):
        opened.module  # noqa: B018
    assert (opened.origin.kind, opened.origin.name) == ("document", f"m{suffix}")
    renamed = (tmp_path / f"m{suffix}").rename(tmp_path / "renamed.pt")
    assert open_model(renamed).document == document


def test_a_newer_document_keeps_its_own_error(tmp_path):
    (tmp_path / "m.json").write_text('{"assay_schema": 99}')
    with pytest.raises(VersionError):
        open_model(tmp_path / "m.json")


def zipped(*members):
    def write(path):
        with zipfile.ZipFile(path, "w") as archive:
            for member in members:
                archive.writestr(member, "{}")

    return write


@pytest.mark.parametrize(
    ("members", "kind"),
    [
        (["m/models/model.json", "m/data/weights/x"], "pt2"),
        (["archive_format", "byteorder"], "pt2"),
        (["serialized_exported_program.json", "serialized_state_dict.pt"], "pt2"),
        (["m/code/__torch__.py", "m/constants.pkl", "m/data.pkl"], "torchscript"),
        (["m/data.pkl", "m/data/0"], "torch-zip"),
    ],
)
def test_zip_files_are_distinguished_by_their_members(tmp_path, members, kind):
    zipped(*members)(tmp_path / "anything")
    with Files().region(str(tmp_path / "anything")) as region:
        assert recognise(region).kind == kind


def test_an_exported_program_is_read_whatever_its_name(tmp_path):
    torch.export.save(torch.export.export(small(), (torch.ones(1, 3, 8, 8),)), tmp_path / "m.zip.pt2")
    renamed = (tmp_path / "m.zip.pt2").rename(tmp_path / "renamed.bin")
    opened = open_model(renamed)
    assert opened.origin.kind == "exported"
    assert opened.document.origin.name == "renamed.bin"
    assert opened.document.ops


@pytest.mark.parametrize(
    ("data", "part"),
    [
        (b"", "is empty"),
        (b"hello there", "not a file that Assay reads"),
        (b"PK\x03\x04 cut short", "truncated"),
        (b"{ not json", "not valid JSON"),
        (b'{"a": 1}', "expected a saved document, a transformers config or an index"),
        (b"{" * 100_000, "not valid JSON"),
        (b"\x1f\x8b\x08cut", "is compressed"),
    ],
)
def test_the_error_for_other_bytes_is_one_line(tmp_path, data, part):
    (tmp_path / "file").write_bytes(data)
    with pytest.raises(ReadError) as caught:
        open_model(tmp_path / "file", trust=True)
    assert part in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_zip_without_a_model_is_an_error(tmp_path):
    zipped("readme.txt")(tmp_path / "a.zip")
    with pytest.raises(ReadError, match=r"zip archive without data\.pkl, not a checkpoint"):
        open_model(tmp_path / "a.zip")


def test_a_damaged_saved_file_is_an_error(tmp_path):
    torch.save(small().state_dict(), tmp_path / "w.pt")
    zipped("w/data.pkl")(tmp_path / "bad.pt")
    with pytest.raises(ReadError):
        open_model(tmp_path / "bad.pt")


def test_model_args_for_a_file_are_rejected(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert"}))
    with pytest.raises(Exception, match="takes no arguments"):
        open_model(tmp_path, model_args={"a": 1})
