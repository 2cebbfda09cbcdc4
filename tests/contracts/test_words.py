"""Phrases that read like a translation do not come back: docs/writing.md has the rules and what to write instead."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import assay

SOURCE = Path(assay.__file__).parent
ROOT = Path(__file__).parents[2]
PAGES = sorted(
    {*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *SOURCE.rglob("*.md")} - {ROOT / "docs" / "writing.md"}
)

PHRASES = re.compile(
    r"""
      \b(wanted|nobody|told|tells?|reckons?|heeds?|narration|anew)\b
    | \b(is|was)\ said\b | \bsays?\ (why|so|where|what|which)\b | \bspeaks?\ for\b
    | (?<!here\ )\bis\ no\b(?!\ (longer|more|less|faster|slower|smaller|larger|better|worse|different))
    | \b(stdin|stdout)\ (is|are)\ none\b | \bgoes?\ without\b | \bmakes?\ way\b | \bin\ one\ go\b
    | \bwho\ (works|reads)\b | \bwhat\ lines\ are\b | \b\d+\ advice\b | \ban\ advice\b
    | \b(FLOPs?|MACs?|bytes|times|rows?|lines?|grams|scale|one|two|once)\ an?\ 
      (second|byte|row|tensor|element|pass|step|call|op|layer|kilowatt-hour|channel|token|window)\b
    """,
    re.VERBOSE | re.IGNORECASE,
)


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a page, or the strings of a Python file that contain a space."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        yield from enumerate(text.splitlines(), 1)
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, node.value


def offences(path: Path) -> list[str]:
    return [
        f"{path.relative_to(ROOT) if path.is_relative_to(ROOT) else path}:{line}: {match[0]!r}"
        for line, text in prose(path)
        for match in PHRASES.finditer(text)
    ]


def test_what_people_read_in_the_program_is_plain_english():
    files = sorted(SOURCE.rglob("*.py"))
    assert len(files) > 100
    assert [line for path in files for line in offences(path)] == []


def test_the_documentation_is_plain_english():
    assert ROOT / "README.md" in PAGES
    assert [line for path in PAGES for line in offences(path)] == []


@pytest.mark.parametrize(
    ("text", "bad"),
    [
        ("cpu or cuda is wanted", True),
        ("'x' is no number", True),
        ("there is no sensor", False),
        ("it is no longer used", False),
        ("FLOPs a second", True),
        ("FLOPs per second", False),
        ("3 advice by 48 rules", True),
        ("-v says why", True),
    ],
)
def test_the_phrases_are_those_that_are_meant(text, bad):
    assert bool(PHRASES.search(text)) is bad
