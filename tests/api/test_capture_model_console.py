"""The output of a captured program: tables that add up, in logs and on terminals."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from assay.api.capture.console import Console
from assay.api.capture.tables import layer_lines
from assay.document.trace_labels import TraceFacts
from assay.trace.write.plan import CapturedPass, LayerTime
from assay.views.layout import Style
from assay.views.text.layer_table import MAX_LINES, LayerLine, layer_table, layer_text


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self):
        return True


class Log(io.StringIO):
    encoding = "utf-8"


def captured(number=1, name="Net", covers="forward", count=2):
    layers = tuple(
        LayerTime(f"layer{at}" if at else "", "Linear", 1, 1_000_000 * (at + 1), 1, (((32, 100),),))
        for at in range(count)
    )
    took = sum(layer.own_ns for layer in layers) + (500_000 if covers == "block" else 0)
    return CapturedPass(TraceFacts(name, number, covers=covers), layers, took, Path("x.json"))


def cells(text):
    """The rows of a printed table."""
    return [re.split(r"\s{2,}", line.strip()) for line in text.splitlines() if re.search(r"\d\.\d{3}", line)]


def test_the_table_of_a_pass():
    log = Log()
    Console(log).passed(captured())
    lines = log.getvalue().splitlines()
    assert lines[1] == "Net, pass 1: self time per layer, on the CPU"
    assert re.split(r"\s{2,}", lines[2]) == ["Layer", "Calls", "Self time (ms)", "Avg time (ms)", "Shapes"]
    assert cells(log.getvalue()) == [
        ["(model)", "1", "1.000", "1.000", "(32, 100)"],
        ["layer1", "1", "2.000", "2.000", "(32, 100)"],
        ["TOTAL", "2", "3.000", "1.500"],
    ]


@pytest.mark.parametrize("covers", ["forward", "block"])
@pytest.mark.parametrize("count", [0, 1, 3, MAX_LINES, MAX_LINES + 1, 200])
def test_columns_add_up_to_the_total(covers, count):
    passed = captured(covers=covers, count=count)
    *rows, total = cells(layer_text(layer_lines(passed)))
    assert len(rows) <= MAX_LINES
    assert sum(float(row[2]) for row in rows) == pytest.approx(float(total[2]))
    assert float(total[2]) == pytest.approx(passed.took_ns / 1e6)
    assert sum(int(row[1]) for row in rows if row[1] != "–") == int(total[1])


def test_a_long_table_shows_the_slowest():
    lines = [LayerLine(f"l{at}", 1, at, ()) for at in range(100)]
    rows = layer_table(lines, 5).rows
    assert [row.name for row in rows] == ["l99", "l98", "l97", "l96", "(96 more)"]
    assert rows[-1].time_ns == sum(range(96))


def test_only_two_of_several_shapes_are_shown():
    shapes = tuple(((size, 2), (3,)) for size in range(4))
    assert layer_table([LayerLine("l", 4, 1, shapes)]).values()[0]["Shapes"] == "(0, 2), (3,) | (1, 2), (3,) | …"


def test_a_log_gets_few_tables_and_the_summed_table():
    log = Log()
    console = Console(log)
    for number in range(1, 31):
        console.passed(captured(number))
    shown = re.findall(r"Net, pass (\d+)", log.getvalue())
    assert shown == ["1", "2", "5", "10", "20"]
    log.truncate(0)
    console.finish()
    assert "Net: self time per layer, sum of 30 passes" in log.getvalue()
    assert cells(log.getvalue())[-1] == ["TOTAL", "60", "90.000", "1.500"]


def test_a_terminal_gets_at_most_two_tables_per_second(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    terminal, now = Terminal(), [0.0]
    console = Console(terminal, clock=lambda: now[0])
    for number in range(1, 101):
        console.passed(captured(number))
        now[0] += 0.1
    shown = [int(number) for number in re.findall(r"Net, pass (\d+)", terminal.getvalue())]
    assert shown[0] == 1
    assert 15 <= len(shown) <= 21
    assert "\x1b[31m" in terminal.getvalue()


def test_no_color_disables_colors(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    terminal = Terminal()
    Console(terminal).passed(captured())
    assert "\x1b" not in terminal.getvalue()


@pytest.mark.parametrize("width", [40, 100])
def test_the_slowest_layer_is_red_whatever_the_width(width):
    lines = [
        LayerLine("fast", 1, 1_000, ()),
        LayerLine("slow", 1, 9_000_000, ()),
        LayerLine("fair", 1, 4_000_000, ()),
    ]
    red = [line for line in layer_text(lines, Style(width, color=True)).splitlines() if "\x1b[31m" in line]
    assert len(red) == 1
    assert "slow" in red[0]


def test_colors_do_not_change_the_text():
    lines = layer_lines(captured(count=60))
    plain = re.sub(r"\x1b\[\d+m", "", layer_text(lines, Style(100, color=True)))
    assert plain == layer_text(lines, Style(100))


def test_escape_sequences_in_names_are_not_printed():
    log = Log()
    evil = captured(name="a\x1b[2Jb\n")
    console = Console(log, explain=True)
    console.passed(replace(evil, layers=(replace(evil.layers[0], path="x\x1b]0;t\x07"),)))
    console.warn("bad \x1b[31m\nline")
    assert "\x1b" not in log.getvalue()
    assert "\x07" not in log.getvalue()


def test_a_repeated_warning_is_printed_once():
    log = Log()
    console = Console(log)
    for _ in range(4):
        console.warn("disk full")
    console.finish()
    assert log.getvalue() == "assay: disk full\nassay: 3 repeated warnings not shown\n"


def test_on_an_accelerator_the_table_shows_device_time(tmp_path):
    def span(category, name, ts, dur, tid=1, **args):
        return {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": tid, "ts": ts, "dur": dur, "args": args}

    trace = [
        span("cpu_op", "assay:.", 0, 100),
        span("cpu_op", "assay:layer1", 10, 20),
        span("cuda_runtime", "cudaLaunchKernel", 15, 2, correlation=7),
        span("kernel", "gemm", 40, 3000, tid=70, correlation=7, stream=7, device=0),
        span("kernel", "lost", 4000, 500, tid=70, correlation=99, stream=7, device=0),
    ]
    path = tmp_path / "x.json"
    path.write_text(json.dumps({"traceEvents": trace}))
    passed = captured()
    log = Log()
    Console(log).passed(replace(passed, path=path, facts=TraceFacts("Net", 1, device="cuda")))
    assert "on the cuda" in log.getvalue()
    rows = {row[0]: row for row in cells(log.getvalue())}
    assert rows["layer1"] == ["layer1", "1", "3.000", "3.000", "(32, 100)"]
    assert rows["TOTAL"][2] == "3.500"
    assert sum(float(row[2]) for name, row in rows.items() if name != "TOTAL") == pytest.approx(3.5)
