"""The schemas that are shipped are the schemas of what is written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from assay.views.json.schema import NAMES, schema

SHIPPED = Path(__file__).parents[2] / "docs" / "schema"


@pytest.mark.parametrize("name", NAMES)
def test_the_shipped_schema_is_current(name):
    shipped = (SHIPPED / f"{name}.schema.json").read_bytes()
    assert shipped == schema(name), f"write it again: assay schema {name} > docs/schema/{name}.schema.json"


def test_no_other_schema_is_shipped():
    assert sorted(path.name for path in SHIPPED.iterdir()) == sorted(f"{name}.schema.json" for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_schema_is_valid_itself(name):
    Draft202012Validator.check_schema(json.loads(schema(name)))
