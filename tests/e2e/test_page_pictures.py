"""Pages look as they did: a page that passes every other check can still be blank.

`ASSAY_UPDATE_GOLDEN=1 pytest tests/e2e/test_page_pictures.py` takes the pictures in tests/golden/report again.
"""

from __future__ import annotations

import os

import pytest

from e2e.pictures import difference, small
from e2e.subjects import GOLDEN

MOST = 0.06
"""Another sans-serif font changes up to 5 % of a page; a table, chart or row of cards that is blank, 8 % or more."""
PICTURES = {
    "overview-light": ("overview", "light", 1280),
    "overview-dark": ("overview", "dark", 1280),
    "overview-narrow": ("overview", "light", 390),
    "modules": ("modules", "light", 1280),
    "weights": ("weights", "dark", 1280),
}
DRAWN = {"modules": "[data-row]", "overview": "figure [data-i]", "weights": "figure [data-i]"}


@pytest.fixture
def blank(browser):
    """An empty page, to compare pictures in."""
    page = browser.new_page()
    yield page
    page.close()


@pytest.fixture
def taken(visit):
    """Takes a picture of a view, without the elements that a selector names."""

    def take(view, theme, width, hidden=""):
        page = visit(address=f"view={view}", theme=theme, width=width)
        page.locator(DRAWN[view]).first.wait_for(state="attached")
        page.evaluate(
            "selector => selector && document.querySelectorAll(selector).forEach(one => one.style.opacity = 0)",
            hidden,
        )
        page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        return small(page, page.screenshot())

    return take


@pytest.mark.parametrize("name", PICTURES)
def test_the_page_looks_as_before(blank, taken, name, tmp_path):
    picture, golden = taken(*PICTURES[name]), GOLDEN / f"{name}.png"
    if os.environ.get("ASSAY_UPDATE_GOLDEN"):
        golden.write_bytes(picture)
    (tmp_path / "now.png").write_bytes(picture)
    share = difference(blank, picture, golden.read_bytes())
    assert share <= MOST, f"compare {golden} with {tmp_path / 'now.png'}"
    assert golden.stat().st_size < 120_000


@pytest.mark.parametrize(
    ("name", "hidden"), [("modules", "[role=rowgroup]"), ("weights", "figure svg"), ("overview-dark", ".cards")]
)
def test_a_blank_part_is_noticed(blank, taken, name, hidden):
    share = difference(blank, taken(*PICTURES[name], hidden), (GOLDEN / f"{name}.png").read_bytes())
    assert share > MOST
