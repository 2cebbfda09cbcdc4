"""What a reader has chosen is in the address: it returns after a reload, and a copied link shows it to others."""

from __future__ import annotations

from urllib.parse import parse_qs

import pytest


def parameters(page):
    """What the address says."""
    return {name: values[0] for name, values in parse_qs(page.url.partition("#")[2]).items()}


def rows(page):
    """The rows that are shown, as text."""
    return page.locator("[role=treegrid] [data-row]").all_inner_texts()


def test_view_module_sort_and_filter_return_after_a_reload(visit):
    page = visit()
    page.get_by_role("link", name="Modules").click()
    page.get_by_role("columnheader", name="parameters").get_by_role("button").click()
    page.locator("[data-filter]").fill("class:Linear")
    page.get_by_text("3 of 73 rows").wait_for()
    page.get_by_role("gridcell", name="head").click()
    page.get_by_role("complementary", name="Details of head").wait_for()
    wanted = {"view": "modules", "module": "head", "modules.sort": "-params", "modules.q": "class:Linear"}
    assert parameters(page) == wanted
    shown = rows(page)
    page.reload()
    page.get_by_role("complementary", name="Details of head").wait_for()
    assert (parameters(page), rows(page)) == (wanted, shown)
    assert page.locator("[data-filter]").input_value() == "class:Linear"
    assert page.get_by_role("columnheader", name="parameters").get_attribute("aria-sort") == "descending"


@pytest.mark.parametrize(
    ("address", "selector"),
    [
        ("view=findings&rule=W104", "article[data-linked]:has-text('W104')"),
        ("view=modules&module=stages.1.2.conv2", "[aria-selected=true]:has-text('conv2')"),
        ("view=weights&tensor=stages.1.2.conv2.weight", "aside:has-text('stages.1.2.conv2.weight')"),
        (
            "view=map&metric=params",
            "[aria-pressed=true]:has-text('parameters'), input:checked + *:has-text('parameters')",
        ),
        ("view=modules&modules.columns=trainable", "[role=columnheader]:has-text('trainable')"),
    ],
)
def test_a_link_shows_what_it_names(visit, address, selector):
    visit(address=address).locator(selector).first.wait_for()


def test_a_pasted_address_changes_the_open_page(visit):
    page = visit(address="view=modules")
    page.evaluate("location.hash = 'view=findings&severity=note'")
    page.locator("article").first.wait_for()
    assert page.locator("article").count() == 2


def test_the_title_names_the_view_and_the_model(visit):
    page = visit(address="view=weights")
    assert page.title() == "Weights · Net · Assay"


def test_the_theme_is_kept(visit):
    page = visit()
    page.get_by_role("button", name="Theme: auto").click()
    page.get_by_role("button", name="Theme: light").click()
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.reload()
    page.get_by_role("button", name="Theme: dark").wait_for()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == dark
