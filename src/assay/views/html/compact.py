"""The compact form of a page for notebooks: the brief as cards, and a table, as HTML without scripts.

It looks like the page: its colours and sizes are those of the page's own style. All text is escaped here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any, NamedTuple

from assay.messages import plural
from assay.views.html.frame import digest, still_frame
from assay.views.html.page import FindingItem, PageBrief, PageFigure, Split
from assay.views.html.render import shell
from assay.views.html.tree import TreePart, tree_table
from assay.views.tables import Column, Table, printable
from assay.views.text.brief import clause

ROWS = 10
"""The most rows of a table; the rest is counted below it."""
MAX_HEIGHT = 760
_SYMBOLS = {"error": "✗", "warning": "⚠"}
_SHADES = 4
_OTHER = "other"
_LINE, _ROW, _ACTION, _CARDS, _AROUND = 21, 26, 31, 124, 26
"""Heights in pixels: of a line, a row of a table, an action, a row of cards, and the margins of the page."""
_CARDS_PER_ROW, _LETTERS = 6, 110
"""How many cards and letters fit beside each other in a notebook of usual width."""

Part = str | Table | TreePart
"""A title, or a table or tree below it."""


@dataclass(frozen=True)
class CompactPage:
    """What the compact form shows."""

    kind: str
    """What the result is in Python: `Document`."""
    brief: PageBrief
    parts: Sequence[Part] = ()
    """Titles and tables below the brief."""
    subtitle: str = ""
    """When and where it was made."""


class _Drawn(NamedTuple):
    """A piece of HTML and its approximate height in pixels."""

    html: str
    height: int


def compact_frame(page: CompactPage) -> str:
    """The page in a frame that is as high as it needs to be, up to `MAX_HEIGHT`."""
    pieces = list(_pieces(page))
    has_tree = any(isinstance(part, TreePart) for part in page.parts)
    height = min(sum(piece.height for piece in pieces) + _AROUND, MAX_HEIGHT)
    html = _document("".join(piece.html for piece in pieces), style("tree.css") if has_tree else "")
    return still_frame(html, height, f"{page.kind}: {' · '.join(page.brief.identity)}")


def _document(body: str, more_style: str) -> str:
    rules = style("compact.css") + more_style
    css = tokens(rules) + rules
    policy = f"default-src 'none'; style-src {digest(css)}; base-uri 'none'; form-action 'none'"
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><meta http-equiv=Content-Security-Policy "
        f'content="{policy}"><style>{css}</style><body>{body}'
    )


@cache
def style(name: str) -> str:
    """A style sheet of this package without needless spaces."""
    text = (files("assay.views.html") / name).read_text(encoding="utf-8")
    return re.sub(r"\s*([{};:,])\s*|\n", r"\1", text)


@cache
def tokens(css: str) -> str:
    """The colours and sizes that `css` uses, as the shipped page defines them."""
    root = re.search(r":root\{(.*?)\}", shell())
    assert root is not None
    used = set(re.findall(r"var\((--[\w-]+)\)", css))
    kept = [one for one in root[1].split(";") if not one.startswith("--") or one.partition(":")[0] in used]
    return f":root{{{';'.join(kept)}}}"


def _pieces(page: CompactPage) -> Iterable[_Drawn]:
    brief = page.brief
    yield _header(page)
    if brief.figures:
        rows = -(-len(brief.figures) // _CARDS_PER_ROW)
        six = " class='cards six'" if len(brief.figures) == _CARDS_PER_ROW else " class=cards"
        yield _Drawn(f"<ul{six}>{''.join(map(_card, brief.figures))}</ul>", _CARDS * rows + 12)
    broken = any(one.severity == "error" for one in brief.problems)  # mended before it is made faster
    yield from _problems(brief) if broken else ()
    yield from _actions(brief)
    yield from () if broken else _problems(brief)
    yield from _unknown(brief)
    yield from map(_part, page.parts)


def _header(page: CompactPage) -> _Drawn:
    name, *others = page.brief.identity or ("",)
    rest = "".join(f" · {_text(one)}" for one in others)
    subtitle = f"<p class=muted>{_text(page.subtitle)}</p>" if page.subtitle else ""
    kind = f"<span class=muted>{_text(page.kind)}</span>"
    html = f"<h1>{kind} {_text(name)}<span>{rest}</span></h1>{subtitle}"
    return _Drawn(html, _LINE * (_lines(page.kind, *page.brief.identity) + bool(page.subtitle)))


def _card(figure: PageFigure) -> str:
    how = f' title="{_text(figure.how)}"' if figure.how else ""
    detail = f"{_split(figure.split)}{_text(figure.detail)}"
    return (
        f"<li class=card><h3>{_text(figure.label)}</h3><p class=method{how}>{_text(figure.method)}</p>"
        f"<p class=value><b{how}>{_text(figure.value)}</b><span>{_text(figure.text)}</span></p>"
        f"<p class=range>{_text(figure.range)}</p><div class=detail>{detail}</div></li>"
    )


def _split(parts: Sequence[Split]) -> str:
    """The parts of a figure as one bar; each is named on hover."""
    rects, start = [], 0.0
    for at, part in enumerate(parts):
        shade = "rest" if part.name == _OTHER else f"p{min(at, _SHADES - 1)}"
        name = f"<title>{_text(part.name)} {100 * part.share:.3g} %</title>"
        rects.append(f"<rect class={shade} x={start:.4g}% width={100 * part.share:.4g}% height=6>{name}</rect>")
        start += 100 * part.share
    return f"<svg>{''.join(rects)}</svg>" if rects else ""


def _actions(brief: PageBrief) -> Iterable[_Drawn]:
    steps = [brief.next_step, plural(brief.more_actions, "more suggestion") if brief.more_actions else ""]
    more = " · ".join(filter(None, steps))
    if not brief.actions and not more:
        return
    rows = "".join(f"<li>{_action(rank, one)}</li>" for rank, one in enumerate(brief.actions, 1))
    below = f"<p class=muted>{_text(more)}</p>" if more else ""
    height = _LINE + _ACTION * len(brief.actions) + (_LINE if more else 0) + 12
    yield _Drawn(f"<section class=next><h2>Do next</h2><ol>{rows}</ol>{below}</section>", height)


def _action(rank: int, one: FindingItem) -> str:
    tag = "tag proven" if one.proven else "tag"
    return (
        f"<span class=muted>{rank}</span><span>{_text(clause(one.advice))} <span class=muted>{_text(one.code)}</span>"
        f"</span><span class=gain>{_text(one.gain)}</span><span class='{tag}'>{_text(one.confidence)}</span>"
    )


def _problems(brief: PageBrief) -> Iterable[_Drawn]:
    lines = [
        f"<li class={one.severity if one.severity in _SYMBOLS else 'muted'}>"
        f"<b>{_SYMBOLS.get(one.severity, '')}</b>{_text(one.title)} "
        f"<span class=muted>{_text(one.code)}</span></li>"
        for one in brief.problems
    ]
    if brief.more_problems:
        lines.append(f"<li class=muted>{plural(brief.more_problems, 'more problem')}</li>")
    if not lines and brief.clean:
        lines.append(f"<li>none in {_text(brief.clean)}</li>")
    lines += [f"<li class=muted>{_text(one)}</li>" for one in brief.remarks]
    if lines:
        titles = [one.title for one in brief.problems]
        yield _list("Problems", lines, sum(map(_lines, titles)) + len(lines) - len(titles))


def _unknown(brief: PageBrief) -> Iterable[_Drawn]:
    if brief.unknown:
        lines = [f"<li>{_text(one.what)} <span class=muted>{_text(one.why)}</span></li>" for one in brief.unknown]
        yield _list("Not known", lines, sum(_lines(one.what, one.why) for one in brief.unknown))


def _list(title: str, items: Sequence[str], lines: int) -> _Drawn:
    return _Drawn(f"<section><h2>{title}</h2><ul>{''.join(items)}</ul></section>", _LINE * (1 + lines) + 12)


def _lines(*texts: str) -> int:
    """The number of lines that these texts take beside each other."""
    return 1 + sum(map(len, texts)) // _LETTERS


def _part(part: Part) -> _Drawn:
    if isinstance(part, str):
        return _Drawn(f"<section><h2>{_text(part)}</h2></section>", _LINE + 12)
    if isinstance(part, TreePart):
        shown = TreePart(part.headings, [(depth, [printable(cell) for cell in cells]) for depth, cells in part.rows])
        return _Drawn(tree_table(shown), _ROW * (1 + len(part.rows)))
    if part.bare:
        return _facts(part)
    return _table(part)


def _facts(table: Table) -> _Drawn:
    """A list of named facts; what follows the first two columns is separated by dots."""
    rows = [[column.text(row).strip() for column in table.columns] for row in (*table.rows, *table.footer)]
    pairs = (f"<dt>{escape(name)}</dt><dd>{escape(' · '.join(filter(None, rest)))}</dd>" for name, *rest in rows)
    return _Drawn(f"<dl>{''.join(pairs)}</dl>", _LINE * sum(_lines(*row) for row in rows) + 5)


def _table(table: Table) -> _Drawn:
    """The first rows, and those columns that text shows in a narrow terminal."""
    first = table.first(ROWS).without_empty()
    shown, omitted = first.rows, len(table.rows) - len(first.rows)
    columns = [one for one in first.columns if one.drops < 1 and any(one.text(row) for row in shown)]
    largest = [max((column.value(row) or 0 for row in shown), default=0) if column.bar else 0 for column in columns]
    head = "".join(f"<th{_aligned(column)}>{_text(column.title)}</th>" for column in columns)
    rows = "".join(f"<tr>{_cells(columns, largest, row)}</tr>" for row in shown)
    more = [f"<tr><td colspan={len(columns)}>… {plural(omitted, 'more row')}</td></tr>"] if omitted else []
    more += [f"<tr>{_cells(columns, [0] * len(columns), row)}</tr>" for row in table.footer]
    html = (
        f"<div class=scroll><table><thead><tr>{head}</tr></thead>{rows}<tfoot>{''.join(more)}</tfoot></table></div>"
    )
    lines = sum(_lines(*(column.text(row) for column in columns)) for row in shown)
    return _Drawn(html, _ROW * (1 + lines + len(more)))


def _cells(columns: Sequence[Column[Any]], largest: Sequence[float], row: Any) -> str:
    return "".join(
        f"<td{_aligned(column)}>{_text(column.text(row))}{_bar(column.value(row), most) if most else ''}</td>"
        for column, most in zip(columns, largest, strict=True)
    )


def _bar(share: float | None, most: float) -> str:
    return f"<svg><rect class=p1 width={100 * (share or 0) / most:.3g}% height=6></rect></svg>"


def _aligned(column: Column[Any]) -> str:
    return " class=n" if column.align == "right" else ""


def _text(text: str) -> str:
    return escape(printable(text))
