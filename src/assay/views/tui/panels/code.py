"""The source code of the selected module's class, its `forward` marked."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.syntax import Syntax
from rich.text import Text

from assay.document.inspection import SourceCode
from assay.views.tui.panels.context import PanelContext, line, plain

NO_SOURCE = (
    "There is no source code to show: the class was made in a place without a file, is built in, "
    "or this is a saved document, which keeps none."
)

_NO_FORWARD = "def _forward_unimplemented"
"""What torch.nn.Module itself has in its place."""


def answers(context: PanelContext) -> Iterator[RenderableType]:
    """The class, and `forward` before it where it is defined elsewhere."""
    found = context.subject.inspector.source(context.row.path)
    yield plain(NO_SOURCE, "dim") if found is None else _shown(found, context)


def _shown(found: SourceCode, context: PanelContext) -> RenderableType:
    marked = _forward_lines(found)
    parts: list[RenderableType] = []
    if _NO_FORWARD in found.forward_text:
        parts.append(plain("Its class defines no forward.", "dim"))
    elif found.forward_text and not marked:
        parts += [_title("forward", found.forward_file or found.file, found.forward_line, context), Text()]
        parts += [_code(found.forward_text, found.forward_line, set(), context), Text()]
    parts += [_title(found.class_name, found.file, found.line, context), Text()]
    parts.append(_code(found.text, found.line, marked, context))
    return Group(*parts)


def _title(name: str, file: str, number: int, context: PanelContext) -> Text:
    where = f"{file}:{number}" if file else "no file"
    return line((name, context.styles["accent"]), ("  ", ""), (where, "dim"))


def _forward_lines(found: SourceCode) -> set[int]:
    """The lines of `forward` in the class, as their numbers in the file; none where it is not there."""
    if not found.forward_text or found.forward_file not in ("", found.file):
        return set()
    count = len(found.forward_text.splitlines())
    last = found.line + len(found.text.splitlines())
    inside = found.line <= found.forward_line and found.forward_line + count <= last + 1
    return set(range(found.forward_line, found.forward_line + count)) if inside else set()


def _code(text: str, first: int, marked: set[int], context: PanelContext) -> Syntax:
    safe = "\n".join(plain(each).plain for each in text.expandtabs(4).split("\n"))
    return Syntax(
        safe,
        "python",
        theme="ansi_dark" if context.dark else "ansi_light",
        line_numbers=True,
        start_line=max(first, 1),
        highlight_lines=marked,
        background_color=context.background,
    )
