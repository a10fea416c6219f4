"""Reads streams from any id, without a group."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from penstock.streams.base import BATCH, Consumer, Place, Start
from penstock.streams.message import Message
from penstock.streams.positions import Positions
from penstock.streams.redis.connection import Connection, explain, explained, is_passing, told_to
from penstock.streams.redis.cursors import Cursor, Extent, chosen, cursors_of, follow, missing
from penstock.streams.redis.entries import Entry, Id
from penstock.uri import Uri

if TYPE_CHECKING:
    import redis

BLOCK = 1.0
"""Seconds that the server holds an answer back at most, when there are no messages."""
PAUSE = 0.1
PAGE = 50
"""Entries that are asked for at once, before it is known how large they are; then more and more."""
GROWTH = 4
ANSWER = 16 << 20
"""Bytes that an answer may have, about."""


class Patient(Consumer):
    """Bears that the server is away, for as long as it may be."""

    looks_aside = True

    def __init__(self, client: redis.Redis, uri: Uri, options: Connection) -> None:
        super().__init__()
        self._client = client
        self._uri = uri
        self._options = options
        self._away: float | None = None
        """Since when the server does not answer."""
        self._page = PAGE

    def _fetch(self, most: int, wait: float) -> list[Message]:
        end = time.monotonic() + wait
        while True:
            messages = self._tried(partial(self._read, most)) or []
            left = end - time.monotonic()
            if messages or left <= 0:
                return messages
            self._tried(partial(self._wait, min(left, BLOCK)))

    @abstractmethod
    def _read(self, most: int) -> list[Message]:
        """The messages that are there."""

    @abstractmethod
    def _wait(self, seconds: float) -> None:
        """Returns when there may be messages, or after so long."""

    def _tried(self, call: Callable[[], Any]) -> Any:
        """None when the server is away, and may be back soon."""
        import redis

        try:
            result = call()
        except redis.RedisError as failure:
            now = time.monotonic()
            self._away = self._away or now
            if not is_passing(failure) or now - self._away > self._options.timeout.total_seconds():
                raise explain(failure, self._uri) from None
            time.sleep(PAUSE)
            return None
        self._away = None
        return result

    def _learn(self, found: Iterable[Sequence[tuple[bytes, list[bytes]]]]) -> None:
        """Sizes the next answers by some of the entries of this one: Redis counts entries alone."""
        some = [entry for entries in found for entry in entries[:: len(entries) // 20 + 1]]
        if some:
            size = sum(len(part) for _, fields in some for part in fields) // len(some)
            self._page = max(1, min(BATCH, GROWTH * self._page, ANSWER // (size + 1)))

    def _of_each(self, shards: int) -> int:
        """How many entries each of so many shards is asked for."""
        return max(1, self._page // shards)

    def _insist(self, call: Callable[[], Any]) -> None:
        """Tries until the server has answered, which must not be with None."""
        while self._tried(call) is None:
            pass


class RedisConsumer(Patient):
    """Keeps its place itself; with a position store, begins after what is kept there."""

    def __init__(
        self,
        client: redis.Redis,
        uri: Uri,
        options: Connection,
        streams: tuple[str, ...],
        start: Start,
        positions: Positions | None = None,
    ) -> None:
        super().__init__(client, uri, options)
        with explained(uri):
            self._all = cursors_of(client, streams)
            self._cursors = self._all
            for cursor in self._all:
                kept = positions.kept(cursor.stream) if positions else {}
                if cursor.shard in kept:
                    cursor.resume(Id.of(kept[cursor.shard]))
                else:
                    cursor.place(client, start)

    def _read(self, most: int) -> list[Message]:
        most = min(most, self._of_each(len(self._cursors)))
        # In one transaction, so that nothing is removed between the look at the extents and the read.
        pipeline = self._client.pipeline(transaction=True)
        for cursor in self._cursors:
            pipeline.xinfo_stream(cursor.key)
        told_to(pipeline, "XREAD", "COUNT", most, "STREAMS", *self._places())
        *told, answer = pipeline.execute(raise_on_error=False)
        entries = dict(_sound(answer) or ())
        messages: list[Message] = []
        for cursor, extent in zip(self._cursors, told, strict=True):
            extent = Extent.of(self._known(cursor, extent))
            cursor.check(extent)
            found = entries.get(cursor.key.encode())
            if found:
                cursor.move(Id.of(found[-1][0]), len(found), extent, at_end=len(found) < most)
                messages += [Entry(cursor.stream, cursor.shard, id, fields) for id, fields in found]
        self._learn(entries.values())
        return messages

    def _wait(self, seconds: float) -> None:
        block = max(1, int(seconds * 1000))
        told_to(self._client, "XREAD", "COUNT", 1, "BLOCK", block, "STREAMS", *self._places())

    def _places(self) -> list[str]:
        return [*(c.key for c in self._cursors), *(str(c.after) for c in self._cursors)]

    @staticmethod
    def _known(cursor: Cursor, told: Any) -> dict[str, Any]:
        if isinstance(told, Exception) and "no such key" in str(told):
            raise missing(cursor.stream)
        return dict(_sound(told))

    def _reached(self, place: Place) -> bool:
        with explained(self._uri):
            return any(
                cursor.after >= Id.of(place.sequence) or not follow(self._client, cursor.key, cursor.after)
                for cursor in self._cursors
                if (cursor.stream, cursor.shard) == place[:2]
            )

    def _move(self, to: Start, stream: str | None = None, shard: int | None = None) -> None:
        if shard is not None:
            self._cursors = chosen(self._all, stream, shard)
        with explained(self._uri):
            for cursor in self._cursors:
                cursor.place(self._client, to)

    def _close(self) -> None:
        """Nothing is held at the server."""


def _sound(answer: Any) -> Any:
    if isinstance(answer, Exception):
        raise answer
    return answer
