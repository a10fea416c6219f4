"""`penstock top`: the arguments, and one snapshot for scripts."""

from __future__ import annotations

import sys
from time import sleep
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli import render
from penstock.errors import InputError, SetupError

if TYPE_CHECKING:
    from datetime import timedelta

    from penstock.streams.looking import Looker
    from penstock.streams.watching import Board, Total, View

_PATIENCE = 1.0
"""Seconds for which systems may take leave of us; one that is away is not waited for."""


def top(
    uris: Annotated[
        list[str],
        typer.Argument(
            metavar="URI...",
            help="Clusters, or streams of them: kafka://localhost:9092.",
            show_default=False,
        ),
    ],
    interval: Annotated[
        str, typer.Option("--interval", "-i", metavar="TIME", help="How often to look: 500ms, 5s.")
    ] = "1s",
    stale: Annotated[
        str,
        typer.Option("--stale", metavar="TIME", help="When a stream to which nothing comes is stale."),
    ] = "60s",
    once: Annotated[bool, typer.Option("--once", help="Print a table after one interval, and end.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="With --once: print JSON, one object a line for each stream.")
    ] = False,
) -> None:
    """Shows what streams are doing: how much comes, to where, who is there, what bursts and what is stale.

    Example: penstock top file:///tmp/streams/ redis://localhost:6379
    """
    from penstock.streams.looking import Looker
    from penstock.streams.watching import Board

    every, board = _duration("--interval", interval), Board(_duration("--stale", stale))
    if as_json and not once:
        raise InputError("usage", "--json tells of one snapshot", hint="--once --json")
    if not once and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise InputError("no-terminal", "top needs a terminal", hint="--once prints a table, or JSON")
    lookers = list({looker.cluster: looker for looker in map(Looker, uris)}.values())
    if once:
        _print(lookers, board, every.total_seconds(), as_json=as_json)
    else:
        _show(lookers, board, every.total_seconds())


def _duration(option: str, text: str) -> timedelta:
    from penstock.options import parse_duration

    try:
        found = parse_duration(text)
    except ValueError as failure:
        raise InputError("bad-duration", f"{option}: {failure}", hint=f"{option} 5s") from None
    if not found:
        raise InputError("bad-duration", f"{option} cannot be 0", hint=f"{option} 5s")
    return found


def _show(lookers: list[Looker], board: Board, interval: float) -> None:
    try:
        import textual  # noqa: F401
    except ImportError:
        raise SetupError(
            "missing-package", "the screen needs the package textual", hint="pip install 'penstock[top]'"
        ) from None
    from penstock.cli.top.screen import Top
    from penstock.streams.looking import Looking, now

    looking = Looking(lookers, interval)
    screen = Top(lookers, board, now, interval, looking)
    screen.run()
    looking.ended(_PATIENCE)
    if screen.return_code:
        raise typer.Exit(screen.return_code)


def _print(lookers: list[Looker], board: Board, interval: float, *, as_json: bool) -> None:
    """Two looks; streams that can be seen are told, then what could not be."""
    from penstock.streams.looking import now
    from penstock.streams.watching import total

    for look in range(2):
        if look:
            sleep(interval)
        for looker in lookers:
            board.take(looker.look())
    for looker in lookers:
        looker.close()
    views = board.views(now())
    seen = [view for view in views if view.failure is None]
    failed = list(dict.fromkeys(view.failure for view in views if view.failure is not None))
    if as_json:
        for view in seen:
            render.emit(_told(view))
    elif seen:
        _table(seen)
        summed = total(views)
        render.text(_sentence(summed))
    elif not failed:
        render.note("there are no streams")
    for failure in failed[:-1]:
        render.error(failure, as_json=False)
    if failed:
        raise failed[-1]


def _table(views: list[View]) -> None:
    from penstock.cli.top.columns import COLUMNS
    from penstock.cli.top.figures import line
    from penstock.streams.looking import now

    shown = {key: column for key, column in COLUMNS.items() if key != "history"}
    at = now()
    rows = [[line(column.cell(view, at)) for column in shown.values()] for view in views]
    where = [view.cluster for view in views]
    if len(set(where)) > 1:
        rows = [[*row, cluster] for row, cluster in zip(rows, where, strict=True)]
    titles = [column.title for column in shown.values()] + ["at"] * (len(set(where)) > 1)
    render.table(titles, rows)


def _sentence(summed: Total) -> str:
    from penstock.cli.top import figures
    from penstock.cli.top.columns import about

    told = f"total: {figures.number(summed.messages.second)} messages a second"
    if summed.bytes is None:
        return told
    return f"{told}, {about(figures.size(summed.bytes.second), summed.bytes_are_estimated)} a second"


def _told(view: View) -> dict[str, Any]:
    from dataclasses import asdict

    from penstock.cli.top.figures import line

    assert view.told is not None
    latest = view.latest
    return {
        "stream": view.name,
        "uri": view.cluster,
        "state": view.state or None,
        "messages": asdict(view.messages),
        "bytes": None if view.bytes is None else asdict(view.bytes),
        "bytes_are_estimated": view.bytes_are_estimated,
        "watched_seconds": view.watched,
        "latest": None if latest is None else {
            "timestamp": latest.timestamp.isoformat(), "shard": latest.shard, "sequence": latest.sequence,
            "text": line(latest.text),
        },
        "shards": [asdict(shard) for shard in view.told.shards],
        "producers": view.producers,
        "consumers": view.consumers,
        "lag": dict(view.told.lag),
    }  # fmt: skip
