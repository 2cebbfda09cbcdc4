"""Errors about optional packages name what to install or repair."""

from __future__ import annotations

import pytest

from assay.errors import ReadError
from assay.sources.needs import usable


def run_in(place: str, code: str) -> None:
    """Run code as if it were in a file of this place."""
    exec(compile(code, place, "exec"), {})  # noqa: S102


@pytest.mark.parametrize(
    "owner", ["/env/lib/python3.11/site-packages/assay/sources/config.py", "/home/me/assay/x.py"]
)
def test_a_package_that_is_not_installed_is_named_wherever_assay_is(owner):
    expected = pytest.raises(ReadError, match=r"transformers is required .*pip install torch-assay\[hf\]")
    with expected, usable("transformers"):
        run_in(owner, "import transformers_that_is_not_installed")


def test_another_package_that_is_broken_is_named():
    place = "/env/lib/python3.11/site-packages/tokens/__init__.py"
    expected = pytest.raises(ReadError, match="transformers cannot be used because tokens is broken")
    with expected, usable("transformers"):
        run_in(place, "raise ImportError('no symbol')")
