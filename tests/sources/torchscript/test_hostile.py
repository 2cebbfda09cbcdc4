"""Hostile TorchScript files end with a result or one line of error, in little time and memory, and run nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import archives
import hostile
import isolated
import pytest

pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits and peak memory are read as on Linux")

CASES = {case.name: case for case in hostile.cases()}
SUMMARY, ANALYZE = "summary", "analyze"
CPU_S = 2.0
"""CPU time beyond that of a harmless file; tests allow twice as much, since a busy machine inflates it."""
MEMORY = 256 << 20
"""Bytes beyond those of a harmless file."""
OK, READ, PARTIAL, USAGE = 0, 3, 4, 2
ALLOCATED = ("DefaultCPUAllocator", "can't allocate memory", "not enough memory", "MemoryError", "bad_alloc")
HARMLESS = archives.forward("return torch.relu(torch.add(x, x))")


class Ended(NamedTuple):
    """How one command ended."""

    code: int
    cpu_s: float
    peak_bytes: int
    out: str
    err: str


class Isolated:
    """A process that runs commands in forks of itself."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        harmless = folder / "harmless.pt"
        archives.write(harmless, HARMLESS)
        warm = [self._job(command, harmless, folder / f"warm-{command}") for command in (SUMMARY, ANALYZE)]
        self.process = subprocess.Popen(
            [sys.executable, isolated.__file__, json.dumps(warm)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "NO_COLOR": "1"},
        )
        self.harmless = {
            command: self.run(command, harmless, folder / f"harmless-{command}") for command in (SUMMARY, ANALYZE)
        }

    def run(self, command: str, path: Path, folder: Path, *more: str) -> Ended:
        """Run `assay command` on the file in an empty working directory."""
        self.process.stdin.write(json.dumps(self._job(command, path, folder, *more)) + "\n")
        self.process.stdin.flush()
        return Ended(**json.loads(self.process.stdout.readline()))

    def _job(self, command: str, path: Path, folder: Path, *more: str) -> dict[str, Any]:
        """The working directory is empty; the results of analyze go elsewhere."""
        working, results, scratch = (folder / name for name in ("working", "results", "scratch"))
        for each in (working, scratch):
            each.mkdir(parents=True)
        inputs = ["--inputs", "1x3x8x8"] if command == SUMMARY else ["--dir", str(results)]
        return {
            "arguments": [command, str(path), *inputs, *more],
            "folder": str(working),
            "scratch": str(scratch),
            "may_write": [str(results), str(scratch)],
        }


@pytest.fixture(scope="session")
def assay(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Isolated]:
    runner = Isolated(tmp_path_factory.mktemp("isolated"))
    with runner.process:
        yield runner


def written(case: hostile.Case, folder: Path) -> Path:
    """The file of the case."""
    path = folder / "hostile.pt"
    case.write(path)
    return path


def problems(ended: Ended, harmless: Ended, working: Path) -> list[str]:
    """What a hostile file must not achieve, one line each."""
    lines = [line for line in ended.err.splitlines() if line.strip()]
    text = ended.out + ended.err
    checks = {
        f"exit code {ended.code}": ended.code not in (OK, READ, PARTIAL, USAGE),
        "a traceback": "Traceback" in text,
        "no line of error": ended.code != OK
        and not any(line.startswith(("assay: error: ", "assay: incomplete: ")) for line in lines),
        "a long error": any(len(line) > 2000 for line in lines),
        "control characters": any(not character.isprintable() and character != "\n" for character in text),
        "real memory": any(name in text for name in ALLOCATED),
        f"files {os.listdir(working)}": bool(os.listdir(working)),
        f"{ended.cpu_s - harmless.cpu_s:.1f} s more": ended.cpu_s - harmless.cpu_s > 2 * CPU_S,
        f"{(ended.peak_bytes - harmless.peak_bytes) >> 20} MB more": ended.peak_bytes - harmless.peak_bytes > MEMORY,
    }
    return [f"{problem} (of {text[-300:]!r})" for problem, present in checks.items() if present]


@pytest.mark.parametrize("name", CASES)
def test_hostile_files_are_harmless(name: str, assay: Isolated, tmp_path: Path):
    path = written(CASES[name], tmp_path)
    found = {}
    for command in (SUMMARY, ANALYZE):
        ended = assay.run(command, path, tmp_path / command)
        found[command] = problems(ended, assay.harmless[command], tmp_path / command / "working")
    path.unlink()
    assert found == {SUMMARY: [], ANALYZE: []}, CASES[name].why


def test_the_commands_end_well_on_a_harmless_file(assay: Isolated):
    for ended in assay.harmless.values():
        assert ended.code in (OK, READ)
        assert "EXECUTED" not in ended.err


def test_a_file_that_torch_loads_is_noticed(assay: Isolated, tmp_path: Path):
    archives.write(tmp_path / "harmless.pt", HARMLESS)
    ended = assay.run(SUMMARY, tmp_path / "harmless.pt", tmp_path / "run", "--trust")
    assert ended.code == isolated.EXECUTED
    assert "EXECUTED import_ir_module" in ended.err


VALID = [name for name, case in CASES.items() if case.valid]


@pytest.mark.parametrize("name", ["harmless", *VALID])
def test_torch_itself_loads_the_programs_that_are_only_hostile_when_run(name: str, tmp_path: Path):
    import torch

    case = CASES.get(name, hostile.Case("harmless", "", harmless_file))
    torch.jit.load(written(case, tmp_path))


def harmless_file(path: Path) -> None:
    archives.write(path, HARMLESS)


def test_there_are_enough_cases_and_no_two_share_a_name():
    names = [case.name for case in hostile.cases()]
    assert len(names) == len(set(names))
    assert len(names) >= 40
