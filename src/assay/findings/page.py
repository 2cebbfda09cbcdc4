"""The page of a rule: what it looks for, why, an example and its fix. Pages are Markdown files in `pages/`.

A page starts with settings between two lines of `---`, one per line: fields of `RulePage`. Lists are separated by
commas.
"""

from __future__ import annotations

import re
from importlib.resources import files

import msgspec
from msgspec import Struct

EXAMPLE, FIX, VERIFIED = "Example", "Fix", "How it is verified"
SECTIONS = (
    "What it looks for", "Why it matters", EXAMPLE, FIX, "When to ignore", VERIFIED, "False positives", "References",
)  # fmt: skip
"""The headings of every page, in order."""
CODE_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class RulePage(Struct, frozen=True, forbid_unknown_fields=True):
    """The explanation of one rule."""

    code: str
    """The rule's code: `C401`."""
    sections: dict[str, str]
    """Markdown by heading, in the order of the page."""
    changes: tuple[str, ...] = ()
    """Names of the automatic changes that try the advice."""
    options: tuple[str, ...] = ()
    """Options of `assay check` without which the rule is skipped: `backward`."""
    subject: str = "MODEL"
    """What to give to `assay check`."""
    unchecked: str = ""
    """Why the example cannot trigger the rule on every machine; empty if it does."""
    fix_unchecked: str = ""
    """Why the fix cannot be checked on every machine; empty if it can."""

    def code_in(self, heading: str) -> str:
        """The Python code in a section; empty if it has none."""
        return "\n".join(CODE_BLOCK.findall(self.sections.get(heading, "")))


def page_codes() -> tuple[str, ...]:
    """The codes that have a page, sorted."""
    names = (entry.name for entry in files("assay.findings").joinpath("pages").iterdir())
    return tuple(sorted(name.removesuffix(".md") for name in names if name.endswith(".md")))


def rule_page(code: str) -> RulePage:
    """The page of a rule; one without sections if none was written."""
    path = files("assay.findings").joinpath(f"pages/{code}.md")
    return parsed_page(code, path.read_text(encoding="utf-8")) if path.is_file() else RulePage(code, {})


def parsed_page(code: str, text: str) -> RulePage:
    """The page that a Markdown text contains."""
    _, head, body = re.split(r"^---\n", text, maxsplit=2, flags=re.MULTILINE)
    settings = dict(line.split(": ", 1) for line in head.splitlines())
    _, *parts = re.split(r"^## (.+)\n", body, flags=re.MULTILINE)
    sections = {name: content.strip() for name, content in zip(parts[::2], parts[1::2], strict=True)}
    lists = {key: _names(settings.pop(key, "")) for key in ("changes", "options")}
    return msgspec.convert({"code": code, "sections": sections, **lists, **settings}, RulePage)


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())
