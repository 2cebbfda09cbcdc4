"""The report of `assay params`: folding, statistics of folded rows, outliers, and escaping of control characters."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from jsonschema import Draft202012Validator
from msgspec.structs import replace

from assay.api.weights import analyze_weights
from assay.checkpoint.statistics.summary import summarize
from assay.cli.params import SORTS
from assay.document.document import Document
from assay.document.rows import Module
from assay.document.weights import QUANTILES, Histogram, Norms, Rounding, Spectral, TensorStatistics
from assay.views import tables
from assay.views.choosing import Choice, choose
from assay.views.json.files import encode
from assay.views.json.params import params_file
from assay.views.json.schema import schema
from assay.views.layout import Style
from assay.views.text import report as reports
from assay.views.text.params import ParamsOptions, params_report
from assay.views.text.params_data import params_table
from assay.views.text.params_lines import STATISTICS, TensorRow, lines_of, sorted_lines


def row(name, values, *, shape=None, **figures):
    """A row with the moments of `values`."""
    data = np.asarray(values, dtype=np.float64)
    return TensorStatistics(
        (name,) if isinstance(name, str) else name,
        figures.pop("dtype", "float32"),
        shape or data.shape,
        data.size * 4,
        data.size,
        nan=figures.pop("nan", 0),
        zeros=int((data == 0).sum()),
        min=float(data.min()),
        max=float(data.max()),
        mean=float(data.mean()),
        std=float(data.std()),
        l2=float(np.linalg.norm(data)),
        **figures,
    )


def document(*rows, kernel="avx512", modules=(), **facts):
    found = summarize(list(rows), path="m.safetensors", format="safetensors", kernel=kernel, **facts)
    return Document(modules=list(modules), weights=found)


def text(shown_document, **options):
    return reports.as_text(params_report(shown_document, ParamsOptions(**options)))


def names(shown_document, **options):
    return [line.name for line in lines_of(shown_document.weights, full=options.get("full", False))]


def test_only_repeated_blocks_are_folded_into_one_row():
    rows = [row(f"layers.{i}.mlp.weight", [i, 1.0]) for i in range(32)]
    rows += [row(f"layers.{i}.gate.weight", [1.0]) for i in (0, 2, 5)]
    rows += [row(f"experts.{i}.{j}.w", [1.0]) for i in range(2) for j in range(3)]
    rows += [row(f"odd.{i}.w", [1.0]) for i in range(0, 20, 2)]
    rows += [row("layers.7.mlp.bias", [0.0]), row("conv1.weight", [1.0]), row("conv2.weight", [1.0])]
    assert names(document(*rows)) == [
        "layers.0–31.mlp.weight ×32",
        "layers.0,2,5.gate.weight ×3",
        "experts.0–1.0–2.w ×6",
        "odd.0,2,…,18.w ×10",
        "layers.7.mlp.bias",
        "conv1.weight",
        "conv2.weight",
    ]
    assert len(names(document(*rows), full=True)) == len(rows)


def test_tensors_of_another_shape_or_dtype_are_not_folded():
    rows = [row("a.0.w", [1.0]), row("a.1.w", [1.0, 2.0]), row("a.2.w", [3.0]), row("a.3.w", [3.0], dtype="float16")]
    assert names(document(*rows)) == ["a.0,2.w ×2", "a.1.w", "a.3.w"]


def test_a_name_that_contains_the_number_placeholder_is_handled():
    rows = [row("a.#.w", [1.0]), row("a.1.w", [1.0])]
    assert names(document(*rows)) == ["a.#.w", "a.1.w"]


def notes(*rows, **options):
    """The notes by the names of the rows."""
    report = params_report(document(*rows), ParamsOptions(**options))
    return {row["name"]: row["note"] for row in report.data.values()}


def layers(count=12, **figures):
    """The same tensor of many layers; `figures` has statistics of single layers by number."""
    by_layer = {int(name[1:]): changes for name, changes in figures.items()}
    return [row(f"l.{i}.w", [1.0, 3.0, 2.0, 4.0], **by_layer.get(i, {})) for i in range(count)]


DEAD = Norms(2, 0.0, 1.0, 0.5, 0.5, 2)


@pytest.mark.parametrize(
    ("figures", "note"),
    [
        ({}, ""),
        ({"l7": {"nan": 1}}, "l.7 differs: 1 NaN"),
        ({"l7": {"inf": 2}}, "l.7 differs: 2 infinite"),
        ({"l7": {"rows": DEAD}}, "l.7 differs: 2 dead rows"),
        ({"l7": {"problem": "unreadable"}}, "l.7 differs: unreadable"),
        ({"l3": {"nan": 3}, "l7": {"rows": DEAD}}, "l.3 differs: 3 NaN; l.7 differs: 2 dead rows"),
        ({f"l{at}": {"nan": at} for at in range(1, 4)}, "l.1 differs: 1 NaN; l.2 differs: 2 NaN; and 1 more with "
         "NaN or infinite values"),
        ({"l1": {"rows": DEAD}, "l2": {"rows": DEAD}, "l3": {"rows": DEAD}, "l9": {"nan": 1, "inf": 2}},
         "l.9 differs: 1 NaN, 2 infinite; l.1 differs: 2 dead rows; and 2 more"),
        ({f"l{at}": {"rows": DEAD} if at < 4 else {"nan": 1} for at in range(1, 8)},
         "l.4 differs: 1 NaN; l.5 differs: 1 NaN; and 2 more with NaN or infinite values and 3 more"),
        ({f"l{at}": {"nan": 1} for at in range(12)}, "12 NaN"),
        ({f"l{at}": {"note": "tied", **({"nan": 3} if at == 2 else {})} for at in range(12)},
         "tied; l.2 differs: 3 NaN"),
    ],
)  # fmt: skip
def test_a_folded_row_names_the_tensors_that_differ_and_why(figures, note):
    assert notes(*layers(**figures)) == {"l.0–11.w ×12": note}


def test_a_tensor_far_from_its_family_is_named_with_its_statistic():
    rows = layers()
    rows[7] = row("l.7.w", np.asarray([1.0, 3.0, 2.0, 4.0]) * 4.1)
    (note,) = notes(*rows).values()
    assert note == "l.7 differs: std 4.1× the median"
    assert notes(*rows, full=True)["l.7.w"] == ""


def test_numbers_of_words_fold_only_where_they_count_equal_parts():
    rows = [row(f"blocks_{at}.w", [1.0]) for at in range(4)]
    rows += [row(f"layer{at}.conv{role}.w", [1.0]) for at in range(2) for role in (1, 2)]
    rows += [row(f"stage{at}.0.w", [1.0] * (at + 1)) for at in range(3)]
    assert names(document(*rows)) == [
        "blocks_0–3.w ×4",
        "layer0–1.conv1.w ×2",
        "layer0–1.conv2.w ×2",
        "stage0.0.w",
        "stage1.0.w",
        "stage2.0.w",
    ]


def test_columns_with_nan_and_infinite_values_are_shown_if_there_are_any():
    shown = params_report(document(*layers(l7={"nan": 1})), ParamsOptions()).data
    assert "NaN" in [column.title for column in shown.columns]
    assert "infinite" not in [column.title for column in shown.columns]
    assert "NaN" not in [column.title for column in params_report(document(*layers()), ParamsOptions()).data.columns]
    (nan,) = (column for column in shown.columns if column.title == "NaN")
    assert (nan.text(shown.rows[0]), nan.paint(shown.rows[0]), nan.paint({})) == ("1", "31", "")
    assert "l.7 differs: 1 NaN" in text(document(*layers(l7={"nan": 1})))


def test_every_value_of_a_tensor_is_a_column_and_groups_have_a_name():
    values = np.random.default_rng(1).standard_normal((9, 16)).astype(np.float32)
    report = analyze_weights({"w": values}, spectral=True)
    shown = params_report(Document(weights=report), ParamsOptions()).data
    (table,) = choose([shown], Choice(("quantiles",)))
    found = [column.value(table.rows[0]) for column in table.columns[1:]]
    assert found == pytest.approx(np.quantile(values.astype(float), QUANTILES))
    assert [column.title for column in table.columns[1:4]] == ["p0", "p0.1", "p1"]
    wanted = ("kurtosis", "skewness", "l1", "q50", "near_zeros", "alignment", "distinct", "rows norms", "rows_dead")
    (table,) = choose([shown], Choice(wanted))
    figures = {column.key: column.value(table.rows[0]) for column in table.columns}
    assert figures["l1"] == pytest.approx(np.abs(values.astype(float)).sum())
    assert figures["rows max"] == pytest.approx(np.linalg.norm(values, axis=1).max())
    assert (figures["rows count"], figures["distinct"]) == (9, 144)
    flat = params_table(Document(weights=report)).values()[0]
    reachable = [column.value(shown.rows[0]) for column in (*shown.columns, *shown.extra)]
    texts = {value for value in flat.values() if isinstance(value, str)}
    numbers = [value for value in flat.values() if isinstance(value, float) and not isinstance(value, bool)]
    pairs = [one for value in reachable if isinstance(value, tuple) for one in value]
    known = [value for value in (*reachable, *pairs) if isinstance(value, (int, float))]
    assert not [value for value in numbers if not any(value == pytest.approx(each) for each in known)]
    assert texts - {"w", "exact"} <= {value for value in reachable if isinstance(value, str)}


def test_folded_rows_of_huge_and_tiny_values_have_finite_statistics():
    rows = [
        replace(row(f"l.{at}.w", [1.0, 2.0]), max=2 * scale, mean=1.5 * scale, std=0.5 * scale, l2=5**0.5 * scale)
        for at, scale in enumerate((1e200, 1e300, 1e-300))
    ]
    for name, expected in {"l2": 5**0.5 * 1e300, "mean": 0.5e300, "max": 2e300}.items():
        assert STATISTICS[name](rows) == pytest.approx(expected)
    assert STATISTICS["std"](rows) == pytest.approx(np.std([1.0, 2.0, 0, 0, 0, 0]) * 1e300)


def test_huge_and_tiny_values_are_written_with_an_exponent():
    drawn = document(row("w", [1e-40, 3e38], histogram=Histogram(1e-40, 3e38, (1, 0, 0, 1))))
    out = text(drawn, histogram=True)
    assert "3e+38" in out
    assert "1e-40" in out
    assert not re.search(r"\d{7}|,\d{3},", out)


def test_a_slight_outlier_is_only_listed():
    rows = layers()
    rows[7] = row("l.7.w", np.asarray([1.0, 3.0, 2.0, 4.0]) * 1.3)
    assert notes(*rows) == {"l.0–11.w ×12": ""}
    assert "Outliers within their family" in text(document(*rows))


def test_the_trend_draws_the_standard_deviations_in_numerical_order():
    rows = [row(f"l.{i}.w", [0.0, float(i)]) for i in (2, 0, 1, 3, 10)] + [row("a", [1.0]), row("b.0", [1.0, 2.0])]
    report = params_report(document(*rows, row("b.1", [1.0, 2.0])), ParamsOptions())
    trends = {line["name"]: line["trend"] for line in report.data.values()}
    assert trends == {"l.0–3,10.w ×5": " ▁▂▃█", "a": "", "b.0–1 ×2": ""}


def test_the_statistics_of_a_folded_row_cover_all_its_values():
    rng = np.random.default_rng(0)
    parts = [rng.normal(i, 1 + i, 50) for i in range(4)]
    parts[1][:9] = 0
    line = TensorRow("all", [row(f"l.{i}.w", part) for i, part in enumerate(parts)])
    whole = np.concatenate(parts)
    expected = {
        "count": 200, "bytes": 800, "min": whole.min(), "max": whole.max(), "mean": whole.mean(),
        "std": whole.std(), "l2": np.linalg.norm(whole), "zeros": 9 / 200,
    }  # fmt: skip
    for name, value in expected.items():
        assert STATISTICS[name](line.tensors) == pytest.approx(value, rel=1e-12), name


def test_a_folded_row_shows_the_worst_rounding():
    def rounded(db, exact=False):
        return (Rounding("int8", "tensor", 20.0), Rounding("int8", "channel", db, exact))

    one = [row("a", [1.0], roundings=rounded(40.0)), row("b", [1.0], roundings=rounded(None, True))]
    assert STATISTICS["int8"](one) == 40.0
    assert "exact" in text(document(one[1]))
    assert (
        STATISTICS["bits"]([row("a", [1.0], bits_needed=4, bits_for_db=30.0), row("b", [1.0], bits_for_db=30.0)]) > 8
    )
    assert "> 8" in text(document(row("b", [1.0], bits_for_db=30.0)))


def test_the_command_can_sort_by_every_statistic():
    assert set(SORTS) == set(STATISTICS)
    rows = [row("b", [1.0]), row("a", [3.0, 1.0], shape=(2,)), TensorStatistics(("c",), "float4", (1,), 1, 1)]
    lines = lines_of(document(*rows).weights, full=True)
    assert [line.name for line in sorted_lines(lines, "max")] == ["a", "b", "c"]
    assert [line.name for line in sorted_lines(lines, "name")] == ["a", "b", "c"]
    for key in SORTS:
        assert len(sorted_lines(lines, key)) == 3


def test_rows_below_the_top_are_summed():
    out = text(document(*[row(name, [1.0] * size) for name, size in (("a", 5), ("b", 7), ("c", 11))]), top=1)
    rest = next(line for line in out.splitlines() if line.startswith("(2 more rows)"))
    assert rest.split()[3:] == ["18", "72", "B"]
    assert "b " not in out.splitlines()[3]


def test_ties_duplicates_outliers_and_problems_are_listed():
    rows = [row(f"l.{i}.w", np.arange(4) * (9 if i == 3 else 1), content="same") for i in range(8)]
    norms = Norms(2, 0.0, 1.0, 0.5, 0.5, 1)
    rows.append(row(("head", "embed"), [1.0], rows=norms, note="a remark"))
    rows.append(row("broken", [1.0], nan=3, rows=norms))
    broken = TensorStatistics(("bad",), "float4", (1,), 1, 1, problem="unknown dtype")
    out = text(document(*rows, broken, files_lost=("shard x is missing",), notes=("told",)))
    for wanted in (
        "head = embed", "l.0–7.w ×8: 16 B each", "Outliers within their family", "3 NaN",
        "1 dead row", "a remark", "unknown dtype", "shard x is missing", "told", "Totals by dtype",
    ):  # fmt: skip
        assert wanted in out, wanted
    outlier = next(line for line in out.splitlines() if line.startswith("l.3.w") and "std" in line)
    assert outlier.split()[1] == "std"


def test_a_listing_has_no_statistics():
    out = text(document(TensorStatistics(("w",), "bfloat16", (4, 4), 32, 16), kernel=""))
    assert "entropy" not in out
    assert "4x4" in out


def test_histograms_use_ascii_without_utf8():
    drawn = document(row("w", [0.0, 1.0], histogram=Histogram(-2.0, 2.0, (1, 5, 1))))
    out = text(drawn, histogram=True)
    assert "█" in out
    assert "Histogram: w, at least 90 % of the values from -2 to 2" in out
    report = params_report(drawn, ParamsOptions(histogram=True))
    plain = reports.as_text(report, Style(80, utf8=False))
    assert plain.isascii()
    assert "#" in plain


def test_spectral_norms_are_shown_with_their_error():
    found = Spectral(norm=3.5, norm_error=0.25, stable_rank=2.0, effective_rank_least=2.5, effective_rank_most=4.0)
    out = text(document(row("w", [[1.0, 2.0]], spectral=found)))
    assert "spectral norm" in out
    assert all(figure in out for figure in ("3.5", "0.25", "2.5–4"))
    assert "spectral" not in text(document(row("w", [1.0])))


def test_an_effective_rank_whose_bounds_are_equal_is_one_number_and_a_row_of_several_has_the_largest():
    def ranks(*bounds):
        found = [Spectral(1.0, 0.0, 1.0, *each) for each in bounds]
        rows = [row(f"l.{at}.w", [[1.0, 2.0]], spectral=one) for at, one in enumerate(found)]
        (table,) = choose([params_report(document(*rows), ParamsOptions()).data], Choice(("effective",)))
        return table.columns[1].text(table.rows[0])

    assert ranks((2.5, 2.5001)) == "2.5"
    assert ranks((2.0, 5.0), (3.0, 4.0)) == "3–5"


@pytest.mark.parametrize("width", [40, 80, 200])
def test_hostile_names_are_shown_as_text_within_the_width(width):
    hostile = "evil\x1b]0;title\x07\x1b[31m\u202e\n.weight"
    rows = [row(hostile, [1.0]), row(("x", hostile), [2.0]), row("y", [0.0], note=hostile)]
    broken = TensorStatistics((hostile + "b",), "t", (1,), 1, 1, problem=hostile)
    modules = [Module("", hostile, hostile, None)]
    made = params_report(document(*rows, broken, modules=modules, files_lost=(hostile,)), ParamsOptions(full=True))
    for out in (reports.as_text(made, Style(width)), reports.as_markdown(made), tables.as_csv(made.data)):
        assert not set(out) & {"\x1b", "\x07", "\u202e"}
    lines = reports.as_text(made, Style(width)).splitlines()
    table = [line for line in lines if line.startswith("─")]
    assert all(len(line) <= max(width, 60) for line in table)


def test_data_formats_have_all_statistics_of_all_tensors():
    values = row("l.0.w", [1.0, 2.0], quantiles=tuple(range(11)), n_of_m={"2:4": 0.75})
    other = row("l.1.w", [3.0], roundings=(Rounding("int8", "tensor", exact=True),))
    table = params_table(document(values, other))
    first, second = table.values()
    assert (first["tensor"], first["family"], first["mean"], first["kept 2:4"]) == ("l.0.w", "l.#.w", 1.5, 0.75)
    assert (first["quantile 0.1"], first["quantile 50"], first["quantile 100"]) == (1, 5, 10)
    assert first["int8 tensor db"] is None
    assert second["int8 tensor db"] == "exact"
    assert second["problem"] is None


def test_the_json_is_complete_and_matches_its_schema():
    made = document(row("l.0.w", [1.0, 2.0], histogram=Histogram(1.0, 2.0, (1, 1))), row("b", [0.0]), notes=("n",))
    data = json.loads(encode(params_file(made)))
    Draft202012Validator(json.loads(schema("params"))).validate(data)
    assert data["totals"] == {"tensors": 2, "count": 3, "bytes": 12}
    assert data["weights"]["tensors"][0]["mean"] == 1.5
    assert "skewness" not in data["weights"]["tensors"][0]


def test_values_of_any_size_are_short():
    made = row("w", [[-3.52336e30, 4.3573e30]])
    out = text(document(made))
    assert "-3.52e+30  4.36e+30" in out


def test_roles_and_names_of_sort_keys_are_columns_even_if_nothing_is_known_of_them():
    (table, *_) = choose(
        [params_report(document(row("w", [1.0])), ParamsOptions()).data], Choice(("name", "role", "nan"))
    )
    assert table.values() == [{"name": "w", "role": None, "nan": 0}]
    assert "role" not in text(document(row("w", [1.0])))
