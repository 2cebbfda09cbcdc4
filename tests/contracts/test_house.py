"""The house as its plan describes it."""

from __future__ import annotations

import re
from pathlib import Path

import assay

ROOT = Path(__file__).parents[2]
HOUSE = Path(assay.__file__).parent


def entries() -> set[str]:
    """What `ls src/assay` shows."""
    return {
        f"{path.name}/" if path.is_dir() else path.name
        for path in HOUSE.iterdir()
        if path.name not in ("__pycache__", "py.typed") and path.suffix != ".so"
    }


def test_every_entry_is_explained_in_one_line():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    explained = re.findall(r"^\| `([\w/.]+)` \| .+ \|$", page, flags=re.MULTILINE)
    assert sorted(explained) == sorted(entries())


def stem(name: str) -> str:
    """A word without the endings that made twins: weights and weighing, traces and tracing."""
    return re.sub(r"(ing|es|s|e|er|ed)$", "", name.removesuffix("/").removesuffix(".py"))


def test_no_two_entries_are_forms_of_one_word():
    stems = [stem(name) for name in entries()]
    assert len(set(stems)) == len(stems)


def test_documentation_imports_from_assay_alone():
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    inner = [
        f"{page.name}: {line}"
        for page in pages
        for line in page.read_text(encoding="utf-8").splitlines()
        if re.match(r"\s*(from assay\.|import assay\.)", line)
    ]
    assert not inner
