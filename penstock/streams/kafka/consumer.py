"""Reads topics from any offset, without a group."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from penstock.errors import InputError, PenstockError, RunError
from penstock.streams.base import Consumer, Start
from penstock.streams.base import Place as Position
from penstock.streams.kafka.client import Cluster, made
from penstock.streams.kafka.errors import explained, kind_of
from penstock.streams.kafka.messages import delivered, lost
from penstock.streams.kafka.offsets import EARLIEST, Offsets, Place, counted, listed, partitions_at, placed
from penstock.streams.kafka.options import StreamOptions
from penstock.streams.kafka.watch import Watch
from penstock.streams.positions import Positions

if TYPE_CHECKING:
    import confluent_kafka

MOST = 500
"""Messages in a batch. Of so many at a time, Python's garbage collector takes no notice."""
SETTINGS: dict[str, Any] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    "isolation.level": "read_committed",
    "enable.partition.eof": True,
    # A full queue is looked at again soon: of the second that is usual, most is waited in vain.
    "fetch.queue.backoff.ms": 10,
    "topic.metadata.refresh.interval.ms": 30_000,
}


class KafkaConsumer(Consumer):
    """Keeps its place itself; with a position store, begins after what is kept there."""

    def __init__(
        self,
        cluster: Cluster,
        options: StreamOptions,
        streams: tuple[str, ...],
        start: Start,
        positions: Positions | None = None,
    ) -> None:
        from confluent_kafka import Message as Theirs

        super().__init__()
        self._error_of = Theirs.error
        self._cluster = cluster
        self._options = options
        self._timeout = options.timeout.total_seconds()
        self._watch = Watch(cluster, streams, self._timeout)
        self._positions = positions
        self._starts = placed(cluster, self._watch.places, start)
        """Where shards are begun of which nothing is known; those that come later, at their first message."""
        self._errors: deque[Any] = deque(maxlen=20)
        self._trouble: PenstockError | None = None
        self._losses: set[Place] = set()
        """Shards whose messages are gone before they were read."""
        self._ends: Offsets = {}
        """Up to where there was nothing more to read: beyond the last message, where marks of transactions
        follow it, or messages that were removed for a newer one of their key."""
        self._new: list[Place] = []
        """Shards that were found, and are not read yet."""
        self._shard: Place | None = None
        """The one that `assign` named."""
        self._closed = False
        self._client = self._begin()

    def _begin(self) -> confluent_kafka.Consumer:
        # Not before the brokers were asked for topics: a client that has nothing to read connects somewhere,
        # and then waits for 50 ms before it connects to who has what it reads.
        client = self._made({"group.id": "penstock"})
        client.assign(partitions_at(counted(self._cluster, self._firsts(self._watch.places))))
        return client

    def _made(self, settings: dict[str, Any]) -> confluent_kafka.Consumer:
        from confluent_kafka import Consumer

        told = self._cluster.settings | SETTINGS | {"error_cb": self._errors.append} | settings
        client: confluent_kafka.Consumer = made(Consumer, told)
        return client

    def _firsts(self, places: Iterable[Place]) -> Offsets:
        """Where this reader begins: after what is kept in its position store, if any."""
        firsts = {place: self._starts.get(place, EARLIEST) for place in places}
        if self._positions is not None:
            kept = {stream: self._positions.kept(stream) for stream, _ in firsts}
            firsts |= {(s, n): int(kept[s][n]) + 1 for s, n in firsts if n in kept[s]}
        return firsts

    # What is read.

    _messages = staticmethod(delivered)

    def _fetch(self, most: int, wait: float) -> list[Any]:
        if self._closed:
            raise RunError("closed", "the consumer is closed")
        if self._trouble is not None:
            raise self._told()
        most, end = min(most, MOST), time.monotonic() + wait
        messages = self._consumed(most, wait)
        while not messages and self._trouble is None and (left := end - time.monotonic()) > 0:
            messages = self._consumed(most, left)
        try:
            self._found(self._watch.look())
        except PenstockError as trouble:
            self._trouble = self._trouble or trouble
        if not messages:
            self._check()
        return messages

    def _consumed(self, most: int, wait: float) -> list[Any]:
        """What comes next; none, too, when only the end of a shard did."""
        consume = self._client.consume
        got = consume(most, 0)
        if not got and wait > 0:
            # It waits for all that it is asked for, so it is asked for one.
            got = consume(1, wait)
            got += consume(most - 1, 0) if got and most > 1 else []
        return self._good(got)

    def _good(self, got: list[Any]) -> list[Any]:
        """Those that are no news of what is wrong."""
        if any(map(self._error_of, got)):
            self._heard(m for m in got if m.error() is not None)
            got = [m for m in got if m.error() is None]
        return got

    def _heard(self, troubles: Iterable[Any]) -> None:
        """What is wrong is told after what came before it; of what may pass, and of topics, others tell."""
        from confluent_kafka import KafkaError as E

        for message in troubles:
            error, stream, shard = message.error(), message.topic(), message.partition()
            told: PenstockError | None = None
            if error.code() == E._PARTITION_EOF:
                self._ends[stream, shard] = message.offset()
            elif error.code() in (E._AUTO_OFFSET_RESET, E.OFFSET_OUT_OF_RANGE):
                self._losses.add((stream, shard))
                told = self._lost(stream, shard)
            elif error.code() not in (E._MAX_POLL_EXCEEDED, E._UNKNOWN_TOPIC, E._UNKNOWN_PARTITION) and (
                error.fatal() or kind_of(error) != "unreachable"
            ):
                told = explained(error, self._options, stream or "")
            self._trouble = self._trouble or told

    def _lost(self, stream: str, shard: int) -> PenstockError:
        place = (stream, shard)
        try:
            first = listed(self._cluster, {place: EARLIEST})[place]
        except PenstockError:
            return lost(stream, shard, "it does not reach so far")
        return lost(stream, shard, f"the first that is left is {first}")

    def _told(self) -> PenstockError:
        """What is wrong; what is lost stays so until the consumer is moved."""
        told = self._trouble
        assert told is not None
        if told.code != "lost-messages":
            self._trouble = None
        return told

    def _check(self) -> None:
        if self._trouble is not None:
            raise self._told()
        for error in self._errors:
            if kind_of(error) in ("credentials", "tls"):
                raise explained(error, self._options, "")

    def _found(self, places: list[Place]) -> None:
        """Shards that are new are read, too, from their first message."""
        self._new += places
        if self._new and self._shard is None:
            firsts = counted(self._cluster, dict.fromkeys(self._new, EARLIEST))
            self._client.incremental_assign(partitions_at(firsts))
            self._new.clear()

    def _reached(self, place: Position) -> bool:
        return self._ends.get((place.stream, place.shard), 0) > int(place.sequence)

    # Where it is read.

    def _move(self, to: Start, stream: str | None = None, shard: int | None = None) -> None:
        if shard is not None:
            self._shard = self._chosen(stream, shard)
        places = self._watch.places if self._shard is None else [self._shard]
        self._trouble = None
        self._losses.clear()
        self._ends.clear()
        self._client.assign(partitions_at(counted(self._cluster, placed(self._cluster, places, to))))
        self._new.clear()

    def _chosen(self, stream: str | None, shard: int) -> Place:
        streams = {name for name, _ in self._watch.places}
        if stream is None and len(streams) > 1:
            raise InputError("which-stream", "several streams are read", hint="name the one: stream=")
        name = stream or next(iter(streams))
        if (name, shard) not in self._watch.places:
            known = ", ".join(str(n) for of, n in self._watch.places if of == name)
            raise InputError(
                "no-shard", f"stream '{name}' has no shard {shard} that is read here", hint=f"shards: {known}"
            )
        return name, shard

    def _close(self) -> None:
        if not self._closed:
            self._closed = True
            self._client.close()


def last_of(messages: list[Any], among: int) -> Offsets:
    """The offset after the last message of each shard, of which there are so many."""
    found: Offsets = {}
    for message in reversed(messages):
        place = message.topic(), message.partition()
        if place not in found:
            found[place] = message.offset() + 1
            if len(found) >= among:
                break
    return found
