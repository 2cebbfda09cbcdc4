"""A panel on the right: loads its content in a thread, and discards content of rows no longer selected."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from rich.console import RenderableType
from rich.text import Text
from textual.app import ComposeResult
from textual.containers import ScrollableContainer
from textual.message import Message
from textual.widgets import Static
from textual.worker import Worker, WorkerState, get_current_worker

from assay.errors import AssayError
from assay.messages import error_line
from assay.views.tui.keys import PANEL, bindings
from assay.views.tui.panels import PanelKind, contents
from assay.views.tui.panels.context import PanelContext, plain


class Panel(ScrollableContainer, can_focus=True):
    """The widget of one `PanelKind`."""

    BINDINGS = bindings(PANEL)

    DEFAULT_CSS = """
    Panel {
        height: 1fr;
        border: round $foreground 30%;
        border-title-color: $text-muted;
        padding: 0 1;
        scrollbar-size: 1 1;
        display: none;
    }
    Panel:focus { border: round $border; border-title-color: $text-primary; }
    Panel.-open { display: block; }
    Panel > Static { width: 1fr; height: auto; }
    Panel.-scrolls > Static { width: auto; }
    """

    class Loaded(Message):
        """Content to show, for the request with this number."""

        def __init__(self, number: int, content: RenderableType) -> None:
            super().__init__()
            self.number = number
            self.content = content

    def __init__(self, kind: PanelKind) -> None:
        super().__init__(id=f"panel-{kind.id}")
        self.kind = kind
        self.border_title = kind.title
        self._number = 0

    def compose(self) -> ComposeResult:
        yield Static(markup=False)

    @property
    def is_open(self) -> bool:
        """Whether the panel is visible."""
        return self.has_class("-open")

    def load(self, context: PanelContext) -> None:
        """Load the content for `context` in a thread; a previous load is cancelled."""
        self._number += 1
        work = partial(self._work, self._number, replace(context, width=self.scrollable_content_region.width))
        self.run_worker(work, name=self.kind.id, group=self.kind.id, thread=True, exclusive=True, exit_on_error=False)

    def _work(self, number: int, context: PanelContext) -> None:
        worker = get_current_worker()
        try:
            for content in contents(self.kind, replace(context, cancelled=lambda: worker.is_cancelled)):
                if worker.is_cancelled:
                    return
                self.post_message(self.Loaded(number, content))
        except AssayError as error:
            self.post_message(self.Loaded(number, plain(str(error), context.styles["error"])))

    def on_panel_loaded(self, message: Loaded) -> None:
        """Show the content, unless another request has started since."""
        message.stop()
        if message.number == self._number:
            self.set_class(not self.kind.wraps and not isinstance(message.content, Text), "-scrolls")
            self.query_one(Static).update(message.content)

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """Show an unexpected error in the panel where it occurred."""
        event.stop()
        if event.state is WorkerState.ERROR:
            message = error_line(event.worker.error) if event.worker.error is not None else "unknown"
            self.query_one(Static).update(Text(f"internal error: {message} (please report it)"))
