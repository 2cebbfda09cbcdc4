"""The data of a page, compared with the document: tables are whole, sums agree, and nothing unknown becomes zero."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import handmade
import msgspec
import pytest
from msgspec.structs import replace

import assay
from assay.api.report.subject import subject_of
from assay.document.document import Document
from assay.document.findings import Finding, Gain
from assay.document.profile import Profile
from assay.document.provenance import Counted, Figure, Measured
from assay.document.rows import Call, Module
from assay.document.trials import TrialResult
from assay.views.html.build import build_page
from assay.views.html.findings import finding_item
from assay.views.html.modules import module_table
from assay.views.html.page import PageColumn, PageData, PageTable
from assay.views.html.time import pass_spans

GOLDEN = Path(__file__).parents[2] / "golden" / "screens" / "tagger.assay.json.gz"


@pytest.fixture(scope="module")
def tagger() -> Document:
    """A recorded, timed and checked model with repeated blocks."""
    return assay.load(GOLDEN)


def page_of(document: Document) -> PageData:
    return build_page(subject_of(document))


def tables(data: PageData) -> Iterator[PageTable]:
    yield from (section for section in data.sections.values() if isinstance(section, PageTable))
    for view in data.page.views:
        for block in view.blocks:
            table = getattr(block, "table", None)
            if isinstance(table, PageTable):
                yield table


def column(table: PageTable, key: str) -> PageColumn:
    return next(one for one in table.columns if one.key == key)


def texts_of(one: PageColumn) -> list[str | None]:
    """The text of each row, put together as the page does it."""
    words: list[str] = []
    for at, end in enumerate(one.words or ()):
        start = words[-1][: one.shared[at]] if one.shared and words else ""
        words.append(start + end)
    return list(words) if one.codes is None else [None if code < 0 else words[code] for code in one.codes]


def test_every_column_has_a_value_for_every_row(tagger: Document) -> None:
    for table in tables(page_of(tagger)):
        for one in table.columns:
            texts = texts_of(one) if one.words is not None else []
            assert len(one.numbers if one.numbers is not None else texts) == table.rows, one.key
        assert table.depth is None or len(table.depth) == len(table.run or ()) == table.rows


def test_every_reference_to_a_section_has_one_and_none_is_unused(tagger: Document) -> None:
    data = page_of(tagger)
    text = msgspec.json.encode(data.page).decode()
    used = {name for name in data.sections if f'"{name}"' in text}
    assert used == set(data.sections)
    for view in data.page.views:
        for block in view.blocks:
            reference = getattr(getattr(block, "table", None), "section", None)
            assert reference is None or reference in data.sections


def test_the_root_row_has_the_totals_of_the_document(tagger: Document) -> None:
    table = module_table(subject_of(tagger))
    assert table is not None
    assert tagger.cost is not None
    assert tagger.timing is not None
    parameters = sum(_elements(one.type.shape) for one in tagger.tensors if one.role == "parameter")
    bytes_ = sum(one.bytes for one in tagger.tensors)
    assert column(table, "params").numbers[0] == parameters
    assert column(table, "weight_bytes").numbers[0] == bytes_
    assert column(table, "flops").numbers[0] == tagger.cost.forward.flops
    assert column(table, "time_s").numbers[0] == pytest.approx(tagger.timing.modules[0].total_s, rel=1e-3)


def _elements(shape: tuple[int, ...]) -> int:
    product = 1
    for size in shape:
        product *= size
    return product


def test_a_run_is_the_sum_of_its_modules(tagger: Document) -> None:
    table = module_table(subject_of(tagger))
    assert table is not None
    runs = [at for at, run in enumerate(table.run or ()) if run > 1]
    assert runs, "the model has repeated blocks"
    for at in runs:
        inner = [below for below in range(at + 1, table.rows) if table.depth[below] > table.depth[at]]
        end = next((b for b in range(at + 1, table.rows) if table.depth[b] <= table.depth[at]), table.rows)
        members = [below for below in inner if below < end and table.depth[below] == table.depth[at] + 1]
        assert len(members) == table.run[at]
        for key in ("params", "flops", "time_s"):
            values = column(table, key).numbers
            assert values[at] == pytest.approx(sum(values[member] for member in members), rel=2e-3)


def test_every_module_has_exactly_one_row(tagger: Document) -> None:
    table = module_table(subject_of(tagger))
    assert table is not None
    notes = [text or "" for text in texts_of(column(table, "differs"))]
    aliases = [note.startswith("same as") for note in notes]
    rows = zip(texts_of(column(table, "path")), aliases, table.run or (), strict=True)
    shown = [path for path, alias, run in rows if run == 1 and not alias]
    assert any(aliases)
    assert sorted(shown) == sorted(module.path or "(root)" for module in tagger.modules)


def test_numbers_of_the_large_tables_state_how_they_were_obtained(tagger: Document) -> None:
    data = page_of(tagger)
    for name in ("modules", "kinds", "tensors"):
        for one in data.sections[name].columns:
            if one.numbers is not None and one.key not in ("count", "number"):
                assert one.method in ("measured", "counted", "modelled"), f"{name}.{one.key}"


def test_spans_nest_and_add_up(tagger: Document) -> None:
    spans = pass_spans(tagger)
    assert tagger.profile is not None
    whole = sum(seconds for seconds in tagger.profile.ops if seconds is not None)
    ops = [time for time, is_op in zip(spans.duration_s, spans.op, strict=True) if is_op]
    assert sum(ops) == pytest.approx(whole, rel=1e-3)
    open_spans: list[tuple[int, float]] = []
    for start, time, depth in zip(spans.start_s, spans.duration_s, spans.depth, strict=True):
        while open_spans and open_spans[-1][0] >= depth:
            open_spans.pop()
        assert len(open_spans) == depth
        assert not open_spans or start + time <= open_spans[-1][1] * (1 + 1e-3)
        open_spans.append((depth, start + time))


def test_what_is_unknown_stays_unknown() -> None:
    document = handmade.conv_stack()
    table = module_table(subject_of(document))
    assert table is not None
    keys = {one.key for one in table.columns}
    assert not keys & {"time_s", "energy_j", "device_s"}
    timed = handmade.timed_tree({":Root": 1.0, "a:Linear": 2.0})
    known = replace(timed.timing, modules=[timed.timing.modules[0], None])
    table = module_table(subject_of(replace(timed, timing=known)))
    assert table is not None
    assert column(table, "time_s").numbers[1] is None


@pytest.mark.parametrize("make", [handmade.conv_stack, handmade.stopped, Document])
def test_a_view_without_data_names_what_to_run(make: type[Document]) -> None:
    data = page_of(make())
    for view in data.page.views:
        assert view.blocks or view.empty, view.id
    assert msgspec.json.encode(data.page)


def test_a_stopped_pass_marks_the_page() -> None:
    data = page_of(handmade.stopped())
    assert "stopped in 3" in data.page.partial
    assert data.page.brief is not None
    assert data.page.brief.partial


def test_names_from_a_model_never_reach_the_html_as_markup() -> None:
    hostile = '</script><img src=x onerror="alert(1)">'
    document = handmade.conv_stack()
    modules = [replace(one, path=hostile if one.path else "", class_name=hostile) for one in document.modules]
    tensors = [replace(one, names=(hostile,)) for one in document.tensors]
    from assay.api.report.formats import HTML, encoded

    text = encoded(subject_of(replace(document, modules=modules, tensors=tensors)), HTML).decode()
    assert "<img" not in text
    assert "<title>&lt;/script&gt;" in text


def test_without_a_machine_report_the_roofline_says_what_is_missing() -> None:
    document = handmade.timed_tree({":Root": 1.0, "a:Linear": 2.0})
    profile = Profile(whole=Figure(0.003, Measured("clock")), ops=[])
    view = next(one for one in page_of(replace(document, profile=profile)).page.views if one.id == "roofline")
    assert "assay" in view.empty


def test_a_container_that_is_never_called_takes_as_long_as_its_children() -> None:
    timed = handmade.timed_tree(
        {":Root": 1.0, "layers:ModuleList": 0.0, "layers.0:Linear": 2.0, "layers.1:Linear": 4.0}
    )
    times = [
        None if module.path == "layers" else time
        for module, time in zip(timed.modules, timed.timing.modules, strict=True)
    ]
    calls = [Call(at, None) for at, module in enumerate(timed.modules) if module.path != "layers"]
    document = replace(timed, calls=calls, timing=replace(timed.timing, modules=times))
    table = module_table(subject_of(document))
    assert table is not None
    paths, values = texts_of(column(table, "path")), column(table, "time_s").numbers
    assert values[paths.index("layers")] == pytest.approx(0.006)


@pytest.mark.parametrize(
    ("verdict", "text"),
    [("faster", "1.43× measured"), ("slower", "1.43× measured"), ("inconclusive", "inconclusive")],
)
def test_only_a_gain_that_was_measured_is_proven(verdict: str, text: str) -> None:
    gain = Gain("time", Figure(0.01, Counted("formula")), Figure(0.5, Counted("formula")))
    found = Finding("C210", "advice", "a fact", "Do it.", gain=gain, verified="tried")
    trial = TrialResult(("channels_last",), ("C210",), verdict=verdict, speedup=Figure(1.43, Measured("clock")))
    item = finding_item(Document(trials=[trial]), found)
    assert (item.confidence, item.proven) == (text, verdict == "faster")


def test_siblings_of_a_run_with_gaps_keep_their_places(tagger: Document) -> None:
    kinds = ["A", "B", "C", "D", "A", "E"]
    modules = [Module("", "Root", "x.Root", None)]
    modules += [Module(str(at), "Layer", "x.Layer", 0, {"kind": kind}) for at, kind in enumerate(kinds)]
    table = module_table(subject_of(Document(modules=modules)))
    assert table is not None
    assert table.order is not None
    names = texts_of(column(table, "path"))
    rows = sorted((row for row in range(table.rows) if table.run[row] == 1), key=table.order.__getitem__)
    assert [names[row] for row in rows] == ["(root)", *map(str, range(6))]
    plain = module_table(subject_of(tagger))
    assert plain is not None
    assert plain.order is None
