"""The two JSON files: keys, totals and schemas, and that either both or neither are written."""

from __future__ import annotations

import json
import os

import msgspec
import pytest
from handmade import conv_stack, stopped
from jsonschema import Draft202012Validator, ValidationError

from assay import atomic
from assay.document.document import Document
from assay.errors import WriteError
from assay.version import __version__
from assay.views.json.files import encode, encode_lines, modules_file, ops_file
from assay.views.json.schema import schema
from assay.views.json.write import default_directory, write_uniques


def written(file: object) -> dict:
    return json.loads(encode(file))


def test_modules_metadata():
    metadata = written(modules_file(conv_stack()))["metadata"]
    provenance = metadata.pop("provenance")
    assert metadata == {
        "load_fn_location": "my_model.py:load_model",
        "load_fn_name": "load_model",
        "model_class": "Sequential",
        "total_modules": 7,
        "unique_modules": 5,
        "timestamp": "2026-02-02T10:30:00",
    }
    assert provenance == {
        "assay": __version__,
        "torch": "2.13.0",
        "mode": "real",
        "inputs_from": "given",
        "assumptions": [],
        "complete": True,
        "failure": None,
        "training": False,
        "as_is": False,
        "own_modes": {"(root)": "evaluation"},
    }


def test_ops_metadata():
    metadata = written(ops_file(conv_stack(), "there.json"))["metadata"]
    assert list(metadata) == ["source_modules_json", "total_ops", "unique_ops", "timestamp", "provenance"]
    assert (metadata["source_modules_json"], metadata["total_ops"], metadata["unique_ops"]) == (
        "there.json",
        6,
        4,
    )


def test_a_partial_document_says_so():
    provenance = written(ops_file(stopped()))["metadata"]["provenance"]
    assert provenance["complete"] is False
    assert provenance["failure"]["module"] == "3"


def test_files_are_indented_by_two_and_end_with_a_line_break():
    text = encode(modules_file(conv_stack())).decode()
    assert text.startswith('{\n  "metadata": {\n    "load_fn_location"')
    assert text.endswith("}\n")


def test_a_timestamp_is_cut_to_seconds():
    stamped = conv_stack(timestamp="2026-02-02T10:30:00.123456+02:00")
    assert modules_file(stamped).metadata.timestamp == "2026-02-02T10:30:00"
    now = modules_file(conv_stack(timestamp="")).metadata.timestamp
    assert len(now) == len("2026-02-02T10:30:00")


def test_json_lines_have_one_entry_per_line():
    file = modules_file(conv_stack())
    assert [json.loads(line)["id"] for line in encode_lines(file.modules).splitlines()] == [
        entry.id for entry in file.modules
    ]


@pytest.mark.parametrize("document", [conv_stack(), stopped(), Document()], ids=["whole", "partial", "empty"])
@pytest.mark.parametrize(("name", "make"), [("modules", modules_file), ("ops", ops_file)])
def test_the_json_matches_its_schema(document, name, make):
    Draft202012Validator(json.loads(schema(name))).validate(written(make(document)))


def test_a_document_matches_its_schema():
    Draft202012Validator(json.loads(schema("document"))).validate(json.loads(msgspec.json.encode(stopped())))


@pytest.mark.parametrize("damage", [{"id": "x_1"}, {"occurrences": "0"}, {"calls": -1}, {"parent": 3}])
def test_the_schema_refuses_invalid_entries(damage):
    file = written(modules_file(conv_stack()))
    file["modules"][0].update(damage)
    with pytest.raises(ValidationError):
        Draft202012Validator(json.loads(schema("modules"))).validate(file)


def _write(document: Document, directory):
    return write_uniques(directory, document)


def test_both_files_are_written_and_nothing_else(tmp_path):
    modules, ops = _write(conv_stack(), tmp_path / "deep" / "out")
    assert sorted(path.name for path in modules.parent.iterdir()) == [
        "pytorch_ops.json",
        "unique_modules.json",
    ]
    assert json.loads(modules.read_bytes())["metadata"]["unique_modules"] == 5
    assert json.loads(ops.read_bytes())["metadata"]["source_modules_json"] == modules.name


def test_a_failure_at_the_second_file_keeps_the_existing_files(tmp_path, monkeypatch):
    before = [path.read_bytes() for path in _write(conv_stack(), tmp_path)]
    write = atomic.write_bytes
    calls = []

    def full_disk(path, data, **options):
        calls.append(path)
        if len(calls) == 2:
            raise WriteError("no space left")
        write(path, data, **options)

    monkeypatch.setattr(atomic, "write_bytes", full_disk)
    with pytest.raises(WriteError, match="no space left"):
        _write(conv_stack(), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pytorch_ops.json", "unique_modules.json"]
    assert [(tmp_path / name).read_bytes() for name in ("unique_modules.json", "pytorch_ops.json")] == before


def test_a_directory_with_the_name_of_a_file_is_refused_before_anything_is_written(tmp_path):
    (tmp_path / "pytorch_ops.json").mkdir()
    with pytest.raises(WriteError, match="it is a directory"):
        _write(conv_stack(), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["pytorch_ops.json"]


def test_a_directory_below_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(WriteError, match="is not a directory"):
        atomic.check_directory(tmp_path / "file" / "out")
    with pytest.raises(WriteError, match="cannot create directory"):
        _write(conv_stack(), tmp_path / "file" / "out")


def test_checking_a_directory_does_not_create_it(tmp_path):
    atomic.check_directory(tmp_path / "new" / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write everywhere")
def test_a_directory_without_permission_is_refused(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(WriteError, match="permission denied"):
        atomic.check_directory(tmp_path / "out")


@pytest.mark.parametrize(
    ("name", "directory"),
    [("Sequential", "Sequential"), ("../x/y", "___x_y"), ("", "model"), ("a" * 300, "a" * 100)],
)
def test_a_class_name_is_never_a_path(name, directory):
    assert str(default_directory(name)) == directory
