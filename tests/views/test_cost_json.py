"""The JSON of cost and summary matches the schemas and the document."""

from __future__ import annotations

import json

import msgspec
import pytest
import torch
from handmade import conv_stack, stopped
from jsonschema import Draft202012Validator
from torch import nn

from assay import observe
from assay.analysis.cost.totals import add_up
from assay.document.document import Document
from assay.views.json.cost import cost_file
from assay.views.json.files import encode, modules_file, ops_file
from assay.views.json.schema import schema
from assay.views.json.summary import summary_file
from assay.views.text.summary import Summary


def trained() -> Document:
    return observe(nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4)), torch.randn(2, 4), backward=True)


def unknown() -> Document:
    document = conv_stack()
    kinds = [msgspec.structs.replace(kind, target="mylib.op.default") for kind in document.kinds]
    return msgspec.structs.replace(document, kinds=kinds)


def cost_of(document: Document) -> dict:
    return json.loads(encode(cost_file(document, document.cost or add_up(document))))


def summary_of(document: Document) -> dict:
    made = Summary(document)
    return json.loads(encode(summary_file(document, made.cost, made.rows)))


@pytest.mark.parametrize("make", [conv_stack, stopped, Document, trained, unknown])
@pytest.mark.parametrize(("name", "written"), [("cost", cost_of), ("summary", summary_of)])
def test_the_json_matches_its_schema(name, written, make):
    Draft202012Validator(json.loads(schema(name))).validate(written(make()))


def test_the_cost_json_is_consistent_with_the_document():
    document = trained()
    file = cost_of(document)
    assert file["provenance"]["kind"] == "counted"
    assert file["provenance"]["convention"] == document.cost.convention
    assert file["totals"]["flops"] == document.cost.forward.flops
    assert file["backward"]["macs"] == document.cost.backward.macs
    assert file["parameters"]["count"] == file["parameters"]["trainable"] == 40
    assert (
        sum(kind["total"]["flops"] for kind in file["kinds"] if kind["phase"] == "forward") == file["totals"]["flops"]
    )
    assert (
        sum(kind["total"]["bytes"] for kind in file["kinds"] if kind["phase"] == "backward")
        == (file["backward"]["bytes"])
    )
    assert sum(module["self"]["macs"] for module in file["modules"]) == file["totals"]["macs"]
    assert file["modules"][0]["total"] == file["totals"]
    assert sum(entry["ops"] for entry in file["categories"].values()) == file["totals"]["ops"]
    assert file["unknown"] == []
    assert file["least"] is None


def test_unknown_costs_are_null():
    file = cost_of(unknown())
    assert file["coverage"] == 0
    assert [file["totals"][key] for key in ("macs", "matrix_flops", "flops", "intensity")] == [None] * 4
    assert file["totals"]["bytes"] > 0
    assert file["backward"] is None
    assert file["kinds"][0]["each_flops"] is None
    assert file["unknown"] == [{"target": "mylib.op.default", "why": "no formula", "count": 6}]


def test_the_summary_json_has_the_tree_and_the_totals():
    file = summary_of(conv_stack())
    assert [layer["module_path"] for layer in file["layers"]] == ["(root)", "0", "1", "2", "3", "4", "5"]
    assert file["layers"][0]["total"] == file["totals"]
    assert file["inputs"][0]["name"] == "x"
    assert file["outputs"] == [{"shape": [1, 64, 224, 224], "dtype": "float32"}]


def test_unique_modules_and_ops_carry_their_cost():
    document = trained()
    modules = json.loads(encode(modules_file(document)))["modules"]
    ops = json.loads(encode(ops_file(document)))["ops"]
    assert {"flops": 72, "macs": 32, "bytes": 144}.items() <= modules[1]["cost"].items()
    assert modules[0]["cost"]["flops"] == document.cost.forward.flops
    linear = ops[0]["cost"]
    assert (linear["macs"], linear["matrix_flops"], linear["pointwise_flops"], linear["needed_flops"]) == (
        32,
        64,
        8,
        64,
    )
    assert linear["category"] == "Linear"
    assert sum(op["count"] * (op["cost"]["matrix_flops"] + op["cost"]["pointwise_flops"]) for op in ops) == (
        document.cost.forward.flops
    )


def test_the_cost_of_a_unique_op_without_formula_is_null():
    document = unknown()
    counted = msgspec.structs.replace(document, cost=add_up(document))
    cost = json.loads(encode(ops_file(counted)))["ops"][0]["cost"]
    assert (cost["macs"], cost["matrix_flops"], cost["category"]) == (None, None, "Custom")
    assert json.loads(encode(ops_file(document)))["ops"][0]["cost"] is None
    assert json.loads(encode(modules_file(counted)))["modules"][1]["cost"]["flops"] is None
