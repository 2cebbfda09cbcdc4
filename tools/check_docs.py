"""Docs that are generated or point somewhere: compare them with the truth; `--write` writes the schemas anew."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from assay.views.json.schema import NAMES, schema

ROOT = Path(__file__).resolve().parent.parent
CODE = re.compile(r"```.*?```|`[^`]*`", re.DOTALL)
LINK = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")


def schema_problems(write: bool) -> list[str]:
    """Schemas in docs/ that differ from what the code says."""
    problems = []
    for name in NAMES:
        path = ROOT / "docs" / "schema" / f"{name}.schema.json"
        wanted = schema(name)
        if write:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(wanted)
        elif not path.exists() or path.read_bytes() != wanted:
            problems.append(f"{path.relative_to(ROOT)} has drifted: run make schema")
    return problems


def link_problems() -> list[str]:
    """Links between documents that lead nowhere."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    return [
        f"{page.relative_to(ROOT)} points at {target}, which is not there"
        for page in pages
        for target in LINK.findall(CODE.sub("", page.read_text()))
        if "://" not in target and not (page.parent / target).exists()
    ]


def main() -> int:
    """Print every problem; 1 where there is one."""
    problems = schema_problems("--write" in sys.argv) + link_problems()
    sys.stdout.writelines(f"{problem}\n" for problem in problems)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
