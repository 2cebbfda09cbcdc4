"""The public surface is exactly what is announced, and all of it is there."""

from __future__ import annotations

import pytest

import assay

PUBLIC = {
    "AssayError",
    "Document",
    "__version__",
    "capture",
    "extract_pytorch_ops",
    "extract_unique_modules",
    "load",
    "open",
    "save",
}


def test_the_announced_names_are_these():
    assert sorted(assay.__all__) == sorted(PUBLIC)


def test_a_star_import_gives_exactly_them():
    names: dict[str, object] = {}
    exec("from assay import *", names)  # noqa: S102  the statement itself is what is tested
    assert set(names) - {"__builtins__"} == PUBLIC


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_every_name_is_listed_and_resolves(name):
    assert name in dir(assay)
    assert getattr(assay, name) is not None


def test_another_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        assay.nonsense  # noqa: B018
