"""Reads topics as a member of a group, whose brokers share partitions among those who are there.

Partitions change hands inside of `_fetch`, when all that was given out before is processed: that is committed
before they go. With `cooperative-sticky`, the others are read on meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any

from penstock.errors import PenstockError, RunError
from penstock.streams.base import AWAY, Mode, Start
from penstock.streams.base import Place as Position
from penstock.streams.kafka.client import Cluster
from penstock.streams.kafka.consumer import MOST, KafkaConsumer, last_of
from penstock.streams.kafka.errors import explained
from penstock.streams.kafka.offsets import EARLIEST, Offsets, Place, counted, partitions_at, placed
from penstock.streams.kafka.options import StreamOptions
from penstock.streams.pace import Pace
from penstock.streams.positions import Positions

if TYPE_CHECKING:
    import confluent_kafka

COMMIT_EVERY = 0.5
BATCH_SECONDS = 0.5
PAUSE = 0.1
SOON = 0.001
ANSWER = 5.0
ENTRY = 10.0
"""Seconds in which brokers let a member in; they take three for the first of a group, as they are set."""


class GroupConsumer(KafkaConsumer):
    def __init__(
        self,
        cluster: Cluster,
        options: StreamOptions,
        streams: tuple[str, ...],
        mode: Mode,
        group: str,
        start: Start,
        positions: Positions | None,
    ) -> None:
        self._group = group
        self._streams = list(dict.fromkeys(streams))
        self._commits = mode == "repeat"
        self.transacts = mode == "exactly_once" and positions is None
        self._done: Offsets = {}
        """What was processed and is not committed."""
        self._through: Offsets = {}
        """What was processed, whether it is committed or not."""
        self._held: set[Place] = set()
        self._torn = False
        """Whether shards were taken away of which messages were read, and are in no transaction yet."""
        self._astray = False
        """Whether it has read beyond what has had an effect."""
        self._is_in = False
        """Whether the brokers have let it in, since it asked."""
        self._leaver: Any = None
        """Who this member was, when it has left: who asks in its name is told that it is gone."""
        self._committed = 0.0
        self._underway = False
        """Whether there is a commit that the broker has not answered."""
        self._answer: tuple[Any, list[Any]] = (None, [])
        """What it said to the last one: an error, if any, and partitions."""
        self._early: list[Any] = []
        """What came while that was waited for."""
        self._pace = Pace(BATCH_SECONDS, MOST)
        super().__init__(cluster, options, streams, start, positions)

    def _begin(self) -> confluent_kafka.Consumer:
        client = self._member()
        client.subscribe(
            self._streams, on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._dropped
        )
        return client

    def _member(self) -> confluent_kafka.Consumer:
        self._is_in = self._underway = False
        return self._made(
            {
                "group.id": self._group,
                "on_commit": self._replied,
                "partition.assignment.strategy": "cooperative-sticky",
                "session.timeout.ms": int(self._options.claim_after.total_seconds() * 1000),
                "heartbeat.interval.ms": max(
                    100, min(3000, int(self._options.claim_after.total_seconds() * 250))
                ),
            }
        )

    def _fetch(self, most: int, wait: float) -> list[Any]:
        if self._astray and not self._closed:
            self._return()
        self._pass_ends()
        messages = super()._fetch(min(most, self._pace.most()), wait)
        self._pace.gave(len(messages))
        return messages

    def _consumed(self, most: int, wait: float) -> list[Any]:
        if not self._early:
            return super()._consumed(most, wait)
        got, self._early = self._early[:most], self._early[most:]
        return self._good(got)

    def _found(self, places: list[Place]) -> None:
        """The group hears of new shards by itself."""

    def _told(self) -> PenstockError:
        """What is lost is told once; then what is left comes."""
        told = super()._told()
        if self._trouble is not None:
            lost = {place for place in self._held if place[0] in self._watch.renewed} | self._losses
            self._replace(dict.fromkeys(lost & self._held, EARLIEST))
            self._watch.renewed.clear()
            self._losses.clear()
            self._trouble = None
        return told

    # Which shards are this member's.

    def _assigned(self, client: confluent_kafka.Consumer, parts: list[Any]) -> None:
        self._is_in = True
        places = [(part.topic, part.partition) for part in parts]
        stood = self._stood(client, places)
        begin = self._firsts(places) | stood
        # Whoever gets a shard next begins at the same message, not at the latest of that time.
        new = {place: first for place, first in begin.items() if first >= 0 and place not in stood}
        if new and (self._commits or self.transacts):
            self._committing(lambda: client.commit(offsets=partitions_at(new), asynchronous=False))
        client.incremental_assign(partitions_at(counted(self._cluster, begin)))
        self._held.update(places)

    def _stood(self, client: confluent_kafka.Consumer, places: list[Place]) -> Offsets:
        """Where the group has committed that it stands."""
        if not places or not (self._commits or self.transacts):
            return {}
        asked = partitions_at(dict.fromkeys(places, EARLIEST))
        told = self._committing(lambda: client.committed(asked, timeout=10))
        return {(part.topic, part.partition): part.offset for part in told if part.offset >= 0}

    def _revoked(self, client: confluent_kafka.Consumer, parts: list[Any]) -> None:
        if not self._closed:
            with suppress(PenstockError):  # what is not committed comes again
                self._store(lambda: client.commit(offsets=partitions_at(self._mine()), asynchronous=False))
        self._dropped(client, parts)

    def _dropped(self, client: confluent_kafka.Consumer, parts: list[Any]) -> None:
        places = [(part.topic, part.partition) for part in parts]
        self._forget(places)
        for place in places:
            self._held.discard(place)
            self._ends.pop(place, None)
            self._through.pop(place, None)
            self._torn |= self._done.pop(place, None) is not None

    # What was processed.

    def _processed(self, messages: list[Any]) -> None:
        if not (self._commits or self.transacts):
            return
        last = last_of(messages, len(self._held))
        self._done |= last
        self._through |= last
        if self._commits and not self._underway and time.monotonic() - self._committed > COMMIT_EVERY:
            self._committed = time.monotonic()
            self._send(self._done)

    def _pass_ends(self) -> None:
        """What follows the last message, and is none, counts as processed with it: else the group would never
        be at the end. Only while nothing is given out."""
        if self._commits:
            ends = {
                place: end
                for place, end in self._ends.items()
                if place in self._held and end > self._through.get(place, -1)
            }
            self._done |= ends
            self._through |= ends

    def _commit(self) -> None:
        self._store(self._answered, polls=True)

    def _store(self, commit: Callable[[], list[Any]], *, polls: bool = False) -> None:
        if not (self._commits and self._done):
            return
        if self._mine():
            self._committing(commit, polls=polls)
        self._done.clear()
        self._committed = time.monotonic()

    def _mine(self) -> Offsets:
        """What was processed of the shards that are still this member's."""
        return {place: offset for place, offset in self._done.items() if place in self._held}

    def _answered(self) -> list[Any]:
        """Commits, and returns what the broker says. Of two commits that are underway when a broker goes, the
        first may come last when it is back: so there is one at a time."""
        from confluent_kafka import KafkaException

        self._settle()
        offsets = self._mine()
        if not offsets:
            raise self._overtaken()
        self._send(offsets)
        self._settle()
        error, parts = self._answer
        if error is not None:
            raise KafkaException(error)
        return parts

    def _send(self, offsets: Offsets) -> None:
        self._client.commit(offsets=partitions_at(offsets), asynchronous=True)
        self._underway = True

    def _replied(self, error: Any, parts: list[Any]) -> None:
        self._underway, self._answer = False, (error, parts)

    def _settle(self) -> None:
        """Waits for an answer, which comes where messages do. librdkafka itself would wait for ever while no
        broker is there."""
        from confluent_kafka import KafkaError, KafkaException

        began, pause = time.monotonic(), SOON
        while self._underway:
            if time.monotonic() - began > self._timeout:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
            self._early += self._client.consume(MOST, pause)
            pause = min(2 * pause, PAUSE)

    def _committing(self, call: Callable[[], Any], *, polls: bool = False) -> list[Any]:
        """What the group's broker answers; again while it is about to share shards anew, or away. One that
        `polls` hears of that, and what becomes of its shards."""
        from confluent_kafka import KafkaError, KafkaException

        anew = {KafkaError.REBALANCE_IN_PROGRESS, KafkaError.UNSTABLE_OFFSET_COMMIT, KafkaError._IN_PROGRESS}
        gone = {KafkaError.ILLEGAL_GENERATION, KafkaError.UNKNOWN_MEMBER_ID}
        anew |= gone if polls else set()
        began = time.monotonic()
        while True:
            try:
                told: list[Any] = call()
                error = next((part.error for part in told if part.error is not None), None)
            except KafkaException as failure:
                error = failure.args[0]
            if error is None:
                return told
            trouble = explained(error, self._options, self._streams[0])
            patience = self._timeout if trouble.code in AWAY else 0.0
            if error.code() in anew:
                patience = max(self._timeout, self._options.transaction_timeout.total_seconds())
            if time.monotonic() - began > patience:
                raise self._overtaken() if error.code() in {*gone, KafkaError._STATE} else trouble
            time.sleep(PAUSE)

    def _overtaken(self) -> RunError:
        return RunError(
            "not-committed",
            f"others of the group '{self._group}' have taken over: what was processed comes again",
        )

    def _reached(self, place: Position) -> bool:
        """By what the group has committed, of whomever a shard is."""
        from confluent_kafka import KafkaException

        if not self._commits:
            return super()._reached(place)
        try:
            (told,) = self._outsider.committed(partitions_at({(place.stream, place.shard): EARLIEST}), ANSWER)
            error = told.error
        except KafkaException as failure:
            error = failure.args[0]
        if error is not None:
            raise explained(error, self._options, place.stream)
        return int(told.offset) > int(place.sequence)

    @cached_property
    def _outsider(self) -> confluent_kafka.Consumer:
        """Asks for the group, and is in none: a broker that shares shards anew answers a member nothing else
        meanwhile."""
        return self._made({"group.id": self._group})

    # What a transaction asks, and tells.

    def read(self) -> tuple[list[Any], Any]:
        """The positions of all that was given out, and who this member is."""
        with self._lock:
            self._pass(self._given())
            if self._torn:
                raise RunError(
                    "rebalanced",
                    "shards went to others of the group before what was read of them was committed",
                    hint="go on: what is still this member's comes again, the rest to the others",
                )
            return partitions_at(self._done), self._leaver or self._client.consumer_group_metadata()

    def kept(self) -> None:
        """The positions that were read are committed."""
        self._done.clear()

    def again(self) -> None:
        """What was read has had no effect: it comes again."""
        with self._lock:
            self._hold([])
            self._done.clear()
            self._astray, self._torn = True, False

    def _return(self) -> None:
        stood = self._stood(self._client, sorted(self._held))
        self._replace(self._firsts(self._held) | stood)
        self._astray = False

    # Where the group stands.

    def _move(self, to: Start, stream: str | None = None, shard: int | None = None) -> None:
        """Moves the shards of this member; with a shard named, it leaves the others to the group."""
        self._trouble = None
        self._losses.clear()
        self._astray = False
        if shard is not None:
            self._alone(self._chosen(stream, shard))
        self._await_shards()
        offsets = counted(self._cluster, placed(self._cluster, self._held, to))
        self._replace(offsets)
        self._done |= offsets

    def _alone(self, place: Place) -> None:
        if self._shard is None:
            self._commit()
            self._come_in()
            self._closed = True
            self._client.close()
            self._closed = False
            self._client = self._member()
        self._shard, self._held, self._early = place, {place}, []

    def _await_shards(self) -> None:
        end = time.monotonic() + self._timeout
        while not self._held and time.monotonic() < end:
            self._client.poll(PAUSE)  # a message that comes by it comes again, or is not wanted

    def _replace(self, offsets: Offsets) -> None:
        offsets = counted(self._cluster, offsets)
        self._forget(offsets)
        self._ends.clear()
        self._through.clear()
        if self._shard is not None:
            self._client.assign(partitions_at(offsets))
        elif offsets:
            self._client.incremental_unassign(partitions_at(offsets))
            self._client.incremental_assign(partitions_at(offsets))

    def _forget(self, places: Collection[Place]) -> None:
        """What came early of shards that are read elsewhere from now on, comes again."""
        self._early = [m for m in self._early if (m.topic(), m.partition()) not in places]

    def _come_in(self) -> None:
        """Who leaves while it is let in cannot say so, and the others wait until it is taken for dead."""
        end = time.monotonic() + min(self._timeout, ENTRY)
        while not self._is_in and self._shard is None and time.monotonic() < end:
            self._client.poll(PAUSE)  # nothing that comes by it is processed

    def _close(self) -> None:
        if not self._closed:
            self._come_in()
        if self.transacts and not self._closed:
            self._leaver = self._client.consumer_group_metadata()
        if not self._closed and "_outsider" in vars(self):
            self._outsider.close()
        super()._close()
