"""Commands without a model: help, version, env, schema, completion."""

from __future__ import annotations

import getpass
import json
import platform
import socket
from importlib.metadata import version
from pathlib import Path

import pytest

from assay.cli.main import COMMANDS, assay
from assay.cli.schema import NAMES
from assay.version import __version__


def test_help_lists_every_command_with_its_line(cli):
    for arguments in ([], ["--help"], ["-h"]):
        result = cli(*arguments)
        assert result.code == 0
        for name in COMMANDS:
            assert f"\n  {name} " in result.out


@pytest.mark.parametrize("name", COMMANDS)
def test_every_registered_command_can_be_imported(cli, name):
    assert assay.get_command(None, name).name == name
    result = cli(name, "--help")
    assert result.code == 0
    assert result.out.startswith(f"Usage: assay {name}")


def test_help_groups_the_options(cli):
    headings = ["Options:", "Measurement options:", "Model options:", "Output options:"]
    lines = cli("profile", "--help").out.splitlines()
    assert [line for line in lines if line in headings] == headings
    assert "Model options:" not in cli("machine", "--help").out


def test_version(cli):
    assert cli("--version").out == f"assay {__version__}\n"


def test_env_shows_versions_and_nothing_private(cli):
    block = cli("env").out
    facts = json.loads(cli("env", "--format", "json").out)
    assert facts["assay"] == __version__
    assert facts["msgspec"] == version("msgspec")
    assert facts["python"].startswith(platform.python_version())
    assert facts["memory_bytes"] > 0
    private = {socket.gethostname(), str(Path.home())} - {"localhost", "/"}
    text = block + json.dumps(facts)
    assert not [word for word in private if word in text]
    assert getpass.getuser() not in text.split()


def test_env_has_one_line_per_fact(cli):
    lines = cli("env").out.splitlines()
    facts = json.loads(cli("env", "--format", "json").out)
    shown = {line[:14].strip(): line[14:] for line in lines}
    for name in ("assay", "python", "platform", "cpu", "torch", "numpy"):
        assert shown[name] == facts[name]
    assert len(lines) == len(json.loads(cli("env", "--format", "json").out))
    assert all(len(line.split(maxsplit=1)) == 2 for line in lines)


def test_schema_prints_or_lists(cli):
    assert cli("schema").out.split() == list(NAMES)
    assert "UniqueModule" in json.loads(cli("schema", "modules").out)["$defs"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_call_this_program(cli, shell):
    script = cli("completion", shell).out
    assert f"_ASSAY_COMPLETE={shell}_complete" in script


def test_completion_lists_commands(process):
    answer = process(_ASSAY_COMPLETE="bash_complete", COMP_WORDS="assay mo", COMP_CWORD="1")
    assert answer.stdout.split() == ["plain,modules"]
