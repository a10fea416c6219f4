"""Reads streams as a member of a group.

The members of a group share a stream of several shards shard by shard, so that each keeps its order; a stream
of one shard message by message. Redis gives each message to one member, and remembers it as pending until it
is acknowledged: what a member leaves when it closes goes to the others at once, what one holds that is silent
for `claim_after`, then.
"""

from __future__ import annotations

import os
import socket
import time
import uuid
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from penstock.errors import PenstockError
from penstock.streams.base import Place, Start
from penstock.streams.message import Message
from penstock.streams.redis.connection import Connection, explained, told_to
from penstock.streams.redis.consumer import Patient
from penstock.streams.redis.cursors import Cursor, Extent, chosen, cursors_of, follow
from penstock.streams.redis.entries import Entry, Id, lost
from penstock.streams.redis.layout import SUFFIX
from penstock.uri import Uri

if TYPE_CHECKING:
    import redis

LEFT = "penstock-left"
"""Who holds what members left when they closed."""
LONG_AGO = 86_400_000
MOST = 500
"""Messages that a member takes at once from a shard; the others have something to do, too."""
LOOK = 0.2
"""Seconds between two looks at who is there."""


def members_of(stream: str, group: str) -> str:
    """The sorted set of a group's members, each with the time at which it counts as gone."""
    return f"{stream}{SUFFIX}:group:{group}"


class GroupConsumer(Patient):
    def __init__(
        self,
        client: redis.Redis,
        uri: Uri,
        options: Connection,
        streams: tuple[str, ...],
        start: Start,
        group: str,
    ) -> None:
        super().__init__(client, uri, options)
        self._group = group
        self._name = f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self._patience = max(1, int(options.claim_after.total_seconds() * 1000))
        self._members: dict[str, list[str]] = {}
        self._looked = 0.0
        self._claimed = 0.0
        self._assigned: list[Cursor] | None = None
        """Those that `assign` named; else those that are this member's share."""
        self._late: list[Message] = []
        """Given to this member by Redis, and not by it yet, since it had to tell of a loss first."""
        with explained(uri):
            self._all = cursors_of(client, streams)
            for cursor in self._all:
                self._join(cursor, start)
            self._look()

    # Who reads what.

    def _join(self, cursor: Cursor, start: Start) -> None:
        """Makes the group where it is new."""
        import redis

        if start not in ("earliest", "latest"):
            cursor.place(self._client, start)
        after = "$" if start == "latest" else str(cursor.after)
        try:
            self._client.xgroup_create(cursor.key, self._group, after)
        except redis.ResponseError as failure:
            if not str(failure).startswith("BUSYGROUP"):
                raise

    def _look(self) -> None:
        """Says that this member is there, and looks who else is; claims when somebody came or went."""
        now: Any = self._client.time()
        now = now[0] * 1000 + now[1] // 1000
        members = {}
        for stream in {cursor.stream for cursor in self._all}:
            key = members_of(stream, self._group)
            pipeline = self._client.pipeline(transaction=True)
            pipeline.zadd(key, {self._name: now + self._patience})
            pipeline.zremrangebyscore(key, "-inf", now)
            pipeline.zrange(key, 0, -1)
            members[stream] = sorted(name.decode() for name in pipeline.execute()[-1])
        if members != self._members:
            self._claimed = 0.0
        self._members = members
        self._looked = time.monotonic()

    def _share(self) -> list[Cursor]:
        if self._assigned is not None:
            return self._assigned
        shards: dict[str, int] = defaultdict(int)
        for cursor in self._all:
            shards[cursor.stream] += 1
        return [c for c in self._all if shards[c.stream] == 1 or self._owner(c) == self._name]

    def _owner(self, cursor: Cursor) -> str:
        members = self._members[cursor.stream]
        return members[cursor.shard % len(members)]

    # What is read.

    def _read(self, most: int) -> list[Message]:
        if time.monotonic() - self._looked >= LOOK:
            self._look()
        share = self._share()
        if not share:
            return []
        if self._late:
            late, self._late = self._late, []
            return late
        if time.monotonic() - self._claimed >= self._patience / 3000:
            each = min(most, self._of_each(len(share)))
            claimed = [message for cursor in share for message in self._claim(cursor, each)]
            if claimed:
                return claimed
            self._claimed = time.monotonic()
        return self._new(share, min(most, MOST, self._of_each(len(share))))

    def _claim(self, cursor: Cursor, most: int) -> list[Message]:
        """What others hold, and have been silent about for too long."""
        told = ("XAUTOCLAIM", cursor.key, self._group, self._name, self._patience, "0-0", "COUNT", most)
        answer: Any = told_to(self._client, *told)
        _, found, gone = answer
        messages: list[Message] = [Entry(cursor.stream, cursor.shard, id, fields) for id, fields in found]
        if gone:
            self._late += messages
            which = f"{len(gone)} were taken and not processed"
            raise lost(cursor.stream, cursor.shard, Id.of(gone[0]).before(), which)
        return messages

    def _new(self, share: list[Cursor], most: int) -> list[Message]:
        # In one transaction, so that nothing is removed between the look at the extents and the read.
        pipeline = self._client.pipeline(transaction=True)
        for cursor in share:
            pipeline.xinfo_stream(cursor.key)
            pipeline.xinfo_groups(cursor.key)
        told_to(pipeline, "XREADGROUP", *self._asked(share, "COUNT", most))
        *told, answer = pipeline.execute()
        entries = dict(answer or ())
        messages: list[Message] = []
        loss: PenstockError | None = None
        for cursor, extent, groups in zip(share, told[::2], told[1::2], strict=True):
            loss = loss or self._loss(cursor, Extent.of(extent), groups)
            found = entries.get(cursor.key.encode(), ())
            messages += [Entry(cursor.stream, cursor.shard, id, fields) for id, fields in found]
        self._learn(entries.values())
        if loss is not None:
            self._late = messages
            raise loss
        return messages

    def _loss(self, cursor: Cursor, extent: Extent, groups: list[dict[str, Any]]) -> PenstockError | None:
        """What was removed before the group read it, where Redis knows how much the group has read."""
        mine = next(group for group in groups if group["name"] == self._group.encode())
        if mine["entries-read"] is None:
            return None
        after = Id.of(mine["last-delivered-id"])
        stood = Cursor(cursor.stream, cursor.shard, cursor.key, after, after, int(mine["entries-read"]))
        try:
            stood.check(extent)
        except PenstockError as loss:
            return loss
        return None

    def _wait(self, seconds: float) -> None:
        """Waits for a message beyond those that the group was given, without taking it."""
        share = self._share()
        if not share:
            time.sleep(min(seconds, LOOK))
            return
        pipeline = self._client.pipeline(transaction=False)
        for cursor in share:
            pipeline.xinfo_groups(cursor.key)
        given = [self._given_up_to(groups) for groups in pipeline.execute()]
        several = len(self._all) > 1
        block = max(1, int(min(seconds, LOOK if several else seconds) * 1000))
        keys = [cursor.key for cursor in share]
        told_to(self._client, "XREAD", "COUNT", 1, "BLOCK", block, "STREAMS", *keys, *given)

    def _given_up_to(self, groups: list[dict[str, Any]]) -> str:
        mine = next(group for group in groups if group["name"] == self._group.encode())
        return str(Id.of(mine["last-delivered-id"]))

    def _asked(self, share: list[Cursor], *how: Any) -> list[Any]:
        keys = [cursor.key for cursor in share]
        return ["GROUP", self._group, self._name, *how, "STREAMS", *keys, *(">" for _ in keys)]

    # What becomes of it.

    def _processed(self, messages: list[Message]) -> None:
        keys = {(cursor.stream, cursor.shard): cursor.key for cursor in self._all}
        done: dict[str, list[str]] = defaultdict(list)
        for message in messages:
            done[keys[message.stream, message.shard]].append(str(message.sequence))
        self._insist(lambda: self._acknowledge(done))

    def _acknowledge(self, done: dict[str, list[str]]) -> list[Any]:
        pipeline = self._client.pipeline(transaction=False)
        for key, ids in done.items():
            pipeline.xack(key, self._group, *ids)
        return pipeline.execute()

    def _reached(self, place: Place) -> bool:
        (cursor,) = chosen(self._all, place.stream, place.shard)
        with explained(self._uri):
            given = Id.of(self._given_up_to(self._groups(cursor)))
            if given < Id.of(place.sequence) and follow(self._client, cursor.key, given):
                return False
            held: Any = self._client.xpending_range(cursor.key, self._group, "-", str(place.sequence), 1)
            return not held

    def _groups(self, cursor: Cursor) -> list[dict[str, Any]]:
        told: Any = self._client.xinfo_groups(cursor.key)
        return list(told)

    def _move(self, to: Start, stream: str | None = None, shard: int | None = None) -> None:
        """Moves the whole group; what this member holds is given up."""
        if shard is not None:
            self._assigned = chosen(self._all, stream, shard)
        self._late = []
        with explained(self._uri):
            for cursor in self._all if self._assigned is None else self._assigned:
                cursor.place(self._client, to)
                self._client.xgroup_setid(cursor.key, self._group, str(cursor.after))
                while held := self._held(cursor):
                    self._client.xack(cursor.key, self._group, *held)

    def _close(self) -> None:
        """Leaves the group, and what is not processed to the others."""
        with explained(self._uri):
            for cursor in self._all:
                self._leave(cursor)
            for stream in self._members:
                self._client.zrem(members_of(stream, self._group), self._name)

    def _leave(self, cursor: Cursor) -> None:
        from redis import ResponseError

        try:
            while held := self._held(cursor):
                told = ("XCLAIM", cursor.key, self._group, LEFT, 0, *held, "IDLE", LONG_AGO, "JUSTID")
                told_to(self._client, *told)
            self._client.xgroup_delconsumer(cursor.key, self._group, self._name)
        except ResponseError as failure:
            # Of a stream or a group that was deleted, there is nothing to leave.
            if not str(failure).startswith("NOGROUP") and "requires the key to exist" not in str(failure):
                raise

    def _held(self, cursor: Cursor) -> list[str]:
        """Some of the ids that Redis gave to this member, and that are not processed; none when all are."""
        told: Any = self._client.xpending_range(cursor.key, self._group, "-", "+", 1000, self._name)
        return [entry["message_id"].decode() for entry in told]
