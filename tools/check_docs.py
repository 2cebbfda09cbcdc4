"""Check the JSON Schemas and the links of the docs; `--write` regenerates the schemas."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from assay.views.json.schema import NAMES, schema

ROOT = Path(__file__).resolve().parent.parent
CODE = re.compile(r"```.*?```|`[^`]*`", re.DOTALL)
LINK = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")


def schema_problems(write: bool) -> list[str]:
    """One line per schema in docs/schema that differs from the code; with `write`, regenerate them all instead."""
    problems = []
    for name in NAMES:
        path = ROOT / "docs" / "schema" / f"{name}.schema.json"
        expected = schema(name)
        if write:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(expected)
        elif not path.exists() or path.read_bytes() != expected:
            problems.append(f"{path.relative_to(ROOT)} is out of date: run make schema")
    return problems


def link_problems() -> list[str]:
    """One line per link in the docs whose target does not exist."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    return [
        f"{page.relative_to(ROOT)} links to {target}, which does not exist"
        for page in pages
        for target in LINK.findall(CODE.sub("", page.read_text()))
        if "://" not in target and not (page.parent / target).exists()
    ]


def main() -> int:
    """Print every problem; return 1 if there is any."""
    problems = schema_problems("--write" in sys.argv) + link_problems()
    sys.stdout.writelines(f"{problem}\n" for problem in problems)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
