"""What stands around the table: the totals above it, and the stream that is chosen below."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from rich.table import Table
from rich.text import Text

from penstock.cli.top import figures
from penstock.cli.top.columns import AWAY, COLOURS, NUMBERS, QUIET, about, name, shards
from penstock.config import hide
from penstock.streams.meter import HOUR, MINUTE, Throughput
from penstock.streams.watching import Total, View

_SPANS = (("second", 0.0), ("minute", MINUTE), ("hour", HOUR))


def throughput(messages: Throughput, size: Throughput | None, *, watched: float, estimated: bool) -> Table:
    """Messages and bytes, in a second, a minute and an hour; `~` before what is estimated or projected."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(width=9)
    for _ in _SPANS:
        table.add_column(width=10, justify="right")
    table.add_row("", *(Text(span, f"bold {QUIET}") for span, _ in _SPANS))
    counts = [about(figures.number(getattr(messages, span)), watched < length) for span, length in _SPANS]
    sizes = [
        about(figures.size(getattr(size, span) if size else None), estimated or watched < length)
        for span, length in _SPANS
    ]
    table.add_row(Text("messages", QUIET), *(Text(count, f"bold {NUMBERS}") for count in counts))
    table.add_row(Text("bytes", QUIET), *(Text(one, NUMBERS) for one in sizes))
    return table


def title(summed: Total, *, width: int, paused: bool, filtered: str, right: str) -> Text:
    """One line: how many streams there are, how many stand out, and what is said on the right."""
    left = Text.assemble((" penstock top ", "bold #88c0d0"), no_wrap=True)
    left.append(f" {summed.streams} stream{'' if summed.streams == 1 else 's'}", NUMBERS)
    for state in ("bursting", "stale", "away"):
        if state in summed.marks:
            left.append(f"  {summed.marks[state]} {state}", COLOURS[state])
    if filtered:
        left.append(f"  /{filtered}", "#a3be8c")
    if paused:
        left.append("  paused", "bold #d08770")
    left.append(right.rjust(max(len(right) + 2, width - left.cell_len - 1)), QUIET)
    return left


def strip(view: View | None, now: datetime) -> Text:
    """The stream that is chosen: where it is, its shards, and its latest message."""
    if view is None:
        return Text("")
    lines = Text(no_wrap=True, overflow="ellipsis")
    where = f"  {view.cluster}" if view.name else ""
    lines.append(f" {name(view)}", f"bold {NUMBERS}").append(where, QUIET)
    if view.failure is not None:
        lines.append(f"\n {figures.line(hide(view.failure.message))}", AWAY)
        hint = "tried again with each look"
        lines.append(f"\n {hide(view.failure.hint) if view.failure.hint else hint}", QUIET)
        return lines
    lines.append("\n shards  ", QUIET).append(shards(view), NUMBERS)
    if view.latest is None:
        return lines.append("\n no message yet", QUIET)
    latest = view.latest
    lines.append("\n latest  ", QUIET)
    lines.append(f"{figures.clock(latest.timestamp, now)} {latest.shard}@{latest.sequence} ", QUIET)
    return lines.append(figures.line(latest.text), NUMBERS)


def clients(view: View) -> list[Text]:
    """Who is online, and how far each group is behind; one line for each."""
    told = view.told
    if told is None:
        return [Text("not known", QUIET)]
    lines = []
    for kind, known in (("producer", told.producers), ("consumer", told.consumers)):
        if known is None:
            lines.append(Text(f"{kind}s are not told here", QUIET))
        for client in known or ():
            group = f" in {client.group}" if client.group else ""
            lag = "" if client.lag is None else f", lag {client.lag:,}"
            lines.append(Text.assemble((f"{kind}  ", QUIET), (f"{client.name}{group}{lag}", NUMBERS)))
        if known == ():
            lines.append(Text(f"no {kind} is online", QUIET))
    for group, behind in sorted(told.lag.items()):
        lines.append(Text.assemble(("group     ", QUIET), (f"{group}, lag {behind:,}", NUMBERS)))
    return [_plain(line) for line in lines]


def shard_lines(view: View) -> list[Text]:
    if view.told is None:
        return [Text("not known", QUIET)]
    rows: list[Sequence[str]] = [("shard", "first", "last", "ever stored")]
    for shard in view.told.shards:
        ends = (figures.UNKNOWN if end is None else str(end) for end in (shard.first, shard.last))
        rows.append((str(shard.number), *ends, f"{shard.produced:,}"))
    widths = [max(len(row[n]) for row in rows) for n in range(4)]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    return [Text(line, NUMBERS if n else f"bold {QUIET}") for n, line in enumerate(lines)]


def _plain(text: Text) -> Text:
    """Names are others' words: nothing in them may steer a terminal."""
    if text.plain != figures.line(text.plain):
        return Text(figures.line(text.plain), NUMBERS)
    return text
