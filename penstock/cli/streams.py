"""`penstock ls` and `penstock stream`: which streams there are, and looking after them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli import render
from penstock.cli.arguments import Json, StreamUri
from penstock.errors import InputError

if TYPE_CHECKING:
    from datetime import timedelta

    from penstock.streams import Client, Description, Retention, Streamer


def ls(
    uri: Annotated[
        str,
        typer.Argument(metavar="URI", help="Where streams are: kafka://localhost:9092.", show_default=False),
    ],
    as_json: Json = False,
) -> None:
    """Lists streams, with what they hold.

    Example: penstock ls file:///tmp/streams/
    """
    from penstock.streams import connect

    with connect(uri) as streamer, streamer.admin() as admin:
        found = [admin.outline(name) for name in streamer.located() or admin.streams()]
    if as_json:
        for stream in found:
            render.emit(_summary(stream))
    elif found:
        rows = [
            (s.name, len(s.shards), _number(_messages(s)), "" if s.size is None else render.size(s.size),
             _kept(s.retention))
            for s in found
        ]  # fmt: skip
        render.table(("stream", "shards", "messages", "size", "retention"), rows)
    else:
        render.note("there are no streams")


def create(
    uri: StreamUri,
    shards: Annotated[int, typer.Option("--shards", min=1, help="Into how many parts it is split.")] = 1,
    retention: Annotated[
        str | None,
        typer.Option(
            "--retention",
            metavar="TIME",
            help="How long messages are kept: 7d; unless given, for ever, or as Kafka's brokers are set.",
        ),
    ] = None,
    max_size: Annotated[
        str | None, typer.Option("--max-size", metavar="SIZE", help="How many bytes are kept: 10GB.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Makes a stream.

    Example: penstock stream create file:///tmp/streams/news --shards 4 --retention 7d
    """
    from penstock.streams import connect

    kept = _retention(retention, max_size)
    with connect(uri) as streamer, streamer.admin() as admin:
        name = one_stream(streamer)
        admin.create(name, shards=shards, retention=kept)
        if as_json:
            render.emit(_summary(admin.outline(name)))
        else:
            render.note(f"made {name}, with {render.count(shards, 'shard')}")


def describe(uri: StreamUri, as_json: Json = False) -> None:
    """Shows the shards of a stream, who is there, and how far its groups have read.

    Example: penstock stream describe file:///tmp/streams/news
    """
    from penstock.streams import connect

    with connect(uri) as streamer, streamer.admin() as admin:
        found = admin.describe(one_stream(streamer))
    if as_json:
        render.emit(_details(found))
        return
    rows = [(shard.number, shard.first, shard.last, _number(shard.produced)) for shard in found.shards]
    render.table(("shard", "first", "last", "ever stored"), rows)
    size = "" if found.size is None else f", {render.size(found.size)}"
    render.text(
        f"{_number(_messages(found)) or 'unknown'} messages{size}; retention: {_kept(found.retention)}"
    )
    for what, clients in (("producers", found.producers), ("consumers", found.consumers)):
        if clients is not None:
            render.text(f"{what}: {', '.join(map(_client, clients)) or 'none online'}")
    if found.lag:
        render.text("")
        render.table(("group", "lag"), [(group, _number(lag)) for group, lag in sorted(found.lag.items())])


def delete(
    uri: StreamUri,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: Json = False,
) -> None:
    """Removes a stream with all its messages.

    Example: penstock stream delete file:///tmp/streams/news --yes
    """
    from penstock.streams import connect

    with connect(uri) as streamer, streamer.admin() as admin:
        name = one_stream(streamer)
        held = _messages(admin.outline(name))
        if not yes:
            _confirm(name, held)
        admin.delete(name)
    if as_json:
        render.emit({"stream": name, "messages": held})
    else:
        render.note(f"removed {name}")


def one_stream(streamer: Streamer) -> str:
    """The stream that a URI names."""
    names = streamer.located()
    if len(names) != 1:
        what = "several streams" if names else "no stream"
        raise InputError("no-stream", f"'{streamer.uri}' names {what}", hint="end it with /name")
    return names[0]


def _confirm(name: str, held: int | None) -> None:
    what = "all its messages" if held is None else render.count(held, "message")
    if not sys.stdin.isatty():
        raise InputError(
            "not-confirmed", f"'{name}' would be removed with {what}", hint="say --yes to mean it"
        )
    typer.confirm(f"{name} is removed with {what}. Go on?", abort=True, err=True)


def _retention(age: str | None, size: str | None) -> Retention | None:
    if age is None and size is None:
        return None
    from penstock.options import parse_duration, parse_size
    from penstock.streams import Retention

    try:
        kept = Retention(
            None if age is None else parse_duration(age), None if size is None else parse_size(size)
        )
    except ValueError as failure:
        raise InputError("bad-retention", str(failure), hint="--retention 7d, --max-size 10GB") from None
    if kept.size == 0 or (kept.age is not None and not kept.age):
        raise InputError("bad-retention", "nothing would be kept", hint="--retention 7d, --max-size 10GB")
    return kept


def _messages(stream: Description) -> int | None:
    from penstock.streams.reading import messages_in

    return messages_in(stream.shards)


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _kept(retention: Retention) -> str:
    parts = [] if retention.age is None else [_span(retention.age)]
    parts += [] if retention.size is None else [render.size(retention.size)]
    return ", ".join(parts) or "for ever"


def _span(age: timedelta) -> str:
    seconds = age.total_seconds()
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length and seconds % length == 0:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:g} s"


def _client(client: Client) -> str:
    group = "" if client.group is None else f" in group {client.group}"
    shards = "" if not client.shards else f", shards {' '.join(map(str, client.shards))}"
    return client.name + group + shards + ("" if client.lag is None else f", lag {client.lag:,}")


def _summary(stream: Description) -> dict[str, Any]:
    age = stream.retention.age
    return {
        "stream": stream.name,
        "shards": len(stream.shards),
        "messages": _messages(stream),
        "size": stream.size,
        "retention": {"seconds": None if age is None else age.total_seconds(), "size": stream.retention.size},
    }


def _details(stream: Description) -> dict[str, Any]:
    from dataclasses import asdict

    def clients(told: tuple[Client, ...] | None) -> list[dict[str, Any]] | None:
        return None if told is None else [asdict(client) for client in told]

    return {
        **_summary(stream),
        "shards": [asdict(shard) for shard in stream.shards],
        "producers": clients(stream.producers),
        "consumers": clients(stream.consumers),
        "lag": dict(stream.lag),
    }
