"""Totals, families, outliers and duplicates of an artificial model."""

from __future__ import annotations

import msgspec
import pytest

from assay.checkpoint.statistics.summary import summarize
from assay.document.weights import TensorStatistics, WeightsReport, WeightTotals


def tensor(name, **fields):
    fields = {"dtype": "bfloat16", "shape": (4, 4), "bytes": 32, "count": 16} | fields
    return TensorStatistics(names=(name,), **fields)


def families(*names, **fields):
    return {
        family.name: len(family.tensors) for family in summarize([tensor(name, **fields) for name in names]).families
    }


def test_numbers_that_stand_alone_are_folded():
    assert families("layers.3.mlp.up_proj.weight", "h.12.attn.3.w", "fc1.weight", "conv_2.7", "") == dict.fromkeys(
        ["layers.#.mlp.up_proj.weight", "h.#.attn.#.w", "fc1.weight", "conv_2.#", ""], 1
    )


def test_numbers_of_words_are_folded_where_they_count_equal_parts():
    blocks = [f"blocks_{at}.w" for at in range(6)]
    layers = [f"layer{at}.conv{role}.weight" for at in range(5) for role in (1, 2)]
    assert families(*blocks, *layers) == {"blocks_#.w": 6, "layer#.conv1.weight": 5, "layer#.conv2.weight": 5}


def test_an_outlier_among_blocks_with_numbers_in_their_words_is_found():
    blocks = [tensor(f"blocks_{at}.w", std=9.0 if at == 4 else 0.02) for at in range(8)]
    assert [(outlier.tensor, outlier.family) for outlier in summarize(blocks).outliers] == [(4, "blocks_#.w")]


@pytest.fixture
def report():
    layers = [tensor(f"layers.{place}.w", std=0.02 + 1e-4 * (place % 3), content=str(place)) for place in range(8)]
    layers[5] = tensor("layers.5.w", std=0.9, content="2")
    other = tensor("head", dtype="float32", bytes=64, content="2")
    return summarize([*layers, other, tensor("lost", problem="missing shard")], files_lost=["shard 3 is missing"])


def test_totals_and_families(report):
    assert report.by_dtype == {"bfloat16": WeightTotals(9, 144, 288), "float32": WeightTotals(1, 16, 64)}
    assert [(family.name, len(family.tensors)) for family in report.families] == [
        ("layers.#.w", 8),
        ("head", 1),
        ("lost", 1),
    ]


def test_an_outlier_in_a_family_is_found(report):
    assert [(outlier.tensor, outlier.figure, outlier.value) for outlier in report.outliers] == [(5, "std", 0.9)]


def test_duplicates_have_the_same_bytes_dtype_and_shape(report):
    assert report.duplicates == [(2, 5)]


def test_tensors_with_problems_are_listed_as_failures(report):
    assert report.failures == ("shard 3 is missing", "lost: missing shard")


def test_a_report_can_be_saved_as_json_and_loaded(report):
    assert msgspec.json.decode(msgspec.json.encode(report), type=WeightsReport) == report
