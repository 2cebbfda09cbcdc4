"""Size and speed of the web report on 100,000 modules, beside a page of torchvista and a start of Model Explorer.

    python benchmarks/report.py [--quick] [--rounds N] [--peers FOLDER] [--out FILE]

The model is shaped like a mixture of experts. Every module has a time, and every tensor statistics, with noise in
every digit: real statistics do not compress. Pages are opened from files in headless Chromium, a new browser for each
round. A first paint is the browser's first-contentful-paint; a page is complete when its answer or graph is drawn.
An interaction lasts until the second frame after it: 33 ms if it takes no time at all. It must have changed what is
shown by then. CPU time is that of the page's main thread, or of building the page from the document.

Peers are in environments of their own, each in a folder of `--peers`:

    python -m venv peers/torchvista && peers/torchvista/bin/pip install torch==2.13.0 torchvista
    python -m venv peers/model-explorer && peers/model-explorer/bin/pip install ai-edge-model-explorer
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import random
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from explore import STEMS, modules
from harness import ROOT, hardware

CHROMIUM = shutil.which("chromium") or "chromium"
FLAGS = [
    *("--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--enable-unsafe-swiftshader"),
    *(["--no-sandbox"] if os.geteuid() == 0 else []),
]
SIZE = {"width": 1280, "height": 900}
LIMITS_MS = {"first paint": 1000, "sort": 100, "filter": 100, "sort, all open": 100}
LIMIT_BYTES = 2_000_000

_FRAMES = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
TIMED = f"""async (act) => {{
    const filter = document.querySelector("main [data-filter]");
    const grid = document.querySelector("[role=treegrid]");
    const buttons = [...document.querySelectorAll("main button")];
    const button = (text) => buttons.find((one) => one.innerText.startsWith(text));
    const typed = (text) => {{
        filter.value = text;
        filter.dispatchEvent(new InputEvent("input", {{ bubbles: true }}));
    }};
    const key = (name) => grid.dispatchEvent(new KeyboardEvent("keydown", {{ key: name, bubbles: true }}));
    const shown = () => document.querySelector(".grid-block").innerText + grid.getAttribute("aria-activedescendant");
    await {_FRAMES};
    const before = shown();
    const start = performance.now();
    eval(act);
    await {_FRAMES};
    const took = performance.now() - start;
    if (shown() === before) throw new Error(`nothing changed after ${{act}}`);
    return took;
}}"""
ACTS = {
    "sort": ["button('time').click()", "button('parameters').click()", "button('module').click()"],
    "filter": ["typed('type:Linear params>1k')", "typed('experts.17')", "typed('/down_proj$/')"],
    "expand all": ["button('Expand all').click()"],
    "sort, all open": ["button('time').click()", "button('class').click()"],
    "arrow key": ["key('ArrowDown')"] * 5,
    "to the end": ["key('End')"],
}
"""What is done on the page, each after the one before; the slowest of several counts."""
SMALLEST = "MLP of 3 layers"
PEER_MODELS = {
    SMALLEST: "nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 10)), torch.randn(1, 32)",
    "ResNet-50": "load_model().eval(), torch.randn(1, 3, 224, 224)",
}
PEER = """
import sys, torch
from torch import nn
sys.path.insert(0, {examples!r})
from resnet import load_model
model, inputs = {model}
{write}
"""
WRITE = {
    "assay": "import assay; assay.report(assay.analyze(model, (inputs,)), {path!r})",
    "torchvista": "from torchvista import trace_model\n"
    "trace_model(model, inputs, export_format='html', export_path={path!r})",
}
READY = {"assay": "main figure [data-i]", "torchvista": "svg rect"}
GRAPH = [("input", "", []), ("linear", "mlp", [0]), ("relu", "mlp", [1]), ("linear", "mlp", [2]), ("output", "", [3])]


@dataclasses.dataclass
class Row:
    """One measurement: samples of its wall and CPU milliseconds, or an amount of bytes."""

    what: str
    wall_ms: list[float] = dataclasses.field(default_factory=list)
    cpu_ms: list[float] = dataclasses.field(default_factory=list)
    bytes: int | None = None
    why_not: str = ""


def document(count: int) -> Any:
    """A document with times of modules and statistics of tensors, all of them random."""
    import msgspec

    from assay.document.document import Document, Machine, Origin, Run
    from assay.document.provenance import Figure, Measured
    from assay.document.rows import Tensor, TensorType
    from assay.document.timing import Timing
    from assay.document.weights import WeightsReport

    dice = random.Random(0)
    rows, tensors = modules(count), []
    for at, row in enumerate(rows):
        if row.class_name == "Linear":
            rows[at] = msgspec.structs.replace(row, tensors={"weight": len(tensors)})
            kind = TensorType((1024, 2048) if "down" in row.path else (2048, 1024), "bfloat16")
            tensors.append(Tensor((f"{row.path}.weight",), "parameter", kind, 2 * 1024 * 2048, True))
    times = list(_times(rows, dice))
    clock = Measured("clock around each module", repeats=20)
    return Document(
        origin=Origin("file", "moe.py:load", "load"),
        machine=Machine("3.11", "2.13.0", "Linux", "cpu", "Example CPU", 8),
        run=Run("real", timestamp="2026-11-18T10:30:00"),
        modules=rows,
        tensors=tensors,
        timing=Timing(times, whole=Figure(times[0].total_s, clock), columns={"modules": clock}),
        weights=WeightsReport(tensors=[_statistics(one, dice) for one in tensors], kernel="native"),
    )


def _times(rows: Sequence[Any], dice: random.Random) -> Iterator[Any]:
    from assay.document.timing import ModuleTime

    own = [dice.lognormvariate(-10, 0.5) for _ in rows]
    total = list(own)
    for at in range(len(rows) - 1, 0, -1):
        total[rows[at].parent] += total[at]
    for seconds, whole in zip(own, total, strict=True):
        low, high = whole * dice.uniform(0.9, 1), whole * dice.uniform(1, 1.2)
        yield ModuleTime(1, whole, seconds, low, high, whole / total[0], seconds / total[0])


def _statistics(tensor: Any, dice: random.Random) -> Any:
    """What `assay params` finds in a matrix of normally distributed weights."""
    from assay.document.weights import QUANTILES, Histogram, Pruned, Rounding, TensorStatistics

    def about(value: float, spread: float = 0.05) -> float:
        return value * dice.gauss(1, spread)

    std, count = dice.lognormvariate(-4, 0.2), tensor.type.shape[0] * tensor.type.shape[1]
    formats = {
        "bfloat16": ("none", 55),
        "float8_e4m3fn": ("tensor", 31),
        "int8": ("channel", 41),
        "int4": ("channel", 16),
    }
    return TensorStatistics(
        names=tensor.names, dtype="bfloat16", shape=tensor.type.shape, bytes=tensor.bytes, count=count,
        nan=0, inf=0, zeros=dice.randrange(2000), near_zeros=dice.randrange(2000, 4000), near_zero_below=std / 1000,
        min=-about(5 * std), max=about(5 * std), mean=dice.gauss(0, std / 500), std=std,
        skewness=dice.gauss(0, 0.01), kurtosis=dice.gauss(0, 0.1), l1=about(0.8 * std * count), l2=std * count**0.5,
        quantiles=tuple(sorted(dice.gauss(0, 2 * std) for _ in QUANTILES)),
        histogram=Histogram(-5 * std, 5 * std, tuple(dice.randrange(count // 32) for _ in range(64))),
        entropy_bits=about(4.8), entropy_bytes=int(about(1.3 * count)), distinct=dice.randrange(9000, 12000),
        pruning=tuple(Pruned(share, min(1.0, about(1 - share**3, 0.01))) for share in (0.1, 0.25, 0.5, 0.75, 0.9)),
        roundings=tuple(Rounding(name, scope, about(db, 0.02)) for name, (scope, db) in formats.items()),
    )  # fmt: skip


def build(count: int, path: Path) -> list[Row]:
    """Write the page; its size, and the CPU time from the document to the bytes."""
    from assay.api.report.formats import encoded
    from assay.api.report.subject import subject_of

    known = document(count)
    start = time.process_time()
    data = encoded(subject_of(known), "html")
    took = 1e3 * (time.process_time() - start)
    path.write_bytes(data)
    return [Row("file", bytes=len(data)), Row("building the page", cpu_ms=[took])]


@contextmanager
def chromium() -> Iterator[Any]:
    """A new browser, and a page in it with a session for its measurements."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_context(viewport=SIZE, bypass_csp=True).new_page()
        session = page.context.new_cdp_session(page)
        session.send("Performance.enable", {"timeDomain": "threadTicks"})
        yield page, session
        browser.close()


def cpu_ms(session: Any) -> float:
    """CPU milliseconds of the page's main thread so far."""
    metrics = session.send("Performance.getMetrics")["metrics"]
    return 1e3 * next(one["value"] for one in metrics if one["name"] == "TaskDuration")


def first_paint(page: Any) -> float:
    """Milliseconds until the page showed anything."""
    script = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
    page.wait_for_function("performance.getEntriesByName('first-contentful-paint').length")
    return page.evaluate(script)


def opened(path: Path, ready: str, address: str = "") -> list[Row]:
    """How long a page takes until its first paint, and until it shows what `ready` selects."""
    with chromium() as (page, session):
        page.goto(f"{path.as_uri()}{address}", wait_until="commit")
        page.wait_for_selector(ready, state="attached")
        page.evaluate(_FRAMES)
        whole = page.evaluate("performance.now()")
        paint = first_paint(page)
        return [Row("first paint", [paint]), Row("complete", [whole], [cpu_ms(session)])]


def used(path: Path) -> list[Row]:
    """How long the tree of modules takes to sort, filter, open and move in, and its memory."""
    rows = []
    with chromium() as (page, session):
        page.goto(f"{path.as_uri()}#view=modules")
        page.wait_for_selector("[role=treegrid] [data-row]")
        page.wait_for_timeout(3000)  # the page prepares to sort while a reader looks at the first rows
        for what, acts in ACTS.items():
            samples = []
            for act in acts:
                before = cpu_ms(session)
                samples.append((page.evaluate(TIMED, act), cpu_ms(session) - before))
            rows.append(Row(what, [max(wall for wall, _ in samples)], [max(cpu for _, cpu in samples)]))
            if what == "filter":
                page.evaluate(TIMED, "typed('')")
        session.send("HeapProfiler.collectGarbage")
        rows.append(Row("heap", bytes=int(session.send("Runtime.getHeapUsage")["usedSize"])))
    return rows


def page_of(tool: str, python: Path, model: str, path: Path, rounds: int) -> list[Row]:
    """The page that a tool writes on a model."""
    code = PEER.format(examples=str(ROOT / "examples"), model=model, write=WRITE[tool].format(path=str(path)))
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src") if tool == "assay" else "", "OMP_NUM_THREADS": "1"}
    command = [str(python), "-W", "ignore", "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        return [Row("bytes", why_not=done.stderr.strip().splitlines()[-1][:120])]
    return [Row("bytes", bytes=path.stat().st_size), *repeated(lambda: opened(path, READY[tool]), rounds)]


def model_explorer(python: Path, folder: Path, rounds: int) -> list[Row]:
    """A start of Model Explorer, until its page shows the graph of the small MLP."""
    nodes = [
        {
            "id": str(at), "label": label, "namespace": space, "attrs": [], "outputsMetadata": [],
            "incomingEdges": [
                {"sourceNodeId": str(one), "sourceNodeOutputId": "0", "targetNodeInputId": "0"} for one in sources
            ],
        }
        for at, (label, space, sources) in enumerate(GRAPH)
    ]  # fmt: skip
    path = folder / "graph.json"
    path.write_text(json.dumps([{"id": "mlp", "nodes": nodes}]))
    return repeated(lambda: _started(python, path), rounds)


def _started(python: Path, graph: Path) -> list[Row]:
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        str(python.with_name("model-explorer")),
        "--no_open_in_browser",
        "--skip_health_check",
        "--port",
        str(port),
    ]
    data = json.dumps({"models": [{"url": str(graph), "adapterId": "builtin_json"}]})
    with chromium() as (page, session):
        session.send("Network.enable")
        sizes: list[int] = []
        session.on("Network.loadingFinished", lambda event: sizes.append(int(event["encodedDataLength"])))
        start = time.perf_counter()
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            _listening(port)
            listening = 1e3 * (time.perf_counter() - start)
            page.goto(f"http://localhost:{port}/?data={quote(data)}", wait_until="commit")
            page.get_by_text("op node count").wait_for()
            page.evaluate(_FRAMES)
            whole = 1e3 * (time.perf_counter() - start)
            paint = first_paint(page)
            return [
                Row("bytes", bytes=sum(sizes)),
                Row("first paint", [listening + paint]),
                Row("complete", [whole], [cpu_ms(session)]),
            ]
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait()


def _listening(port: int) -> None:
    for _ in range(1200):
        with closing(socket.socket()) as trying:
            if trying.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise SystemExit("Model Explorer did not start")


def repeated(measure: Callable[[], list[Row]], rounds: int) -> list[Row]:
    """The rows of several rounds, each with the samples of all; of sizes, the last."""
    merged: dict[str, Row] = {}
    for _ in range(rounds):
        for row in measure():
            known = merged.setdefault(row.what, Row(row.what))
            known.wall_ms += row.wall_ms
            known.cpu_ms += row.cpu_ms
            known.bytes = row.bytes
    return list(merged.values())


def table(title: str, rows: Sequence[Row]) -> list[str]:
    """The rows as Markdown, and whether they met their targets."""
    from assay import units

    lines = ["", title, "", "| | wall, best | wall, median | CPU, best | bytes | target | met |"]
    lines.append("| --- | --: | --: | --: | --: | --: | --- |")
    for row in rows:
        wall, cpu = min(row.wall_ms, default=None), min(row.cpu_ms, default=None)
        limit, met = _target(row, wall)
        middle = statistics.median(row.wall_ms) if len(row.wall_ms) > 1 else None
        size = "" if row.bytes is None else units.size(row.bytes)
        cells = [row.what, _ms(wall), _ms(middle), _ms(cpu), size, limit, met]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _target(row: Row, wall: float | None) -> tuple[str, str]:
    if row.what == "file" and row.bytes is not None:
        return "≤ 2 MB", "yes" if row.bytes <= LIMIT_BYTES else "NO"
    limit = LIMITS_MS.get(row.what)
    return ("", "") if limit is None or wall is None else (f"≤ {limit} ms", "yes" if wall <= limit else "NO")


def _ms(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f} ms"


def peers(given: argparse.Namespace, folder: Path) -> list[str]:
    """The pages of small models side by side: Assay's, and those of the peers that are installed."""
    pythons = {name: given.peers / name / "bin" / "python" for name in ("torchvista", "model-explorer")}
    lines = ["", "## Small models, side by side: best wall times", ""]
    lines.append("| model | tool | bytes | ÷ Assay | first paint | ÷ Assay | complete | ÷ Assay |")
    lines.append("| --- | --- | --: | --: | --: | --: | --: | --: |")
    for name, model in PEER_MODELS.items():
        own = page_of("assay", Path(sys.executable), model, folder / "assay.html", given.rounds)
        lines.append(beside(name, "Assay", own, own))
        if pythons["torchvista"].exists():
            rows = page_of("torchvista", pythons["torchvista"], model, folder / "torchvista.html", given.rounds)
            lines.append(beside(name, "torchvista", rows, own))
        if name == SMALLEST and pythons["model-explorer"].exists():
            rows = model_explorer(pythons["model-explorer"], folder, given.rounds)
            lines.append(beside(name, "Model Explorer, from the start of its server", rows, own))
    return lines


def beside(model: str, tool: str, rows: Sequence[Row], own: Sequence[Row]) -> str:
    """A row of the table of peers, with ratios to Assay's own."""
    from assay import units

    cells = [model, tool]
    for one, other in zip(rows, own, strict=False):
        value, known = (
            row.bytes if row.bytes is not None else min(row.wall_ms, default=None) for row in (one, other)
        )
        text = units.size(one.bytes) if one.bytes is not None else _ms(value)
        cells += [one.why_not or text, f"{value / known:.2g}" if value and known and own is not rows else ""]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Measure and print the tables; the exit code is 1 if a target was missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="10,000 modules, one round, no peers")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peers", type=Path, default=Path("peers"), help="a folder with one environment per peer")
    parser.add_argument("--out", type=Path, help="also write the tables to a file")
    given = parser.parse_args()
    count, rounds = (10_000, 1) if given.quick else (100_000, given.rounds)
    layers, experts = STEMS[count]
    lines = [f"# Report, {time.strftime('%Y-%m-%d')}", "", hardware("playwright"), ""]
    lines.append(subprocess.check_output([CHROMIUM, "--version"], text=True, stderr=subprocess.DEVNULL).strip())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "moe.html"
        rows = build(count, path)
        rows += repeated(lambda: opened(path, "main .cards, main .overview"), rounds)
        rows += repeated(lambda: used(path), rounds)
        lines += table(f"## {count:,} modules: {layers} layers of {experts} experts, all with statistics", rows)
        lines += [] if given.quick else peers(given, folder)
    text = "\n".join(lines) + "\n"
    print(text)
    if given.out:
        given.out.write_text(text, encoding="utf-8")
    if any(line.endswith("| NO |") for line in lines):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
