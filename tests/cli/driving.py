"""`penstock top` with its clock moved, and its looks taken, by hand; and what its screen shows."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone

from textual.pilot import Pilot
from textual.widget import Widget

from penstock.cli.top.screen import Top
from penstock.cli.top.table import Rows
from penstock.streams.looking import Looker
from penstock.streams.watching import Board
from tests.waiting import PATIENCE


@dataclass
class Clock:
    now: datetime = field(default_factory=lambda: datetime.now(timezone.utc))

    def __call__(self) -> datetime:
        return self.now


class Driven:
    """A screen that nobody but the test moves."""

    def __init__(self, clock: Clock, lookers: list[Looker], top: Top, pilot: Pilot[None]) -> None:
        self.clock, self.lookers, self.top, self.pilot = clock, lookers, top, pilot

    async def look(self, seconds: float = 1.0) -> None:
        self.clock.now += timedelta(seconds=seconds)
        for looker in self.lookers:
            self.top.take(looker.look())
        await self.pilot.pause()

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.pilot.pause()

    async def until(self, holds: Callable[[], bool], what: str) -> None:
        """Waits for what threads do, while the screen goes on."""
        deadline = time.monotonic() + PATIENCE
        while not holds():
            assert time.monotonic() < deadline, f"never came: {what}"
            await self.pilot.pause(0.02)

    def lines(self, selector: str) -> list[str]:
        """What a part of the screen shows."""
        return text_of(self.top.screen.query_one(selector))

    @property
    def names(self) -> list[str]:
        """Streams from top to bottom, as the table has them."""
        return [line.split()[0] for line in self.lines("#rows") if line.strip()]

    def row(self, name: str) -> dict[str, str]:
        """The cells of a stream, by the title above them."""
        rows = self.top.screen.query_one(Rows)
        place = next(n for n, view in enumerate(rows.views) if view.name == name)
        line, cells, at = rows.render_line(place).text, {}, 1
        for column in rows.columns.values():
            cells[column.title] = line[at : at + column.width].strip()
            at += column.width + 1
        return cells

    def colours(self, name: str) -> dict[str, str]:
        """Words of a stream's line, and the colour of each."""
        rows = self.top.screen.query_one(Rows)
        place = next(n for n, view in enumerate(rows.views) if view.name == name)
        return {
            segment.text.strip(): str(segment.style.color.name)
            for segment in rows.render_line(place)
            if segment.text.strip() and segment.style is not None and segment.style.color is not None
        }


def text_of(widget: Widget) -> list[str]:
    return [widget.render_line(y).text for y in range(widget.size.height)]


@asynccontextmanager
async def driven(
    *uris: str, stale: float = 60, size: tuple[int, int] = (120, 30), clock: Clock | None = None
) -> AsyncIterator[Driven]:
    clock = clock or Clock()
    lookers = [Looker(uri, clock) for uri in uris]
    top = Top(lookers, Board(timedelta(seconds=stale)), clock, interval=1.0)
    try:
        async with top.run_test(size=size) as pilot:
            yield Driven(clock, lookers, top, pilot)
    finally:
        for looker in lookers:
            looker.close()
