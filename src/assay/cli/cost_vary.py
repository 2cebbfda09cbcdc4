"""`assay cost --vary`: scaling formulas, the cost of a model as polynomials of its input sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from assay.api.options import OPENING, RunOptions
from assay.cli.options import Output
from assay.cli.output import emit, refuse_overwrite
from assay.cli.stderr import Messages
from assay.cli.streams import prints_to_stderr
from assay.errors import OK, UsageError
from assay.messages import plural

if TYPE_CHECKING:
    from assay.analysis.laws.law import Laws


def cost_vary(
    messages: Messages,
    model: str,
    inputs: str | None,
    options: RunOptions,
    output: Output,
    *,
    vary: str,
    at: Sequence[str] = (),
) -> int:
    """Write the scaling formulas of MODEL in the sizes named by `vary`, and their values at each point of `at`."""
    from assay.api.vary import scaling_formulas
    from assay.sources.open import open_source
    from assay.views.json.files import encode, encode_lines
    from assay.views.json.laws import laws_file
    from assay.views.text.laws import law_table

    refuse_overwrite(output, model, inputs)
    if output.save is not None:
        raise UsageError("--vary cannot be combined with --save: use -o FILE --format json instead")
    names = [name.strip() for name in vary.split(",") if name.strip()]
    points = [_point(text, names) for text in at]
    with prints_to_stderr():
        messages.line.step(OPENING)
        opened = open_source(model, model_args=options.model_args, trust=options.trust)
        laws = scaling_formulas(opened, inputs, options, names, on_progress=messages.line)
    emit(
        output,
        lambda: law_table(laws, points),
        {
            "json": lambda: encode(laws_file(laws, points)),
            "jsonl": lambda: encode_lines(laws_file(laws, points).laws),
        },
    )
    _print_notes(messages, laws, points)
    return OK


def _point(text: str, names: Sequence[str]) -> dict[str, int]:
    """Parse `batch=8,seq=4096` into sizes by name; every name of `names` must occur once."""
    pairs = [part.partition("=")[::2] for part in text.split(",")]
    point = {name.strip(): int(size) for name, size in pairs if size.strip().isdecimal()}
    if sorted(point) != sorted(names) or len(pairs) != len(names) or 0 in point.values():
        expected = ",".join(f"{name}=N" for name in names)
        raise UsageError(f"invalid --at {text!r}: expected {expected}, where N is a positive integer")
    return {name: point[name] for name in names}


def _print_notes(messages: Messages, laws: Laws, points: Sequence[dict[str, int]]) -> None:
    from assay.cli.observed import report_inputs
    from assay.views.text.laws import point_text

    report_inputs(messages, laws.inputs_from, laws.inputs_kind)
    for name, dimensions in laws.follows.items():
        messages.note(f"{name} is {', '.join(dimensions)}")
    messages.note(f"derived from {plural(len(laws.points), 'pass')} in {laws.mode} mode")
    for note in laws.notes:
        messages.note(note)
    for point in points:
        for name, limit in laws.limits.items():
            if point[name] > limit:
                messages.note(f"{point_text(point)}: the model's configuration limits {name} to {limit}")
        if not all(law.covers(**point) for law in laws.laws.values()):
            messages.note(f"{point_text(point)} is outside the sizes checked for some formulas (-v lists the sizes)")
    for point in laws.points:
        messages.detail(f"recorded at {point_text(point)}")
