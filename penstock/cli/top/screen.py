"""The screen: totals above, a line for each stream, the chosen one below. It only shows; others look."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import ClassVar

from textual import events
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.message import Message
from textual.widgets import Footer, Input, Sparkline, Static

from penstock.cli.top import figures
from penstock.cli.top.columns import COLUMNS, fitted, naming, ordered
from penstock.cli.top.helping import Helping
from penstock.cli.top.opened import Opened
from penstock.cli.top.parts import strip, throughput, title
from penstock.cli.top.table import Heading, Key, Rows
from penstock.streams.looking import Looker, Looking
from penstock.streams.watching import Board, Snapshot, View, total

_EVERY = 1.0
"""Seconds after which the screen is shown anew though nobody told anything: streams become stale by that."""


class Looked(Message):
    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__()
        self.snapshot = snapshot


class Filter(Input):
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "app.all", "All")]


class Top(App[None]):
    CSS_PATH = "screen.tcss"
    TITLE = "penstock top"
    ENABLE_COMMAND_PALETTE = False
    VERTICAL_BREAKPOINTS = [(0, "-short"), (16, "-tall")]
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("p", "pause", "Pause"),
        Binding("question_mark", "help", "Help", key_display="?"),
        Binding("q,ctrl+c", "quit", "Quit", key_display="q"),
    ]

    def __init__(
        self,
        lookers: Sequence[Looker],
        board: Board,
        clock: Callable[[], datetime],
        interval: float,
        looking: Looking | None = None,
    ) -> None:
        super().__init__()
        self.paused = False
        self._uris = {looker.cluster: looker.uri for looker in lookers}
        self._board, self._clock, self._interval, self._looking = board, clock, interval, looking
        self._by, self._falls, self._filter = "rate", True, ""
        self._views: list[View] = []
        self._now = clock()

    def compose(self) -> ComposeResult:
        yield Static(id="title")
        with Horizontal(id="totals"):
            yield Static(id="throughput")
            yield Sparkline(id="history")
        yield Heading()
        yield Rows()
        yield Static(id="strip")
        yield Filter(id="filter", placeholder="part of a name", compact=True)
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        self.theme = "nord"
        with suppress(NotImplementedError, ValueError, RuntimeError):  # where there are no signals to hear
            for one in (signal.SIGTERM, signal.SIGHUP):
                asyncio.get_running_loop().add_signal_handler(one, self.exit)
        self.query_one(Rows).focus()
        self.set_interval(_EVERY, self.show)
        self.call_after_refresh(self.show)
        if self._looking is not None:
            self._looking.start(lambda snapshot: self.post_message(Looked(snapshot)))

    def on_unmount(self) -> None:
        if self._looking is not None:
            self._looking.stop()

    def on_looked(self, looked: Looked) -> None:
        self.take(looked.snapshot)

    def take(self, snapshot: Snapshot) -> None:
        """What a look has told, also while the screen stands still: rates go on."""
        self._board.take(snapshot)
        self.show()

    def show(self) -> None:
        if not self.paused:
            self._now = self._clock()
            self._views = self._board.views(self._now)
        self._draw()

    def _draw(self) -> None:
        """All that is known, on whichever screen is seen."""
        if not self.is_running:  # it closes: what it would draw on goes already, while looks still come in
            return
        if isinstance(self.screen, Opened):
            self.screen.show()
            return
        if self.screen is not self.screen_stack[0] or not self.screen.is_mounted:
            return
        width = self.size.width
        summed = total(self._views)
        right = f"every {self._interval:g} s  {self._now:%H:%M:%S} UTC"
        self.query_one("#title", Static).update(
            title(summed, width=width, paused=self.paused, filtered=self._filter, right=right)
        )
        self.query_one("#throughput", Static).update(
            throughput(
                summed.messages, summed.bytes, watched=summed.watched, estimated=summed.bytes_are_estimated
            )
        )
        self.query_one("#history", Sparkline).data = figures.curve(summed.history)
        called = naming(self._views)
        shown = [view for view in self._views if self._filter in called(view).lower()]
        rows = self.query_one(Rows)
        columns = fitted(self._views, rows.size.width)
        self.query_one(Heading).show(columns, self._by, self._falls)
        rows.show(ordered(shown, self._by, self._falls), columns, self._now)
        self.query_one("#strip", Static).update(strip(rows.chosen, self._now))

    def on_resize(self, event: events.Resize) -> None:
        self.call_after_refresh(self._draw)

    def on_rows_moved(self) -> None:
        self._draw()

    def on_rows_opened(self, opened: Rows.Opened) -> None:
        view = opened.view
        if view.name:
            uri = self._uris[view.cluster]
            self.push_screen(Opened(view, uri, lambda: self._view(view.key)), lambda _: self._draw())

    def _view(self, key: Key) -> View | None:
        return next((view for view in self._views if view.key == key), None)

    def on_heading_chosen(self, chosen: Heading.Chosen) -> None:
        if chosen.column == self._by:
            self._falls = not self._falls
        else:
            self._by, self._falls = chosen.column, COLUMNS[chosen.column].falls
        self._draw()

    def action_sort(self, by: int) -> None:
        columns = list(fitted(self._views, self.query_one(Rows).size.width))
        at = columns.index(self._by) if self._by in columns else 0
        self._by = columns[(at + by) % len(columns)]
        self._falls = COLUMNS[self._by].falls
        self._draw()

    def action_reverse(self) -> None:
        self._falls = not self._falls
        self._draw()

    def action_pause(self) -> None:
        self.paused = not self.paused
        self.show()

    def action_help(self) -> None:
        self.push_screen(Helping())

    def action_filter(self) -> None:
        self.screen.add_class("filtering")
        self.query_one(Input).focus()

    def action_all(self) -> None:
        self.query_one(Input).clear()
        self._end_filter()

    def on_input_changed(self, changed: Input.Changed) -> None:
        self._filter = changed.value.strip().lower()
        self._draw()

    def on_input_submitted(self) -> None:
        self._end_filter()

    def _end_filter(self) -> None:
        self.screen.remove_class("filtering")
        self.query_one(Rows).focus()
