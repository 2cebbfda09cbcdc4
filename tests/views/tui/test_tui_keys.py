"""Every key does what the help says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tui_subjects import LAYERS, columns, drive, explorer, here, names

from assay.views.tui import clipboard
from assay.views.tui.bars import TabBar
from assay.views.tui.help import HelpScreen, help_text
from assay.views.tui.keys import KEYS, keys_text, with_keymap

FOLDED = ["(root)", "embed", "layers", f"layers.0–{LAYERS - 1} ×{LAYERS}", "norm", "head (tied: embed.weight)"]


def press(*keys: str, app=None, size=(100, 30)):
    """The explorer after these keys."""
    app = app or explorer()

    async def steps(pilot):
        for key in keys:
            await pilot.press(key)
        await pilot.pause()

    drive(app, steps, size)
    return app


def seen(*keys: str, look, app=None):
    """The result of `look(app)` after these keys, while the explorer runs."""
    app = app or explorer()
    found = []

    async def steps(pilot):
        for key in keys:
            await pilot.press(key)
        await pilot.pause()
        found.append(look(app))

    drive(app, steps)
    return found[0]


def test_it_opens_with_equal_siblings_folded() -> None:
    assert seen(look=names) == FOLDED


@pytest.mark.parametrize("down", ["down", "j"])
@pytest.mark.parametrize("up", ["up", "k"])
def test_moving_down_and_up(down: str, up: str) -> None:
    assert seen(down, down, look=here) == "layers"
    assert seen(down, down, up, look=here) == "embed"


@pytest.mark.parametrize("key", ["left", "h"])
def test_left_collapses_then_goes_to_the_parent(key: str) -> None:
    assert seen("j", "j", key, look=names) == [*FOLDED[:3], *FOLDED[4:]]
    assert seen("j", key, look=here) == "(root)"


@pytest.mark.parametrize("key", ["right", "l"])
def test_right_expands_then_goes_to_the_child_and_shows_leaves(key: str) -> None:
    assert seen("j", "j", "j", key, look=names)[4 : 4 + LAYERS] == [str(number) for number in range(LAYERS)]
    assert seen("j", "j", "j", key, key, look=here) == "layers.0"
    assert seen("j", key, look=lambda app: app.panels["attributes"].is_open)


def test_space_folds_and_unfolds() -> None:
    assert seen("space", look=names) == ["(root)"]
    assert seen("space", "space", look=names) == FOLDED


def test_enter_shows_the_details_then_focuses_them() -> None:
    assert seen("enter", look=lambda app: app.panels["attributes"].is_open)
    assert seen("enter", "enter", look=lambda app: app.panels["attributes"].has_focus)
    assert seen("enter", look=names) == FOLDED


def test_home_end_and_pages() -> None:
    assert seen("end", look=here) == "head"
    assert seen("end", "home", look=here) == "(root)"
    assert seen("pagedown", look=here) == "head"
    assert seen("end", "pageup", look=here) == "(root)"


def test_z_folds_the_subtree() -> None:
    assert seen("j", "j", "z", look=names) == [*FOLDED[:3], *FOLDED[4:]]
    opened = seen("j", "j", "z", "z", look=names)
    assert opened.count("attn") == opened.count("mlp") == LAYERS


def test_capital_z_folds_everything() -> None:
    everything = seen("Z", look=names)
    assert len(everything) == len(FOLDED) + 3 * LAYERS
    assert seen("Z", "Z", look=names) == [name for name in FOLDED if "×" not in name]


def test_s_folds_siblings_but_not_their_subtrees() -> None:
    start = ("Z", "j", "j", "j", "j")
    closed = seen(*start, "s", look=names)
    assert "attn" not in closed
    assert seen(*start, "s", "s", look=names) == seen("Z", look=names)


def test_capital_s_folds_siblings_and_their_subtrees() -> None:
    start = ("Z", "j", "j")
    assert seen(*start, "S", look=names) == [name for name in FOLDED if "×" not in name]
    reopened = seen(*start, "S", "l", look=names)
    assert "layers.0–3 ×4" in reopened
    assert "0" not in reopened
    assert seen(*start, "S", "S", look=names) == seen("Z", look=names)


def test_o_folds_rows_of_the_same_class() -> None:
    start = ("Z", "j", "j", "j", "j")
    closed = seen(*start, "o", look=names)
    assert [name for name in closed if name.isdecimal()] == ["0", "1", "2", "3"]
    assert "attn" not in closed
    assert seen(*start, "o", "o", look=names) == seen("Z", look=names)


def test_capital_o_folds_the_same_class_and_its_subtrees() -> None:
    start = ("Z", "j", "j")
    closed = seen(*start, "O", look=names)
    assert closed == [name for name in FOLDED if "×" not in name]
    assert seen(*start, "O", "l", look=names) == FOLDED
    assert seen(*start, "O", "O", look=names) == seen("Z", look=names)


@pytest.mark.parametrize(
    ("key", "components"),
    [
        ("t", {"shapes"}),
        ("b", {"memory"}),
        ("p", {"params", "params_share", "params_self"}),
        ("d", {"device", "dtype"}),
        ("f", {"inputs", "outputs", "calls", "time", "time_self"}),
    ],
)
def test_display_keys_show_and_hide_their_components(key: str, components: set[str]) -> None:
    before = set(seen(look=columns))
    once, twice = set(seen(key, look=columns)), set(seen(key, key, look=columns))
    shown = components <= before
    assert (once & components == set()) if shown else (components <= once)
    assert (components <= twice) if shown else not (components & twice)
    assert once - components == before - components


def test_capital_a_toggles_alignment() -> None:
    def starts(app):
        rows = [app.table.render_line(y).text for y in range(1, 6)]
        kinds = ["Net", "Embedding", "ModuleList", "Block", "BatchNorm1d"]
        return {row.index(kind) for row, kind in zip(rows, kinds, strict=True)}

    assert len(seen(look=starts)) == 1
    assert len(seen("A", look=starts)) > 1
    assert len(seen("A", "A", look=starts)) == 1


@pytest.mark.parametrize(
    ("key", "panel"), [("c", "code"), ("a", "attributes"), ("F", "forward"), ("W", "findings"), ("T", "flow")]
)
def test_panel_keys_open_and_close(key: str, panel: str) -> None:
    assert seen(key, look=lambda app: app.panels[panel].is_open)
    assert not seen(key, key, look=lambda app: app.panels[panel].is_open)


def test_less_and_greater_resize_the_panels() -> None:
    def share(app):
        return app.panels["code"].size.width

    usual = seen("c", look=share)
    assert seen("c", "<", look=share) > usual
    assert seen("c", ">", look=share) < usual
    assert seen("c", *["<"] * 30, look=lambda app: app.panel_share) == 80


def test_capital_l_opens_the_label_panel_and_esc_closes_it() -> None:
    def opened(app):
        return app.label_panel.has_class("-open")

    assert seen("L", look=opened)
    assert not seen("L", "L", look=opened)
    assert not seen("L", "escape", look=opened)
    assert seen("L", "escape", look=lambda app: app.table.has_focus)


@pytest.mark.parametrize("key", ["space", "enter"])
def test_the_label_panel_shows_and_hides_components(key: str) -> None:
    before = seen(look=columns)
    assert seen("L", "j", key, look=columns) == [id for id in before if id != "type"]
    assert seen("L", "j", key, key, look=columns) == before


def test_the_label_panel_moves_components() -> None:
    before = seen(look=columns)
    after = seen("L", "j", "J", "J", look=columns)
    assert after[:3] == [before[0], before[2], "type"] or after.index("type") > before.index("type")
    assert seen("L", "j", "J", "J", "K", "K", look=columns) == before
    assert seen("L", "J", look=columns)[:2] == ["type", "name"]


def test_r_in_the_label_panel_restores_the_defaults() -> None:
    assert seen("L", "j", "space", "J", "R", look=columns) == seen(look=columns)


def test_help_shows_every_key_and_closes_with_enter_and_esc() -> None:
    assert seen("?", look=lambda app: isinstance(app.screen, HelpScreen))
    for key in ("enter", "escape"):
        assert not seen("?", key, look=lambda app: isinstance(app.screen, HelpScreen))
    text = help_text(KEYS).plain
    assert all(keys_text(key.keys) in text and key.text in text for key in KEYS)


def test_search_filters_while_typing_and_n_goes_to_the_next_match() -> None:
    found = seen("/", "m", "l", "p", look=names)
    assert found.count("mlp") == LAYERS
    assert "norm" not in found
    start = ("/", "m", "l", "p", "enter")
    assert seen(*start, look=here) == "layers.0.mlp"
    assert seen(*start, "n", look=here) == "layers.1.mlp"
    assert seen(*start, "n", "N", look=here) == "layers.0.mlp"
    assert seen(*start, "N", look=here) == f"layers.{LAYERS - 1}.mlp"


@pytest.mark.parametrize("key", ["backspace", "escape"])
def test_a_search_is_cleared(key: str) -> None:
    assert set(seen("/", "m", "l", "p", "enter", key, look=names)) >= set(FOLDED)


def test_search_accepts_regular_expressions_and_paths() -> None:
    assert seen("/", *"^(attn|norm)$", look=names).count("attn") == LAYERS
    assert seen("/", *r"layers.2", look=lambda app: int(app.table.rows.matches.sum())) == 1
    assert seen("/", *"a(t", look=lambda app: app.query_now.literal)


def test_star_keeps_a_class_highlighted() -> None:
    def marks(app):
        return [line.text[0] for line in map(app.table.render_line, range(1, 7))]

    assert "*" not in seen(look=marks)
    assert seen("end", "*", "home", look=marks).count("*") == 1
    assert "*" not in seen("end", "*", "*", look=marks)


def test_rows_of_the_same_class_are_marked() -> None:
    def marks(app):
        return sum(app.table.render_line(y).text.startswith("•") for y in range(1, 25))

    assert seen("Z", "j", "j", "j", "j", "j", look=marks) == 2 * LAYERS  # the other layers and the head


def test_sorting_by_any_column_and_back() -> None:
    local = [path.partition(" ")[0].rpartition(".")[2] for path in seen("]", look=names)]
    assert local == sorted(local)
    by_size = seen("]", "]", "]", look=lambda app: (app.table.tab.sorted_by, here(app), names(app)))
    assert by_size[0] == "params"
    assert by_size[2][0] == "(root)"
    assert seen("]", "]", "]", "r", look=names) != by_size[2]
    assert seen("]", "0", look=names) == FOLDED
    assert seen("[", look=lambda app: app.table.tab.sorted_by) == seen(look=columns)[-1]


def test_capital_b_shows_the_largest_rows() -> None:
    found = seen("B", look=names)
    assert found[0] == "embed"
    assert len(found) == 6 + 3 * LAYERS - 1  # all of them: there are fewer than fifty
    assert seen("B", "B", look=names) == FOLDED


@pytest.mark.parametrize(
    ("key", "id"),
    [("1", "tree"), ("2", "unique"), ("3", "ops"), ("4", "parameters"), ("5", "time"), ("6", "findings")],
)
def test_number_keys_select_tabs(key: str, id: str) -> None:
    assert seen("3", key, look=lambda app: (app.table.sheet.id, app.query_one(TabBar).active)) == (id, id)


def test_u_goes_to_the_unique_modules_and_back() -> None:
    assert seen("3", "u", look=lambda app: app.table.sheet.id) == "unique"
    assert seen("3", "u", "u", look=lambda app: app.table.sheet.id) == "ops"


def test_a_tab_is_as_it_was_left() -> None:
    assert seen("j", "j", "space", "3", "1", look=lambda app: (here(app), names(app))) == (
        "layers",
        [*FOLDED[:3], *FOLDED[4:]],
    )


def test_y_copies_the_path_and_capital_y_the_json(monkeypatch: pytest.MonkeyPatch) -> None:
    copied = []

    def copy(text, through_terminal):
        copied.append(text)
        return "a test"

    monkeypatch.setattr(clipboard, "copy", copy)
    press("j", "y", "Y")
    assert copied[0] == "embed"
    assert json.loads(copied[1])["path"] == "embed"
    assert json.loads(copied[1])["params"] == 800


def test_tab_goes_from_the_table_to_the_panels() -> None:
    assert seen("c", "tab", look=lambda app: app.panels["code"].has_focus)
    assert seen("c", "tab", "tab", look=lambda app: app.table.has_focus)


def test_ctrl_p_opens_the_palette_with_every_command() -> None:
    assert seen("ctrl+p", look=lambda app: type(app.screen).__name__) == "CommandPalette"
    titles = seen(look=lambda app: [command.title for command in app.get_system_commands(app.screen)])
    assert any("Sort by FLOPs" in title for title in titles)
    assert any("Fold or unfold everything" in title for title in titles)


def test_q_quits() -> None:
    assert press("q").return_code == 0


def test_every_binding_has_a_unique_id() -> None:
    ids = [key.id for key in KEYS]
    assert len(set(ids)) == len(ids)


def test_a_keymap_changes_the_keys_and_the_help(tmp_path) -> None:
    file = tmp_path / "explore.json"
    file.write_text('{"keymap": {"fold-all": "x"}}')
    remapped = explorer(settings=file)
    assert len(seen("x", look=names, app=remapped)) == len(FOLDED) + 3 * LAYERS
    assert seen("Z", look=names, app=explorer(settings=file)) == FOLDED
    shown = help_text(with_keymap({"fold-all": "x"})).plain
    assert "x  " in shown.partition("Fold or unfold everything")[0].splitlines()[-1]


def test_the_mouse_selects_folds_sorts_and_opens() -> None:
    app = explorer()
    found = []

    async def steps(pilot):
        await pilot.click("#table", offset=(10, 2))
        found.append(here(app))
        await pilot.click("#table", offset=(4, 3))
        found.append(names(app))
        for _ in range(2):
            heading = app.table.render_line(0).text.index("params")
            await pilot.click("#table", offset=(heading, 0))
            await pilot.pause()
            found.append((app.table.tab.sorted_by, app.table.tab.descending))
        await pilot.click("#table", offset=(10, 2), times=2)
        await pilot.pause()
        found.append(app.panels["attributes"].is_open)
        await pilot.click("#tabs", offset=(22, 0))
        await pilot.pause()
        found.append(app.table.sheet.id)

    drive(app, steps)
    assert found[0] == "embed"
    assert found[1] == [*FOLDED[:3], *FOLDED[4:]]
    assert found[2:] == [("params", True), ("params", False), True, "ops"]


def test_the_docs_list_every_key() -> None:
    page = (Path(__file__).parents[3] / "docs" / "explore.md").read_text(encoding="utf-8")
    assert [key.id for key in KEYS if f"| `{key.id}` | {key.text} |" not in page] == []
