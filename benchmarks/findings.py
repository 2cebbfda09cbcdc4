"""Try every automatic change on the models of `findings_models.py`: predicted and measured gain, hit rate per rule.

    python benchmarks/findings.py --seconds 4 --out findings.md
    python benchmarks/findings.py --device cuda --models resnet50 vit decoder --batches 1 32 --best

A prediction is the gain of the finding whose advice a change follows. A rule hits if at least one of its changes is
faster (for rules about memory: needs less). The last line is the same model tried against itself.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
from harness import hardware

from assay import units
from assay.document.findings import MEMORY, TIME, Finding
from assay.document.trials import DIFFERENT, FAILED, FASTER, INCONCLUSIVE, SAME, SKIPPED, SLOWER, TrialResult
from assay.findings.verified import measured_gain, verdict_line

FOLDER = Path(__file__).resolve().parent
TRIED = (FASTER, SLOWER, SAME, INCONCLUSIVE)


class Tried(msgspec.Struct):
    """What was predicted for one model, and what trials showed."""

    model: str
    batch: int
    findings: list[Finding]
    """Before any trial."""
    trials: list[TrialResult]
    null: list[TrialResult]
    """The model against a copy of itself."""
    seconds: float


def main() -> int:
    """Print the tables; 1 if trying a model against itself showed a gain."""
    options = _options()
    if options.child:
        return _child(options)
    rows: list[Tried] = []
    for batch in options.batches:
        for model in options.models or _names():
            print(f"{model}, batch {batch} …", file=sys.stderr, flush=True)
            rows += _run(model, batch, options)
            text = _report(options, rows)
            if options.out:
                Path(options.out).write_text(text)
    print(text)
    return 1 if any(trial.verdict in (FASTER, SLOWER) for row in rows for trial in row.null) else 0


def _report(options: argparse.Namespace, rows: Sequence[Tried]) -> str:
    lines = [*_header(options), *_trial_lines(rows), *_rule_lines(rows), *_change_lines(rows), *_best_lines(rows)]
    null = Counter(trial.verdict for row in rows for trial in row.null)
    differing = null[FASTER] + null[SLOWER]
    lines.append(f"A/A: {differing} false verdicts in {sum(null.values())} trials ({dict(null)})")
    return "\n".join(lines) + "\n"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Try every automatic change on bundled architectures.")
    parser.add_argument("--models", nargs="*", help="names in findings_models.py; all by default")
    parser.add_argument("--batches", type=int, nargs="*", default=[1])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seconds", type=float, default=4.0, help="seconds per trial")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds per model")
    parser.add_argument("--changes", nargs="*", help="changes to try; all by default")
    parser.add_argument("--null", type=int, default=4, help="trials of each model against itself")
    parser.add_argument("--best", action="store_true", help="search the best stack, too")
    parser.add_argument("--energy", action="store_true", help="measure energy, too")
    parser.add_argument("--dtype", default=None)
    parser.add_argument("--out", help="also write the tables to this file")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    return parser.parse_args()


def _names() -> list[str]:
    from findings_models import MODELS

    return list(MODELS)


def _run(model: str, batch: int, options: argparse.Namespace) -> list[Tried]:
    """The result of one model, in a process of its own."""
    names = ["--changes", *options.changes] if options.changes else []
    flags = [f"--{name}" for name in ("best", "energy") if getattr(options, name)]
    extra = [*names, *flags, *(["--dtype", options.dtype] if options.dtype else [])]
    scale = "cpu" if options.device == "cpu" else "device"
    settings = [f"--{name}={getattr(options, name)}" for name in ("device", "seconds", "limit", "null")]
    try:
        done = subprocess.run(
            [sys.executable, __file__, "--child", model, "--batches", str(batch), *settings, *extra],
            env={**os.environ, "BATCH": str(batch), "SCALE": scale},
            stdout=subprocess.PIPE,
            timeout=2 * options.limit,
            check=True,
        )
    except (subprocess.SubprocessError, OSError) as error:
        print(f"{model}: {error}", file=sys.stderr)
        return []
    return [msgspec.json.decode(done.stdout.splitlines()[-1], type=Tried)]


def _child(options: argparse.Namespace) -> int:
    import torch

    import assay
    from assay.api.attempt import ALL, BEST, AttemptOptions, attempt
    from assay.api.options import RunOptions
    from assay.trials.plan import StackTrial, TrialSettings
    from assay.trials.runs import TrialRun
    from assay.trials.subject import TrialSubject

    if options.device == "cpu":
        torch.set_num_threads(1)
    begin = time.perf_counter()
    source = f"{FOLDER / 'findings_models.py'}::{options.child}"
    inputs = f"{FOLDER / 'findings_models.py'}::{options.child}_inputs"
    device = None if options.device == "cpu" else options.device
    report = assay.check(source, inputs, device=device, dtype=options.dtype, seconds=3.0)
    running = RunOptions(device=device, dtype=options.dtype)
    names = (*((BEST,) if options.best else ()), *(options.changes or (ALL,)))
    wishes = AttemptOptions(names, seconds=options.seconds, budget_s=options.limit, energy=options.energy)
    trials = attempt(source, inputs, running, wishes, findings=report.findings)
    settings = TrialSettings(device, options.dtype, seconds=options.seconds, energy=False)
    null = TrialRun(TrialSubject(source, inputs), settings).results([StackTrial(()) for _ in range(options.null)])
    row = Tried(options.child, options.batches[0], report.findings, trials, null, time.perf_counter() - begin)
    sys.stdout.buffer.write(b"\n" + msgspec.json.encode(row) + b"\n")
    return 0


def _header(options: argparse.Namespace) -> list[str]:
    threads = ", 1 thread" if options.device == "cpu" else ""
    return [f"{hardware()}; device {options.device}{threads}, {options.seconds:g} s per trial", ""]


def _predicted(row: Tried, trial: TrialResult, of: str = TIME) -> float | None:
    """The largest share that a finding promised for a change; None if none did or it was unknown."""
    gains = [each.gain for each in row.findings if each.code in trial.codes and each.gain is not None]
    shares = [gain.share.value for gain in gains if gain.of == of and gain.share.value is not None]
    return max(shares, default=None)


def _trial_lines(rows: Sequence[Tried]) -> Iterable[str]:
    yield "| model | change | predicted (at most) | measured | verdict | outputs | peak |"
    yield "| --- | --- | --: | --: | --- | --- | --: |"
    for row in rows:
        for trial in row.trials:
            if trial.against or trial.verdict == SKIPPED:
                continue
            share = _predicted(row, trial)
            predicted = "–" if share is None else f"{1 / max(1 - share, 0.01):.2f}×"
            low, high = getattr(trial.speedup.how, "range", None) or (None, None)
            speed = "–" if trial.speedup.value is None else f"{trial.speedup.value:.2f} [{low:.2f}–{high:.2f}]"
            outputs = trial.outputs
            error = "–" if outputs is None else "identical" if outputs.identical else f"{outputs.sqnr_db or 0:.0f} dB"
            peak = measured_gain(trial, MEMORY)
            saved = "–" if peak is None or peak.share.value is None else f"{-100 * peak.share.value:+.0f} %"
            verdict = f"{trial.verdict}: {trial.detail}" if trial.verdict in (FAILED, DIFFERENT) else trial.verdict
            name = f"{row.model}, {row.batch}"
            yield f"| {name} | {trial.name} | {predicted} | {speed} | {verdict} | {error} | {saved} |"
    yield ""


def _rule_lines(rows: Sequence[Tried]) -> Iterable[str]:
    """How often the advice of a rule helped where the rule fired, and what it promised."""
    fired: Counter[str] = Counter()
    hits: Counter[str] = Counter()
    within: Counter[str] = Counter()
    promises: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        for finding in {each.code: each for each in row.findings}.values():
            own = [t for t in row.trials if finding.code in t.codes and t.verdict in TRIED and len(t.changes) == 1]
            if not own or finding.gain is None:
                continue
            gains = [gain.share.value or 0.0 for t in own if (gain := measured_gain(t, finding.gain.of)) is not None]
            best = max(gains, default=0.0)
            faster = any(t.verdict == FASTER for t in own)
            helped = faster if finding.gain.of == TIME else best >= 0.02
            fired[finding.code] += 1
            hits[finding.code] += helped
            share = finding.gain.share.value
            if share is not None:
                promises[finding.code].append(share)
                within[finding.code] += best <= share + 0.02
    yield "| rule | fired and tried | helped | measured within the promise | mean promise |"
    yield "| --- | --: | --: | --: | --: |"
    for code in sorted(fired):
        known = promises[code]
        mean = units.share(sum(known) / len(known), 1) if known else "–"
        yield f"| {code} | {fired[code]} | {hits[code]} | {within[code]} of {len(known)} | {mean} |"
    yield ""


def _change_lines(rows: Sequence[Tried]) -> Iterable[str]:
    """The verdicts of each change over all models."""
    verdicts: dict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        for trial in row.trials:
            if not trial.against and len(trial.changes) == 1:
                verdicts[trial.name][trial.verdict] += 1
    columns = (FASTER, SAME, INCONCLUSIVE, SLOWER, DIFFERENT, FAILED, SKIPPED)
    yield "| change | " + " | ".join(columns) + " |"
    yield "| --- |" + " --: |" * len(columns)
    for name in sorted(verdicts):
        yield f"| {name} | " + " | ".join(str(verdicts[name][each] or "") for each in columns) + " |"
    yield ""


def _best_lines(rows: Sequence[Tried]) -> Iterable[str]:
    """The best stack of each model, step by step."""
    for row in rows:
        steps = [trial for trial in row.trials if trial.against]
        final = [trial for trial in row.trials if not trial.against and len(trial.changes) > 1]
        if steps:
            yield f"{row.model}, batch {row.batch}: best stack, searched in {row.seconds:.0f} s"
            yield from (f"- {t.name} against {' + '.join(t.against)}: {verdict_line(t)}" for t in steps)
            yield from (f"- **{t.name}** against the original: {verdict_line(t)}" for t in final[-1:])
            yield ""


if __name__ == "__main__":
    sys.exit(main())
