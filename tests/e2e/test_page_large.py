"""A model with 100,000 modules: all of them can be reached."""

from __future__ import annotations

from e2e import subjects

LAYERS, EXPERTS = 98, 255
ROWS = 2 + LAYERS * (2 + 4 * EXPERTS)


def large():
    """A mixture of experts."""
    return subjects.experts(LAYERS, EXPERTS)


def test_all_of_a_large_model_can_be_reached(visit):
    assert ROWS > 100_000
    page = visit(large, "view=modules")
    tree = page.get_by_role("treegrid")
    page.get_by_text(f"{ROWS:,} rows", exact=True).wait_for()
    assert tree.locator("[data-row]").count() < 200

    page.get_by_label("Fold repeats").uncheck()
    page.get_by_role("button", name="Expand all").click()
    page.locator(f"[role=treegrid][aria-rowcount='{ROWS + 1}']").wait_for()
    last = f"layers.{LAYERS - 1}.experts.{EXPERTS - 1}.act"
    tree.press("End")
    page.get_by_role("complementary", name=f"Details of {last}").wait_for()
    tree.locator(f"[aria-rowindex='{ROWS + 1}']").wait_for()
    assert tree.locator("[data-row]").count() < 200
    tree.press("Home")
    tree.locator("[aria-rowindex='2']").wait_for()

    page.locator("[data-filter]").fill(r"type:Linear path:/^layers\.[46]0\./ params>=200k")
    page.get_by_text(f"{2 * EXPERTS:,} of {ROWS:,} rows").wait_for()  # the weights of layer 60 alone: 488 x 488
    page.locator("[data-filter]").fill("")

    page.get_by_role("columnheader", name="parameters").get_by_role("button").click()
    tree.press("Home")
    tree.press("ArrowDown")
    tree.press("ArrowDown")
    page.get_by_role("complementary", name=f"Details of layers.{LAYERS - 1}").wait_for()
    page.get_by_role("link", name="Map").click()
    page.locator("main svg [data-i]").nth(LAYERS).wait_for(state="attached")
