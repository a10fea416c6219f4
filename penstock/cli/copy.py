"""`penstock copy`: the messages of one stream to another, wherever the two are."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli import render
from penstock.cli.arguments import From, Group, Json, Until
from penstock.cli.stopping import Stopping
from penstock.cli.streams import one_stream
from penstock.cli.tap import refuse_until
from penstock.errors import InputError

if TYPE_CHECKING:
    from penstock.streams import Message, Producer, Streamer
    from penstock.streams.reading import Reading

Tell = Callable[[int], None]


def copy(
    source: Annotated[str, typer.Argument(metavar="FROM", help="The stream to read.", show_default=False)],
    target: Annotated[
        str,
        typer.Argument(
            metavar="TO",
            help="The stream to write, or where one of the same name is made.",
            show_default=False,
        ),
    ],
    start: From = "earliest",
    until: Until = None,
    follow: Annotated[bool, typer.Option("--follow", help="Go on with what comes later.")] = False,
    group: Group = None,
    as_json: Json = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No bar and no summary.")] = False,
) -> None:
    """Copies messages with their keys, times and headers.

    Ends with what is there now. With --group it goes on where it was the last time; each message is then
    stored once where the target can tell that it has it, and at least once elsewhere.

    Example: penstock copy file:///tmp/streams/news file:///tmp/backup/
    """
    from penstock.streams import connect
    from penstock.streams.reading import Reading, parse_start, parse_until

    refuse_until(until, group)
    ends = None if until is None else parse_until(until)
    begins = parse_start(start)
    with Stopping() as stopping, connect(source) as origin, connect(target) as goal:
        name = one_stream(origin)
        into = (goal.located() or (name,))[0]
        if origin.places(name) & goal.places(into):
            raise InputError("same-stream", f"'{origin.uri}' would be copied into itself")
        with Reading(origin, start=begins, until=ends, follow=follow, group=group) as reading:
            _prepare(origin, name, goal, into, quiet=quiet or as_json)
            once = group is not None and goal.capabilities.deduplicates
            producer = goal.producer(into, delivery="exactly_once" if once else "at_least_once")
            with producer, _bar(reading.total, shown=not (quiet or as_json)) as tell:
                copied = _copied(reading, producer, goal, once, stopping, tell)
    if as_json:
        render.emit({"from": name, "to": into, "messages": copied, "stopped": stopping.asked})
    elif not quiet:
        render.note(
            f"copied {render.count(copied, 'message')}" + (", then was stopped" if stopping.asked else "")
        )


def _copied(
    reading: Reading, producer: Producer, goal: Streamer, once: bool, stopping: Stopping, tell: Tell
) -> int:
    copied = 0
    keyed, timed, headed = (goal.capabilities.keys, goal.capabilities.timestamps, goal.capabilities.headers)

    def give(message: Message) -> None:
        producer.send_patiently(
            message.payload,
            key=message.key if keyed else None,
            timestamp=message.timestamp if timed else None,
            headers=message.headers if headed else (),
            id=f"{message.stream}/{message.shard}@{message.sequence}" if once else None,
        )

    for batch in reading.batches(lambda: stopping.asked):
        for message in batch:
            give(message)
        copied += len(batch)
        if batch and reading.in_group:
            producer.flush()
            reading.commit()
        tell(copied)
    producer.flush()
    return copied


def _prepare(origin: Streamer, name: str, goal: Streamer, into: str, *, quiet: bool) -> None:
    """Makes the target like the source, where it is not there; says what will be lost."""
    if goal.capabilities.admin and origin.capabilities.admin:
        with goal.admin() as there, origin.admin() as here:
            if into not in there.streams():
                told = here.outline(name)
                shards = len(told.shards) if goal.capabilities.shards else 1
                retention = told.retention if goal.capabilities.retention else None
                there.create(into, shards=shards, retention=retention)
    if quiet:
        return
    for what in ("keys", "timestamps", "headers"):
        if getattr(origin.capabilities, what) and not getattr(goal.capabilities, what):
            render.note(f"note: {goal.schemes[0]}:// keeps no {what}; those of the messages are left out")


@contextmanager
def _bar(total: int | None, *, shown: bool) -> Iterator[Tell]:
    """A bar on the terminal, of as many messages as there are to copy."""
    if not shown or not sys.stderr.isatty():
        yield lambda copied: None
        return
    from rich.console import Console

    from penstock.cli.progress import bar

    with bar(Console(file=sys.stderr)) as progress:
        task = progress.add_task("copying messages", total=total, count="")

        def tell(copied: int) -> None:
            count = f"{copied:,}" if total is None else f"{copied:,} of {total:,}"
            progress.update(task, completed=copied, count=count)
            progress.refresh()

        yield tell
