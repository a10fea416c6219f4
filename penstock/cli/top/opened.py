"""One stream, opened: its rates, shards and clients, and its messages as they come."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Footer, RichLog, Sparkline, Static

from penstock.cli.top import figures
from penstock.cli.top.columns import COLOURS, NUMBERS, QUIET, name
from penstock.cli.top.parts import clients, shard_lines, throughput
from penstock.config import hide
from penstock.errors import PenstockError
from penstock.streams.tailing import Tail
from penstock.streams.watching import Latest, View

if TYPE_CHECKING:
    from penstock.cli.top.screen import Top

_LINES = 2000


class Came(Message):
    """Messages of the stream, and how many came that are left out."""

    def __init__(self, messages: list[Latest], more: int) -> None:
        super().__init__()
        self.messages, self.more = messages, more


class Failed(Message):
    def __init__(self, failure: PenstockError) -> None:
        super().__init__()
        self.failure = failure


class Opened(Screen[None]):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "app.pop_screen", "Back"),
        Binding("c", "clear", "Clear"),
    ]
    if TYPE_CHECKING:
        app: Top

    def __init__(self, view: View, uri: str, current: Callable[[], View | None]) -> None:
        super().__init__()
        self.view = view
        self._current = current
        self._held: list[Text] = []
        """What came while the screen was paused."""
        self.tail = Tail(uri, view.name, self._tell, self._fail)

    def compose(self) -> ComposeResult:
        yield Static(id="title")
        with Horizontal(id="totals"):
            yield Static(id="throughput")
            yield Sparkline(id="history")
        with Horizontal(id="about"):
            with VerticalScroll(id="shards", can_focus=False):
                yield Static()
            with VerticalScroll(id="clients", can_focus=False):
                yield Static()
        yield RichLog(id="messages", max_lines=_LINES, wrap=False, markup=False, highlight=False)
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        self.query_one("#shards").border_title = "shards"
        self.query_one("#clients").border_title = "clients"
        log = self.query_one(RichLog)
        log.border_title = "messages"
        log.border_subtitle = "coming"
        log.focus()
        if self.view.latest is not None:
            self._write([_line(self.view.latest)])
        self.show()
        self.tail.start()

    def on_unmount(self) -> None:
        self.tail.stop()

    def show(self) -> None:
        """The stream as it is now."""
        self.view = view = self._current() or self.view
        title = Text.assemble((f" {name(view)}", "bold #88c0d0"), (f"  {view.cluster}", QUIET), no_wrap=True)
        if view.state:
            title.append(f"  {view.state}", COLOURS[view.state])
        if self.app.paused:
            title.append("  paused", "bold #d08770")
        self.query_one("#title", Static).update(title)
        self.query_one("#throughput", Static).update(
            throughput(view.messages, view.bytes, watched=view.watched, estimated=view.bytes_are_estimated)
        )
        self.query_one("#history", Sparkline).data = figures.curve(view.history)
        self.query_one("#shards Static", Static).update(Text("\n", no_wrap=True).join(shard_lines(view)))
        self.query_one("#clients Static", Static).update(Text("\n", no_wrap=True).join(clients(view)))
        if not self.app.paused:
            self._write([])

    # From the thread that reads.

    def _tell(self, messages: list[Latest], more: int) -> None:
        self.post_message(Came(messages, more))

    def _fail(self, failure: PenstockError) -> None:
        self.post_message(Failed(failure))

    def on_came(self, came: Came) -> None:
        if not came.messages:
            self.query_one(RichLog).border_subtitle = "live"
        lines = [_line(message) for message in came.messages]
        if came.more:
            lines.insert(0, Text(f"{came.more:,} more came, too fast to be shown", f"italic {QUIET}"))
        self._write(lines)

    def on_failed(self, failed: Failed) -> None:
        said = figures.line(hide(failed.failure.message))
        self._write([Text(said, COLOURS["away"])])
        self.query_one(RichLog).border_subtitle = "away"

    def action_clear(self) -> None:
        self._held.clear()
        self.query_one(RichLog).clear()

    def _write(self, lines: list[Text]) -> None:
        self._held = [*self._held, *lines][-_LINES:]
        if not self.app.paused:
            for line in self._held:
                self.query_one(RichLog).write(line)
            self._held = []


def _line(message: Latest) -> Text:
    time = f"{message.timestamp:%H:%M:%S}.{message.timestamp.microsecond // 1000:03d}"
    place = f"{message.shard}@{message.sequence}"
    return Text.assemble((f"{time} {place}  ", QUIET), (figures.line(message.text), NUMBERS), no_wrap=True)
