"""What `assay` prints on terminals and in pipes, as text that a reviewer can read."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import assay

SERVER = Path(__file__).with_name("screen_server.py")
_STYLE = re.compile(r"\x1b\[([\d;]*)m")
_KEPT = ("PATH", "HOME", "TMPDIR", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
_NAMES = {"1": "bold", "2": "dim", "31": "red", "32": "green", "33": "yellow", "34": "blue", "36": "cyan"}


@dataclass(frozen=True)
class Screen:
    """What one command printed."""

    out: str
    err: str
    code: int
    torch: bool
    """Whether the command imported torch."""

    @property
    def text(self) -> str:
        """stdout without styles; any other control character stays visible."""
        plain = _STYLE.sub("", self.out)
        return re.sub(r"[^\n -~\xa0-\U0010ffff]", lambda match: f"‹{ord(match[0]):02x}›", plain)

    @property
    def styles(self) -> str:
        """One line per styled text, without repetitions."""
        lines = dict.fromkeys(_styled(self.out))
        width = max((len(name) for name, _ in lines), default=0)
        return "".join(f"{name:<{width}}  {text}\n" for name, text in lines)


def _styled(out: str) -> Iterable[tuple[str, str]]:
    style = ""
    for index, piece in enumerate(_STYLE.split(out)):
        if index % 2:
            style = " ".join(_NAMES.get(code, code) for code in piece.split(";") if code not in ("", "0"))
        elif style and piece.strip():
            yield style, piece.strip("\n")


class Screens:
    """Runs commands of `assay` in `folder` with the given environment variables; `modules` are imported first.

    A context manager: the process that runs them ends with it.
    """

    def __init__(self, folder: Path, variables: Mapping[str, str], modules: tuple[str, ...] = ()) -> None:
        kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
        fixed = {
            "PYTHONPATH": str(Path(assay.__file__).parents[1]),
            "OPENBLAS_NUM_THREADS": "1",
            "XDG_CACHE_HOME": str(folder / "cache"),
            "XDG_CONFIG_HOME": str(folder / "config"),
            "CUDA_VISIBLE_DEVICES": "",
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
            "TZ": "UTC",
        }
        self._process = subprocess.Popen(
            [sys.executable, str(SERVER), *modules],
            env={**kept, **fixed, **variables},
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )

    def show(self, arguments: Iterable[str], columns: int | None = None, *, both: bool = False) -> Screen:
        """The screen of a command on a terminal of `columns` columns, or in a pipe; `both` adds stderr to stdout."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        request = {"arguments": list(arguments), "columns": columns, "both": both}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return Screen(**json.loads(self._process.stdout.readline()))

    def __enter__(self) -> Screens:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()
