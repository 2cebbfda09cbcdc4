"""Files stay small enough to be read in one go."""

from __future__ import annotations

from pathlib import Path

import assay

LONGEST = 600


def test_no_source_file_is_longer_than_it_may_be():
    files = list(Path(assay.__file__).parent.rglob("*.py"))
    assert files
    lengths = {path.name: len(path.read_text(encoding="utf-8").splitlines()) for path in files}
    assert {name: lines for name, lines in lengths.items() if lines > LONGEST} == {}
