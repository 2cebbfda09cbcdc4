"""What every command prints: on terminals of three widths, in a pipe, and where colours or Unicode are not wanted.

`ASSAY_UPDATE_GOLDEN=1 pytest tests/cli/test_screens.py` writes the files in tests/golden/screens again.
"""

from __future__ import annotations

import contextlib
import difflib
import os
import re
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path

import pytest
from rich.cells import cell_len
from screen_subjects import DOCUMENT, GOLDEN, INPUTS, MODEL, write_subjects
from screens import Screen, Screens

from assay.cli.main import COMMANDS
from assay.version import __version__

WIDTHS = (80, 120, 200)
CASES = {
    "analyze": ["analyze", DOCUMENT, "--force"],
    "analyze_full": ["analyze", DOCUMENT, "--force", "--full"],
    "summary": ["summary", DOCUMENT],
    "cost": ["cost", DOCUMENT],
    "cost_by_module": ["cost", DOCUMENT, "--by", "module"],
    "memory": ["memory", DOCUMENT, "--fit", "H100,8xL4"],
    "profile": ["profile", DOCUMENT],
    "check": ["check", DOCUMENT],
    "check_rules": ["check", "--rules"],
    "rule": ["rule", "C211"],
    "report": ["report", DOCUMENT, "--force"],
    "report_text": ["report", DOCUMENT, "--format", "txt"],
    "modules": ["modules", DOCUMENT],
    "ops": ["ops", DOCUMENT],
    "extract": ["extract", DOCUMENT, "--dir", "extracted", "--force"],
    "params": ["params", "tagger.safetensors"],
    "params_histogram": ["params", "tagger.safetensors", "--histogram"],
    "params_list": ["params", "tagger.safetensors", "--list"],
    "run": ["run", "--", "program.py"],
    "trace": ["trace", "gpu.json"],
    "trace_by_kernel": ["trace", "gpu.json", "--by", "kernel"],
    "trace_diff": ["trace", "--diff", "before", "after"],
    "trace_ranks": ["trace", "ranks"],
    "machine": ["machine", "--device", "cpu"],
    "env": ["env"],
    "schema": ["schema"],
    "completion": ["completion", "bash"],
}
"""By golden file: the arguments of one command."""
HELP = [["--help"], *([name, "--help"] for name in COMMANDS)]
SURROUNDINGS = {
    "TERM=dumb": ({"TERM": "dumb"}, 80),
    "NO_COLOR": ({"NO_COLOR": "1"}, 80),
    "FORCE_COLOR": ({"FORCE_COLOR": "1"}, None),
    "LANG=C": ({"LANG": "C"}, 80),
}
"""By heading: environment variables, and the columns of the terminal (None: a pipe)."""
IN_ALL_SURROUNDINGS = ("analyze", "memory", "params", "trace")
LIVE = ("summary", "cost", "memory")
"""Commands whose screen of a model that runs is the same every time."""
DRAWN_WITH = {"live": ("torch", "2.13"), "help": ("click", "8.5"), "completion": ("click", "8.5")}
"""By golden file: a package that decides what is printed, and the version that printed the file."""
SUBSTITUTIONS = {
    "env": ((r"(?m)^(.{14}).*", r"\1…"),),
    "live": ((r"torch \d[\w.+]*", "torch <version>"),),
    "params": ((r"\(\w+\skernel\)", "(<fastest> kernel)"),),
    "params_histogram": ((r"\(\w+\skernel\)", "(<fastest> kernel)"),),
}
"""By golden file: patterns of what differs between machines, and what stands in their place."""

Shown = Callable[..., Screen]


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    """Runs a command in a folder with all subjects; commands with equal surroundings share a process."""
    folder = tmp_path_factory.mktemp("screens")
    write_subjects(folder)
    started: dict[tuple[str, bool], Screens] = {}
    with contextlib.ExitStack() as stack:

        def show(arguments: list[str], columns: int | None = None, surroundings: str = "") -> Screen:
            key = (surroundings, f"{MODEL}::load" in arguments)
            if key not in started:
                variables = SURROUNDINGS[surroundings][0] if surroundings else {}
                started[key] = stack.enter_context(Screens(folder, variables, ("torch",) if key[1] else ()))
            return started[key].show(arguments, columns)

        yield show


def compare(name: str, sections: dict[str, str]) -> None:
    """Compare the sections with the golden file, or write it; a section that repeats an earlier one only names it."""
    package, drawn_with = DRAWN_WITH.get(name, ("click", ""))
    if not version(package).startswith(drawn_with):
        pytest.skip(f"{name}.txt shows the output with {package} {drawn_with}")
    path, text = (
        GOLDEN / f"{name}.txt",
        _joined({each: _neutral(name, section) for each, section in sections.items()}),
    )
    if os.environ.get("ASSAY_UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    expected = path.read_text(encoding="utf-8") if path.exists() else ""
    changes = difflib.unified_diff(expected.splitlines(), text.splitlines(), path.name, "printed now", lineterm="")
    assert text == expected, "\n" + "\n".join(changes)


def _neutral(name: str, section: str) -> str:
    for pattern, replacement in SUBSTITUTIONS.get(name, ()):
        section = re.sub(pattern, replacement, section)
    return section


def _joined(sections: dict[str, str]) -> str:
    first: dict[str, str] = {}
    for heading, section in sections.items():
        first.setdefault(section, heading)
    bodies = {each: text if first[text] == each else f"(as: {first[text]})\n" for each, text in sections.items()}
    return "\n".join(f"== {heading}\n{body}" for heading, body in bodies.items())


def section(screen: Screen) -> str:
    """What a reader of the golden file sees: stdout, stderr and the exit code, where there are any."""
    notes = f"-- stderr\n{screen.err}" if screen.err else ""
    return screen.text + notes + (f"-- exit code {screen.code}\n" if screen.code else "")


@pytest.mark.parametrize("name", CASES)
def test_screens_match_the_golden_file(shown, name):
    arguments = CASES[name]
    screens = {f"{width} columns": shown(arguments, width) for width in WIDTHS}
    screens["piped"] = shown(arguments)
    if name in IN_ALL_SURROUNDINGS:
        screens |= {each: shown(arguments, columns, each) for each, (_, columns) in SURROUNDINGS.items()}
    sections = {heading: section(screen) for heading, screen in screens.items()}
    sections |= {f"styles, {each}": screens[each].styles for each in ("80 columns", "FORCE_COLOR") if each in screens}
    compare(name, {heading: text for heading, text in sections.items() if text})
    assert not screens["piped"].styles


@pytest.mark.parametrize("name", CASES)
def test_files_are_shown_without_torch(shown, name):
    assert not shown(CASES[name]).torch


def test_help_matches_the_golden_file(shown):
    compare("help", {" ".join(["assay", *arguments]): section(shown(arguments, 80)) for arguments in HELP})


def test_screens_of_a_model_that_runs_match_the_golden_file(shown):
    arguments = [f"{MODEL}::load", "--inputs", INPUTS]
    compare("live", {name: section(shown([name, *arguments], 80)) for name in LIVE})


@pytest.mark.parametrize(
    "name", [name for name in CASES if name != "completion"]
)  # a program, whose lines may be long
def test_no_line_of_a_screen_is_too_wide(shown, name):
    for width in WIDTHS:
        lines = shown(CASES[name], width).text.splitlines()
        assert [line for line in lines if cell_len(line) > width] == []


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("surroundings", ["TERM=dumb", "NO_COLOR"])
def test_nothing_is_styled_where_styles_are_not_wanted(shown, name, surroundings):
    screen = shown(CASES[name], 80, surroundings)
    assert "\x1b" not in screen.out + screen.err


@pytest.mark.parametrize("arguments", [*CASES.values(), *HELP], ids=" ".join)
def test_everything_is_ascii_in_the_c_locale(shown, arguments):
    screen = shown(arguments, 80, "LANG=C")
    assert [line for line in (screen.out + screen.err).splitlines() if not line.isascii()] == []
    assert arguments[0] == "completion" or max(map(len, screen.text.splitlines()), default=0) <= 80


def test_styles_end_with_their_line(shown):
    for name in CASES:
        lines = shown(CASES[name], 120).out.splitlines()
        assert [line for line in lines if line.count("\x1b") != 2 * line.count("\x1b[0m")] == []


def test_every_command_that_prints_for_people_has_a_golden_file():
    assert {arguments[0] for arguments in CASES.values()} == set(COMMANDS) - {"explore", "serve"}
    names = {path.stem for path in Path(GOLDEN).glob("*.txt")}
    assert names == {*CASES, "help", "live"}


def test_no_golden_file_depends_on_this_version():
    assert [path.name for path in GOLDEN.glob("*.txt") if __version__ in path.read_text(encoding="utf-8")] == []
