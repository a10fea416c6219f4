"""`penstock flux`: what is written to a pipe becomes messages."""

from __future__ import annotations

import os
import select
import stat
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli import render
from penstock.cli.arguments import Delimiter, Quote, StreamFormat, StreamUri
from penstock.cli.pipe import capacity, named_pipe, widen
from penstock.cli.stopping import Stopping
from penstock.errors import DataError, RunError, SetupError

if TYPE_CHECKING:
    from penstock.streams import Producer
    from penstock.streams.framing import Frames

_CHUNK = 256 * 1024
"""Bytes; larger pieces cost more than they save: each is new memory from the system."""
_IDLE_MS = 100
"""After so long without input, what was sent is stored before more is awaited, so that failures are told."""


def flux(
    path: Annotated[
        str, typer.Argument(metavar="PATH", help="A named pipe to make; - reads stdin.", show_default=False)
    ],
    uri: StreamUri,
    format: StreamFormat = "ndjson",
    key: Annotated[
        str | None, typer.Option("--key", metavar="FIELD", help="The field that is each message's key.")
    ] = None,
    header: Annotated[
        bool, typer.Option("--header", help="The first line of CSV names its columns, and is not sent.")
    ] = False,
    delimiter: Delimiter = None,
    quote: Quote = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Tell of bad lines, and go on, in place of ending.")
    ] = False,
) -> None:
    """Sends what is written to a pipe, line by line.

    The pipe is there until the command ends, by Ctrl-C, kill, or a bad line; what was written to it by then
    is stored first. With -, it ends where stdin does.

    Example: penstock flux ./producer file:///tmp/streams/news &
    """
    with Stopping() as stopping, _inlet(path) as inlet:
        from penstock.streams import connect
        from penstock.streams.framing import Dialect, frames, known_format

        source = "stdin" if path == "-" else path
        skipped = _Skipped()
        dialect = Dialect.of(known_format(format), delimiter, quote)
        bad = skipped.add if skip_bad else None
        framing = frames(format, source, key=key, header=header, dialect=dialect, bad=bad)
        with ExitStack() as held:
            streamer = held.enter_context(connect(uri))
            producer = held.enter_context(streamer.producer(format="raw"))
            try:
                _pour(inlet, framing, producer, stopping)
            except KeyboardInterrupt:
                held.pop_all()  # to close them is to wait for what is not stored
                raise
        if skipped.count:
            render.note(f"{render.count(skipped.count, 'bad line')} not sent")


class _Skipped:
    def __init__(self) -> None:
        self.count = 0

    def add(self, failure: DataError) -> None:
        self.count += 1
        render.note(f"skipped: {failure.message}")


def _pour(inlet: _Inlet, framing: Frames, producer: Producer, stopping: Stopping) -> None:
    for data in inlet.chunks(stopping):
        if data is None:
            producer.flush()
        elif data:
            producer.pour(framing.feed(data))
        else:
            producer.pour(framing.end())
            producer.flush()
    if framing.waiting:
        raise RunError(
            "half-a-line",
            f"stopped after line {framing.line}: {render.count(framing.waiting, 'byte')} that follow are no"
            " whole line, and not stored",
            hint="end first what writes, then this",
        )


class _Inlet:
    """Bytes from a file descriptor: pieces, b"" where an input ends, None where nothing comes for a while."""

    def __init__(self, fd: int, path: str | None) -> None:
        self._fd, self._path = fd, path
        self._drains = stat.S_ISFIFO(os.fstat(fd).st_mode)

    def chunks(self, stopping: Stopping) -> Iterator[bytes | None]:
        poll = select.poll()
        poll.register(stopping.fd, select.POLLIN)
        poll.register(self._fd, select.POLLIN)
        idle = False
        while not stopping.asked:
            ready = dict(poll.poll(None if idle else _IDLE_MS))
            if self._fd in ready:
                idle, data = False, self._read()
                if data is None:
                    continue
                yield data
                if data:
                    continue
                if self._path is None:
                    return
                poll.unregister(self._fd)
                self._reopen(self._path)
                poll.register(self._fd, select.POLLIN)
            elif not ready:
                idle = True
                yield None
        yield from self._rest()

    def _read(self) -> bytes | None:
        try:
            return os.read(self._fd, _CHUNK)
        except BlockingIOError:
            return None

    def _reopen(self, path: str) -> None:
        """Waits for the next writer, which the old end of the pipe would not: it says for ever that all
        writers have gone. The new end is there before the old one goes, so that what is written meanwhile
        stays."""
        try:
            new = os.open(
                f"/proc/self/fd/{self._fd}" if sys.platform == "linux" else path, os.O_RDONLY | os.O_NONBLOCK
            )
        except OSError as failure:
            raise SetupError("pipe-gone", f"cannot open {path} again: {failure.strerror}") from None
        os.dup2(new, self._fd, inheritable=False)
        os.close(new)

    def _rest(self) -> Iterator[bytes]:
        """What is in the pipe now, and no more than fits into it: its writers may never end."""
        left = capacity(self._fd) if self._drains else 0
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        while left > 0 and poll.poll(0):
            data = self._read()
            if data is None:
                return
            yield data
            if not data:
                return
            left -= len(data)


@contextmanager
def _inlet(path: str) -> Iterator[_Inlet]:
    if path == "-":
        widen(sys.stdin.fileno())
        yield _Inlet(sys.stdin.fileno(), None)
        return
    with named_pipe(path):
        # At once: whoever writes before all is ready waits for a reader, and is told when there will be none.
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        widen(fd)
        try:
            yield _Inlet(fd, path)
        finally:
            os.close(fd)
