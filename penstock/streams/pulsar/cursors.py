"""Where a reader stands on a shard, and how it reads on from there."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING

from penstock.errors import InputError
from penstock.streams.base import Start
from penstock.streams.pulsar.connection import Cluster, explain, explained, kind_of
from penstock.streams.pulsar.messages import Id, Received, lost
from penstock.streams.pulsar.rest import Rest
from penstock.streams.pulsar.topics import Topic

if TYPE_CHECKING:
    import pulsar

QUEUE = 1000
"""Messages that the client fetches ahead."""
ANSWER_MS = 10_000
BEHIND = 5.0
"""Seconds within which nothing is removed that was stored meanwhile."""


class Cursor:
    """A reader of one shard. It begins with an id, not with `latest`: so a broken link loses nothing."""

    def __init__(self, cluster: Cluster, rest: Rest, topic: Topic, shard: int) -> None:
        self._cluster = cluster
        self._rest = rest
        self.topic = topic
        self.stream = topic.stream
        self.shard = shard
        self.after: Id | None = None
        """The last message that was read, or the next one where it is `inclusive`; None for the earliest."""
        self.inclusive = False
        self._floor: Id | None = None
        """What must not be gone."""
        self._reader: pulsar.Reader | None = None
        self._opened_now = False
        """Nothing came since the reader was opened, which was after a look at what is left."""
        self._has_holes = False
        """Entries are missing that are no messages, such as marks of transactions."""
        self._caught_up = float("-inf")
        """When it was last seen that nothing, or only what is new, was left to read."""

    # Where it stands.

    def place(self, to: Start, *, strict: bool = False) -> None:
        """Goes on at `to`; being `strict`, it tells when that is gone."""
        self.stop()
        self.after, self.inclusive, self._floor = None, False, None
        if to == "latest":
            self.after = self._rest.last(self.topic)
        elif isinstance(to, datetime):
            self._seek(to)
        elif to != "earliest":
            self.after, self.inclusive = Id.of(to), True
            self._floor = self.after if strict else None

    def resume(self, last: Id) -> None:
        """Goes on after a message that was read."""
        self.stop()
        self.after = self._floor = last
        self.inclusive = False

    def _seek(self, time: datetime) -> None:
        """A message is not stored before it happened: what is stored earlier is left out, and of the rest the
        messages themselves tell."""
        end = self._rest.last(self.topic)
        start = self._rest.at(self.topic, time)
        self.after, self.inclusive = end, False
        if start is None or end is None or start > end:
            return
        for message in self._between(start, end):
            if message.timestamp >= time:
                self.after, self.inclusive = message.id, True
                return

    def _between(self, start: Id, end: Id) -> Iterator[Received]:
        reader = self._opened(start, inclusive=True)
        try:
            while True:
                with explained(self._cluster.uri, self.stream):
                    message = Received(self.stream, self.shard, reader.read_next(ANSWER_MS))
                if message.id > end:
                    return
                yield message
                if message.id >= end:
                    return
        finally:
            let_go(reader)

    def newest(self) -> Received | None:
        """The last message that is there."""
        end = self._rest.last(self.topic)
        if end is None or self._rest.first(self.topic) is None:
            return None
        return next(self._between(end, end), None)

    # What it reads.

    def take(self, most: int, wait: float) -> list[Received]:
        """Messages that are there; waits for the first of them."""
        if self._reader is None:
            self._check()
            self._reader = self._opened(self.after, inclusive=self.inclusive)
            self._opened_now = True
        begun = time.monotonic()
        found = taken(self._reader.read_next, self.stream, self.shard, most, wait, self._cluster)
        found = found[: self._count_in_order(found, kept_up=begun - self._caught_up < BEHIND)]
        if found:
            self.after, self.inclusive, self._floor = found[-1].id, False, found[-1].id
        if found[-1].age < BEHIND if found else self.connected:
            self._caught_up = time.monotonic()
        return found

    def _count_in_order(self, found: list[Received], *, kept_up: bool) -> int:
        """How many follow each other.

        A broker removes what a reader has not read yet, and goes on with what is left. Then the reader is
        opened again where it stood, which tells of what is gone, and gives what is not.
        """
        last = self.after
        for place, message in enumerate(found):
            if last is not None and self._opened_now:
                self._has_holes |= _is_hole(last, message.id)
            elif last is not None and not self._follows(last, message.id, kept_up=kept_up):
                self.stop()
                return place
            self._opened_now, last = False, message.id
        return len(found)

    def _follows(self, last: Id, next: Id, *, kept_up: bool) -> bool:
        if last.ledger == next.ledger:
            return self._has_holes or not _is_hole(last, next)
        ledgers = self._rest.ledgers(self.topic)
        if last.ledger not in ledgers:
            return kept_up
        between = any(entries for ledger, entries in ledgers.items() if last.ledger < ledger < next.ledger)
        return last.entry + 1 >= ledgers[last.ledger] and not between

    def has_more(self) -> bool:
        """Asks the server."""
        if self._reader is None or not self._reader.is_connected():
            return False
        with explained(self._cluster.uri, self.stream):
            return bool(self._reader.has_message_available())

    def reached(self, last: Id) -> bool:
        """Whether nothing up to there is to come."""
        if self.after is not None and not self.inclusive and self.after >= last:
            return True
        return self._reader is not None and self._reader.is_connected() and not self.has_more()

    @property
    def connected(self) -> bool:
        return self._reader is None or bool(self._reader.is_connected())

    def stop(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            let_go(reader)

    def _check(self) -> None:
        """Pulsar would go on with what is left, and not tell."""
        if self._floor is None:
            return
        first = self._rest.first(self.topic)
        last = self._rest.last(self.topic)
        if last is None or last.ledger < self._floor.ledger:
            raise lost(self.stream, self.shard, self._floor, "the stream was made again")
        if first is not None and first.ledger > self._floor.ledger:
            raise lost(self.stream, self.shard, self._floor, f"the first that is left is {first}")

    def _opened(self, at: Id | None, *, inclusive: bool) -> pulsar.Reader:
        client = self._cluster.client()
        import pulsar

        start = pulsar.MessageId.earliest if at is None else pulsar.MessageId(-1, *at)
        with explained(self._cluster.uri, self.stream):
            return client.create_reader(
                self.topic.full, start, receiver_queue_size=QUEUE, start_message_id_inclusive=inclusive
            )


def _is_hole(last: Id, next: Id) -> bool:
    """Whether entries of one ledger are between them."""
    return last.ledger == next.ledger and next.entry > last.entry + 1


def cursors_of(cluster: Cluster, rest: Rest, topics: list[Topic]) -> list[Cursor]:
    """One for each shard."""
    return [Cursor(cluster, rest, shard, n) for topic in topics for n, shard in enumerate(topic.shards())]


def taken(
    receive: Callable[[int], pulsar.Message],
    stream: str,
    shard: int,
    most: int,
    wait: float,
    cluster: Cluster,
) -> list[Received]:
    """What the client has fetched; waits for the first."""
    import pulsar

    found: list[Received] = []
    try:
        found.append(Received(stream, shard, receive(round(wait * 1000))))
        while len(found) < most:
            found.append(Received(stream, shard, receive(0)))
    except pulsar.Timeout:
        pass
    except pulsar.PulsarException as failure:
        if not found:
            raise explain(kind_of(failure), cluster.uri, str(failure), stream) from None
    return found


def let_go(reader: pulsar.Reader | pulsar.Consumer) -> None:
    """Closes it; a server that is away forgets it by itself."""
    import pulsar

    with suppress(pulsar.PulsarException, ValueError):
        reader.close()


def chosen(cursors: list[Cursor], stream: str | None, shard: int) -> list[Cursor]:
    """Those of one shard."""
    found = [c for c in cursors if c.shard == shard and stream in (None, c.stream)]
    if not found:
        of = f"stream '{stream}'" if stream else "the stream"
        known = ", ".join(str(n) for n in sorted({c.shard for c in cursors if stream in (None, c.stream)}))
        hint = f"shards: {known}" if known else None
        raise InputError("no-shard", f"{of} has no shard {shard} that is read here", hint=hint)
    return found
