"""`assay serve`: reports in a browser on this machine, which reload when their documents change."""

from __future__ import annotations

import click

from assay.cli.options import OptionGroups, verbosity_options
from assay.cli.stderr import Messages
from assay.errors import OK


@click.command(cls=OptionGroups)
@click.argument("documents", metavar="DOCUMENT...", nargs=-1, required=True)
@click.option("--port", type=click.IntRange(0, 65535), default=8700, show_default=True,
              help="Port on 127.0.0.1; 0 for any free one.")  # fmt: skip
@click.option("--open", "open_browser", is_flag=True, help="Open the page in the browser.")
@verbosity_options
def serve(messages: Messages, documents: tuple[str, ...], port: int, open_browser: bool) -> int:
    """Show reports on documents in a browser, until Ctrl-C. They reload when a document changes.

    The server listens on 127.0.0.1 only. DOCUMENT is a file that Assay saved, a checkpoint or a trace.
    """
    from assay.api.report.server import ReportServer

    with ReportServer(documents, port) as server:
        messages.line.close()
        click.echo(server.address)
        if open_browser:
            click.launch(server.address)
        messages.note("press Ctrl-C to stop")
        server.serve_forever()
    return OK
