"""Pictures in text reports: they fit the style, and show the values where they belong."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from assay.analysis.achieved import Achieved
from assay.analysis.devices import Device
from assay.analysis.memory import memory_of
from assay.analysis.memory.lifetimes import forward, training_step
from assay.analysis.memory.stages import module_stages, phases
from assay.document.document import Document, Run, Training
from assay.document.rows import Call, Module, Op, OpKind, Storage
from assay.document.weights import Histogram
from assay.views.canvas import MAX_WIDTH, MIN_WIDTH, Canvas, Scale, sampled
from assay.views.cells import cell_len
from assay.views.layout import Style
from assay.views.text.facts import notes_table
from assay.views.text.histogram_plot import histogram_picture
from assay.views.text.memory import timelines
from assay.views.text.report import Picture, Report, as_markdown, as_text
from assay.views.text.roofline_plot import roofline_parts

KIND = OpKind("torch.relu", "aten.relu.default", {}, (), ())
STYLES = st.builds(Style, st.integers(MIN_WIDTH, 160), st.booleans(), st.booleans())
FLOATS = st.floats(allow_nan=True, allow_infinity=True)
ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


def check(picture: Picture, style: Style) -> list[str]:
    """The lines of the picture without colour, after checking that they obey the style."""
    lines = picture.draw(style)
    assert lines == picture.draw(style)
    text = "\n".join(lines)
    assert style.color or "\x1b" not in text
    assert style.utf8 or text.isascii()
    bare = [ESCAPE.sub("", line) for line in lines]
    assert max(map(cell_len, bare)) <= style.width
    return bare


def recorded(live: list[int], *, backward: list[int] | None = None, names: list[str] | None = None) -> Document:
    """A document whose forward pass and training step have exactly these live bytes during each op."""
    names = names or ["block"] * len(live)
    paths = ["", *dict.fromkeys(names)]
    modules = [Module(path, "M", "m.M", 0 if path else None) for path in paths]
    calls = [Call(index, None, (), ()) for index in range(len(paths))]
    ops = [Op(0, paths.index(name)) for name in names]
    document = Document(
        run=Run("meta"), modules=modules, calls=calls, kinds=[KIND], ops=ops, storages=_storages(live)
    )
    if backward is None:
        return document
    steps = [*ops, *(Op(0, -1, phase="backward") for _ in backward)]
    return replace(document, training=Training([KIND], steps, _storages([*live, *backward])))


def _storages(live: list[int]) -> list[Storage]:
    return [Storage(size, op, op + 1) for op, size in enumerate(live) if size]


def timeline(document: Document, index: int = 0) -> Picture:
    return [part for part in timelines(memory_of(document), document) if isinstance(part, Picture)][index]


def achieved(kind: int, rate: float | None, intensity: float | None, share: float, bound="compute") -> Achieved:
    return Achieved(
        kind=kind, name=f"op{kind}", shapes=((1, 64),), count=1, time_s=1.0, low_s=1.0, high_s=1.0, total_s=1.0,
        share=share, flops=100, bytes=10, flops_per_s=rate, bytes_per_s=1.0, intensity=intensity, bound=bound,
        roof_s=0.1,
    )  # fmt: skip


def roofline(device: Device, rows=()) -> Picture:
    (picture,) = roofline_parts(device, rows)
    return picture


CPU = Device("cpu", 1.0, 50.0, {"fp32": 0.1, "bf16": 0.5})


@given(st.lists(st.integers(0, 1 << 60), min_size=1, max_size=300), STYLES, st.booleans())
def test_timelines_obey_any_style(live, style, backward):
    document = recorded(live, backward=live[::-1] if backward else None)
    for index in range(1 + backward):
        check(timeline(document, index), style)


@given(FLOATS, FLOATS, st.lists(st.integers(0, 1 << 62), max_size=200), STYLES)
def test_histograms_obey_any_style(low, high, counts, style):
    check(histogram_picture("w", Histogram(low, high, tuple(counts))), style)


@given(
    st.lists(st.tuples(FLOATS, FLOATS, st.floats(0, 1)), max_size=20),
    st.dictionaries(st.sampled_from(["fp32", "bf16", "int8"]), st.floats(1e-12, 1e12), min_size=1),
    st.floats(1e-9, 1e12),
    STYLES,
)
def test_rooflines_obey_any_style(points, peaks, bandwidth, style):
    device = Device("d", 1.0, bandwidth, peaks)
    rows = [achieved(kind, abs(rate), abs(per_byte), share) for kind, (rate, per_byte, share) in enumerate(points)]
    for picture in roofline_parts(device, rows):
        check(picture, style)


@given(st.lists(FLOATS, max_size=100), STYLES)
def test_what_is_not_finite_is_left_out_of_an_area(values, style):
    def draw(heights: list[float]) -> list[str]:
        canvas = Canvas(style, 10, Scale(0, 1, []), Scale(0, 1, []))
        canvas.area(heights)
        return canvas.lines()

    assert draw(values) == draw([value if math.isfinite(value) else 0 for value in values])


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=200), st.integers(1, 200))
def test_samples_keep_the_largest_value_and_the_order(values, count):
    shown = sampled(values, count)
    assert len(shown) == count
    if count >= len(values):
        assert list(dict.fromkeys(shown)) == list(dict.fromkeys(values))
    assert max(shown) == max(values)


@pytest.mark.parametrize("utf8", [True, False])
@pytest.mark.parametrize("ops", [1, 2, 7, 100, 1000])
@given(data=st.data())
def test_the_peak_is_where_it_occurs(ops, utf8, data):
    peak = data.draw(st.integers(0, ops - 1))
    live = [1 << 10] * ops
    live[peak] = 1 << 20
    lines = check(timeline(recorded(live)), Style(100, utf8=utf8))
    axis = lines[0].index("│" if utf8 else "|")
    columns = 100 - axis - 1
    marked = lines[0].index("▼" if utf8 else "v") - axis - 1
    assert abs(marked + 0.5 - (peak + 0.5) / ops * columns) <= 1
    assert lines[1].lstrip().startswith("1 MiB")
    filled = [at for at, char in enumerate(lines[1][axis + 1 :]) if char != " "]
    assert min(filled) - 1 <= marked <= max(filled) + 1
    assert len(filled) <= columns / ops + 2


def test_the_heights_of_a_timeline_follow_the_bytes():
    live = [0, 100, 25, 50, 75, 100, 1]
    lines = check(timeline(recorded(live)), Style(78, utf8=False))
    area = [line.partition("|")[2].ljust(70) for line in lines[1:-3]]
    assert len(area) == 10
    for op, size in enumerate(live):
        middle = round((op + 0.5) / len(live) * 70)
        height = sum(row[middle] == "#" for row in area)
        assert abs(height - 10 * size / 100) <= 1
        assert (height > 0) == (size > 0)


def test_a_training_step_shows_its_phases_and_modules():
    names = ["encoder.0"] * 40 + ["encoder.1"] * 40 + ["head"] * 20
    document = recorded([10] * 100, backward=[10] * 50 + [20] * 50, names=names)
    picture = timeline(document, 1)
    assert picture.caption.startswith("Activations and gradients peak at 20 B")
    lines = check(picture, Style(100))
    inside = lines[0].partition("│")[2]
    assert inside.startswith("forward")
    assert abs(inside.index("│ backward") - len(inside.ljust(95)) / 2) <= 2
    assert all("│" in line.partition("┤" if "┤" in line else "│")[2] for line in lines[:10])
    assert lines[-2].split() == ["encoder.0", "encoder.1", "head"]
    assert [(one.name, one.first, one.last) for one in phases(training_step(document))] == [
        ("forward", 0, 99), ("backward", 100, 199)
    ]  # fmt: skip


def test_stages_are_the_modules_that_divide_the_pass():
    names = ["net.embed"] * 2 + [f"net.layers.{index}.fc" for index in range(3) for _ in range(10)] + ["head"]
    found = module_stages(forward(recorded([1] * 33, names=names)))
    assert [(one.name, one.first, one.last) for one in found] == [
        ("embed", 0, 1), ("layers.0", 2, 11), ("layers.1", 12, 21), ("layers.2", 22, 31), ("head", 32, 32)
    ]  # fmt: skip


def points_of(lines: list[str], letters: str) -> dict[str, tuple[int, int]]:
    """The column and the row of each letter inside the axes; rows count from the top."""
    inside = [re.split("[│┤|]", line, maxsplit=1)[1] for line in lines[:15]]
    # Labels of limits are words, points single letters.
    found = {}
    for row, line in enumerate(inside):
        for match in re.finditer(r"(?<![\w. ,/])[a-h](?![\w/])|(?<= )[a-h](?![\w/])", line):
            found[match.group()] = (match.start(), row)
    return {letter: found[letter] for letter in letters}


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("utf8", [True, False])
def test_points_lie_at_their_rate_and_intensity(width, utf8):
    values = {"a": (1e9, 0.5), "b": (2e10, 1.0), "c": (5e10, 8.0), "d": (9e10, 100.0)}
    rows = [achieved(at, rate, per_byte, 0.4 - at / 10) for at, (rate, per_byte) in enumerate(values.values())]
    lines = check(roofline(CPU, rows), Style(width, utf8=utf8))
    cells = points_of(lines, "abcd")
    labels = {"1 GFLOP/s": 1e9, "10 GFLOP/s": 1e10, "100 GFLOP/s": 1e11}
    ticks = {value: next(at for at, line in enumerate(lines) if line.lstrip().startswith(f"{label}")
                         and line.lstrip()[len(label)] in "┤|") for label, value in labels.items()}  # fmt: skip
    rows_per_decade = (ticks[1e9] - ticks[1e11]) / 2
    for letter, (rate, _) in values.items():
        assert abs(cells[letter][1] - (ticks[1e9] - math.log10(rate / 1e9) * rows_per_decade)) <= 1.5
    places = {float(match.group()): match.start() for match in re.finditer(r"\S+", lines[16])}
    axis = lines[0].index("│" if utf8 else "|") + 1
    per_decade = (places[100.0] - places[1.0]) / 2
    for letter, (_, per_byte) in values.items():
        expected = places[1.0] - axis + math.log10(per_byte) * per_decade
        assert abs(cells[letter][0] - expected) <= 2.5


def test_roofs_are_ordered_and_labelled():
    lines = check(roofline(Device("d", 1.0, 100.0, {"fp32": 1.0, "bf16": 8.0, "fp64": 1.0})), Style(80))
    (upper,) = [at for at, line in enumerate(lines) if "bf16 8 TFLOP/s" in line]
    (lower,) = [at for at, line in enumerate(lines) if "fp32, fp64" in line]
    assert upper < lower
    assert any("100 GB/s" in line for line in lines)


def test_a_rate_above_all_roofs_is_drawn():
    lines = check(roofline(CPU, [achieved(0, 2e12, 50.0, 1.0)]), Style(80))
    assert points_of(lines, "a")["a"][1] <= 1


def test_names_of_modules_stay_text():
    names = ["a\x1b[31mb"] * 30 + ["漢字"] * 30 + ["c\nd"] * 30
    for style in (Style(80), Style(80, utf8=False)):
        lines = check(timeline(recorded([1] * 90, names=names)), style)
        assert len(lines) == 14
        assert r"c\nd" in lines[-2]


def test_captions_state_the_conclusion():
    far = achieved(1, 1e8, 1.0, 0.2, "neither")
    assert roofline(CPU, [achieved(0, 9e10, 50.0, 0.8), far]).caption == (
        "Roofline: 80.0 % of the time in ops is compute-bound; 1 kind of op is far below both limits"
    )
    assert roofline(CPU, [far]).caption == "Roofline: 20.0 % of the time in ops is spent far below both limits"
    assert roofline(CPU).caption == "Roofline: below 2 FLOPs per byte, memory bandwidth limits fp32"
    counts = (1, *[0] * 8, 98, *[0] * 9, 1)
    caption = histogram_picture("w", Histogram(-1.0, 1.0, counts)).caption
    assert caption == "Histogram: w, at least 90 % of the values from -0.1 to 0"


def test_ops_that_are_not_drawn_are_counted():
    rows = [achieved(0, 9e10, 50.0, 0.7), achieved(1, None, None, 0.2), achieved(2, 1e9, 0.0, 0.1)]
    assert "not drawn: 2 kinds of op without FLOPs or very short (30.0 % of the time in ops)" in check(
        roofline(CPU, rows), Style(80)
    )
    assert roofline_parts(CPU, rows[1:]) == []
    assert roofline_parts(Device("d", 1.0), rows) == []


def test_points_in_one_cell_share_a_letter():
    rows = [achieved(0, 9e10, 50.0, 0.5), achieved(1, 1e9, 1.0, 0.3), achieved(2, 9e10, 50.1, 0.2)]
    lines = check(roofline(CPU, rows), Style(80))
    assert [line.split()[:2] for line in lines[-3:]] == [["a", "op0"], ["b", "op1"], ["a", "op2"]]


def test_a_picture_is_left_out_below_40_columns():
    report = Report([timeline(recorded([1, 2]))], notes_table([]))
    narrow = as_text(report, Style(MIN_WIDTH - 1))
    assert "picture left out: needs 40 columns" in narrow
    assert "█" not in narrow
    assert "█" in as_text(report, Style(MIN_WIDTH))
    assert max(map(len, as_text(report, Style(300)).splitlines())) <= MAX_WIDTH
    assert "█" in as_text(report)


def test_markdown_holds_a_picture_as_code():
    text = as_markdown(Report([timeline(recorded([1, 2]))], notes_table([])))
    heading, fence, rest = text.partition("\n```text\n")
    assert heading.startswith("## Activations peak at 2 B")
    assert fence
    body, closing, _ = rest.partition("```")
    assert closing
    assert "█" in body


def test_a_picture_of_the_caller_stays_as_it_was():
    import plotext

    plotext.clear_figure()
    plotext.plot([1, 2, 3])
    before = plotext.build()
    check(timeline(recorded([1, 2])), Style(60))
    assert plotext.build() == before
    plotext.clear_figure()
