"""The source code of the selected module's class, with `forward` highlighted."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.syntax import Syntax
from rich.text import Text

from assay.document.inspection import SourceCode
from assay.views.tui.panels.context import PanelContext, line, plain

NO_SOURCE = (
    "No source code: the class was not defined in a file, is built in, "
    "or the model was opened from a saved document, which does not contain code."
)

ONLY_WEIGHTS = "No source code: only weights are shown."

_NO_FORWARD = "def _forward_unimplemented"
"""The placeholder that torch.nn.Module has instead of `forward`."""


def contents(context: PanelContext) -> Iterator[RenderableType]:
    """The source of the class, preceded by that of `forward` if it is inherited."""
    source = context.subject.inspector.source(context.row.path)
    reason = ONLY_WEIGHTS if context.subject.tensors_in_tree else NO_SOURCE
    yield plain(reason, "dim") if source is None else _content(source, context)


def _content(source: SourceCode, context: PanelContext) -> RenderableType:
    marked = _forward_lines(source)
    parts: list[RenderableType] = []
    if _NO_FORWARD in source.forward_text:
        parts.append(plain("The class does not define forward.", "dim"))
    elif source.forward_text and not marked:
        parts += [_title("forward", source.forward_file or source.file, source.forward_line, context), Text()]
        parts += [_code(source.forward_text, source.forward_line, set(), context), Text()]
    parts += [_title(source.class_name, source.file, source.line, context), Text()]
    parts.append(_code(source.text, source.line, marked, context))
    return Group(*parts)


def _title(name: str, file: str, number: int, context: PanelContext) -> Text:
    where = f"{file}:{number}" if file else "no file"
    return line((name, context.styles["accent"]), ("  ", ""), (where, "dim"))


def _forward_lines(source: SourceCode) -> set[int]:
    """The line numbers of `forward` in the file; empty if it is not defined in the class."""
    if not source.forward_text or source.forward_file not in ("", source.file):
        return set()
    count = len(source.forward_text.splitlines())
    last = source.line + len(source.text.splitlines())
    inside = source.line <= source.forward_line and source.forward_line + count <= last + 1
    return set(range(source.forward_line, source.forward_line + count)) if inside else set()


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
