"""The table: one line for each stream, and a heading that sorts. Only lines that are seen are made."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

from rich.segment import Segment
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widgets import Static

from penstock.cli.top.columns import Column, column_at, heading, row
from penstock.streams.watching import View

Key = tuple[str, str]


class Heading(Static):
    """The titles of the columns; a click on one sorts by it."""

    class Chosen(Message):
        def __init__(self, column: str) -> None:
            super().__init__()
            self.column = column

    def __init__(self) -> None:
        super().__init__(id="heading")
        self.columns: dict[str, Column] = {}

    def show(self, columns: dict[str, Column], by: str, falls: bool) -> None:
        self.columns = columns
        self.update(heading(columns, by, falls))

    def on_click(self, event: events.Click) -> None:
        column = column_at(self.columns, event.x)
        if column is not None:
            self.post_message(self.Chosen(column))


class Rows(ScrollView, can_focus=True):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "Open", key_display="⏎"),
        Binding("left", "app.sort(-1)", "Sort", key_display="←→"),
        Binding("right", "app.sort(1)", show=False),
        Binding("r", "app.reverse", "Reverse"),
        Binding("slash", "app.filter", "Filter", key_display="/"),
        Binding("escape", "app.all", show=False),
        Binding("up,k", "move(-1)", show=False),
        Binding("down,j", "move(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("home", "move(-1000000)", show=False),
        Binding("end", "move(1000000)", show=False),
    ]
    COMPONENT_CLASSES: ClassVar[set[str]] = {"rows--cursor"}

    class Opened(Message):
        def __init__(self, view: View) -> None:
            super().__init__()
            self.view = view

    class Moved(Message):
        """Another stream is chosen."""

    def __init__(self) -> None:
        super().__init__(id="rows")
        self.views: list[View] = []
        self.columns: dict[str, Column] = {}
        self._now: datetime | None = None
        self._cursor = 0
        self._at: Key | None = None
        """The stream that was chosen, if any: the cursor stays on it when lines are sorted anew."""

    @property
    def chosen(self) -> View | None:
        return self.views[self._cursor] if self.views else None

    def show(self, views: list[View], columns: dict[str, Column], now: datetime) -> None:
        self.views, self.columns, self._now = views, columns, now
        if self._at is None:
            self._cursor = 0
        else:
            places = {view.key: place for place, view in enumerate(views)}
            self._cursor = places.get(self._at, max(0, min(self._cursor, len(views) - 1)))
            self._at = views[self._cursor].key if views else None
        self.virtual_size = Size(0, len(views))
        self.refresh()

    def render_line(self, y: int) -> Strip:
        width, place = self.size.width, y + self.scroll_offset.y
        if place >= len(self.views) or self._now is None:
            return Strip.blank(width, self.rich_style)
        text = row(self.views[place], self.columns, self._now)
        on_it = place == self._cursor
        base = self.get_component_rich_style("rows--cursor") if on_it else self.rich_style
        strip = Strip(Segment.apply_style(text.render(self.app.console), base))
        return strip.adjust_cell_length(width, base)

    def action_move(self, by: int) -> None:
        if self.views:
            self._choose(max(0, min(len(self.views) - 1, self._cursor + by)))

    def action_page(self, by: int) -> None:
        self.action_move(by * max(1, self.size.height - 1))

    def action_open(self) -> None:
        if self.chosen is not None:
            self.post_message(self.Opened(self.chosen))

    def on_click(self, event: events.Click) -> None:
        place = event.y + self.scroll_offset.y
        if place >= len(self.views):
            return
        if place == self._cursor and event.chain > 1:
            self.action_open()
        self._choose(place)

    def _choose(self, place: int) -> None:
        self._cursor, self._at = place, self.views[place].key
        self.scroll_to_region(Region(0, place, 1, 1), animate=False)
        self.refresh()
        self.post_message(self.Moved())
