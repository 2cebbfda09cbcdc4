"""The compact page of notebooks: cards, lists and tables as HTML, in the colours of the page."""

from __future__ import annotations

import base64
import gzip
import re
from hashlib import sha256
from typing import Any

import pytest
from frames import framed, parsed

from assay import units
from assay.document.document import Document
from assay.document.findings import TIME, Finding, Gain
from assay.document.provenance import Counted, Figure, Measured, Modelled, Unknown
from assay.findings.brief import Brief, BriefFigure, NotKnown
from assay.findings.engine import CheckResult
from assay.views.html.compact import MAX_HEIGHT, ROWS, CompactPage, Part, compact_frame, style, tokens
from assay.views.html.frame import frame, still_frame
from assay.views.html.overview import page_brief
from assay.views.html.render import shell
from assay.views.html.subject import Subject
from assay.views.html.tree import TreePart
from assay.views.tables import Column, Table, percent

NAMES: tuple[Column[Any], ...] = (
    Column("name", lambda row: row[0]),
    Column("share", lambda row: row[1], "right", percent, bar=True),
    Column("rare", lambda row: "x", drops=1),
    Column("empty", lambda row: None),
    Column("blank", lambda row: ""),
)


def page(brief: Brief, *parts: Part, kind: str = "Result") -> str:
    made = page_brief(Subject(Document(), CheckResult([], [], ()), brief))
    assert made is not None
    return framed(compact_frame(CompactPage(kind, made, parts)))


def figure(value: float | None, how: Any, **more: Any) -> BriefFigure:
    return BriefFigure(
        **{"label": "Time", "figure": Figure(value, how), "unit": "seconds", "text": "per pass", **more}
    )


def finding(severity: str, title: str = "a title", verified: str = "", share: float = 0.5) -> Finding:
    gain = Gain(TIME, Figure(0.02, Modelled("a model")), Figure(share, Modelled("a model")))
    return Finding("C101", severity, title, "Do this: because", gain=gain, verified=verified)


def test_a_card_states_value_range_method_and_origin():
    html = page(Brief(("model",), [figure(0.1, Measured("wall clock", 5, range=(0.09, 0.12)), detail="half in it")]))
    texts = parsed(html).texts
    for text in ("Time", "measured", "100 ms", "per pass", "90–120 ms", "half in it"):
        assert text in texts
    assert 'title="wall clock"' in html


def test_an_unknown_value_is_a_dash_with_its_reason():
    html = page(Brief(("model",), [figure(None, Unknown("no clock here"))]))
    assert units.UNKNOWN in parsed(html).texts
    assert 'title="no clock here"' in html
    assert ">0" not in html


def test_actions_problems_and_unknowns_are_listed():
    html = page(
        Brief(
            ("model",),
            actions=[finding("advice"), finding("advice", verified="1.43×, same outputs")],
            more_actions=4,
            next_step="assay check model.py --try",
            problems=[finding("warning", "a warning")],
            more_problems=2,
            unknown=[NotKnown("energy", "no sensor")],
        )
    )
    text = " ".join(parsed(html).texts)
    parts = "Do next|Do this|−20 ms, 50.0 %|predicted|tried: 1.43×|4 more suggestions|assay check model.py --try"
    for part in f"{parts}|⚠|a warning|2 more problems|energy|no sensor".split("|"):
        assert part in text
    assert "because" not in text


def test_an_error_comes_before_what_would_make_it_faster():
    actions = [finding("advice")]
    broken = page(Brief(("model",), actions=actions, problems=[finding("error")]))
    assert broken.index("Problems") < broken.index("Do next")
    slow = page(Brief(("model",), actions=actions, problems=[finding("warning")]))
    assert slow.index("Problems") > slow.index("Do next")


def test_a_table_shows_its_first_rows_and_counts_the_rest():
    rows = [(f"row {at}", 1 / (1 + at)) for at in range(ROWS + 7)]
    html = page(Brief(("model",)), "Rows", Table(NAMES, rows, [{"name": "in all"}]))
    texts = parsed(html).texts
    assert [text for text in texts if text.startswith("row ")] == [f"row {at}" for at in range(ROWS)]
    assert "… 7 more rows" in texts
    assert "in all" in texts
    assert not {"rare", "empty", "blank"} & set(texts)
    widths = [float(width) for width in re.findall(r"<rect class=p1 width=([\d.]+)%", html)]
    assert widths == [float(f"{100 / (1 + at):.3g}") for at in range(ROWS)]


def test_a_tree_is_folded_without_scripts():
    rows = [(0, ["root", "A"]), (1, ["a", "B"]), (2, ["b", "<C>"]), (3, ["c", "D"]), (1, ["d", "E"])]
    tags = parsed(page(Brief(("model",)), TreePart(["name", "class"], rows)))
    assert tags.seen.count("details") == tags.seen.count("summary") == 3
    assert sum(name == "open" for name, _ in tags.attributes) == 2
    assert [text for text in tags.texts if text in ("root", "a", "b", "c", "d")] == ["root", "a", "b", "c", "d"]
    assert "<C>" in tags.texts


@pytest.mark.parametrize("name", ["</style><script>x()</script>", "' onclick='x()", '" onclick="x()', "&lt;b&gt;"])
def test_every_text_is_escaped(name):
    found = Finding(name, name, name, f"{name}: more", gain=finding("error").gain, verified=name)
    figures = [BriefFigure(name, Figure(1, Counted(name)), "count", name, name)]
    brief = Brief((name, name), figures, [found], 1, name, True, [found], 1, name, [found], [NotKnown(name, name)])
    table = Table([Column(name, lambda row: row)], [name], [{name: name}])
    facts = Table([Column("a", lambda row: row), Column("b", lambda row: row)], [name], bare=True)
    tree = TreePart([name, name], [(0, [name, name]), (1, [name, name])])
    html = page(brief, name, table, facts, tree, kind=name)
    tags = parsed(html)
    assert "script" not in tags.seen
    assert not [key for key, _ in tags.attributes if key.startswith("on")]
    assert sum(name in text for text in tags.texts) >= 20


def test_colours_are_those_of_the_page():
    css = style("compact.css") + style("tree.css")
    defined = set(re.findall(r"(--[\w-]+):", tokens(css)))
    assert defined == set(re.findall(r"var\((--[\w-]+)\)", css)) != set()
    assert not re.search(r"#[0-9a-f]{3,8}\b|rgb\(", css)
    (root, *_) = re.findall(r":root\{(.*?)\}", shell())
    assert set(tokens(css).removeprefix(":root{").removesuffix("}").split(";")) <= set(root.split(";"))


def test_the_policy_allows_the_style_and_nothing_else():
    html = page(Brief(("model",)), TreePart(["a"], [(0, ["b"])]))
    css = re.search(r"<style>(.*?)</style>", html)[1]
    digest = base64.b64encode(sha256(css.encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'" in html
    assert "style=" not in html


def test_a_long_page_scrolls_inside_its_frame():
    made = page_brief(Subject(Document(), CheckResult([], [], ()), Brief(("model",))))
    rows = [(0, [str(at)]) for at in range(500)]
    assert f"height:{MAX_HEIGHT}px" in compact_frame(CompactPage("Result", made, [TreePart(["a"], rows)]))


def test_a_still_frame_holds_the_page_and_runs_nothing():
    html = "<p title=\"a&amp;b\">'x' &lt; 1</p>"
    assert framed(still_frame(html, 100, 'a "title"')) == html
    assert still_frame(html, 100, "").startswith('<iframe sandbox="" ')


def test_an_interactive_frame_unpacks_the_page():
    policy = "default-src 'none'; script-src 'sha256-page'"
    html = f'<meta http-equiv="Content-Security-Policy" content="{policy}"><p>{"long " * 5000}'
    outer = frame(html, 500, "title")
    assert outer.startswith('<iframe sandbox="allow-scripts allow-downloads" ')
    assert len(outer) < len(html) / 5
    inner = framed(outer)
    packed = re.search(r"id='page'>([^<]*)<", inner)[1]
    assert gzip.decompress(base64.b64decode(packed)).decode() == html
    script = re.search(r"<script>(.*?)</script>", inner, re.DOTALL)[1]
    digest = base64.b64encode(sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}' 'sha256-page'" in inner
