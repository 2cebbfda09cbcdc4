"""Accuracy of the costs, compared with other counters, and the time it takes to compute them.

    python benchmarks/cost.py [--only a,b] [--rounds N] [--out FILE]

Install the counters in a separate environment: pip install fvcore torchinfo ptflops thop calflops deepspeed, and
pytest, since the cases are those of the tests. A dash means that a counter is not installed. Times are CPU time on
one thread, measured alternately in one run.
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

import torch
from capture import FLOPS, OURS, Limits, bert_base, first, gpt2_124m, resnet50, warm
from cost_cases import KNOWN, MARKS, Case, Known, cases
from cost_peers import COUNTERS, Answer, Tool, forked, missing, versions
from harness import PLAIN, Row, give_back, hardware, in_child, table
from torch import nn
from zoo_models.snapshot import changes, snapshot

from assay import observe, units
from assay.analysis.parameters import parameters

TOLERANCE = 0.06
ERROR = "ERR"
GIGA = 1e9

TOO_LONG_S = 900
"""Limit of CPU seconds for all cases of one counter together; the limit of one case is a minute."""


# --- (a) ops that are easy to miscount

RIGHT, ZERO, UNDER, OVER, CRASHED = "right (±6 %)", "silently 0", "under", "over", "crashed"


def tricky(rounds: int) -> str:
    """A table with one row per case and one column per counter, and how many each gets right."""
    listed = cases()
    columns = {name: _column(tool, listed) for name, tool in COUNTERS.items()}
    lines = [["case", "MACs", *columns]]
    for index, case in enumerate(listed):
        answers = [column[index] if column else None for column in columns.values()]
        lines.append([f"{case.name} {case.mark}".strip(), units.exact(int(case.macs)), *_cells(case, answers)])
    real, none = [case for case in listed if case.macs], [case for case in listed if not case.macs]
    for verdict in (RIGHT, ZERO, UNDER, OVER, CRASHED):
        lines.append([f"**{verdict}**", f"of {len(real)}", *_tally(columns.values(), listed, real, verdict)])
    lines.append(["**correctly 0**", f"of {len(none)}", *_tally(columns.values(), listed, none, RIGHT)])
    notes = [f"{mark} {text}" for mark, text in MARKS.items()]
    notes.append("\\* It crashed in a fresh process; this is its answer after a plain forward pass of the model.")
    notes.append(
        "Reported ÷ expected MACs of contractions, or the reported number if none are expected. Several counters add "
        "norms, pooling and activations to the same sum, hence the ±6 % and their values in the rows of 0."
    )
    crashes = [f"- {name}: {_crashes(column, listed)}" for name, column in columns.items() if column]
    return "\n\n".join([_markdown(lines), *notes, "Crashes:", "\n".join(crashes)])


def _column(tool: Tool, listed: list[Case]) -> list[Answer]:
    """One answer per case; empty if the counter is not installed."""

    def all_of_them() -> list[Answer]:
        return [] if missing(tool) else [_asked(tool, case) for case in listed]

    return [Answer(*answer) for answer in forked(all_of_them, TOO_LONG_S).value or ()]


def _asked(tool: Tool, case: Case) -> Answer:
    """The answer in a fresh process; after a crash, in another one after a plain forward pass."""
    answer = forked(partial(_count, tool, case, warmed_up=False))
    if not answer.error:
        return answer
    return forked(partial(_count, tool, case, warmed_up=True))._replace(at_first=answer.error)


def _count(tool: Tool, case: Case, *, warmed_up: bool) -> float:
    model, args = case.made()
    if warmed_up:
        with torch.no_grad():
            model(*args)
    return tool.macs(model, args)


def _verdict(case: Case, answer: Answer) -> str:
    if answer.error:
        return CRASHED
    if not case.macs:
        return OVER if answer.value else RIGHT
    ratio = answer.value / case.macs
    if abs(ratio - 1) <= TOLERANCE:
        return RIGHT
    if ratio > 1:
        return OVER
    return UNDER if round(ratio, 2) else ZERO


def _cells(case: Case, answers: list[Answer | None]) -> Iterator[str]:
    for answer in answers:
        if answer is None:
            yield units.UNKNOWN
        elif answer.error:
            yield ERROR
        else:
            shown = f"{answer.value / case.macs:.2f}" if case.macs else units.exact(int(answer.value))
            yield f"{shown} *" if answer.at_first else shown


def _tally(columns: Iterable[list[Answer]], listed: list[Case], of: list[Case], verdict: str) -> Iterator[str]:
    for column in columns:
        counts = Counter(_verdict(case, answer) for case, answer in zip(listed, column, strict=False) if case in of)
        yield f"**{counts[verdict]}**" if column else units.UNKNOWN


def _crashes(column: list[Answer], listed: list[Case]) -> str:
    pairs = [(case.name, answer) for case, answer in zip(listed, column, strict=True) if answer.at_first]
    return "; ".join(f"{name}{'' if found.error else ' *'} ({found.at_first})" for name, found in pairs) or "nothing"


# --- (b) well-known models


def published(rounds: int) -> str:
    """Assay's figures compared with published ones or with a closed form."""
    lines = [["model", "one call with", "parameters", "known", "GMACs", "known", "ours ÷ known", "known from"]]
    lines += [_known_line(name, known, forked(partial(_figures, known))) for name, known in KNOWN.items()]
    notes = (
        "Known parameters are those of the published weights, with tied ones counted once, and DeepSeek-V3 without "
        "the layer that predicts a second token. A closed form is exact: it adds up every contraction by hand from "
        "the sizes (projections, dense attention, the experts of a token, the head)."
    )
    return "\n\n".join([_markdown(lines), notes])


def _figures(known: Known) -> tuple[int | None, int]:
    subject = known.make()
    document = observe(subject.model, (subject.args, subject.kwargs))
    if document.run.failure is not None or document.cost is None or document.cost.unknown:
        raise RuntimeError("incomplete")
    return parameters(document).count, document.cost.forward.macs


def _known_line(name: str, known: Known, answer: Answer) -> list[str]:
    sizes = [units.exact(known.parameters), f"{known.macs / GIGA:,.3f}"]
    if answer.error:
        return [name, known.call, units.UNKNOWN, sizes[0], units.UNKNOWN, sizes[1], answer.error, known.how]
    count, macs = answer.value
    ratio = "exact" if macs == known.macs else f"{macs / known.macs:.4f}"
    return [name, known.call, units.exact(count), sizes[0], f"{macs / GIGA:,.3f}", sizes[1], ratio, known.how]


# --- (c) time and memory


WARM: list[Callable[..., Iterator[Row]]] = [
    partial(warm, name, make, [PLAIN, OURS, FLOPS], Limits(limit_ratio=1.5))
    for name, make in (("ResNet-50", resnet50), ("BERT-base", bert_base), ("GPT-2", gpt2_124m))
]
TARGET_S = {"Llama-3-70B": 0.6, "Llama-3.1-405B": 1.5, "DeepSeek-V3": 1.5}
COLD: list[Callable[..., Iterator[Row]]] = [
    partial(first, name, KNOWN[name].make, tool, Limits(limit_s, None, 10**9))
    for name, limit_s in TARGET_S.items()
    for tool in (PLAIN, OURS, FLOPS)
]
JOBS = [*WARM, *COLD]


def time(rounds: int) -> str:
    """Recording and cost together: warm with data, then without data as the first call of a process."""
    turns = [row for job in range(len(WARM)) for row in in_child(__file__, str(job), rounds)]
    fresh = [_repeated(job, min(rounds, 3)) for job in range(len(WARM), len(JOBS))]
    parts = [
        "With data: a forward pass, the document with its costs, and torch's counter, alternating. Ratios differ by "
        "up to 8 % between two runs on a busy machine.",
        table(turns),
        _against(FLOPS, turns),
        "Without data: the first call after the imports, in a fresh process. Memory is that of the whole process.",
        table(fresh),
        _against(FLOPS, fresh),
    ]
    return "\n\n".join(parts)


def _repeated(job: int, processes: int) -> Row:
    """One row from several processes: all samples and the highest peak memory."""
    rows = [row for _ in range(processes) for row in in_child(__file__, str(job), 1)]
    rows[0].samples = [sample for row in rows for sample in row.samples]
    rows[0].peak_bytes = max((row.peak_bytes for row in rows if row.peak_bytes is not None), default=None)
    return rows[0]


def _against(other: str, rows: Sequence[Row]) -> str:
    best = {(row.group, row.what): row.best_s for row in rows}
    pairs = {group: (best.get((group, OURS)), best.get((group, other))) for group, _ in best}
    ratios = [f"{group} {units.ratio(mine / theirs)}" for group, (mine, theirs) in pairs.items() if mine and theirs]
    return f"{OURS} ÷ {other}: {', '.join(ratios)}."


# --- (d) side effects


def residue(rounds: int) -> str:
    """Changes that each counter leaves on a model in training mode with frozen batch norms, and in the process."""
    lines = [["counter", "state_dict keys", "modules with hooks", "with attributes", "in another mode", "other"]]
    for name, tool in COUNTERS.items():
        answer = forked(partial(_left, tool))
        lines.append([name, *(answer.value or [answer.error or units.UNKNOWN] * 5)])
    note = "On ResNet-50 set up for fine-tuning: in training mode, with its batch norms in evaluation mode."
    return "\n\n".join([_markdown(lines), note])


def _left(tool: Tool) -> list[str] | None:
    if missing(tool):
        return None
    importlib.import_module("torch._dynamo")  # replaces functions of torch when first imported
    subject = resnet50()
    model = subject.model.train()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.eval()
    before, keys, functions = snapshot(model), set(model.state_dict()), _functions()
    tool.macs(model, subject.args)
    after = snapshot(model)
    changed = changes(before, after)
    kinds = Counter(key.split(" of ")[0] for key in changed if " of " in key)
    attributes = {
        name for key in changed if key.startswith("attributes") for name in {*after[key]} - {*before.get(key, ())}
    }
    other = [key for key in changed if " of " not in key and not (key.startswith("tensor ") and key not in before)]
    replaced = [name for name, function in _functions().items() if functions.get(name) != function]
    return [
        _some(set(model.state_dict()) ^ keys),
        str(kinds["hooks"]),
        f"{kinds['attributes']} ({_some(attributes)})" if attributes else str(kinds["attributes"]),
        str(kinds["training"]),
        _some({*other, *replaced}),
    ]


def _functions() -> dict[str, Callable[..., object]]:
    """The functions that counters may replace."""
    owners = {"torch": torch, "torch.nn.functional": nn.functional, "torch.Tensor": torch.Tensor}
    found = {f"{owner}.{name}": getattr(place, name) for owner, place in owners.items() for name in dir(place)}
    return {name: value for name, value in found.items() if callable(value)}


def _some(names: set[str]) -> str:
    shown = sorted(names, key=lambda name: (len(name), name))[:2]
    return f"{len(names)}: {', '.join(shown)}{', …' if len(names) > 2 else ''}" if names else "0"


# --- sections

SECTIONS: dict[str, tuple[str, Callable[[int], str]]] = {
    "a": ("Ops that are easy to miscount", tricky),
    "b": ("Well-known models", published),
    "c": ("Time and memory of recording and cost together", time),
    "d": ("Side effects on the model and the process", residue),
}


def main() -> int:
    """Run the chosen sections; return 0."""
    options = _options()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    if options.child:
        give_back(JOBS[int(options.child)](rounds=options.rounds))
        return 0
    parts = [f"# Cost, {datetime.date.today().isoformat()}", f"{hardware()}. Compared with {versions()}."]
    for name, (title, section) in SECTIONS.items():
        if not options.only or name in options.only.split(","):
            parts += [f"## ({name}) {title}", section(options.rounds)]
            print(f"{parts[-2]}\n\n{parts[-1]}\n", flush=True)
    if options.out:
        Path(options.out).write_text("\n\n".join(parts) + "\n")
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure the accuracy and the speed of cost counters.")
    parser.add_argument("--only", default="", help=f"sections to run, from {','.join(SECTIONS)}")
    parser.add_argument("--rounds", type=int, default=7, help="timed runs of each tool, after one warm-up")
    parser.add_argument("--out", help="also write a Markdown file")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    return parser.parse_args()


def _markdown(lines: Sequence[Sequence[str]]) -> str:
    """The lines as a Markdown table; the first line is the header."""
    rule = ["---", *["--:" for _ in lines[0][1:]]]
    return "\n".join(f"| {' | '.join(line)} |" for line in (lines[0], rule, *lines[1:]))


if __name__ == "__main__":
    sys.exit(main())
