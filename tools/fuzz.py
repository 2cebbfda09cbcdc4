"""Feeds damaged checkpoints of every format to the readers: `python tools/fuzz.py --inputs 1000000`.

The inputs follow from the seed (`--seed`) and their numbers. `--only NUMBER --format FORMAT --keep FOLDER` writes one
input into a folder. Exits with code 1 if there are findings.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1] / "tests"
sys.path[:0] = [str(TESTS / "checkpoint"), str(TESTS)]

from fuzz_inputs import FOUND, OPENED, REFUSED, Counts, Finding, Seed, damaged, fuzz, preload, seeds_in  # noqa: E402

BATCH = 2000
SHOWN = 40


def main() -> int:
    options = _parser().parse_args()
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path[:2])}
        command = [sys.executable, str(TESTS / "checkpoint" / "fuzz_seeds.py"), folder]
        subprocess.run(command, env=environment, check=True)
        every_seed = seeds_in(Path(folder))
    seeds = [seed for seed in every_seed if options.format in ("", seed.format)]
    if options.only is not None:
        return _keep(seeds[0], options)
    started = time.perf_counter()
    preload(every_seed)
    totals: dict[str, Counter[str]] = {seed.format: Counter() for seed in seeds}
    findings: list[Finding] = []
    batches = list(_batches(seeds, options))
    with multiprocessing.get_context("fork").Pool(options.processes) as pool:
        for done, counts in enumerate(pool.imap_unordered(_run, batches), 1):
            totals[counts.format] += counts.results
            findings += counts.findings
            if sys.stderr.isatty():
                print(f"\r{done} of {len(batches)} batches, {len(findings)} findings", end="", file=sys.stderr)
    _print_findings(findings, verbose=options.verbose)
    table = _table(totals)
    print(table)
    rate = sum(counts.total() for counts in totals.values()) / (time.perf_counter() - started)
    print(f"\n{rate:,.0f} inputs per second", file=sys.stderr)
    if options.markdown:
        _update(Path(options.markdown), table)
    return 1 if findings else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=200_000, help="number of inputs, over all formats")
    parser.add_argument("--seed", default="0", help="the inputs follow from it and their numbers")
    parser.add_argument("--format", default="", help="only this format")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--only", type=int, help="write this input of --format into --keep")
    parser.add_argument("--keep", default="finding", help="folder for --only")
    parser.add_argument("--markdown", help="put the table of counts into this file, between its fuzz marks")
    parser.add_argument("--verbose", action="store_true", help="print the tracebacks of findings")
    return parser


Batch = tuple[Seed, str, range]


def _batches(seeds: list[Seed], options: argparse.Namespace) -> Iterator[Batch]:
    """Batches of all formats by turns, so that an interrupted run has covered all."""
    each = -(-options.inputs // len(seeds))
    for first in range(0, each, BATCH):
        for seed in seeds:
            yield seed, options.seed, range(first, min(first + BATCH, each))


def _run(batch: Batch) -> Counts:
    return fuzz(*batch)


def _keep(seed: Seed, options: argparse.Namespace) -> int:
    folder = Path(options.keep)
    folder.mkdir(exist_ok=True)
    for name, data in damaged(seed, options.seed, options.only).items():
        (folder / name).write_bytes(data)
    print(folder)
    return 0


def _print_findings(findings: list[Finding], *, verbose: bool) -> None:
    """One line per kind of finding, with its first input."""
    kinds: dict[tuple[str, str], list[Finding]] = {}
    for finding in sorted(findings):
        kinds.setdefault((finding.format, _place(finding)), []).append(finding)
    for (name, place), same in sorted(kinds.items(), key=lambda item: -len(item[1]))[:SHOWN]:
        print(f"{len(same)} × {name}: {same[0].what} {place} (first: --only {same[0].number})", file=sys.stderr)
        if verbose:
            print(same[0].details, file=sys.stderr)


def _place(finding: Finding) -> str:
    """The last line of the finding's traceback that is in Assay; findings with the same one are of one kind."""
    lines = [line.strip() for line in finding.details.splitlines() if "/assay/" in line]
    return lines[-1].partition("/assay/")[2] if lines else ""


def _table(totals: dict[str, Counter[str]]) -> str:
    rows = [(name, counts[OPENED], counts[REFUSED], counts[FOUND]) for name, counts in sorted(totals.items())]
    rows.append(("all", *(sum(row[column] for row in rows) for column in (1, 2, 3))))  # type: ignore[arg-type]
    lines = ["| format | inputs | opened | refused | findings |", "| --- | ---: | ---: | ---: | ---: |"]
    lines += [f"| {name} | {sum(numbers):,} | {' | '.join(f'{n:,}' for n in numbers)} |" for name, *numbers in rows]
    return "\n".join(lines)


BEGIN, END = "<!-- fuzz -->", "<!-- end of fuzz -->"


def _update(path: Path, table: str) -> None:
    before, _, rest = path.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    path.write_text(f"{before}{BEGIN}\n{table}\n{END}{after}")


if __name__ == "__main__":
    sys.exit(main())
