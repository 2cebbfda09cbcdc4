"""Loading a trusted pickled or scripted module in a separate process, and computing the statistics of its tensors."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from assay.checkpoint.statistics.settings import StatisticsSettings
from assay.document.weights import WeightsReport
from assay.errors import AssayError, ReadError, UserCodeError
from assay.sources.open import open_source


class _Request(Struct, frozen=True):
    path: str
    root: str
    settings: StatisticsSettings
    filter: str | None
    listing: bool


class _Response(Struct, frozen=True):
    report: WeightsReport | None = None
    error: str = ""
    frames: str = ""


def trusted_report(
    path: str, root: str, settings: StatisticsSettings, filter: str | None, listing: bool
) -> WeightsReport:
    """The statistics of the module stored in `path`, which is loaded, and its code run, in a separate process.

    `root` is the module's name in the file, empty if the file holds nothing else: its tensors' names begin with it.
    """
    with tempfile.TemporaryDirectory(prefix="assay-") as folder:
        response_file = Path(folder, "response.json")
        request = msgspec.json.encode(_Request(path, root, settings, filter, listing))
        # Output of the loaded code goes to stderr, because stdout is reserved for results.
        process = subprocess.run(
            [sys.executable, "-m", __name__, str(response_file)],
            input=request,
            stdout=sys.stderr.fileno(),
            check=False,
        )
        if not response_file.exists():
            raise ReadError(f"the process that loaded {path} ended with exit code {process.returncode}")
        response = msgspec.json.decode(response_file.read_bytes(), type=_Response)
    if response.report is None:
        raise UserCodeError(response.error, response.frames)
    return response.report


def _named(name: str, module: Any) -> Any:
    """The module under its name in a module of its own, or itself if the name is empty."""
    if not name:
        return module
    holder = sys.modules["torch"].nn.Module()
    holder._modules[name] = module  # `add_module` refuses names of attributes, such as `type`
    return holder


def _respond(request: _Request) -> _Response:
    from assay.api.weights import weights_document

    try:
        module = _named(request.root, open_source(request.path, trust=True).module)
        report = weights_document(
            module, settings=request.settings, filter=request.filter, listing=request.listing
        ).weights
    except AssayError as error:
        return _Response(error=str(error), frames=error.frames if isinstance(error, UserCodeError) else "")
    assert report is not None
    notes = ("loaded with torch: its code was run, in a separate process", *report.notes)
    return _Response(msgspec.structs.replace(report, path=request.path, notes=notes))


def main() -> None:
    """Read a request from stdin and write the response to the file named by the first argument."""
    request = msgspec.json.decode(sys.stdin.buffer.read(), type=_Request)
    Path(sys.argv[1]).write_bytes(msgspec.json.encode(_respond(request)))


if __name__ == "__main__":
    main()
