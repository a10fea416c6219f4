"""Reads streams as a member of a group, which is a subscription of Pulsar.

Each shard is read by one member at a time, in order, and the others stand by (Failover). What was processed
is acknowledged up to a message; when a member goes, another reads on from there.
"""

from __future__ import annotations

import os
import socket
import time
import uuid
from typing import TYPE_CHECKING

from penstock.errors import PenstockError, RunError
from penstock.streams.base import AWAY, Place, Start
from penstock.streams.message import Message
from penstock.streams.pulsar.connection import Cluster, explained
from penstock.streams.pulsar.consumer import Patient, Source
from penstock.streams.pulsar.cursors import Cursor, chosen, cursors_of, let_go, taken
from penstock.streams.pulsar.messages import Id, Received
from penstock.streams.pulsar.rest import Rest
from penstock.streams.pulsar.topics import Topic

if TYPE_CHECKING:
    import pulsar

QUEUE = 500
"""Messages that the client fetches ahead; they are another's when the shard becomes so."""
GATHERED = 0.15
"""Seconds in which the client has told the server of what it acknowledges."""
PAUSE = 0.02


class Member:
    """One shard as a member of the group has it."""

    def __init__(self, cluster: Cluster, topic: Topic, shard: int, group: str, name: str) -> None:
        self._cluster = cluster
        self.topic = topic
        self.stream = topic.stream
        self.shard = shard
        self._group = group
        self._name = name
        self._subscription: pulsar.Consumer | None = None

    def open(self) -> pulsar.Consumer:
        import pulsar

        if self._subscription is None:
            with explained(self._cluster.uri, self.stream):
                self._subscription = self._cluster.client().subscribe(
                    self.topic.full,
                    self._group,
                    consumer_type=pulsar.ConsumerType.Failover,
                    consumer_name=self._name,
                    receiver_queue_size=QUEUE,
                    initial_position=pulsar.InitialPosition.Earliest,
                    start_message_id_inclusive=True,
                    # Where the broker keeps it, else a batch that was processed in part comes again.
                    batch_index_ack_enabled=True,
                )
        return self._subscription

    def take(self, most: int, wait: float) -> list[Received]:
        return taken(self.open().receive, self.stream, self.shard, most, wait, self._cluster)

    @property
    def connected(self) -> bool:
        return self._subscription is None or bool(self._subscription.is_connected())

    def seek(self, id: Id) -> None:
        """Moves the group to a message inside a batch, which the admin REST cannot."""
        import pulsar

        with explained(self._cluster.uri, self.stream):
            self.open().seek(pulsar.MessageId(-1, *id))

    def acknowledge(self, last: Received) -> None:
        """All up to this one were processed."""
        with explained(self._cluster.uri, self.stream):
            self.open().acknowledge_cumulative(last.message)

    def stop(self) -> None:
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            let_go(subscription)


class GroupConsumer(Patient):
    def __init__(self, cluster: Cluster, rest: Rest, topics: list[Topic], start: Start, group: str) -> None:
        super().__init__(cluster, rest, topics)
        self._group = group
        self._all = cursors_of(cluster, rest, topics)
        name = f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self._members = [Member(cluster, c.topic, c.shard, group, name) for c in self._all]
        self._told: dict[tuple[str, int], tuple[Received, float]] = {}
        """What was acknowledged last on each shard, and when, as long as it may not be durable."""
        for cursor, member in zip(self._all, self._members, strict=True):
            cursor.place(start)
            new = rest.subscribe(cursor.topic, group, cursor.after, inclusive=cursor.inclusive)
            self._begin(cursor, member, exactly=new)

    @staticmethod
    def _begin(cursor: Cursor, member: Member, *, exactly: bool) -> None:
        member.open()
        if exactly and cursor.after is not None and cursor.inclusive and cursor.after.batch:
            member.seek(cursor.after)

    def _sources(self) -> list[Source]:
        return list(self._members)

    def _processed(self, messages: list[Message]) -> None:
        last = {(m.stream, m.shard): m for m in messages if isinstance(m, Received)}
        for member in self._members:
            message = last.get((member.stream, member.shard))
            if message is not None:
                member.acknowledge(message)
                self._told[member.stream, member.shard] = message, time.monotonic()

    def _commit(self) -> None:
        """The client gathers what it acknowledges, and tells nobody when it is done: the server is asked."""
        end = time.monotonic() + self._cluster.patience
        for member in self._members:
            told = self._told.get((member.stream, member.shard))
            if told is None:
                continue
            message, when = told
            ledger, entry, _ = message.id
            if message.in_batch:
                # Of a batch, the server shows only whether it is processed whole.
                time.sleep(max(0.0, when + GATHERED - time.monotonic()))
                entry -= 1
            while not self._is_marked(member.topic, ledger, entry):
                if time.monotonic() > end:
                    raise RunError(
                        "not-committed",
                        f"stream '{member.stream}': the broker does not take what was processed",
                    )
                time.sleep(PAUSE)
            del self._told[member.stream, member.shard]

    def _is_marked(self, topic: Topic, ledger: int, entry: int) -> bool:
        try:
            return self._rest.marked(topic, self._group) >= (ledger, entry)
        except PenstockError as failure:
            if failure.code not in AWAY:
                raise
            return False

    def _reached(self, place: Place) -> bool:
        (cursor,) = chosen(self._all, place.stream, place.shard)
        ledger, entry, _ = Id.of(place.sequence)
        return self._rest.marked(cursor.topic, self._group) >= (ledger, entry)

    def _move(self, to: Start, stream: str | None = None, shard: int | None = None) -> None:
        """Moves the whole group; what its members hold may come again."""
        if shard is not None:
            kept = {(c.stream, c.shard) for c in chosen(self._all, stream, shard)}
            for member in self._members:
                if (member.stream, member.shard) not in kept:
                    member.stop()
            self._members = [m for m in self._members if (m.stream, m.shard) in kept]
            self._all = [c for c in self._all if (c.stream, c.shard) in kept]
        self._told.clear()
        for cursor, member in zip(self._all, self._members, strict=True):
            cursor.place(to)
            member.stop()  # with what it holds
            self._rest.move(cursor.topic, self._group, cursor.after, inclusive=cursor.inclusive)
            self._begin(cursor, member, exactly=True)

    def _close(self) -> None:
        for member in self._members:
            member.stop()
