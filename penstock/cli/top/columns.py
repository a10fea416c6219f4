"""The columns of the table: what each shows of a stream, how wide it is, and how it sorts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from penstock.cli.top import figures
from penstock.config import hide
from penstock.streams.watching import View

AWAY = "#bf616a"
COLOURS = {"bursting": "bold #ebcb8b", "stale": "bold #b48ead", "away": f"bold {AWAY}"}
QUIET, NUMBERS, BARS, CHOSEN = "#7b88a1", "#d8dee9", "#8fbcbb", "bold #88c0d0"
_NAME, _SHARDS, _MESSAGE = (8, 24), (6, 18), 8
"""Least and most cells of columns that give way."""
_STATES = ("away", "bursting", "stale", "")


@dataclass(frozen=True)
class Column:
    title: str
    width: int
    cell: Callable[[View, datetime], str]
    order: Callable[[View], Any]
    """Unknown is None, which comes last."""
    right: bool = False
    falls: bool = False
    """Whether the most comes first."""
    style: str = NUMBERS

    def text(self, shown: str) -> str:
        """So wide, whatever it says."""
        if cell_len(shown) > self.width:
            return set_cell_size(shown, self.width - 1) + "…"
        spaces = " " * (self.width - cell_len(shown))
        return spaces + shown if self.right else shown + spaces


def name(view: View) -> str:
    return figures.line(view.name) or view.cluster


def _full_name(view: View) -> str:
    return f"{name(view)}@{view.cluster.partition(':')[0]}" if view.name else view.cluster


def naming(views: Sequence[View]) -> Callable[[View], str]:
    """How streams are called: by their name, and by their system where there are several."""
    return _full_name if len({view.cluster for view in views}) > 1 else name


def about(value: str, estimated: bool) -> str:
    return f"~{value}" if estimated and value not in (figures.UNKNOWN, "0", "0 B") else value


def shards(view: View) -> str:
    """How many, and the last sequence of each."""
    if view.told is None:
        return figures.UNKNOWN
    lasts = " ".join(figures.UNKNOWN if s.last is None else str(s.last) for s in view.told.shards)
    return f"{len(view.told.shards)}: {lasts}"


def _latest(view: View) -> float | None:
    return view.latest.timestamp.timestamp() if view.latest else None


def _bytes(view: View) -> float | None:
    return view.bytes.second if view.bytes else None


COLUMNS = {
    "stream": Column("stream", 0, lambda v, _: name(v), lambda v: name(v).lower()),
    "state": Column("state", 8, lambda v, _: v.state, lambda v: _STATES.index(v.state)),
    "rate": Column(
        "msg/s", 6, lambda v, _: figures.number(v.messages.second), lambda v: v.messages.second, True, True
    ),
    "history": Column(
        "trend",
        8,
        lambda v, _: figures.bars(v.history, 8),
        lambda v: v.messages.minute,
        falls=True,
        style=BARS,
    ),
    "bytes": Column(
        "bytes/s", 8, lambda v, _: about(figures.size(_bytes(v)), v.bytes_are_estimated), _bytes, True, True
    ),
    "latest": Column(
        "latest",
        8,
        lambda v, now: figures.clock(v.latest.timestamp, now) if v.latest else figures.UNKNOWN,
        _latest,
        falls=True,
    ),
    "message": Column(
        "message",
        0,
        lambda v, _: figures.line(v.latest.text) if v.latest else "",
        lambda v: v.latest.text if v.latest else None,
        style=QUIET,
    ),
    "shards": Column(
        "shards", 0, lambda v, _: shards(v), lambda v: len(v.told.shards) if v.told else None, falls=True
    ),
    "producers": Column(
        "prod", 4, lambda v, _: figures.number(v.producers), lambda v: v.producers, True, True
    ),
    "consumers": Column(
        "cons", 4, lambda v, _: figures.number(v.consumers), lambda v: v.consumers, True, True
    ),
    "lag": Column("lag", 6, lambda v, _: figures.number(v.lag), lambda v: v.lag, True, True),
}  # fmt: skip


def fitted(views: Sequence[View], width: int) -> dict[str, Column]:
    """The columns of all these streams for a line of so many cells; a narrow one has no messages."""
    called = naming(views)
    named = max([cell_len(called(view)) for view in views if view.name], default=0)
    numbered = max([len(shards(view)) for view in views], default=0)
    fixed = sum(column.width + 1 for column in COLUMNS.values() if column.width)
    left = width - fixed - 3 - _NAME[0] - _SHARDS[0]
    widths = {"stream": _NAME[0], "shards": _SHARDS[0], "message": 0}
    if left >= 2 * _MESSAGE:
        widths["message"] = _MESSAGE
        left -= _MESSAGE + 1
    for column, most in (("stream", min(_NAME[1], named)), ("shards", min(_SHARDS[1], numbered))):
        more = max(0, min(most - widths[column], left if not widths["message"] else left * 2 // 3))
        widths[column] += more
        left -= more
    widths["message" if widths["message"] else "stream"] += max(0, left)
    columns = COLUMNS | {"stream": replace(COLUMNS["stream"], cell=lambda view, _: called(view))}
    return {
        key: replace(column, width=column.width or widths[key])
        for key, column in columns.items()
        if column.width or widths[key]
    }


def ordered(views: Sequence[View], by: str, falls: bool) -> list[View]:
    """Sorted by a column, then by name; what is not known comes last, either way."""
    order = COLUMNS[by].order
    known = [view for view in views if view.failure is None and order(view) is not None]
    unknown = [view for view in views if view.failure is None and order(view) is None]
    away = [view for view in views if view.failure is not None]
    if by in ("stream", "state"):
        known, away = [*known, *away], []
    by_name = sorted(known, key=lambda view: (name(view).lower(), view.cluster))
    return [*sorted(by_name, key=order, reverse=falls), *unknown, *away]


def heading(columns: dict[str, Column], by: str, falls: bool) -> Text:
    text = Text(" ", no_wrap=True)
    for key, column in columns.items():
        sign = ("▾" if falls else "▴") if key == by else ""
        style = CHOSEN if sign else f"bold {QUIET}"
        if column.right:  # so that the title ends where the numbers do
            text.append(column.text(column.title) + (sign or " "), style)
        else:
            text.append(column.text(column.title + sign) + " ", style)
    return text


def column_at(columns: dict[str, Column], x: int) -> str | None:
    """Which column has this cell of a line."""
    end = 1
    for key, column in columns.items():
        end += column.width + 1
        if 0 < x < end:
            return key
    return None


def row(view: View, columns: dict[str, Column], now: datetime) -> Text:
    text = Text(" ", no_wrap=True)
    lasting = list(columns)
    if view.failure is not None:
        # Why it is away takes the room of all that is not known then.
        lasting = ["stream", "state"]
    for key in lasting:
        column = columns[key]
        style = COLOURS.get(view.state, column.style) if key in ("stream", "state") else column.style
        text.append(column.text(column.cell(view, now)), style)
        text.append(" ")
    if view.failure is not None:
        room = sum(c.width + 1 for key, c in columns.items() if key not in lasting) - 1
        said = replace(columns["stream"], width=room).text(figures.line(hide(view.failure.message)))
        text.append(said, AWAY)
    return text
