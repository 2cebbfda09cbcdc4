"""`assay completion`: the completion script for a shell."""

from __future__ import annotations

import click

from assay.cli.main import COMPLETION_VARIABLE, PROGRAM, assay


@click.command()
@click.argument("shell", metavar="SHELL", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script for SHELL: bash, zsh or fish.

    \b
    Add one of these lines to the shell's startup file:
      bash  eval "$(assay completion bash)"
      zsh   eval "$(assay completion zsh)"
      fish  assay completion fish | source
    """
    from click.shell_completion import ShellComplete, get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    # BashComplete.source starts bash to check its version, and bash may not be installed here.
    click.echo(ShellComplete.source(kind(assay, {}, PROGRAM, COMPLETION_VARIABLE)))
