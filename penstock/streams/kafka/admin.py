"""Looks after the topics of a Kafka cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

from penstock.errors import InputError
from penstock.streams.base import Admin, Client, Description, Retention, Shard
from penstock.streams.kafka.client import AS_SET, PATIENCE, Cluster
from penstock.streams.kafka.errors import missing
from penstock.streams.kafka.groups import Group, Groups
from penstock.streams.kafka.messages import delivered
from penstock.streams.kafka.offsets import EARLIEST, LATEST, Offsets, Place, listed, partitions_at
from penstock.streams.message import Message

if TYPE_CHECKING:
    from confluent_kafka import Consumer

FOR_EVER = -1
BACK = 10
"""How many offsets before the end are read for the last message: some may be marks of transactions."""


class KafkaAdmin(Admin):
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._groups = Groups(cluster.options, cluster.settings)
        self._keeps = False
        self._kept: dict[str, Group] | None = None
        """What was told of groups, while it is kept."""
        self._held = ExitStack()

    def close(self) -> None:
        """The streamer holds the connection of its own."""
        self._groups.close()
        self._held.close()

    def streams(self) -> list[str]:
        return sorted(name for name in self._cluster.topics() if not name.startswith("__"))

    def create(self, stream: str, *, shards: int = 1, retention: Retention | None = None) -> None:
        if shards < 1:
            raise InputError("bad-shards", f"a stream has one shard at least, not {shards}")
        settings: dict[str, str] = {}
        if retention is not None:
            age, size = retention.age, retention.size
            settings["retention.ms"] = str(FOR_EVER if age is None else age // timedelta(milliseconds=1))
            # Kafka counts for each shard by itself.
            settings["retention.bytes"] = str(FOR_EVER if size is None else -(-size // shards))
        if not self._cluster.create(stream, shards, AS_SET, settings):
            raise InputError("exists", f"there is a stream '{stream}'")

    def describe(self, stream: str) -> Description:
        first, end = self._ends(stream)
        members, lag = self._readers(stream, first, end)
        return replace(self._outline(stream, first, end), consumers=members, lag=lag)

    def outline(self, stream: str) -> Description:
        return self._outline(stream, *self._ends(stream))

    def _outline(self, stream: str, first: Offsets, end: Offsets) -> Description:
        return Description(stream, _shards(first, end), retention=self._retention(stream, len(end)))

    @contextmanager
    def together(self) -> Iterator[None]:
        self._keeps = True
        try:
            yield
        finally:
            self._keeps, self._kept = False, None

    def shards(self, stream: str) -> tuple[Shard, ...]:
        return _shards(*self._ends(stream))

    def latest(self, stream: str) -> Message | None:
        first, end = self._ends(stream)
        there = {place: offset for place, offset in end.items() if offset > first[place]}
        found = [self._last(self._reader, place, first[place], there[place]) for place in there]
        if found:
            self._reader.unassign()
        return max((m for m in found if m is not None), key=lambda m: (m.timestamp, m.sequence), default=None)

    def delete(self, stream: str) -> None:
        self._places(stream)
        self._cluster.delete(stream)

    @cached_property
    def _reader(self) -> Consumer:
        settings = {"fetch.wait.max.ms": 10, "auto.offset.reset": "earliest"}
        return self._held.enter_context(self._cluster.consumer(settings))

    def _places(self, stream: str) -> list[Place]:
        there = self._cluster.topics()
        if not there.get(stream):
            raise missing(stream, there)
        return [(stream, shard) for shard in there[stream]]

    def _ends(self, stream: str) -> tuple[Offsets, Offsets]:
        """The first offset of each shard, and the one after its last."""
        places = self._places(stream)
        first, end = (listed(self._cluster, dict.fromkeys(places, of)) for of in (EARLIEST, LATEST))
        return first, end

    def _retention(self, stream: str, shards: int) -> Retention:
        told = self._cluster.config_of(stream)
        age, size = (int(told.get(key) or FOR_EVER) for key in ("retention.ms", "retention.bytes"))
        try:
            kept = None if age < 0 else timedelta(milliseconds=age)
        except OverflowError:
            kept = None
        return Retention(kept, None if size < 0 else size * shards)

    def _readers(
        self, stream: str, first: Offsets, end: Offsets
    ) -> tuple[tuple[Client, ...], dict[str, int]]:
        """Who is online in groups, and how much each group has still to read.

        Of a shard of which it has committed nothing yet, that is all.
        """
        clients: list[Client] = []
        lag: dict[str, int] = {}
        for group, (members, committed) in sorted(self._told().items()):
            stood = {place: offset for place, offset in committed.items() if place in end and offset >= 0}
            behind = {place: max(0, end[place] - stood.get(place, first[place])) for place in end}
            if stood:
                lag[group] = sum(behind.values())
            for name, places in members:
                mine = tuple(sorted(shard for of, shard in places if of == stream))
                if mine:
                    left = sum(behind[stream, n] for n in mine) if stood else None
                    clients.append(Client(name, group, mine, left))
        return tuple(clients), lag

    def _told(self) -> dict[str, Group]:
        """Of all groups."""
        if self._kept is not None:
            return self._kept
        listed = self._cluster.admin.list_consumer_groups(request_timeout=PATIENCE).result()
        told = self._groups.told([group.group_id for group in listed.valid])
        self._kept = told if self._keeps else None
        return told

    def _last(self, consumer: Any, place: Place, first: int, end: int) -> Message | None:
        """The last message before `end`, looked for in longer and longer stretches."""
        back = BACK
        while True:
            begin = max(first, end - back)
            consumer.assign(partitions_at({place: begin}))
            last = self._last_of(consumer, end)
            if last is not None or begin == first:
                return last
            back *= 10

    @staticmethod
    def _last_of(consumer: Any, end: int) -> Message | None:
        last: Message | None = None
        while (message := consumer.poll(PATIENCE)) is not None and message.error() is None:
            if message.offset() >= end:
                break
            (last,) = delivered(iter([message]))
            if message.offset() == end - 1:
                break
        return last


def _shards(first: Offsets, end: Offsets) -> tuple[Shard, ...]:
    return tuple(_shard(place[1], first[place], end[place]) for place in sorted(end))


def _shard(number: int, first: int, end: int) -> Shard:
    return Shard(number, first, end - 1, end) if end > first else Shard(number, None, None, end)
