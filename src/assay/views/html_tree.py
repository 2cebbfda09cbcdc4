"""A tree table for notebooks: plain HTML that collapses without scripts and follows the reader's colour scheme.

All text is escaped here, so callers pass plain strings.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

STYLE = """
.assay{color-scheme:light dark;--ink:#1f2328;--faint:#656d76;--rule:#d0d7de;--hover:#f6f8fa;color:var(--ink);
font:13px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;max-width:100%;overflow-x:auto}
.assay table{font:inherit;color:inherit;border-collapse:collapse;border:0;margin:0;table-layout:fixed;width:100%;
min-width:70em}
.assay th,.assay td{border:0;padding:1px 8px;text-align:right;vertical-align:top;overflow-wrap:anywhere;
background:none;color:inherit}
.assay th:nth-child(-n+3),.assay td:nth-child(-n+3){text-align:left}
.assay th:nth-child(n+4),.assay td:nth-child(n+4){white-space:nowrap}
.assay th{border-bottom:1px solid var(--rule);font-weight:600}
.assay td.in{padding:0}
.assay summary{cursor:pointer;display:block;list-style:none}
.assay summary::-webkit-details-marker{display:none}
.assay summary:hover,.assay tr:hover>td:not(.in){background:var(--hover)}
.assay td:not(.in):first-child::before{content:"\\A0\\A0"}
.assay summary td:not(.in):first-child::before{content:"\\25B8\\A0"}
.assay details[open]>summary td:not(.in):first-child::before{content:"\\25BE\\A0"}
.assay dl{display:grid;grid-template-columns:max-content 1fr;gap:0 16px;margin:8px;border-top:1px solid var(--rule);
padding-top:8px}
.assay dt{color:var(--faint);font-weight:400}.assay dd{margin:0;text-align:left}
@media (prefers-color-scheme:dark){.assay{--ink:#e6edf3;--faint:#8d96a0;--rule:#30363d;--hover:#161b22}}
"""

_OPEN_DEPTH = 2
"""Number of levels that are expanded at first."""

IndentedRow = tuple[int, Sequence[str]]
"""A row's depth and its cells; the first cell is the name."""


def tree_table(
    *, title: str, headings: Sequence[str], rows: Sequence[IndentedRow], facts: Sequence[tuple[str, str]]
) -> str:
    """The HTML of a tree table, with a list of named facts below; `rows` are in preorder."""
    widths = _widths(len(headings))
    titles = "".join(f"<th>{escape(each)}</th>" for each in headings)
    head = f"<table>{widths}<tr>{titles}</tr></table>"
    below = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in facts)
    return (
        f'<div class="assay"><style>{STYLE}</style><strong>{escape(title)}</strong>'
        f"{head}{_body(rows, widths, len(headings))}<dl>{below}</dl></div>"
    )


def _widths(count: int) -> str:
    """The `<colgroup>` that every nested table repeats, so that their columns line up."""
    first = (23, 17, 13)
    rest = (100 - sum(first)) / max(1, count - len(first))
    shares = [*first[:count], *[rest] * (count - len(first))]
    columns = "".join(f'<col style="width:{share:.4g}%">' for share in shares)
    return f"<colgroup>{columns}</colgroup>"


def _body(rows: Sequence[IndentedRow], widths: str, columns: int) -> str:
    """The rows as nested tables; a row with children is the `<summary>` of a `<details>` element."""
    parts = [f"<table>{widths}"]
    open_depths: list[int] = []
    for index, (depth, cells) in enumerate(rows):
        while open_depths and open_depths[-1] >= depth:
            open_depths.pop()
            parts.append("</table></details></td></tr>")
        line = _row(depth, cells)
        if index + 1 < len(rows) and rows[index + 1][0] > depth:
            open_depths.append(depth)
            state = " open" if depth < _OPEN_DEPTH else ""
            parts.append(
                f'<tr><td class="in" colspan="{columns}"><details{state}>'
                f"<summary><table>{widths}{line}</table></summary><table>{widths}"
            )
        else:
            parts.append(line)
    parts.append("</table></details></td></tr>" * len(open_depths) + "</table>")
    return "".join(parts)


def _row(depth: int, cells: Sequence[str]) -> str:
    first, *others = cells
    name = f'<td style="padding-left:{8 + 14 * depth}px">{escape(first)}</td>'
    figures = "".join(f"<td>{escape(cell)}</td>" for cell in others)
    return f"<tr>{name}{figures}</tr>"
