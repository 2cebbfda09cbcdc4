"""A panel on the right: asks in a thread of its own, shows what comes, forgets what is no longer wanted."""

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
from assay.views.tui.panels import PanelKind, answers
from assay.views.tui.panels.context import PanelContext, plain


class Panel(ScrollableContainer, can_focus=True):
    """One `PanelKind` on the screen."""

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

    class Answered(Message):
        """Something to show, for the question with this number."""

        def __init__(self, number: int, answer: RenderableType) -> None:
            super().__init__()
            self.number = number
            self.answer = answer

    def __init__(self, kind: PanelKind) -> None:
        super().__init__(id=f"panel-{kind.id}")
        self.kind = kind
        self.border_title = kind.title
        self._number = 0

    def compose(self) -> ComposeResult:
        yield Static(markup=False)

    @property
    def is_open(self) -> bool:
        """Whether it is on show."""
        return self.has_class("-open")

    def ask(self, context: PanelContext) -> None:
        """Find out what to show; what was asked before is cancelled."""
        self._number += 1
        work = partial(self._work, self._number, replace(context, width=self.scrollable_content_region.width))
        self.run_worker(work, name=self.kind.id, group=self.kind.id, thread=True, exclusive=True, exit_on_error=False)

    def _work(self, number: int, context: PanelContext) -> None:
        worker = get_current_worker()
        try:
            for answer in answers(self.kind, replace(context, cancelled=lambda: worker.is_cancelled)):
                if worker.is_cancelled:
                    return
                self.post_message(self.Answered(number, answer))
        except AssayError as error:
            self.post_message(self.Answered(number, plain(str(error), context.styles["error"])))

    def on_panel_answered(self, message: Answered) -> None:
        """Show it, unless another question has been asked since."""
        message.stop()
        if message.number == self._number:
            self.set_class(not self.kind.wraps and not isinstance(message.answer, Text), "-scrolls")
            self.query_one(Static).update(message.answer)

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """A defect in one panel is told in that panel."""
        event.stop()
        if event.state is WorkerState.ERROR:
            told = error_line(event.worker.error) if event.worker.error is not None else "unknown"
            self.query_one(Static).update(Text(f"internal error: {told} (please report it)"))
