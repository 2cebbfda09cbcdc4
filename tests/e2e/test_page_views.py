"""Every view opens, in both themes and at two widths, and passes the checks of axe-core."""

from __future__ import annotations

import pytest

from e2e import subjects
from e2e.subjects import VIEWS

SETTLED = "() => !document.querySelector('.decoding') && document.querySelector('main').innerText.length > 60"
OVERFLOW = "document.scrollingElement.scrollWidth - document.scrollingElement.clientWidth"


def show(page, view):
    """Open a view by its address and wait until it is drawn."""
    page.evaluate("view => { location.hash = `view=${view}` }", view)
    page.wait_for_function("view => new URLSearchParams(location.hash.slice(1)).get('view') === view", arg=view)
    page.wait_for_function(SETTLED)


def accessible(page, *rules):
    """What axe-core objects to, one line per rule and element; all rules if none are given."""
    axe = pytest.importorskip("axe_playwright_python.base", reason="axe-playwright-python is missing")
    page.evaluate(axe.AXE_SCRIPT)
    options = {"resultTypes": ["violations"], **({"runOnly": rules} if rules else {})}
    found = page.evaluate("options => axe.run(document, options)", options)["violations"]
    return [f"{rule['id']}: {node['html'][:160]}" for rule in found for node in rule["nodes"]]


def test_the_page_has_every_view(visit):
    page = visit()
    links = page.locator("nav a").evaluate_all(
        "links => links.map(a => new URLSearchParams(a.hash.slice(1)).get('view'))"
    )
    assert links == list(VIEWS)
    assert page.locator("#nav-empty").count() == 0


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_every_view_opens(visit, theme, width):
    page = visit(theme=theme, width=width)
    for view in VIEWS:
        show(page, view)
        assert page.locator(".failed").count() == 0, page.locator(".failed").first.inner_text()
        assert page.locator("main section.block").count() > 0, view
        assert page.evaluate(OVERFLOW) <= 0, f"{view} is wider than the window"


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_is_accessible(visit, view):
    page = visit()
    show(page, view)
    assert accessible(page) == []


def test_every_view_has_enough_contrast_in_the_dark(visit):
    page = visit(theme="dark")
    for view in VIEWS:
        show(page, view)
        assert accessible(page, "color-contrast") == [], view


@pytest.mark.parametrize("view", ["overview", "modules"])
def test_a_narrow_page_is_accessible(visit, view):
    page = visit(width=390)
    show(page, view)
    assert accessible(page) == []


@pytest.mark.parametrize("subject", [subjects.structure, subjects.checkpoint], ids=lambda one: one.__name__)
def test_a_view_without_data_names_a_command(visit, subject):
    page = visit(subject)
    empty = page.locator("nav .unfilled a").evaluate_all(
        "links => links.map(a => new URLSearchParams(a.hash.slice(1)).get('view'))"
    )
    assert len(empty) >= 5
    for view in empty:
        page.evaluate("view => { location.hash = `view=${view}` }", view)
        command = page.locator("main .empty code").first
        assert command.inner_text().startswith("assay "), view


def test_a_comparison_is_a_view_of_its_own(visit):
    page = visit(subjects.compared)
    show(page, "compare")
    text = page.locator("main").inner_text()
    assert "extra" in text
    assert "spare" in text
    assert page.locator(".failed").count() == 0
    assert accessible(page) == []
