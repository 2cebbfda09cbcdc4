"""Panels, settings, clipboard and export, and names with markup or control characters."""

from __future__ import annotations

import json
import threading

import pytest
from rich.console import Console
from textual.widgets import Static
from tui_subjects import SmallInspector, drive, explorer, lines, names, settled, small_document, small_subject

from assay.document.document import Document
from assay.document.rows import Module
from assay.errors import WriteError
from assay.views.tui import clipboard, export, settings
from assay.views.tui.labels import Labels
from assay.views.tui.settings import ExplorerSettings
from assay.views.tui.subject import DocumentInspector, ExploredModel, of_document


def shown(app, panel: str) -> str:
    """The text in a panel."""
    console = Console(width=100, color_system=None, force_terminal=False)
    with console.capture() as caught:
        console.print(app.panels[panel].query_one(Static).content)
    return caught.get()


def panel_text(key: str, id: str, *moves: str, subject: ExploredModel | None = None) -> str:
    """The text of a panel for the row reached by `moves`."""
    found = []

    async def steps(pilot):
        await pilot.press(key, *moves)
        await settled(pilot)
        found.append(shown(pilot.app, id))

    drive(explorer(subject), steps, (140, 45))
    return found[0]


TO_BLOCK = ("Z", "j", "j", "j", "j")


def test_the_code_panel_marks_forward() -> None:
    text = panel_text("c", "code", *TO_BLOCK)
    assert "net.py:10" in text
    assert "class Block" in text
    marked = [line for line in text.splitlines() if "❱" in line]
    assert "def forward" in marked[0]
    assert len(marked) == 3


def test_a_module_without_source_code_has_a_message() -> None:
    assert "No source code" in panel_text("c", "code", "j")


def test_the_attributes_panel_shows_values_and_a_histogram() -> None:
    text = panel_text("a", "attributes", *TO_BLOCK)
    assert "8×8  float32  cpu  256 B  requires grad" in text
    assert all(word in text for word in ("min -1", "mean 0.125", "std 0.5", "! 2 NaN", "█", "first 0.5, -0.25"))
    assert "[bold]no" in text


def test_the_forward_panel_shows_every_call_and_the_source_of_the_first_nan() -> None:
    text = panel_text("F", "forward", *TO_BLOCK)
    assert "2 calls  total 3 ms" in text
    assert "NaN in the output, first produced by layers.1" in text
    assert text.index("call 1") < text.index("call 2")


def test_the_findings_panel_shows_findings_on_the_module() -> None:
    assert "see tab 6" in panel_text("W", "findings", *TO_BLOCK)
    document = small_document()
    at = document.findings[1].modules[0]
    moves = ["j"] * (at + 1)
    text = panel_text("W", "findings", "Z", *moves)
    assert "E900" in text
    assert "mend it" in text
    assert "0.5 (counted)" in text


def test_the_flow_panel_shows_inputs_and_outputs() -> None:
    text = panel_text("T", "flow", *TO_BLOCK)
    assert text.index("embed") < text.index("[ layers.0 ]") < text.index("layers.1")


def test_an_inspector_error_is_one_line_in_the_panel() -> None:
    subject = ExploredModel(small_document(), SmallInspector(broken="layers.0"))
    for key, id in (("c", "code"), ("a", "attributes"), ("F", "forward")):
        assert "layers.0 cannot be looked into" in panel_text(key, id, *TO_BLOCK, subject=subject)


def test_an_internal_error_in_a_panel_does_not_end_the_explorer() -> None:
    class Broken(SmallInspector):
        def attributes(self, path):
            raise ZeroDivisionError("oh")

    assert "ZeroDivisionError: oh" in panel_text("a", "attributes", subject=ExploredModel(small_document(), Broken()))


def test_details_are_looked_up_off_the_main_thread_once_the_selection_rests(monkeypatch) -> None:
    requests = []
    monkeypatch.setattr("assay.views.tui.app.DEBOUNCE_S", 3600.0)

    class Slow(SmallInspector):
        def attributes(self, path):
            requests.append((path, threading.current_thread() is threading.main_thread()))
            return super().attributes(path)

    async def steps(pilot):
        app = pilot.app
        await pilot.press("a")
        app.update_details()
        await settled(pilot)
        requests.clear()
        await pilot.press("j", "j", "k")
        assert requests == []
        app.debounce.stop()
        app.update_details()
        await settled(pilot)

    drive(explorer(ExploredModel(small_document(), Slow())), steps)
    assert requests == [("embed", False)]


def test_a_document_inspector_returns_what_the_document_contains() -> None:
    inspector = DocumentInspector(small_document())
    assert inspector.source("embed") is None
    assert {each.name for each in inspector.attributes("norm")} == {"weight", "running_mean", "width"}
    assert "saved document" in inspector.tensor("norm", "weight").problem
    assert inspector.forward_calls("embed")[0].outputs[0].facts.shape == (1, 5, 8)
    with pytest.raises(Exception, match="no module nope"):
        inspector.attributes("nope")


NAMES = (
    "[bold]red[/]",
    "\x1b[2Jgone",
    "a" * 10_000,
    "tab\there",
    "line\nbreak",
    "寬字元寬字元",
    "",
    "é\u0301\u200b",
)


def unusual_document() -> Document:
    rows = [Module("", "Net", "Net", None)]
    rows += [Module(name, name or "Empty", "x", 0, {"[b]": name}) for name in NAMES]
    return Document(modules=rows)


@pytest.mark.parametrize("size", [(80, 24), (20, 10), (8, 5), (200, 12)])
def test_unusual_names_are_shown_as_text_and_lines_keep_their_width(size) -> None:
    app = explorer(of_document(unusual_document()))

    async def steps(pilot):
        for _ in NAMES:
            await pilot.press("j")
            for y in range(app.table.size.height):
                strip = app.table.render_line(y)
                assert strip.cell_length == app.table.size.width - 1
                assert "\x1b" not in strip.text
                assert "\n" not in strip.text
        await pilot.press("A", "a", "c", "L", "]", "B", "0", "3", "4", "1")
        await settled(pilot)

    drive(app, steps, size)
    assert "\\x1b[2Jgone" in names(app)
    assert "[bold]red[/]" in names(app)


def test_a_narrow_terminal_shows_names_first() -> None:
    app = explorer()
    found = []

    async def steps(pilot):
        found.extend(lines(app))

    drive(app, steps, (20, 12))
    assert "embed" in found[2]


def test_columns_that_do_not_fit_can_be_scrolled_to() -> None:
    app = explorer()
    found = []

    async def steps(pilot):
        found.append(lines(app)[0])
        await pilot.press("shift+right", "shift+right")
        found.append(lines(app)[0])
        await pilot.press("shift+left", "shift+left")
        found.append(lines(app)[0])

    drive(app, steps, (60, 12))
    assert found[0].rstrip().endswith("›")
    assert found[1].startswith("‹")
    assert found[0] == found[2] != found[1]


def test_labels_are_saved(tmp_path) -> None:
    file = tmp_path / "assay" / "explore.json"

    async def steps(pilot):
        await pilot.press("t", "L", "j", "J", "escape", "A")

    drive(explorer(settings=file), steps)
    kept = json.loads(file.read_text())
    assert kept["labels"]["tree"]["order"][:3] == ["name", "shapes", "type"]
    again = explorer(settings=file)
    drive(again, _nothing)
    assert [column.id for column in again.table.tab.columns][:3] == ["name", "shapes", "type"]
    assert again.table.aligned is False


async def _nothing(pilot) -> None:
    await pilot.pause()


@pytest.mark.parametrize("content", [b"{", b"\xff\xfe", b'{"labels": 3}', b"[]"])
def test_damaged_settings_cause_one_warning_and_are_kept(tmp_path, content) -> None:
    file = tmp_path / "explore.json"
    file.write_bytes(content)
    loaded, warning = settings.load(file)
    assert loaded == ExplorerSettings()
    assert "damaged" in warning
    assert "\n" not in warning

    async def steps(pilot):
        await pilot.press("t")

    drive(explorer(settings=file), steps)
    assert file.read_bytes() == content


def test_settings_that_cannot_be_saved_cause_one_warning(tmp_path, monkeypatch) -> None:
    (tmp_path / "file").write_text("")
    assert "settings not saved" in settings.save(ExplorerSettings(), tmp_path / "file" / "explore.json")
    assert settings.load(tmp_path / "none.json") == (ExplorerSettings(), "")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    place = settings.settings_path()
    assert place == tmp_path / "assay" / "explore.json"
    assert settings.save(ExplorerSettings(labels={"tree": Labels(("a",), ("a",))}), place) == ""
    assert settings.load(place)[0].labels["tree"].order == ("a",)


def test_over_ssh_the_terminal_is_used_for_copying(monkeypatch) -> None:
    monkeypatch.setattr(clipboard.shutil, "which", lambda name: name)
    copied = []
    assert clipboard.copy("x", copied.append, {"SSH_TTY": "1", "DISPLAY": ":0"}) == clipboard.TERMINAL
    assert copied == ["x"]
    assert clipboard.program({"DISPLAY": ":0"}, "linux")[0] == "xclip"
    assert clipboard.program({"WAYLAND_DISPLAY": "w", "DISPLAY": ":0"}, "linux")[0] == "wl-copy"
    assert clipboard.program({}, "darwin") == ("pbcopy",)
    assert clipboard.program({}, "linux") is None


def test_the_terminal_is_used_if_the_clipboard_program_fails(monkeypatch) -> None:
    monkeypatch.setattr(clipboard, "program", lambda environment: ("false",))
    copied = []
    assert clipboard.copy("x", copied.append, {}) == clipboard.TERMINAL
    monkeypatch.setattr(clipboard, "program", lambda environment: ("true",))
    assert clipboard.copy("x", copied.append, {}) == "true"
    assert copied == ["x"]


@pytest.mark.parametrize("form", list(export.FORMS))
def test_the_view_is_exported_and_nothing_is_overwritten(tmp_path, monkeypatch, form) -> None:
    monkeypatch.chdir(tmp_path)
    place = list(export.FORMS).index(form)

    async def steps(pilot):
        for _ in range(2):
            await pilot.press("e", *["down"] * place, "enter")
            await pilot.pause(0.1)

    drive(explorer(), steps)
    first, second = sorted(tmp_path.iterdir(), key=lambda path: (len(path.name), path.name))
    assert first.name == f"assay-Net-tree.{form}"
    assert second.name == f"assay-Net-tree-1.{form}"
    text = first.read_text()
    if form == "svg":
        assert text.startswith("<svg")
        assert "embed" in text
    elif form == "json":
        rows = json.loads(text)["rows"]
        assert [row["path"] for row in rows][:3] == ["(root)", "embed", "layers"]
        assert rows[1]["params"] == 800
    else:
        assert len([line for line in text.splitlines() if "Embedding" in line]) == 1
        assert ("800" in text) is True


def test_an_export_that_fails_is_reported(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    reported = []

    def full(*_: object) -> None:
        raise WriteError("no space left on device")

    async def steps(pilot):
        await pilot.press("e", "enter")
        await settled(pilot)
        reported.extend((note.message, note.severity) for note in pilot.app._notifications)

    monkeypatch.setattr(export, "write", full)
    drive(explorer(), steps)
    assert reported == [("no space left on device", "warning")]
    assert list(tmp_path.iterdir()) == []


def test_statistics_of_parameters_are_loaded_into_their_column() -> None:
    app = explorer(small_subject())
    found = []

    async def steps(pilot):
        component = next(each for each in app.table.tab.components if each.column.id == "statistics")
        component.on = True
        app.labels_changed()
        await settled(pilot)
        found.append(component.column.text(1))

    drive(app, steps)
    assert found == ["weight 0.12 ± 0.5"]


def test_a_theme_chosen_in_the_palette_is_saved_and_one_from_the_options_is_not(tmp_path) -> None:
    file = tmp_path / "explore.json"

    async def choose(pilot):
        pilot.app.theme = "nord"
        await pilot.pause()

    drive(explorer(settings=file, theme="dracula"), _nothing)
    assert not file.exists()
    drive(explorer(settings=file), choose)
    assert explorer(settings=file).theme == "nord"


def test_an_unknown_theme_is_refused() -> None:
    with pytest.raises(Exception, match="unknown theme 'nope'"):
        explorer(theme="nope")
