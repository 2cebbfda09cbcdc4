"""The tests' hard cases as entries of the zoo."""

from __future__ import annotations

import sys
from pathlib import Path

from zoo_models.registry import Entry


def entries() -> list[Entry]:
    """Every hard case; `fails` marks those that raise."""
    sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
    from models import hard

    ends = [Entry(f"hard/{name}", "hard", make) for name, make in hard.CASES.items()]
    raises = [Entry(f"hard/{name}", "hard", make, fails=True) for name, make in hard.FAILING.items()]
    return ends + raises
