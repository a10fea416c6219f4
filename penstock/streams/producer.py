"""What sends messages, and what tells of each where it stands."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, asynccontextmanager
from datetime import datetime
from itertools import islice, repeat
from typing import Any, NamedTuple

from penstock.errors import InputError, PenstockError, RunError
from penstock.streams.aside import aside
from penstock.streams.awaited import Awaited
from penstock.streams.closing import Closing
from penstock.streams.codecs import AS_THEY_ARE, Codec, Payload, as_bytes
from penstock.streams.consumer import Consumer
from penstock.streams.message import Headers, Place, in_utc

ROOM = 0.05
"""Seconds after which a producer that was full may have room again, though not all is stored."""


class Receipt:
    """What `send` gives at once: where the message stands, as soon as that is known.

    It may be ignored, asked (`result`), or awaited.
    """

    __slots__ = ("_failure", "_place", "_producer")

    def __init__(self, producer: Producer) -> None:
        self._producer = producer
        self._place: Place | None = None
        self._failure: PenstockError | None = None

    def settle(self, place: Place | None, failure: PenstockError | None = None) -> None:
        """For backends: tells what became of the message."""
        self._place, self._failure = place, failure

    @property
    def done(self) -> bool:
        return self._place is not None or self._failure is not None

    def result(self, timeout: float | None = None) -> Place:
        """Where the message stands; waits for it, and raises what kept it from being stored."""
        if not self.done:
            self._producer.flush(timeout)
        if self._failure is not None:
            raise self._failure
        if self._place is None:
            raise RunError("not-stored-yet", "the message was not stored in that time")
        return self._place

    def __await__(self) -> Generator[Any, None, Place]:
        if not self.done:
            yield from self._producer.awaited.settled(self).__await__()
        return self.result(0)


class Outgoing(NamedTuple):
    """A message that is to be sent."""

    payload: bytes
    key: bytes | None
    timestamp: datetime | None
    headers: Mapping[str, bytes | str] | Headers
    id: str | None
    text: bool | None
    """Whether it was given as text or as bytes; None for a value."""


class Unkeyed:
    """Payloads without keys, for `pour`: who takes them as they are need make no pairs."""

    __slots__ = ("payloads",)

    def __init__(self, payloads: list[bytes]) -> None:
        self.payloads = payloads

    def __iter__(self) -> Iterator[tuple[bytes, bytes | None]]:
        return zip(self.payloads, repeat(None))


def in_slices(
    messages: Iterable[tuple[bytes, bytes | None]],
    most: int,
    take: Callable[[list[tuple[bytes, bytes | None]]], None],
) -> None:
    """Hands so many over at a time; what comes before one that cannot be read, all the same."""
    source, more = iter(messages), True
    while more:
        some: list[tuple[bytes, bytes | None]] = []
        try:
            some.extend(islice(source, most))
        finally:
            take(some)
        more = len(some) == most


class Producer(Closing, ABC):
    """Sends messages to a stream, in the order in which they are given."""

    def __init__(self, stream: str, codec: Codec) -> None:
        self.stream = stream
        self.codec = codec
        self.awaited = Awaited()

    @abstractmethod
    def _put(self, outgoing: Outgoing) -> Receipt:
        """Takes a message, and never waits; `buffer-full` when there is no room for it."""

    def send(
        self,
        payload: Payload,
        *,
        key: bytes | str | None = None,
        timestamp: datetime | None = None,
        headers: Mapping[str, bytes | str] | Headers = (),
        id: str | None = None,
    ) -> Receipt:
        """Hands a message over, and never waits.

        Raises `buffer-full` when too much has not been stored yet: `flush` makes room. A message that is
        sent with an `id` which the stream has seen within its window is not stored again, where the backend
        `deduplicates` and the delivery is `exactly_once`. A `timestamp` that names no zone is in UTC.
        """
        text: bool | None = False
        if type(payload) is bytes:  # as most are
            data = payload
        else:
            data = as_bytes(payload, self.codec)
            text = isinstance(payload, str) if isinstance(payload, AS_THEY_ARE) else None
        name = key.encode() if isinstance(key, str) else key
        when = None if timestamp is None else in_utc(timestamp)
        return self._put(Outgoing(data, name, when, headers, id, text))

    def pour(self, messages: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Hands payloads over with their keys, and gives no receipts; waits where there is no room.

        Where none has a key, they may come as `Unkeyed`. `send` may find no room before they are stored.
        """
        for payload, key in messages:
            self.send_patiently(payload, key=key)

    def send_patiently(self, payload: Payload, **about: Any) -> Receipt:
        """Sends, and waits where there is no room. `about` is what `send` takes."""
        while True:
            try:
                return self.send(payload, **about)
            except PenstockError as failure:
                if failure.code != "buffer-full":
                    raise
            self._make_room()

    def _make_room(self) -> None:
        """Waits until all is stored, or some of it may be."""
        try:
            self.flush(ROOM)
        except PenstockError as failure:
            if failure.code != "not-stored-yet":
                raise

    @abstractmethod
    def flush(self, timeout: float | None = None) -> None:
        """Waits until all that was sent is stored; raises the first failure that no receipt was asked for."""

    async def aflush(self, timeout: float | None = None) -> None:
        """As `flush`, while the loop does other things."""
        await aside(self.flush, timeout)

    @abstractmethod
    def close(self) -> None:
        """Stores what was sent, and ends."""

    def transaction(self, consumer: Consumer | None = None) -> AbstractContextManager[None]:
        """What is sent inside is stored together with the positions of `consumer`, or not at all."""
        raise InputError("no-transactions", "this backend has no transactions", hint="keep a position store")

    @asynccontextmanager
    async def atransaction(self, consumer: Consumer | None = None) -> AsyncIterator[None]:
        """As `transaction`, while the loop does other things."""
        one = self.transaction(consumer)
        await aside(one.__enter__)
        try:
            yield
        except BaseException as failure:
            await aside(one.__exit__, type(failure), failure, failure.__traceback__)
            raise
        await aside(one.__exit__, None, None, None)
