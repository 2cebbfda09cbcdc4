"""`assay cost --vary`: how the costs of a model grow, as laws in the sizes of its inputs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from typing import TYPE_CHECKING

from assay.api.options import RunOptions
from assay.cli.narration import Narrator
from assay.cli.options import Output
from assay.cli.output import emit, refuse_overwrite
from assay.errors import OK, UsageError

if TYPE_CHECKING:
    from assay.analysis.laws.law import Laws


def cost_vary(
    narrator: Narrator,
    model: str,
    inputs: str | None,
    options: RunOptions,
    output: Output,
    *,
    vary: str,
    at: Sequence[str] = (),
) -> int:
    """Write the laws of MODEL in the sizes named by `vary`, and what they give at the points of `at`."""
    from assay.api.vary import laws_of
    from assay.sources.open import open_source
    from assay.views.json.files import encode, encode_lines
    from assay.views.json.laws import laws_file
    from assay.views.text.laws import law_table

    refuse_overwrite(output, model, inputs)
    if output.save is not None:
        raise UsageError("--save keeps one capture, and --vary makes several: use -o with --format json")
    over = [name.strip() for name in vary.split(",") if name.strip()]
    points = [_point(text, over) for text in at]
    # What a model prints is narration: it must not get between the data on stdout.
    with redirect_stdout(sys.stderr):
        opened = open_source(model, model_args=options.model_args, trust=options.trust)
        laws = laws_of(opened, inputs, options, over)
    emit(
        output,
        lambda: law_table(laws, points),
        {
            "json": lambda: encode(laws_file(laws, points)),
            "jsonl": lambda: encode_lines(laws_file(laws, points).laws),
        },
    )
    _tell(narrator, laws, points)
    return OK


def _point(text: str, names: Sequence[str]) -> dict[str, int]:
    """`batch=8,seq=4096` as sizes."""
    pairs = [part.partition("=")[::2] for part in text.split(",")]
    point = {name.strip(): int(size) for name, size in pairs if size.strip().isdecimal()}
    if sorted(point) != sorted(names) or len(pairs) != len(names) or 0 in point.values():
        wanted = ",".join(f"{name}=N" for name in names)
        raise UsageError(f"--at {text} is no point: {wanted} is wanted, whole numbers from 1")
    return {name: point[name] for name in names}


def _tell(narrator: Narrator, laws: Laws, points: Sequence[dict[str, int]]) -> None:
    from assay.cli.observed import report_inputs
    from assay.views.text.laws import point_text

    report_inputs(narrator, laws.inputs_from, laws.inputs_kind)
    for name, places in laws.follows.items():
        narrator.note(f"{name} is {', '.join(places)}")
    narrator.note(f"from {len(laws.points)} captures in {laws.mode} mode")
    for note in laws.notes:
        narrator.note(note)
    for point in points:
        for name, limit in laws.limits.items():
            if point[name] > limit:
                narrator.note(f"{point_text(point)}: the model says it takes {name} up to {limit}")
        if not all(law.covers(**point) for law in laws.laws.values()):
            narrator.note(f"{point_text(point)} lies beyond the sizes compared for some laws (-v tells which sizes)")
    for known in laws.points:
        narrator.detail(f"captured at {point_text(known)}")
