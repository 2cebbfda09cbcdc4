"""The layout of tables as text: nothing is wider than the line, and nothing is hidden without being named."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from assay.errors import UsageError
from assay.views.choosing import ALL, Choice, choose
from assay.views.layout import Style, as_text, lay_out, shortened, shortened_names, wrapped
from assay.views.plain import plain
from assay.views.tables import Column, Table, percent
from assay.views.text.report import Report
from assay.views.text.report import as_text as report_text

ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
names = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=60)
rows = st.lists(st.tuples(names, st.integers(0, 10**12), st.floats(0, 1), names), max_size=6)
COLUMNS = [
    Column("layer name", lambda row: row[0], shrinks=True, cuts="middle", keeps=10),
    Column("parameters read", lambda row: row[1], "right", drops=2),
    Column("share", lambda row: row[2], "right", percent, bar=True),
    Column("what it is good for", lambda row: row[3], shrinks=True, drops=1),
]


@given(rows, st.integers(20, 160), st.booleans(), st.booleans(), st.booleans())
def test_no_line_is_wider_than_asked(content, width, utf8, color, all_columns):
    style = Style(width, color, utf8, all_columns)
    for line in lay_out(Table(COLUMNS, content, content[:1]), style).lines:
        assert cell_len(ESCAPES.sub("", line)) <= width
        assert utf8 or line.isascii()


@given(rows, st.integers(20, 160))
def test_a_column_is_shown_or_named_as_hidden(content, width):
    drawn = lay_out(Table(COLUMNS, content), Style(width))
    heading = " ".join(drawn.lines[: next(at for at, line in enumerate(drawn.lines) if line[0] == "─")])
    shown = [column.title for column in COLUMNS if column.title.split()[0] in heading]
    assert sorted([*shown, *drawn.hidden]) == sorted(column.title for column in COLUMNS)


@given(rows, st.integers(40, 160))
def test_all_columns_are_shown_below_each_other(content, width):
    text = " ".join(lay_out(Table(COLUMNS, content), Style(width, all_columns=True)).lines).split()
    for column in COLUMNS:
        assert set(column.title.split()) <= set(text)
    assert {str(row[1]) for row in content} <= set(text)


def test_columns_are_hidden_by_priority_then_from_the_right():
    priorities = {"aaaa": 0, "bbbb": 2, "cccc": 1, "dddd": 1}
    table = Table([Column(title, len, drops=drops) for title, drops in priorities.items()], ["x"])
    hidden = [lay_out(table, Style(width)).hidden for width in (22, 16, 10, 4)]
    assert hidden == [[], ["bbbb"], ["bbbb", "dddd"], ["bbbb", "cccc", "dddd"]]


def test_bars_go_before_fixed_columns_and_are_never_listed_as_hidden():
    table = Table([COLUMNS[0], COLUMNS[2]], [("a", 0, 0.5, ""), ("b", 0, 0.25, "")])
    assert [line.count("█") for line in as_text(table).splitlines()[2:]] == [10, 5]
    narrow = lay_out(table, Style(20))
    assert not any("█" in line for line in narrow.lines)
    assert not narrow.hidden
    assert [line.count("#") for line in as_text(table, Style(utf8=False)).splitlines()[2:]] == [10, 5]


def test_bars_are_coloured_by_the_share_and_drawn_without_colour_alike():
    table = Table([COLUMNS[0], COLUMNS[2]], [("hot", 0, 0.9, ""), ("warm", 0, 0.09, ""), ("cold", 0, 0.01, "")])
    hot, warm, cold = as_text(table, Style(color=True)).splitlines()[2:]
    assert "\x1b[31m" in hot
    assert "\x1b[33m" in warm
    assert "\x1b" not in cold
    assert ESCAPES.sub("", as_text(table, Style(color=True))) == as_text(table)


@pytest.mark.parametrize(
    ("text", "width", "where", "expected"),
    [
        ("model.layers.31.mlp.gate_proj", 17, "middle", "mode…lp.gate_proj"),
        ("model.layers", 6, "end", "model…"),
        ("short", 5, "middle", "short"),
        ("漢字漢字漢字", 7, "middle", "漢…漢字"),
    ],
)
def test_names_are_shortened_in_the_middle(text, width, where, expected):
    made = shortened(text, width, where)
    assert cell_len(made) <= width
    assert made.replace(" ", "") == expected


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"])), st.integers(1, 40))
def test_wrapping_never_breaks_a_word_that_fits(text, width):
    lines = wrapped(text, width)
    words = [word for word in text.split() if cell_len(word) <= width // 2]
    kept = [word for line in lines for word in line.split()]
    assert all(word in kept for word in words)


def test_indented_text_stays_indented():
    assert wrapped("    one two three", 11) == ["    one two", "    three"]


@given(st.text())
def test_plain_text_is_ascii(text):
    assert plain(text).isascii()
    assert plain(text) == text or not text.isascii()


class TestChoosing:
    TABLE = Table(COLUMNS, [("a", 2, 0.1, "x"), ("b", 30, 0.9, "y"), ("c", None, 0.5, "z")])

    def test_the_first_column_and_the_named_ones_are_kept_in_their_order(self):
        (table,) = choose([self.TABLE], Choice(("share", "PARAMETERS_READ")))
        assert [column.title for column in table.columns] == ["layer name", "share", "parameters read"]
        assert not any(column.drops for column in table.columns)

    def test_a_table_without_the_column_stays(self):
        other = Table([Column("other", str)], ["x"])
        assert choose([self.TABLE, other], Choice(("share",)))[1] is other

    @pytest.mark.parametrize(("name", "hint"), [("shares", "did you mean share?"), ("zzz", "choose from layer name")])
    def test_an_unknown_column_is_refused_with_a_hint(self, name, hint):
        with pytest.raises(UsageError, match=re.escape(hint)):
            choose([self.TABLE], Choice((name,)))
        with pytest.raises(UsageError, match=re.escape(hint)):
            choose([self.TABLE], Choice(sort=name))

    def test_rows_are_sorted_largest_first_with_unknown_last(self):
        (table,) = choose([self.TABLE], Choice(sort="parameters read"))
        assert [row[0] for row in table.rows] == ["b", "a", "c"]
        (table,) = choose([self.TABLE], Choice(("share",), "what it is good for"))
        assert [row[0] for row in table.rows] == ["a", "b", "c"]

    def test_omitted_rows_are_counted(self):
        (table,) = choose([self.TABLE], Choice(sort="share", top=1))
        assert [row[0] for row in table.rows] == ["b"]
        assert table.footer == [{"layer name": "(2 more)"}]

    def test_all_shows_every_column(self):
        assert Choice((ALL,)).all_columns
        assert choose([self.TABLE], Choice((ALL,))) == [self.TABLE]


def test_a_report_states_once_what_is_hidden():
    table = Table(COLUMNS, [("a", 2, 0.1, "x")])
    text = report_text(Report(["Title", table, table], table), Style(20))
    assert text.count("hidden") == 1
    assert text.endswith("\n2 columns hidden: -…\n")
    assert "hidden" not in report_text(Report([table], table))


def test_names_that_differ_stay_different_as_long_as_other_columns_can_be_hidden():
    parts = ("input_layernorm", "post_attention_layernorm", "mlp.gate_proj", "mlp.up_proj", "self_attn.q_proj")
    paths = [f"model.layers.0–11.{part}.weight ×12" for part in parts]
    columns = [
        Column[str]("tensor", str, shrinks=True, cuts="middle"),
        *(Column[str](f"figure{at}", lambda name: "12345678", "right", drops=at) for at in range(6)),
    ]
    for width in (60, 80, 100, 140):
        lines = lay_out(Table(columns, paths), Style(width)).lines[2:]
        assert len({line.partition("12345678")[0] for line in lines}) == len(paths), width


def test_a_fixed_table_is_not_chosen_from():
    fixed = Table([Column[int]("n", lambda row: row)], [3, 1, 2], fixed=True)
    other = Table([Column[int]("n", lambda row: row)], [3, 1, 2])
    chosen = choose([fixed, other], Choice(sort="n", top=1))
    assert (chosen[0].rows, chosen[1].rows) == ([3, 1, 2], [3])


@pytest.mark.parametrize("width", range(12, 40))
def test_a_number_is_never_cut_into_another_one(width):
    for name in ("model.layers.11.mlp.down_proj.weight", "model.layers.0–31.mlp.down_proj.weight ×32"):
        numbers = re.findall(r"[0-9–]+", shortened(name, width, "middle").partition("…")[2])
        assert set(numbers) <= set(re.findall(r"[0-9–]+", name))
    for shape in ("1x256x14x14", "(53 more)", "1024x256x1x1"):
        numbers = re.findall(r"[0-9]+", shortened(shape, width // 5, "middle"))
        assert set(numbers) <= set(re.findall(r"[0-9]+", shape))


@given(st.sets(st.text("abc.019", min_size=1, max_size=60), min_size=1, max_size=8), st.integers(8, 40))
def test_shortened_names_fit(some, width):
    made = shortened_names(some, width)
    assert made.keys() == some
    assert all(len(text) <= width for text in made.values())


@pytest.mark.parametrize("width", [24, 30, 40])
def test_names_that_differ_only_in_their_middle_stay_different(width):
    prefix, suffix = "model.encoder.transformer_block", "projection_matrix.query.weight"
    names = [f"{prefix}.{number}.{part}.{suffix}" for number in (9, 10, 11) for part in ("self", "cross")]
    assert len(set(shortened_names(names, width).values())) == len(names)
