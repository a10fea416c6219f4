"""Reads streams from any id, without a group."""

from __future__ import annotations

import itertools
import time
from abc import abstractmethod
from typing import Protocol

from penstock.errors import PenstockError
from penstock.streams.base import Consumer, Place, Start
from penstock.streams.message import Message
from penstock.streams.positions import Positions
from penstock.streams.pulsar.connection import Cluster, missing, unreachable
from penstock.streams.pulsar.cursors import chosen, cursors_of
from penstock.streams.pulsar.messages import Id, Received
from penstock.streams.pulsar.rest import Rest
from penstock.streams.pulsar.topics import Topic

TURN = 0.02
"""Seconds that one of several shards is waited for, before the others are looked at."""
LOOK = 1.0
"""Seconds without a message, after which it is looked whether the streams are still there."""
SOON = 1.0
"""Seconds in which a message comes that the server says is there."""
IDENTITY = "penstock-id"
"""The property that tells a stream from another of its name that was there before."""


class Source(Protocol):
    """What messages of one shard come from."""

    topic: Topic
    stream: str
    shard: int

    def take(self, most: int, wait: float) -> list[Received]: ...

    @property
    def connected(self) -> bool: ...


class Patient(Consumer):
    """Bears that the server is away, for as long as it may be."""

    looks_aside = True

    def __init__(self, cluster: Cluster, rest: Rest, topics: list[Topic]) -> None:
        super().__init__()
        self._cluster = cluster
        self._rest = rest
        self._topics = topics
        self._identities = {topic: rest.properties(topic).get(IDENTITY) for topic in topics}
        self._away: float | None = None
        """Since when the server does not answer."""
        self._looked = time.monotonic()
        self._turn = itertools.count()

    @abstractmethod
    def _sources(self) -> list[Source]:
        """Those that are read now."""

    def _fetch(self, most: int, wait: float) -> list[Message]:
        end = time.monotonic() + wait
        while True:
            found = self._read(most, end)
            if found:
                return found
            self._look()
            if time.monotonic() >= end:
                return []

    def _read(self, most: int, end: float) -> list[Message]:
        sources = self._sources()
        found: list[Message] = []
        first = next(self._turn)
        for place in range(len(sources)):
            if len(found) < most:
                source = sources[(first + place) % len(sources)]
                found += source.take(most - len(found), 0.0)
        if found or not sources:
            return found
        longest = LOOK if len(sources) == 1 else TURN
        left = min(longest, end - time.monotonic())
        return list(sources[first % len(sources)].take(most, left)) if left > 0 else []

    def _look(self) -> None:
        """Raises when the server is away for too long, or a stream that is read was deleted."""
        now = time.monotonic()
        if all(source.connected for source in self._sources()):
            self._away = None
        else:
            self._away = self._away or now
            if now - self._away > self._cluster.patience:
                raise unreachable(self._cluster.uri, "the connection broke")
        if now - self._looked < LOOK:
            return
        self._looked = now
        for topic, identity in self._identities.items():
            try:
                known = self._rest.properties(topic)
            except PenstockError as failure:
                if failure.code != "server-unreachable":
                    raise
                return
            # A client that was connected makes a topic again when it was deleted.
            if known.get(IDENTITY) != identity:
                raise missing(topic.stream)


class PulsarConsumer(Patient):
    """Keeps its place itself; with a position store, begins after what is kept there."""

    def __init__(
        self,
        cluster: Cluster,
        rest: Rest,
        topics: list[Topic],
        start: Start,
        positions: Positions | None = None,
    ) -> None:
        super().__init__(cluster, rest, topics)
        self._all = cursors_of(cluster, rest, topics)
        self._cursors = self._all
        for cursor in self._all:
            kept = positions.kept(cursor.stream) if positions else {}
            if cursor.shard in kept:
                cursor.resume(Id.of(kept[cursor.shard]))
            else:
                cursor.place(start, strict=len(self._all) == 1)

    def _sources(self) -> list[Source]:
        return list(self._cursors)

    def _fetch(self, most: int, wait: float) -> list[Message]:
        found = super()._fetch(most, wait)
        if not found and wait == 0 and any(cursor.has_more() for cursor in self._cursors):
            return super()._fetch(most, SOON)  # it is on its way
        return found

    def _reached(self, place: Place) -> bool:
        last = Id.of(place.sequence)
        return any(
            cursor.reached(last) for cursor in self._cursors if (cursor.stream, cursor.shard) == place[:2]
        )

    def _move(self, to: Start, stream: str | None = None, shard: int | None = None) -> None:
        if shard is not None:
            for cursor in self._cursors:
                cursor.stop()
            self._cursors = chosen(self._all, stream, shard)
        for cursor in self._cursors:
            cursor.place(to, strict=len(self._cursors) == 1)

    def _close(self) -> None:
        for cursor in self._all:
            cursor.stop()
