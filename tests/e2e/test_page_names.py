"""Names from models are text: they never run, never hide, and can be selected and linked."""

from __future__ import annotations

from urllib.parse import parse_qs

import pytest

from e2e import subjects
from e2e.subjects import HOSTILE, VIEWS
from e2e.test_page_views import show

INJECTED = "main :is(script, img, iframe, b[onclick], [onerror], [onload], svg[onload])"
PATHS = [HOSTILE[name] for name in ("stem", "gate", "entropy", "pool", "spare", "sigmoid")]


def chosen(page):
    """The module that the address names."""
    return parse_qs(page.url.partition("#")[2], keep_blank_values=True).get("module", [""])[0]


def test_names_do_not_run(visit):
    page = visit(subjects.hostile)
    for view in VIEWS:
        show(page, view)
        assert page.locator(".failed").count() == 0, f"{view}: {page.locator('.failed').first.inner_text()}"
        assert page.locator(INJECTED).count() == 0, view
        assert "\u202e" not in page.locator("body").inner_text(), view
    assert page.evaluate("window.hacked") is None


def test_names_are_shown_as_they_are(visit):
    page = visit(subjects.hostile, "view=modules")
    page.set_viewport_size({"width": 1280, "height": 4000})
    page.get_by_role("button", name="Expand all").click()
    names = page.locator("[role=treegrid] [role=gridcell]:first-child").all_text_contents()
    for name in PATHS:
        assert any(name in shown for shown in names), name[:40]
    assert any("\\u202edaeh" in shown for shown in names)


@pytest.mark.parametrize(
    "name", [*PATHS[:-1], f"{HOSTILE['gate']}.{HOSTILE['linear']}", f"stages.0.0.{HOSTILE['conv2']}"]
)
def test_modules_can_be_selected_and_linked(visit, name):
    page = visit(subjects.hostile, "view=modules")
    page.evaluate("name => { location.hash = new URLSearchParams({view: 'modules', module: name}) }", name)
    row = page.locator("[role=row][aria-selected=true]")
    row.wait_for()
    assert page.locator("aside.detail h3").inner_text() == name
    page.reload()
    row.wait_for()
    assert chosen(page) == name
    row.locator("[role=gridcell]").first.click()
    assert chosen(page) == name


def test_findings_lead_to_modules(visit):
    page = visit(subjects.hostile, "view=findings")
    page.locator("article a", has_text="constructor").first.click()
    page.locator("[role=row][aria-selected=true]").wait_for()
    assert page.evaluate("new URLSearchParams(location.hash.slice(1)).get('view')") in ("modules", "weights")


@pytest.mark.parametrize(
    "query", ["constructor:x", "__proto__", "toString>1", "params>1constructor", "type:toString"]
)
def test_filters_with_names_of_javascript(visit, query):
    page = visit(subjects.hostile, "view=modules")
    page.locator("[data-filter]").fill(query)
    page.wait_for_function(
        "query => new URLSearchParams(location.hash.slice(1)).get('modules.q') === query", arg=query
    )
    assert page.locator(".failed").count() == 0
    page.get_by_role("treegrid").wait_for()


@pytest.mark.parametrize(
    "address",
    [
        "view=constructor",
        "view=findings&severity=constructor",
        "view=map&metric=__proto__",
        "view=modules&modules.sort=-toString",
        "view=map&zoom=%3Cimg%3E",
        "module=%E0%A4%A",
        "view=weights&tensor=__proto__",
        "%00&=&&x",
    ],
)
def test_addresses_that_name_nothing(visit, address):
    page = visit(subjects.rich, address)
    assert page.locator(".failed").count() == 0
    page.wait_for_function("() => document.querySelector('main').innerText.length > 200")
