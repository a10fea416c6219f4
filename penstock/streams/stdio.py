"""Lines of stdin and stdout as messages: `stdio://`.

At most once: a line is read once, and is gone. There are no groups and nothing to read again; keys, headers
and times are not written. A consumer has `ended` with its input. A line of more than 64 MB is none.
"""

from __future__ import annotations

import os
import select
import sys
import threading
import time
from collections import deque
from datetime import datetime, timezone
from typing import ClassVar

from penstock.errors import DataError, InputError, RunError
from penstock.streams.base import (
    Capabilities,
    Consumer,
    Delivery,
    Outgoing,
    Place,
    Producer,
    Reading,
    Receipt,
    Start,
    Streamer,
)
from penstock.streams.codecs import Codec, codec
from penstock.streams.framing import RawLines
from penstock.streams.ledger import Pending
from penstock.streams.message import Message, Record
from penstock.streams.outbox import Outbox
from penstock.uri import Uri

NAME = "stdio"
BUFFER = 64 << 20
CHUNK = 1 << 16


class Input:
    """The lines of a file, shared by all who read it; each goes to one of them."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._frames = RawLines("stdin", None, None)
        self._lines: deque[bytes] = deque()
        self._count = 0
        self._over = False
        self._failure: DataError | None = None
        self._lock = threading.Lock()

    def take(self, most: int, wait: float) -> tuple[list[tuple[int, bytes]], bool]:
        """The next lines with their numbers, and whether these are the last."""
        end = time.monotonic() + wait
        with self._lock:
            if self._failure is not None:
                raise self._failure
            while not self._lines and not self._over:
                ready, _, _ = select.select([self._file], [], [], max(0.0, end - time.monotonic()))
                if not ready:
                    break
                self._read()
            taken = [self._lines.popleft() for _ in range(min(most, len(self._lines)))]
            first, self._count = self._count + 1, self._count + len(taken)
            return list(enumerate(taken, first)), self._over and not self._lines

    def _read(self) -> None:
        chunk = os.read(self._file, CHUNK)
        try:
            framed = self._frames.feed(chunk) if chunk else self._frames.end()
        except DataError as failure:
            self._frames = RawLines("stdin", None, None)  # what it holds is too much
            hint = "the lines before it were given; nothing more is read"
            self._failure = DataError("bad-line", failure.message, at=failure.at, hint=hint)
            raise self._failure from None
        self._lines.extend(line for line, _ in framed)
        self._over = not chunk


class StdioConsumer(Consumer):
    def __init__(self, input: Input, stream: str) -> None:
        super().__init__()
        self._input = input
        self._stream = stream

    def _fetch(self, most: int, wait: float) -> list[Message]:
        lines, self.ended = self._input.take(most, wait)
        now = datetime.now(timezone.utc)
        return [Record(self._stream, 0, number, now, line) for number, line in lines]

    def _move(self, to: Start, stream: str | None = None, shard: int | None = None) -> None:
        raise no_replay("stdin")

    def _close(self) -> None:
        """stdin is the program's."""


class StdioProducer(Producer):
    def __init__(self, file: int, stream: str, codec: Codec) -> None:
        super().__init__(stream, codec)
        self._file = file
        self._written = 0
        self._outbox: Outbox[bytes] = Outbox(self, self._store, limit=BUFFER)

    def _put(self, outgoing: Outgoing) -> Receipt:
        line = outgoing.payload
        if b"\n" in line:
            raise InputError(
                "bad-payload", "a message of stdio:// is one line", hint="send a value: JSON has no line ends"
            )
        return self._outbox.put(line, len(line))

    def flush(self, timeout: float | None = None) -> None:
        self._outbox.flush(timeout)

    def close(self) -> None:
        self._outbox.close()

    def _store(self, items: list[tuple[bytes, Pending]]) -> None:
        data = memoryview(b"".join(line + b"\n" for line, _ in items))
        try:
            while data:
                data = data[os.write(self._file, data) :]
        except BrokenPipeError:
            raise RunError("closed", "nobody reads from stdout any more") from None
        except OSError as failure:
            raise RunError("not-stored", f"stdout takes no more: {failure.strerror}") from None
        for _, receipt in items:
            self._written += 1
            receipt.settle(Place(self.stream, 0, self._written))


class Stdio(Streamer):
    schemes: ClassVar[tuple[str, ...]] = ("stdio",)
    capabilities: ClassVar[Capabilities] = Capabilities()

    def __init__(self, uri: Uri) -> None:
        super().__init__(uri)
        if uri.authority or uri.path or uri.query:
            raise InputError("bad-uri", f"nothing follows stdio:// in '{uri}'", hint="stdio://")
        self._input = Input(sys.stdin.fileno())

    def located(self) -> tuple[str, ...]:
        return (NAME,)

    def _producer(self, stream: str, format: str, delivery: Delivery) -> Producer:
        at_best_once(delivery, "stdio")
        return StdioProducer(sys.stdout.fileno(), stream, codec(format))

    def _consumer(self, streams: tuple[str, ...], reading: Reading) -> Consumer:
        passing(reading, "stdin")
        name, *more = streams
        if more:
            raise InputError("one-stream", "stdin is one stream", hint="name one, or none")
        return StdioConsumer(self._input, name)


def no_replay(what: str) -> InputError:
    return InputError("no-replay", f"{what} cannot be read again", hint="copy it to a stream that is kept")


def at_best_once(delivery: Delivery, scheme: str) -> None:
    """Refuses what cannot be had where the far end remembers nothing."""
    if delivery == "exactly_once":
        raise InputError(
            "no-exactly-once", f"{scheme}:// knows no message again that it was sent", hint="at_least_once"
        )


def passing(reading: Reading, what: str) -> None:
    """Refuses what needs messages that stay."""
    if reading.group is not None:
        raise InputError("no-groups", f"{what} has no groups", hint="leave out group")
    if reading.mode == "exactly_once" or reading.start not in (None, "earliest", "latest"):
        raise no_replay(what)
