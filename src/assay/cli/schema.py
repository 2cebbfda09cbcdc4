"""`assay schema`: the JSON Schemas of the files that Assay writes."""

from __future__ import annotations

import click

NAMES = (
    "modules", "ops", "document", "cost", "laws", "roofline", "memory", "summary", "params", "findings", "baseline",
    "machine", "trace", "traces", "profile", "report",
)  # fmt: skip


@click.command()
@click.argument("name", metavar="[NAME]", type=click.Choice(NAMES), required=False)
def schema(name: str | None) -> None:
    """Print the JSON Schema called NAME, or list the names.

    \b
    modules, ops       unique modules or ops (assay modules, ops, extract)
    document           a saved document (--save)
    cost               assay cost
    laws               assay cost --vary
    roofline           assay cost --device H100
    findings           assay check
    trace, traces      assay trace, for one file or for several
    memory, summary, params, machine, profile, report
                       the command of the same name
    """
    from assay.views.json import schema as schemas

    if name is None:
        click.echo("\n".join(schemas.NAMES))
    else:
        click.echo(schemas.schema(name), nl=False)
