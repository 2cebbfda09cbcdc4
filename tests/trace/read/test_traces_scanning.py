"""Scanning: every known kind of damage, both scanners, pieces of any size, exact times."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from decimal import ROUND_HALF_UP, Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trace_making import BASE_NS, Making, gpu_training

from assay.errors import ReadError
from assay.trace.read import reference, scanner
from assay.trace.read.columns import scan
from assay.trace.read.reading import open_trace, read_trace
from assay.trace.read.texts import plain

OP = '{"ph":"X","cat":"cpu_op","name":"%s","pid":1,"tid":1,"ts":%s,"dur":%s}'


def scanned(text, engine=reference, piece=None):
    """The columns and tables of a text fed in pieces."""
    data = text if isinstance(text, bytes) else text.encode()
    scanning = engine.Scanner()
    step = piece or max(1, len(data))
    for at in range(0, len(data), step):
        scanning.feed(data[at : at + step], False)
    scanning.feed(b"", True)
    return {name: column.tolist() for name, column in scanning.take().items()}, scanning.tables()


def as_read(found):
    """The columns with names unescaped: a repaired text has escaped names."""
    columns, tables = found
    return columns, {**tables, "names": [plain(name) for name in tables["names"]]}


def events(*texts):
    return '{"traceEvents":[' + ",".join(texts) + "]}"


def three():
    return Making().span("one", 0, 900).span("two", 100, 300).span("three", 2000, 50)


DAMAGE = {
    "whole": lambda text: (text, 3, {}),
    "truncated": lambda text: (text[: text.index('"three"') + 3], 2, {"cut off at the end": 1}),
    "truncated between events": lambda text: (text[: text.rindex('{"ph": "X"')], 2, {}),
    "quote in a name": lambda text: (text.replace('"two"', '"t"wo"'), 3, {}),
    "quote and comma in a name": lambda text: (text.replace('"two"', '"say "hi", you"'), 3, {}),
    "nan": lambda text: (text.replace('"pid": 10', '"x": nan, "y": -inf, "pid": 10'), 3, {}),
    "NaN": lambda text: (text.replace('"pid": 10', '"x": NaN, "y": -Infinity, "pid": 10'), 3, {}),
    "BOM": lambda text: ("\ufeff" + text, 3, {}),
    "30 digits": lambda text: (text.replace('"pid": 10', f'"x": {"7" * 30}, "pid": 10'), 3, {}),
    "30 digits as time": lambda text: (
        text.replace('"two", "pid": 10, "tid": 11, "ts": ', f'"two", "pid": 10, "tid": 11, "ts": {"9" * 30}'),
        2,
        {"with an unreadable timestamp": 1},
    ),
    "list root": lambda text: (json.dumps(json.loads(text)["traceEvents"]), 3, {}),
    "events last": lambda text: (text.replace(', "traceName": "made"', ""), 3, {}),
    "not JSON at all": lambda text: ("<html>" + text[:20], 0, {"not a JSON object or list at the beginning": 1}),
    "an event that is none": lambda text: (text.replace("[{", '[{"broken": }, {', 1), 3, {"damaged": 1}),
    "text behind the end": lambda text: (text + "\n garbage", 3, {"unreadable behind the end": 1}),
    "a trailing comma": lambda text: (text.replace("}]", "},]"), 3, {}),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGE)
def test_readable_events_are_read_and_the_rest_counted(damage, engine):
    text, rows, skipped = DAMAGE[damage](three().text())
    columns, tables = scanned(text, engine)
    assert len(columns["start"]) == rows
    assert tables["skipped"] == skipped
    assert tables["complete"] == (not damage.startswith(("truncated", "not", "text")))


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("indent", [None, 2])
def test_both_scanners_agree(damage, indent):
    if not scanner.is_native():
        pytest.skip("the native scanner was not built")
    text, _, _ = DAMAGE[damage](gpu_training(three().memory(5, 8, 8).flow(3, 10, 90)).text())
    text = text if indent is None or damage != "whole" else json.dumps(json.loads(text), indent=indent)
    assert as_read(scanned(text, scanner.scanner)) == as_read(scanned(text, reference))


def test_bad_bytes_and_escapes_in_names(engine):
    text = three().text().encode().replace(b'"two"', b'"\xff\xfe two"').replace(b'"one"', rb'"\u00e9\n\"x\" \\ \d"')
    _, tables = scanned(text, engine)
    names = [plain(name.partition(b"\x1f")[2]) for name in tables["names"]]
    assert names == ['é\n"x" \\ \\d', "\ufffd\ufffd two", "three"]


@pytest.mark.parametrize("piece", [1, 2, 3, 7, 50, 1000])
def test_pieces_of_any_size_give_the_same(piece, engine):
    text = gpu_training(three().memory(5, 8, 8).flow(3, 10, 90)).text().replace('"two"', '"t"wo"')
    assert scanned("\ufeff" + text, engine, piece) == scanned("\ufeff" + text, engine)


@settings(max_examples=60)
@given(st.decimals(min_value=-(10**12), max_value=10**13, allow_nan=False, places=6), st.booleans(), st.booleans())
def test_times_are_exact(value, quoted, exponent):
    text = f"{value:E}" if exponent else f"{value:f}"
    want = int((Decimal(text) * 1000).quantize(Decimal(1), ROUND_HALF_UP))
    line = OP % ("x", f'"{text}"' if quoted else text, "1")
    for engine in {reference, scanner.scanner}:
        columns, _ = scanned(events(line), engine)
        assert columns["start"] == [want]


def test_absolute_epoch_times_do_not_lose_nanoseconds(engine, tmp_path):
    base = 1_712_345_678_901_234_567
    made = Making(base).span("outer", 0, 1001).span("inner", 1, 1000).span("next", 1001, 5)
    parts = open_trace(made.write(tmp_path / "t.json"), engine=engine)
    assert parts.forest.start.tolist() == [base, base + 1, base + 1001]
    assert parts.forest.parent.tolist() == [-1, 0, -1]
    assert parts.forest.overlapping == 0


def test_missing_fields_are_counted(engine):
    lines = [
        '{"ph":"X","name":"no ts","pid":1,"tid":1}',
        '{"ph":"X","name":"no dur","pid":1,"tid":1,"ts":5}',
        '{"ph":"X","name":"negative","pid":1,"tid":1,"ts":5,"dur":-3}',
        '{"ph":"X","name":"untimed","dur":2}',
        '{"name":"no phase","ts":5,"dur":2}',
        '{"ph":"X","name":"ts is text","pid":"","tid":"Spans","ts":"5.5","dur":"1"}',
        '{"ph":"X","name":"args are a list","pid":1,"tid":1,"ts":6,"dur":1,"args":[1]}',
        '{"ph":"i","name":"[memory]","pid":1,"tid":1,"ts":6,"args":{}}',
    ]
    columns, tables = scanned(events(*lines), engine)
    assert columns["start"] == [5000, 5000, 0, 5500, 6000]
    assert columns["duration"] == [0, 0, 2000, 1000, 1000]
    assert tables["skipped"] == {
        "without a timestamp": 1,
        "without a duration, taken as 0": 1,
        "with a negative duration, taken as 0": 1,
        "without a timestamp, kept one after another": 1,
        "without a phase": 1,
        "an allocation without its size": 1,
    }


def test_begin_and_end_become_spans(engine, tmp_path):
    def mark(phase, name, at, tid=1):
        return f'{{"ph":"{phase}","name":"{name}","pid":1,"tid":{tid},"ts":{at}}}'

    marks = [
        mark("B", "a", 1), mark("B", "b", 2), mark("E", "", 4), mark("E", "a", 9), mark("E", "x", 11),
        mark("B", "open", 3, tid=2), OP % ("op", "2.5", "1"),
    ]  # fmt: skip
    path = tmp_path / "marks.json"
    path.write_text(events(*marks))
    columns = scan(path, engine=engine)
    found = {
        columns.names[name]: (start, start + length)
        for name, start, length in zip(columns["name"], columns["start"], columns["duration"], strict=True)
    }
    assert found == {"a": (1000, 9000), "b": (2000, 4000), "open": (3000, 11000), "op": (2500, 3500)}
    assert columns.skipped == {"an end without a beginning": 1}
    assert any("without an end" in note for note in columns.notes)


@pytest.mark.parametrize("suffix", [".json.gz", ".json"])
def test_gzip_is_recognised_by_its_bytes(tmp_path, suffix):
    path = tmp_path / f"t{suffix}"
    text = three().text().encode()
    path.write_bytes(gzip.compress(text[:100]) + gzip.compress(text[100:]))
    assert read_trace(path).events == 3
    assert read_trace(path).complete


def test_truncated_gzip_is_read_as_far_as_possible(tmp_path):
    made = Making()
    for at in range(20_000):
        made.span(f"op{at * 7919 % 997}", 100 * at, 50)
    packed = gzip.compress(made.text().encode())
    (tmp_path / "t.gz").write_bytes(packed[: len(packed) // 2])
    trace = read_trace(tmp_path / "t.gz")
    assert 5_000 < trace.events < 15_000
    assert not trace.complete
    assert "the gzip stream is truncated" in trace.notes
    (tmp_path / "bad.gz").write_bytes(packed[:5000] + b"\0" * 200 + packed[5200:])
    assert any("damaged" in note for note in read_trace(tmp_path / "bad.gz").notes)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "is empty"),
        (b"   ", "is empty"),
        (b"[]", "has no traceEvents"),
        (b'{"a": 1}', "has no traceEvents"),
        (b'{"traceEvents":[]}', "has no traceEvents"),
        (b'{"traceEvents":[', "JSON ends early"),
        (b"\x1f\x8b", "gzip stream is truncated"),
        (b"nothing", "is not JSON"),
    ],
)
def test_a_file_without_events_is_a_one_line_error(tmp_path, content, expected):
    path = tmp_path / "empty.json"
    path.write_bytes(content)
    with pytest.raises(ReadError, match=expected) as error:
        read_trace(path)
    assert "\n" not in str(error.value)


def test_a_missing_file(tmp_path):
    with pytest.raises(ReadError, match="no such file or directory"):
        read_trace(tmp_path / "none.json")


@settings(max_examples=150)
@given(st.data())
def test_no_damage_breaks_the_scanners(data):
    """Cut, doubled and overwritten bytes: no exception, no invented spans, the same result in any pieces."""
    text = bytearray(gpu_training().text().encode())
    damages = data.draw(st.integers(1, 4))
    for _ in range(damages):
        at = data.draw(st.integers(0, len(text) - 1))
        piece = data.draw(st.sampled_from([b'"', b"\\", b"{", b"}", b"[", b"]", b",", b"\xff", b"nan", b"\0", b""]))
        text[at : at + data.draw(st.integers(0, 30))] = piece
    whole = len(gpu_training().events)
    for engine in {reference, scanner.scanner}:
        columns, tables = scanned(bytes(text), engine)
        assert len(columns["start"]) <= whole
        # A brace inserted into an event splits it in two, the second without a phase.
        assert sum(tables["phases"].values()) <= whole + damages
        pieced, _ = scanned(bytes(text), engine, piece=97)
        assert pieced == columns


def test_a_trace_far_larger_than_its_pieces_is_the_sum_of_them(tmp_path, monkeypatch):
    made = Making()
    for at in range(3000):
        made.label("a", 1000 * at, 900).span("aten::mm", 1000 * at + 10, 500)
    path = made.write(tmp_path / "t.json")
    whole = read_trace(path)
    monkeypatch.setattr("assay.trace.read.opening.PIECE", 1000)
    monkeypatch.setattr("assay.trace.read.columns._TAKE_ROWS", 64)
    assert read_trace(path) == whole
    assert (whole.layers[0].calls, whole.layers[0].cpu_total_ns) == (3000, 3000 * 900)
    assert scan(path)["start"].min() == BASE_NS
    assert np.all(np.diff(np.sort(scan(path)["start"])) > 0)


PEAK = """
import sys
from assay import read_trace
read_trace(sys.argv[1])
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""
"""The peak memory of a separate process; other measures include its parent."""


def test_memory_grows_far_less_than_the_file(tmp_path):
    """Ten more megabytes of file take less than half of that in memory."""
    if not sys.platform.startswith("linux"):
        pytest.skip("only Linux tells it this way")
    peaks = []
    arguments = json.dumps({"Input type": ["float"] * 20, "Input Dims": [[4, 4]] * 4})
    line = (OP % ("aten::mm", "%d", "1"))[:-1] + f',"args":{arguments}}}'
    for megabytes in (7, 17):
        path = tmp_path / f"{megabytes}.json"
        path.write_text(f"[{','.join(line % (2 * at) for at in range(megabytes * 1_000_000 // len(line)))}]")
        done = subprocess.run([sys.executable, "-c", PEAK, str(path)], capture_output=True, text=True, check=True)
        peaks.append(int(done.stdout) * 1024)
    assert peaks[1] - peaks[0] < 5_000_000
