"""Loading a pickled or scripted module for real, in a process of its own, and weighing what it turns out to hold."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec
from msgspec import Struct

from assay.checkpoint.statistics.settings import StatisticsSettings
from assay.document.weights import WeightsReport
from assay.errors import AssayError, ReadError, UserCodeError
from assay.sources.open import open_source


class _Question(Struct, frozen=True):
    path: str
    settings: StatisticsSettings
    filter: str | None
    listing: bool


class _Answer(Struct, frozen=True):
    report: WeightsReport | None = None
    error: str = ""
    frames: str = ""


def weigh_trusted(path: str, settings: StatisticsSettings, filter: str | None, listing: bool) -> WeightsReport:
    """The report of the module that loading `path` makes; its code runs, and only in the other process."""
    with tempfile.TemporaryDirectory(prefix="assay-") as folder:
        answer_file = Path(folder, "answer.json")
        question = msgspec.json.encode(_Question(path, settings, filter, listing))
        # What its code prints is narration: our stdout is data.
        done = subprocess.run(
            [sys.executable, "-m", __name__, str(answer_file)],
            input=question,
            stdout=sys.stderr.fileno(),
            check=False,
        )
        if not answer_file.exists():
            raise ReadError(f"loading {path} ended the process it ran in, with code {done.returncode}")
        answer = msgspec.json.decode(answer_file.read_bytes(), type=_Answer)
    if answer.report is None:
        raise UserCodeError(answer.error, answer.frames)
    return answer.report


def _answered(question: _Question) -> _Answer:
    from assay.api.weights import weigh

    try:
        module = open_source(question.path, trust=True).module
        report = weigh(module, settings=question.settings, filter=question.filter, listing=question.listing).weights
    except AssayError as error:
        return _Answer(error=str(error), frames=error.frames if isinstance(error, UserCodeError) else "")
    assert report is not None
    notes = ("loaded for real: its code has run, in a process of its own", *report.notes)
    return _Answer(msgspec.structs.replace(report, path=question.path, notes=notes))


def main() -> None:
    """Answer the question on stdin in the file that the argument names."""
    question = msgspec.json.decode(sys.stdin.buffer.read(), type=_Question)
    Path(sys.argv[1]).write_bytes(msgspec.json.encode(_answered(question)))


if __name__ == "__main__":
    main()
