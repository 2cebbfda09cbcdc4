"""`assay completion`: the script that makes a shell complete `assay`."""

from __future__ import annotations

import click

from assay.cli.main import COMPLETION_VARIABLE, PROGRAM, assay


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script for a shell, to be loaded by its start-up file.

    For bash: eval "$(assay completion bash)"
    """
    from click.shell_completion import ShellComplete, get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    # The bash class would start a bash to look at its version, which may not exist where the script is made.
    click.echo(ShellComplete.source(kind(assay, {}, PROGRAM, COMPLETION_VARIABLE)))
