"""`assay schema`: the JSON Schemas of what Assay writes."""

from __future__ import annotations

import click

NAMES = (
    "modules", "ops", "document", "cost", "laws", "roofline", "memory", "summary", "params", "findings", "machine",
    "trace", "traces", "profile",
)  # fmt: skip


@click.command()
@click.argument("name", type=click.Choice(NAMES), required=False)
def schema(name: str | None) -> None:
    """JSON Schema of the list of unique modules, of unique operations, of a saved document, or of what
    `assay cost` (also with --vary: laws, and --device: roofline), `memory`, `summary`, `params`,
    `check` (findings), `machine`, `trace` (of several: traces) and `profile` write as JSON.

    Without a name, the names are listed.
    """
    from assay.views.json import schema as schemas

    if name is None:
        click.echo("\n".join(schemas.NAMES))
    else:
        click.echo(schemas.schema(name), nl=False)
