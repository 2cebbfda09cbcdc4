"""Infer the inputs of every transformers model of the zoo and compare the modules that run with the zoo's own inputs.

python benchmarks/inference.py [--only REGEX] [--jobs N] [--limit SECONDS] [--json FILE]

Each small model runs with data, without Assay, once per set of inputs. The figures are leaf modules that ran with
inferred inputs / with those of the zoo, of all.
A tower is a part that is a transformers model itself, such as a vision encoder.
"""

from __future__ import annotations

import argparse
import importlib
import json
import re
import sys
from pathlib import Path
from typing import Any

import torch
from torch import nn
from zoo import run
from zoo_models import entries, oracle
from zoo_models.registry import Entry, Inputs


def main() -> int:
    """Examine the chosen entries and print the table."""
    options = _options()
    torch.set_num_threads(1)
    for name in ("transformers.modeling_utils", "assay.recorder.passes", "assay.sources.inputs"):
        importlib.import_module(name)
    chosen = [entry for entry in entries() if entry.name.startswith("hf/") and re.search(options.only, entry.name)]
    rows = run(chosen, examine, options.jobs, options.limit, _line)
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n")
    print("\n".join([*map(_line, rows), "", *_totals(rows)]))
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Compare inferred inputs with the right ones.")
    parser.add_argument("--only", default="", help="run only names that match this regular expression")
    parser.add_argument("--jobs", type=int, default=2, help="number of parallel processes")
    parser.add_argument("--limit", type=float, default=120.0, help="time limit per entry, in seconds")
    parser.add_argument("--json", help="write all results to this file")
    return parser.parse_args()


def examine(entry: Entry) -> dict[str, Any]:
    """The modules that run with the zoo's inputs and with inferred ones."""
    model, inputs = oracle.fresh(entry)
    expected, broken = ran(model, inputs)
    if broken:
        return {"broken": broken}
    found, how, error = _inferred(entry)
    leaves = {path for path, child in model.named_modules() if not any(child.children())}
    return {
        "broken": "",
        "inputs": how,
        "error": error,
        "leaves": len(leaves),
        "expected": len(expected & leaves),
        "found": len(found & leaves),
        "missing": sorted((expected - found) & leaves),
        "towers": sorted(tower for tower in _towers(model) if not any(path.startswith(tower) for path in found)),
        "meta": _without_data(entry),
    }


def _inferred(entry: Entry) -> tuple[set[str], str, str]:
    """The modules that run with inferred inputs, the inputs, and the error if they do not fit."""
    from assay import open as open_model
    from assay.errors import AssayError
    from assay.sources.inputs import find_inputs

    model, _ = oracle.fresh(entry)
    try:
        inputs = find_inputs(None, open_model(model))
    except AssayError as error:
        return set(), "", oracle.line(error)
    paths, error = ran(model, inputs.kwargs if inputs.kwargs else inputs.args)
    return (set() if error else paths), inputs.how, error


def ran(model: nn.Module, inputs: Inputs) -> tuple[set[str], str]:
    """The paths of the modules that ran, and the error or an empty text."""
    paths: set[str] = set()
    for path, child in model.named_modules():
        child.register_forward_pre_hook(lambda *_, path=path: paths.add(path))
    try:
        with torch.no_grad():
            oracle.call(model.eval(), inputs)
    except Exception as error:  # noqa: BLE001  any error of the model is the result
        return paths, oracle.line(error)
    return paths, ""


def _towers(model: nn.Module) -> set[str]:
    """The paths of the parts that are transformers models, each with a dot at the end."""
    from transformers import PreTrainedModel

    return {f"{path}." for path, child in model.named_modules() if path and isinstance(child, PreTrainedModel)}


def _without_data(entry: Entry) -> str:
    """The failure of a pass without data on inferred inputs, or an empty text."""
    from assay import observe
    from assay.errors import AssayError

    try:
        failure = observe(oracle.fresh(entry)[0], mode="meta").run.failure
    except AssayError as error:
        return oracle.line(error)
    return "" if failure is None else f"{failure.module}: {failure.error}"[:200]


def _line(row: dict[str, Any]) -> str:
    """One row of the table."""
    name = row["name"].removeprefix("hf/")
    if row["broken"]:
        return f"{name:34} not compared: {row['broken']}"
    shape = f"{row['found']}/{row['expected']} of {row['leaves']}"
    verdict = "no" if row["error"] else "yes"
    notes = [
        row["error"],
        *(f"{tower} did not run" for tower in row["towers"]),
        row["meta"] and f"meta: {row['meta']}",
    ]
    missing = [f"{len(row['missing'])} missing, e.g. {row['missing'][0]}"] if row["missing"] else []
    return f"{name:34}{verdict:5}{shape:20}{row['inputs']}  {'; '.join(note for note in notes + missing if note)}"


def _totals(rows: list[dict[str, Any]]) -> list[str]:
    """How many entries complete, run the expected modules, and run every tower."""
    compared = [row for row in rows if not row["broken"]]
    complete = [row for row in compared if not row["error"]]
    expected = [row for row in complete if not row["missing"]]
    towers = [row for row in expected if not row["towers"]]
    counts = {"complete": complete, "and run every expected module": expected, "and run every tower": towers}
    whole = len(compared)
    texts = [f"{label}: {len(each)}/{whole} ({len(each) / whole:.1%})" for label, each in counts.items() if whole]
    return [*texts, f"complete without data: {sum(not row['meta'] for row in compared)}/{whole}"]


if __name__ == "__main__":
    sys.exit(main())
