"""A class is known by its name: no two public ones share it."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import assay


def test_no_two_public_classes_share_a_name():
    places = defaultdict(list)
    root = Path(assay.__file__).parent
    for path in sorted(root.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(f"{path.relative_to(root)}:{node.lineno}")
    assert places
    assert {name: where for name, where in places.items() if len(where) > 1} == {}
