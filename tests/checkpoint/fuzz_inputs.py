"""Opens damaged checkpoints in child processes that measure their time and memory and watch what they do.

An input is named by its seed, format and number, from which it is made again. A finding is anything but a checkpoint
or a one-line `ReadError` or `UsageError`: another exception, more than 2 s of CPU time or 150 MB of memory, an end of
the process, a file that was created, or code that was run.
"""

from __future__ import annotations

import json
import mmap
import os
import resource
import shutil
import signal
import struct
import sys
import tempfile
import traceback
import unicodedata  # noqa: F401  (Python imports it to parse names that are not ASCII)
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, NoReturn

from fuzz_mutations import mutated

from assay.api.weights import analyze_weights, weights_document
from assay.checkpoint.open import open_checkpoint
from assay.checkpoint.reading import RangeReader
from assay.errors import ReadError, UsageError

CPU_S = 2.0
MEMORY_BYTES = 150 << 20
ADDRESS_SPACE = 4 << 30
"""Protects the machine; above it, memory cannot be allocated."""
LIST_EVERY, ANALYSE_EVERY = 8, 16
"""Of the inputs that open, one in this many is also listed as by `assay params`, or has its statistics computed."""

OPENED, REFUSED, FOUND = "opened", "refused", "findings"
Check = Callable[[Path, int], str]
"""Opens the input at a path and returns `OPENED` or `REFUSED`; the number selects further checks."""


class Seed(NamedTuple):
    """The intact files of one format, by name."""

    format: str
    files: dict[str, bytes]


class Finding(NamedTuple):
    """What an input did that it must not."""

    format: str
    number: int
    what: str
    details: str = ""


class Counts(NamedTuple):
    """The results of a range of inputs of one format."""

    format: str
    results: Counter[str]
    findings: list[Finding]


def seeds_in(folder: Path) -> list[Seed]:
    """The seeds that fuzz_seeds.py wrote into `folder`."""
    return [
        Seed(path.name, {file.name: file.read_bytes() for file in sorted(path.iterdir())})
        for path in sorted(folder.iterdir())
    ]


def damaged(seed: Seed, start: str, number: int) -> dict[str, bytes]:
    """The files of input `number`, one of which is damaged."""
    rng = Random(f"{start}:{seed.format}:{number}")
    name = rng.choice(sorted(seed.files))
    return {**seed.files, name: mutated(rng, seed.files[name])}


def check(path: Path, number: int) -> str:
    """Open the input as `assay params` does; any exception that is raised is a finding."""
    try:
        checkpoint = open_checkpoint(path)
    except (ReadError, UsageError) as error:
        return _refused(error)
    read = RangeReader().read
    for entry in checkpoint.entries:
        span, shared = entry.span, entry.shares_storage_with
        _require(shared is None or shared < len(checkpoint.entries), "a tensor shares the storage of no tensor")
        if span is None or not span.length:
            continue
        _require(entry.bytes <= span.length, "a tensor has more bytes than its range")
        last = min(8, span.length)
        try:
            data = read(span.file, span.offset + span.length - last, last, entry.encoded)
            _require(len(data) == last, "bytes are missing")
        except ReadError:
            _require(entry.encoded is not None, "the bytes of a tensor are not in its file")
    try:
        if not number % LIST_EVERY:
            weights_document(os.fspath(path), listing=True)
        if not number % ANALYSE_EVERY:
            analyze_weights(os.fspath(path), workers=1)
    except (ReadError, UsageError) as error:
        return _refused(error)
    return OPENED


def _refused(error: Exception) -> str:
    _require(str(error) and "\n" not in str(error), "the message is not one line")
    return REFUSED


def _require(condition: object, why: str) -> None:
    if not condition:
        raise AssertionError(why)


def fuzz(seed: Seed, start: str, numbers: range, examine: Check = check) -> Counts:
    """The results of the inputs `numbers`; when a finding ends a child, the next one continues after it."""
    results: Counter[str] = Counter()
    findings: list[Finding] = []
    with tempfile.TemporaryDirectory(dir=_memory_folder()) as folder, mmap.mmap(-1, _PROGRESS.size) as progress:
        while numbers:
            report = Path(folder) / "finding.json"
            code = _run(_Child(seed, start, examine, report, progress), numbers)
            begun, opened, refused = _PROGRESS.unpack(progress[:])
            results.update({OPENED: opened, REFUSED: refused, FOUND: begun - opened - refused})
            if code:
                killed = f"the process ended with signal {-code}", ""
                what, details = json.loads(report.read_text()) if code == _STOPPED else killed
                findings.append(Finding(seed.format, numbers[begun - 1], what, details))
            numbers = numbers[begun:]
    return Counts(seed.format, results, findings)


def _memory_folder() -> str | None:
    """A folder that is kept in memory, if the system has one."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


_PROGRESS = struct.Struct("<3q")
"""In memory that a child shares with its parent: how many inputs it has begun, opened and refused."""
_STOPPED, _BROKEN = 1, 70
"""Exit codes of a child that stopped at a finding, and of one that failed outside the readers."""


def _run(child: _Child, numbers: range) -> int:
    """Run the inputs in a new process, and return its exit code, or minus the signal that ended it."""
    pid = os.fork()
    if not pid:
        # Whatever happens, a child must not continue as its parent.
        try:
            child.run(numbers)
            os._exit(0)
        except BaseException:  # noqa: BLE001
            traceback.print_exc()
        finally:
            os._exit(_BROKEN)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code == _BROKEN:
        raise RuntimeError("the fuzzer itself failed")
    return code


class _Child:
    """Runs inputs in a process of its own, which ends at the first finding."""

    def __init__(self, seed: Seed, start: str, examine: Check, report: Path, progress: mmap.mmap) -> None:
        self._seed, self._start, self._examine = seed, start, examine
        self._report, self._progress = report, progress
        self._folder = report.with_name("work")
        self._results = dict.fromkeys((OPENED, REFUSED), 0)
        self._watching = False

    def run(self, numbers: range) -> None:
        """Run the inputs; writes a report and ends the process if one is a finding."""
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir()
        os.chdir(self._folder)
        self._protect()
        for done, number in enumerate(numbers):
            self._show_progress(done + 1)
            files = damaged(self._seed, self._start, number)
            self._results[self._result(_written(self._seed, self._folder, files), number)] += 1
        self._show_progress(len(numbers))

    def _show_progress(self, begun: int) -> None:
        self._progress[:] = _PROGRESS.pack(begun, *self._results.values())

    def _result(self, path: Path, number: int) -> str:
        """What the reader did with one input."""
        before = resource.getrusage(resource.RUSAGE_SELF)
        spent = before.ru_utime + before.ru_stime
        # The limit ends a reader that does not return to Python; before that, the timer reports where it is.
        resource.setrlimit(resource.RLIMIT_CPU, (int(spent + 10 * CPU_S), resource.RLIM_INFINITY))
        signal.setitimer(signal.ITIMER_PROF, CPU_S)
        self._watching = True
        try:
            result = self._examine(path, number)
        # Any other exception is a bug in a reader, which is what is searched for.
        except Exception as error:  # noqa: BLE001
            self._stop(f"{type(error).__name__}: {error}"[:200], traceback.format_exc())
        self._watching = False
        signal.setitimer(signal.ITIMER_PROF, 0)
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before.ru_maxrss) * 1024
        if os.listdir() != [self._seed.format]:
            self._stop("a file was created")
        if grown > MEMORY_BYTES:
            self._stop(f"{grown >> 20} MB of memory")
        return result

    def _protect(self) -> None:
        """Set limits, and watch what code does."""
        used = int(Path("/proc/self/statm").read_text().split()[0]) * mmap.PAGESIZE
        resource.setrlimit(resource.RLIMIT_AS, (used + ADDRESS_SPACE, resource.RLIM_INFINITY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(signal.SIGPROF, self._too_slow)
        sys.addaudithook(self._audit)

    def _too_slow(self, *_: object) -> None:
        stacks = ("".join(traceback.format_stack(frame)) for frame in sys._current_frames().values())
        self._stop(f"more than {CPU_S:g} s of CPU time", "\n".join(stacks))

    def _audit(self, event: str, args: tuple[Any, ...]) -> None:
        if self._watching and _is_forbidden(event, args):
            self._stop(f"forbidden: {event} {args!r:.200}", "".join(traceback.format_stack()))

    def _stop(self, what: str, details: str = "") -> NoReturn:
        self._watching = False
        self._report.write_text(json.dumps([what, details]))
        os._exit(_STOPPED)


def _is_forbidden(event: str, args: tuple[Any, ...]) -> bool:
    """Whether a reader must not do what Python's audit event describes."""
    if event == "open":
        flags = args[2] if isinstance(args[2], int) else 0
        return bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
    if event == "exec":
        return str(getattr(args[0], "co_filename", "")).startswith("<") and "frozen" not in args[0].co_filename
    return event.startswith(_FORBIDDEN)


_FORBIDDEN = (
    *("import", "os.chmod", "os.exec", "os.fork", "os.link", "os.mkdir", "os.posix_spawn", "os.putenv", "os.remove"),
    *("os.rename", "os.rmdir", "os.spawn", "os.symlink", "os.system", "os.truncate", "pickle.find_class"),
    *("shutil.", "socket.", "subprocess.", "ctypes.", "code.__new__", "marshal.", "tempfile.", "urllib."),
)
"""Audit events, or their beginnings, that no reader may cause."""


def preload(seeds: list[Seed]) -> None:
    """Check the intact seeds, so that what readers import on demand is imported before the children are watched."""
    with tempfile.TemporaryDirectory() as folder:
        for seed in seeds:
            check(_written(seed, Path(folder), seed.files), 0)


def _written(seed: Seed, folder: Path, files: dict[str, bytes]) -> Path:
    """Write the files into a directory of `folder`; the path to open: that of a single file, or the directory."""
    inputs = folder / seed.format
    inputs.mkdir(exist_ok=True)
    for name, data in files.items():
        (inputs / name).write_bytes(data)
    return inputs / name if len(files) == 1 else inputs
