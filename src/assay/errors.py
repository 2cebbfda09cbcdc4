"""The exception tree and the exit codes.

    AssayError                      1
    ├── UsageError                  2   an argument or option is not valid
    │   └── InputsError             2   the inputs do not match forward or cannot be parsed
    ├── ReadError                   3   a model or file cannot be read
    │   ├── TrustError              3   opening the file would run its code, and it is not trusted
    │   ├── VersionError            3   the document was written by a newer Assay
    │   └── UserCodeError           3   the user's own function raised; carries its frames
    ├── WriteError                  3   an output cannot be written
    └── PartialError                4   the model failed midway; the result is incomplete
    any other exception            70   a bug in Assay

    PartialWarning                      the model failed midway; the result that is returned is marked as partial

Each message is one line: what failed, where, and what to do. Nothing here formats or prints.
"""

from __future__ import annotations

from typing import ClassVar

OK = 0
FINDINGS = 1
INTERNAL = 70
"""EX_SOFTWARE in sysexits.h."""
INTERRUPTED = 130


class AssayError(Exception):
    """Base class of all errors that Assay raises on purpose, such as a wrong argument or an unreadable file.

    The message is one line that names the problem and the next step.
    """

    exit_code: ClassVar[int] = FINDINGS
    """The exit code of the `assay` command for this error."""


class UsageError(AssayError):
    """An argument or option is not valid, or does not apply to this model."""

    exit_code = 2


class InputsError(UsageError):
    """The inputs do not match the arguments of forward, cannot be parsed, or cannot be inferred."""


class ReadError(AssayError):
    """A model or file cannot be read."""

    exit_code = 3


class TrustError(ReadError):
    """Opening the file would run code stored in it, and the file is not trusted."""


class VersionError(ReadError):
    """The document was written by a newer version of Assay."""


class UserCodeError(ReadError):
    """The user's own code, such as the function that builds the model, raised an exception."""

    def __init__(self, message: str, frames: str = "") -> None:
        super().__init__(message)
        self.frames = frames
        """The traceback, reduced to the user's own code."""


class WriteError(AssayError):
    """An output cannot be written."""

    exit_code = 3


class PartialError(AssayError):
    """The model failed midway, so the result is incomplete."""

    exit_code = 4


class PartialWarning(UserWarning):
    """The forward pass stopped midway: the result covers only the ops before, and is marked as partial."""
