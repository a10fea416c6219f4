"""`penstock tap`: the messages of a stream, to stdout or a named pipe."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli import render
from penstock.cli.arguments import Delimiter, From, Group, Quote, StreamFormat, StreamUri, Until
from penstock.cli.outlet import Closed, Outlet, outlet
from penstock.cli.stopping import Stopped, Stopping
from penstock.errors import DataError, InputError

if TYPE_CHECKING:
    from penstock.streams import Message
    from penstock.streams.reading import Reading

_MANY = 10_000


def tap(
    path: Annotated[
        str, typer.Argument(metavar="PATH", help="A named pipe to make; - is stdout.", show_default=False)
    ],
    uri: StreamUri,
    start: From = "earliest",
    until: Until = None,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=1, metavar="N", help="End after so many messages.")
    ] = None,
    follow: Annotated[
        bool | None,
        typer.Option(
            "--follow/--no-follow",
            help="Wait for more; or end with what is there now. Follows unless --until is given.",
            show_default=False,
        ),
    ] = None,
    where: Annotated[
        str | None,
        typer.Option("--where", "-w", metavar="CONDITION", help="Only messages such as 'amount > 100'."),
    ] = None,
    format: StreamFormat = "ndjson",
    columns: Annotated[
        str | None, typer.Option("--columns", metavar="A,B,C", help="Names for the fields of CSV.")
    ] = None,
    delimiter: Delimiter = None,
    quote: Quote = None,
    with_meta: Annotated[
        bool,
        typer.Option("--with-meta", help="Objects with place, time, key and headers beside the payload."),
    ] = False,
    group: Group = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Tell of messages that cannot be read, and go on.")
    ] = False,
) -> None:
    """Shows the messages of a stream: pretty on a terminal, as they are in a pipe.

    Readers of a named pipe may come and go; what one has left, the next one gets. The pipe is there until the
    command ends.

    Example: penstock tap - file:///tmp/streams/news --where "amount > 100"
    """
    if until is not None and follow:
        raise InputError("usage", "--until ends what --follow would not", hint="leave one of them away")
    with Stopping() as stopping, outlet(path, stopping) as out:
        from penstock.streams import connect
        from penstock.streams.framing import Dialect, known_format
        from penstock.streams.reading import Reading, parse_start, parse_until
        from penstock.streams.shown import decoder

        decode = decoder(known_format(format), _named(columns, format), Dialect.of(format, delimiter, quote))
        pretty = path == "-" and sys.stdout.isatty()
        write = _Writing(format, decode, where, with_meta, skip_bad, pretty=pretty)
        ends = None if until is None else parse_until(until)
        refuse_until(until, group)
        goes_on = until is None if follow is None else follow
        with (
            connect(uri) as streamer,
            Reading(streamer, start=parse_start(start), until=ends, follow=goes_on, group=group) as reading,
        ):
            try:
                _flow(reading, write, out, stopping, limit)
            except (Closed, Stopped):
                return


def refuse_until(until: str | None, group: str | None) -> None:
    if group is not None and until not in (None, "now"):
        raise InputError(
            "until-with-group",
            "a group cannot leave out messages after a time",
            hint="--until now, or no --group",
        )


def _named(columns: str | None, format: str) -> list[str] | None:
    if columns is not None and format != "csv":
        raise InputError("usage", "--columns is for CSV", hint="--format csv")
    return None if columns is None else [name.strip() for name in columns.split(",")]


def _flow(reading: Reading, write: _Writing, out: Outlet, stopping: Stopping, limit: int | None) -> None:
    left = limit if limit is not None else sys.maxsize

    def wanted() -> int:
        # A group has received what it is given: no more than is shown.
        exactly = reading.in_group or not write.chooses
        return min(_MANY, left) if exactly or not left else _MANY

    for batch in reading.batches(lambda: stopping.asked, wanted):
        if not batch:
            out.check()
            continue
        count, data = write(batch, left)
        left -= count
        out.write(data)
        if reading.in_group:
            # What waits in a pipe may never be read; only what was counts as received.
            out.drain()
            reading.commit()
    if not stopping.asked:
        out.drain()


class _Writing:
    """Messages as bytes, less those that are not wanted."""

    def __init__(
        self,
        format: str,
        decode: Callable[[Message], Any],
        where: str | None,
        with_meta: bool,
        skip_bad: bool,
        *,
        pretty: bool,
    ) -> None:
        from penstock.streams.shown import framer
        from penstock.streams.where import condition

        self._decode, self._frame = decode, framer(format)
        self._where = None if where is None else condition(where)
        self._with_meta, self._skip_bad, self._pretty = with_meta, skip_bad, pretty
        self._plain = not (with_meta or pretty or where)
        self.chooses = skip_bad or where is not None
        """Whether it may leave some out."""

    def __call__(self, batch: list[Message], most: int) -> tuple[int, bytes]:
        """How many of them are wanted, and these."""
        if self._plain:
            with suppress(DataError):  # by one of them: one by one, it is found
                return len(batch), self._frame(batch)
        shown = (line for line in map(self._one, batch) if line is not None)
        lines = list(islice(shown, most))
        return len(lines), b"".join(lines)

    def _one(self, message: Message) -> bytes | None:
        try:
            return self._frame([message]) if self._plain else self._shown(message)
        except DataError as failure:
            if not self._skip_bad:
                hint = "another --format, or --skip-bad"
                raise DataError(failure.code, failure.message, hint=hint) from None
            render.note(f"skipped: {failure.message}")
            return None

    def _shown(self, message: Message) -> bytes | None:
        from penstock.streams.shown import line, whole

        value = self._decode(message)
        if self._where is not None and not self._where(value):
            return None
        if self._pretty:
            from penstock.cli.pretty import pretty

            return pretty(whole(message, value), with_meta=self._with_meta).encode()
        return line(whole(message, value)) + b"\n" if self._with_meta else self._frame([message])
