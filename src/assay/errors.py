"""The exception tree and the exit codes.

    AssayError                      1
    ├── UsageError                  2   the command or call was put wrongly
    │   └── InputsError             2   the inputs do not fit the model or cannot be understood
    ├── ReadError                   3   a model or file could not be read
    │   ├── TrustError              3   reading it would run its code, and nobody said --trust
    │   ├── VersionError            3   a document written by a newer Assay
    │   └── UserCodeError           3   the user's own function raised; carries its frames
    ├── WriteError                  3   an output could not be written
    └── PartialError                4   the model failed midway; what was learned is kept
    any other exception            70   a defect of Assay itself

Each error is one line: what, where, what to do. Nothing here formats or prints.
"""

from __future__ import annotations

from typing import ClassVar

OK = 0
FOUND = 1
INTERNAL = 70
"""EX_SOFTWARE of sysexits.h."""
INTERRUPTED = 130


class AssayError(Exception):
    """Something a person can act on; `exit_code` is what the command ends with."""

    exit_code: ClassVar[int] = FOUND


class UsageError(AssayError):
    """The command or call was put wrongly."""

    exit_code = 2


class InputsError(UsageError):
    """Inputs that do not fit the model or cannot be understood."""


class ReadError(AssayError):
    """A model or file could not be read."""

    exit_code = 3


class TrustError(ReadError):
    """Opening this would run code from the file, and nobody said `--trust`."""


class VersionError(ReadError):
    """A document written by a newer Assay than this one."""


class UserCodeError(ReadError):
    """The user's own function raised; `frames` is its traceback cut to the user's lines."""

    def __init__(self, message: str, frames: str = "") -> None:
        super().__init__(message)
        self.frames = frames


class WriteError(AssayError):
    """An output could not be written."""

    exit_code = 3


class PartialError(AssayError):
    """The model failed midway; what was learned before is kept."""

    exit_code = 4
