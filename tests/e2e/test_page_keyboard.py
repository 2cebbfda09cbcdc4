"""All of a page can be used without a mouse, and says what it is to those who do not see it."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

FOCUSED = "document.activeElement"
VISIBLE = """(() => {
    const style = getComputedStyle(document.activeElement);
    const accent = getComputedStyle(document.querySelector("[aria-current]")).color;
    return style.outlineStyle !== "none" || style.borderTopColor === accent;
})()"""
STOPS = "main :is(a[href], button, input, select, summary, [tabindex='0']):not([tabindex='-1'])"


@pytest.fixture
def tree(visit):
    """The modules view, with the focus on its tree."""
    page = visit(address="view=modules")
    page.locator("[role=treegrid]").focus()
    return page


def names(page):
    """The names of the rows that are shown."""
    cells = page.locator("[role=treegrid] [data-row] [role=gridcell]:first-child").all_inner_texts()
    return [re.sub(r"[▾▸\n]", "", text).strip() for text in cells]


def active(page):
    """The row that the keyboard is on."""
    return page.locator(f"[id='{page.locator('[role=treegrid]').get_attribute('aria-activedescendant')}']")


def press(page, *keys):
    for key in keys:
        page.keyboard.press(key)


def test_a_slash_goes_to_the_filter_and_typing_filters(visit):
    page = visit(address="view=modules")
    press(page, "/")
    page.keyboard.type("class:Linear")
    assert page.locator("[data-filter]:focus").input_value() == "class:Linear"
    page.get_by_text("3 of 73 rows").wait_for()
    assert [name for name in names(page) if name in ("head", "spare", "linear")] == ["linear", "head", "spare"]
    press(page, "Escape")
    page.get_by_text("73 rows", exact=True).wait_for()
    press(page, "Escape")
    assert page.evaluate(f"{FOCUSED}.getAttribute('role')") == "treegrid"


def test_arrows_move_and_open(tree):
    assert active(tree).get_attribute("aria-level") == "1"
    press(tree, "ArrowDown", "ArrowDown", "ArrowDown")
    run = active(tree)
    assert "0–2" in run.inner_text()
    assert (run.get_attribute("aria-expanded"), run.get_attribute("aria-level")) == ("false", "3")
    before = len(names(tree))
    press(tree, "ArrowRight")
    assert run.get_attribute("aria-expanded") == "true"
    assert len(names(tree)) == before + 3
    press(tree, "ArrowRight")
    assert active(tree).get_attribute("aria-level") == "4"
    press(tree, "ArrowLeft", "ArrowLeft")
    assert (run.get_attribute("aria-expanded"), len(names(tree))) == ("false", before)
    press(tree, "Enter")
    assert run.get_attribute("aria-expanded") == "true"
    press(tree, "Home")
    assert active(tree).get_attribute("aria-rowindex") == "2"
    press(tree, "End")
    assert "spare" in active(tree).inner_text()


def test_moving_selects_and_escape_deselects(tree):
    press(tree, "ArrowDown")
    tree.get_by_role("complementary", name="Details of stem").wait_for()
    assert tree.locator("[aria-selected=true]").count() == 1
    press(tree, "Escape")
    tree.get_by_role("complementary").wait_for(state="detached")


def test_sorting_by_keyboard(visit):
    page = visit(address="view=modules")
    heading = page.get_by_role("columnheader", name="parameters")
    for direction in ("descending", "ascending", "none"):
        heading.get_by_role("button").focus()
        press(page, "Enter")
        assert heading.get_attribute("aria-sort") == direction


def test_rows_of_a_tree_say_where_they_are(tree):
    grid = tree.locator("[role=treegrid]")
    rows = grid.locator("[data-row]")
    indices = rows.evaluate_all("rows => rows.map(row => +row.getAttribute('aria-rowindex'))")
    assert indices == list(range(2, len(indices) + 2))
    assert grid.get_attribute("aria-rowcount") == str(len(indices) + 1)
    assert grid.get_attribute("aria-label")
    levels = rows.evaluate_all("rows => rows.map(row => +row.getAttribute('aria-level'))")
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_a_question_mark_lists_the_keys(visit):
    page = visit()
    press(page, "?")
    dialog = page.get_by_role("dialog", name="Keys")
    dialog.wait_for()
    press(page, "Escape")
    dialog.wait_for(state="hidden")
    press(page, "3")
    assert page.evaluate("new URLSearchParams(location.hash.slice(1)).get('view')") == "modules"


def test_arrows_move_in_the_list_of_views(visit):
    page = visit()
    page.get_by_role("link", name="Overview").focus()
    press(page, "ArrowDown", "Enter")
    assert page.get_by_role("link", name="Findings").get_attribute("aria-current") == "page"


@pytest.mark.parametrize("view", ["overview", "findings", "map", "weights"])
def test_tab_reaches_every_control_and_shows_where_it_is(visit, view):
    page = visit(address=f"view={view}")
    page.locator("main section").last.wait_for()
    page.locator("main").focus()
    wanted = page.locator(STOPS).evaluate_all("all => all.filter(one => one.checkVisibility()).length")
    reached = 0
    for _ in range(wanted):
        press(page, "Tab")
        if not page.evaluate("document.querySelector('main').contains(document.activeElement)"):
            break
        assert page.evaluate(VISIBLE), page.evaluate(f"{FOCUSED}.outerHTML.slice(0, 200)")
        reached += 1
    assert wanted > 0
    assert reached == wanted


def test_the_first_tab_skips_to_the_content(visit):
    page = visit()
    press(page, "Tab", "Enter")
    assert page.evaluate(f"{FOCUSED}.id") == "main"


def test_marks_of_a_chart_have_labels_and_follow_arrows(visit):
    page = visit(address="view=map")
    marks = page.locator("main svg [data-i]")
    marks.first.focus()
    label = page.evaluate(f"{FOCUSED}.getAttribute('aria-label')")
    press(page, "ArrowDown")
    assert label
    assert page.evaluate(f"{FOCUSED}.getAttribute('aria-label')") not in (None, "", label)
