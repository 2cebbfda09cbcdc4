"""Snapshots of every tab and panel, wide and narrow, light and dark."""

from __future__ import annotations

import re

import pytest
from tui_subjects import settled, small_subject

from assay.views.tui.app import Explorer, ExplorerOptions

SMALL, LARGE = (80, 24), (140, 45)
DARK, LIGHT = "textual-dark", "textual-light"
BLOCK = ("Z", "j", "j", "j", "j")
VIEWS = {
    "tree": ("j",),
    "unique": ("2", "j", "l"),
    "ops": ("3",),
    "parameters": ("4", "j", "l"),
    "time": ("5",),
    "findings": ("6", "l"),
    "code": (*BLOCK, "c"),
    "attributes": (*BLOCK, "a"),
    "forward": (*BLOCK, "F"),
    "flow": (*BLOCK, "T"),
    "finding": (*BLOCK, *("j",) * 4, "W"),
    "labels": ("t", "L", "j", "j"),
    "help": ("?",),
    "search": ("/", *"mlp"),
}
MORE = {
    "biggest": ("B", "f"),
    "ragged": ("Z", "A"),
    "export": ("e",),
}
CASES = [
    *((name, size, theme) for name in VIEWS for size in (SMALL, LARGE) for theme in (DARK, LIGHT)),
    *((name, SMALL, DARK) for name in MORE),
]

NOISE = re.compile(
    r' (xmlns|textLength|clip-path|shape-rendering)="[^"]*"|<clipPath.*?</clipPath>\s*|<text[^>]*>\s*</text>',
    re.DOTALL,
)
"""Parts of the SVG that a comparison does not need."""


class Shown(Explorer):
    """The explorer with reduced screenshots."""

    def export_screenshot(self, *, title=None, simplify=True) -> str:
        picture = super().export_screenshot(title=title, simplify=True)
        return NOISE.sub("", picture).replace("&#160;", " ")


async def rest(pilot) -> None:
    """Wait until the screen is stable: details loaded, no workers running, no blinking cursor."""
    app = pilot.app
    await settled(pilot)
    if app.search_bar is not None:
        app.search_bar.cursor_blink = False
        app.search_bar._cursor_visible = True
    await pilot.pause()


@pytest.mark.parametrize(
    ("name", "size", "theme"), CASES, ids=[f"{name}-{size[0]}-{theme[8:]}" for name, size, theme in CASES]
)
def test_a_screen_looks_as_it_did(snap_compare, name, size, theme) -> None:
    async def before(pilot) -> None:
        for key in {**VIEWS, **MORE}[name]:
            await pilot.press(key)
        await rest(pilot)

    assert snap_compare(Shown(small_subject(), ExplorerOptions(theme=theme)), terminal_size=size, run_before=before)
