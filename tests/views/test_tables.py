"""Tables in all formats: nothing truncated, control characters escaped, unknown values never shown as zero."""

from __future__ import annotations

import csv
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from assay import units
from assay.views.layout import Style, as_text
from assay.views.tables import Column, Table, as_csv, as_json_lines, as_markdown, printable

COLUMNS = (
    Column("name", lambda row: row[0], shrinks=True),
    Column("size", lambda row: row[1], "right", units.exact),
    Column("note", lambda row: row[2], shrinks=True, drops=True),
)
TABLE = Table(COLUMNS, [["conv", 1234567, "first"], ["norm", None, "second"]])
HOSTILE = "[red]x[/red] \x1b[31m\n\x07"


def test_text_is_aligned():
    assert as_text(TABLE).splitlines() == [
        "name       size  note",
        "───────────────────────",
        "conv  1,234,567  first",
        "norm          –  second",
    ]


def test_csv_has_raw_values_and_empty_fields_for_unknown_ones():
    assert as_csv(TABLE) == "name,size,note\nconv,1234567,first\nnorm,,second\n"


def test_markdown_is_aligned_and_formatted():
    assert as_markdown(TABLE).splitlines() == [
        "| name | size | note |",
        "| --- | ---: | --- |",
        "| conv | 1,234,567 | first |",
        "| norm | – | second |",
    ]


def test_nothing_is_truncated_without_a_width():
    long = "layer." * 5000
    assert long in as_text(Table(COLUMNS, [[long, 1, ""]]))


def test_a_narrow_terminal_first_omits_columns_then_wraps():
    table = Table(COLUMNS, [["a fairly long name", 1, "a note"]])
    assert "note" in as_text(table, Style(40))
    narrow = as_text(table, Style(26))
    assert "note" not in narrow
    assert "a fairly long name" in narrow
    folded = as_text(table, Style(18)).splitlines()
    assert max(map(len, folded)) <= 18
    assert [line.split("  ")[0].strip() for line in folded[2:]] == ["a fairly", "long name"]


def test_one_long_cell_does_not_omit_other_columns():
    table = Table(COLUMNS, [["x " * 100, 1, "a note"]])
    assert "a note" in as_text(table, Style(60))


def test_control_characters_and_markup_are_shown_as_text():
    text = as_text(Table(COLUMNS, [[HOSTILE, 1, ""]]))
    assert r"[red]x[/red] \x1b[31m\n\x07" in text
    assert text.count("\n") == 3
    assert "\x1b" not in text


def test_color_is_off_by_default():
    assert "\x1b[1m" in as_text(TABLE, Style(color=True))
    assert "\x1b" not in as_text(TABLE)


def test_markdown_keeps_a_hostile_name_in_its_cell():
    lines = as_markdown(Table(COLUMNS, [["a|b<img>`*", 1, HOSTILE]])).splitlines()
    assert len(lines) == 3
    assert r"a\|b\<img\>\`\*" in lines[2]


@given(st.text(max_size=60), st.text(max_size=60))
def test_csv_round_trips_on_one_line(name, note):
    text = as_csv(Table(COLUMNS, [[name, 1, note]]))
    assert list(csv.reader(io.StringIO(text)))[1] == [printable(name), "1", printable(note)]
    assert len(text.splitlines()) == 2


@given(st.text(max_size=80))
def test_printable_is_printable_and_idempotent(text):
    assert printable(text).isprintable()
    assert printable(printable(text)) == printable(text)


@given(st.lists(st.text(max_size=70), min_size=1, max_size=5), st.integers(30, 120))
def test_no_line_is_wider_than_the_terminal(names, width):
    text = as_text(Table(COLUMNS, [[name, 5, name] for name in names]), Style(width))
    assert max(cell_len(line) for line in text.splitlines()) <= width


@pytest.mark.parametrize("width", [None, 40])
def test_a_table_without_rows_has_headings(width):
    assert as_text(Table(COLUMNS, []), Style(width)).startswith("name")


def test_a_footer_row_may_lack_values():
    table = Table(COLUMNS, TABLE.rows, [{"name": "total", "size": 1234567}])
    assert as_text(table).splitlines()[-1].split() == ["total", "1,234,567"]
    assert as_csv(table) == as_csv(TABLE)


def test_data_formats_use_the_name_and_text_the_title():
    table = Table([Column("GPU self", len, name="gpu_self_ns")], ["abc"])
    assert as_csv(table) == "gpu_self_ns\n3\n"
    assert json.loads(as_json_lines(table)) == {"gpu_self_ns": 3}
    assert as_text(table).splitlines()[0] == "GPU self"
    assert table.values() == [{"gpu_self_ns": 3}]


def test_columns_without_values_can_be_removed():
    table = Table(COLUMNS, [("conv", None, ""), ("norm", None, "second")])
    assert [column.title for column in table.without_empty().columns] == ["name", "note"]
    assert Table(COLUMNS, []).without_empty().columns == COLUMNS
    assert [column.title for column in TABLE.without_empty().columns] == ["name", "size", "note"]
    assert len(table.first(1).rows) == 1


def test_facts_are_a_list_in_markdown():
    columns = [
        Column("name", lambda row: row[0]),
        Column("value", lambda row: row[1]),
        Column("x", lambda row: row[2]),
    ]
    rows = [("  Time", "1 ms", "measured"), ("", "a_b", ""), ("a note", "", "")]
    lines = as_markdown(Table(columns, rows, bare=True)).splitlines()
    assert lines == ["- **Time** 1 ms · measured", "- a\\_b", "- a note"]
