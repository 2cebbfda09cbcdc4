"""Names of trace files, and the labels and metadata stored in a trace."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.document.trace_labels import TracedModule, TraceFacts, decode_facts, decode_path, encode_facts, encode_path
from assay.errors import WriteError
from assay.trace.write import files, names


@given(st.text(max_size=200))
def test_a_file_name_is_one_plain_name(text):
    name = names.file_name(text)
    assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,100}", name)
    assert Path(name).name == name


@given(st.text(alphabet=st.characters(), max_size=60))
def test_labels_are_ascii_and_decode_to_the_path(path):
    label = encode_path(path)
    assert re.fullmatch(r"assay:[A-Za-z0-9._%-]+", label)
    assert decode_path(label) == path


def test_labels_differ_and_other_names_are_not_labels():
    assert encode_path("") == "assay:."
    assert encode_path(".") != encode_path("")
    assert decode_path("aten::add") is None


@given(st.lists(st.tuples(st.text(max_size=8), st.lists(st.integers(-1, 3), max_size=4)), max_size=4))
def test_facts_survive_encoding(modules):
    facts = TraceFacts(
        'a"b\n', 7, modules=tuple(TracedModule(path, "Linear", shapes=tuple(shapes)) for path, shapes in modules)
    )
    text = encode_facts(facts)
    assert re.fullmatch(r"[A-Za-z0-9+/=]*", text)
    assert decode_facts(text) == facts


def test_damaged_facts_are_none():
    text = encode_facts(TraceFacts("a", 1))
    for damaged in ("", "é", text[:-5], "e30=", text.replace("e", "", 1)):
        assert decode_facts(damaged) is None


def test_facts_of_a_later_version_can_still_be_read():
    later = msgspec.json.encode({"model_name": "a", "pass_number": 1, "news": [1]})
    import base64

    assert decode_facts(base64.b64encode(later).decode()) == TraceFacts("a", 1)


def test_stems_avoid_existing_files(tmp_path, monkeypatch):
    for name in ("Net_forward_001.json", "Net-2_forward_1000.json.gz", "Net-4_forward_001_rank1.json", "other.json"):
        (tmp_path / name).touch()
    stems = names.FileStems()
    assert [stems.claim(tmp_path, "Net") for _ in range(3)] == ["Net-3", "Net-4", "Net-5"]
    monkeypatch.setenv("RANK", "1")
    assert names.FileStems().claim(tmp_path, "Net") == "Net"
    assert [names.FileStems().claim(tmp_path, "Net-4")] == ["Net-4-2"]


def test_a_name_claimed_by_another_process_is_never_overwritten(tmp_path):
    (tmp_path / "a.json").write_text("somebody else's")
    file_names = iter(["a.json", "b.json"])
    taken = []

    def export(path):
        Path(path).write_text('{"traceEvents": [], "traceName": "part" }')

    placed = files.place(export, tmp_path, lambda: next(file_names), lambda: taken.append(1))
    assert placed == tmp_path / "b.json"
    assert taken == [1]
    assert (tmp_path / "a.json").read_text() == "somebody else's"
    assert msgspec.json.decode(placed.read_bytes()) == {"traceEvents": [], "traceName": "b.json"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.json", "b.json"]


@pytest.mark.parametrize("left", ["", '{"traceEvents": [{"ph"'])
def test_an_incomplete_trace_is_not_published(tmp_path, left):
    def export(path):
        Path(path).write_text(left)

    with pytest.raises(WriteError, match="incomplete"):
        files.place(export, tmp_path, lambda: "a.json", pytest.fail)
    assert list(tmp_path.iterdir()) == []
