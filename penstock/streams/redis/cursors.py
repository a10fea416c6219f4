"""Where a reader stands on a shard, and whether messages were removed ahead of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from penstock.errors import InputError, SetupError
from penstock.streams.base import Start
from penstock.streams.redis.entries import START, Entry, Id, lost
from penstock.streams.redis.layout import Layout

if TYPE_CHECKING:
    import redis

PAGE = 1000


@dataclass(frozen=True)
class Extent:
    """What XINFO STREAM says: how many entries there ever were and are, the first and the last."""

    added: int
    length: int
    first: Id | None
    last: Id

    @classmethod
    def of(cls, told: dict[str, Any]) -> Extent:
        if "entries-added" not in told:
            raise SetupError("old-server", "streams need Redis 7 or later", hint="update the server")
        first = told["first-entry"]
        return cls(
            int(told["entries-added"]),
            int(told["length"]),
            None if first is None else Id.of(first[0]),
            Id.of(told["last-generated-id"]),
        )

    @property
    def removed(self) -> int:
        return self.added - self.length


@dataclass
class Cursor:
    """Reads on after an id."""

    stream: str
    shard: int
    key: str
    after: Id = START
    floor: Id | None = None
    """If no entry as old as this is left, what followed it may be gone; None when that does not matter."""
    passed: int | None = None
    """How many entries there ever were up to here, if that is known: it tells for sure."""

    def place(self, client: redis.Redis, to: Start) -> None:
        """Goes on at `to`."""
        self.after, self.floor, self.passed = START, None, None
        if to == "latest":
            extent = Extent.of(info(client, self.key))
            self.after = self.floor = extent.last
            self.passed = extent.added
        elif isinstance(to, datetime):
            self.after = _before(client, self, to)
        elif to != "earliest":
            first = Id.of(to)
            self.after = first.before()
            self.floor = first if first != START else None

    def resume(self, last: Id) -> None:
        """Goes on after an entry that was read."""
        self.after = self.floor = last
        self.passed = None

    def check(self, extent: Extent) -> None:
        """Raises when entries that were to be read are gone."""
        if self.floor is None:
            return
        if (self.passed is not None and extent.added < self.passed) or (
            extent.last < self.after and self.floor == self.after
        ):
            raise lost(self.stream, self.shard, self.after, "the stream was made again")
        if extent.last <= self.after or not extent.removed:
            return
        if extent.first is not None and extent.first <= self.floor:
            return
        if self.passed is None or extent.removed > self.passed:
            left = "none is left" if extent.first is None else f"the first that is left is {extent.first}"
            raise lost(self.stream, self.shard, self.after, left)

    def move(self, last: Id, count: int, extent: Extent, *, at_end: bool) -> None:
        """`count` entries were read, and this is the last of them."""
        if at_end:
            self.passed = extent.added
        elif self.after == START:
            self.passed = extent.removed + count
        elif self.passed is not None:
            self.passed += count
        self.after = self.floor = last


def info(client: redis.Redis, key: str) -> dict[str, Any]:
    told: Any = client.xinfo_stream(key)
    return dict(told)


def follow(client: redis.Redis, key: str, after: Id) -> bool:
    """Whether there are entries after an id."""
    return bool(client.xrange(key, f"({after}", "+", 1))


def cursors_of(client: redis.Redis, streams: tuple[str, ...]) -> list[Cursor]:
    """One for each shard; `missing-stream` where there is none."""
    cursors = []
    for stream in dict.fromkeys(streams):
        if not client.exists(stream):
            raise missing(stream)
        for shard, key in enumerate(Layout.of(client, stream).keys):
            cursors.append(Cursor(stream, shard, key))
    return cursors


def chosen(cursors: list[Cursor], stream: str | None, shard: int) -> list[Cursor]:
    """Those of one shard."""
    found = [c for c in cursors if c.shard == shard and stream in (None, c.stream)]
    if not found:
        of = f"stream '{stream}'" if stream else "the stream"
        known = ", ".join(str(n) for n in sorted({c.shard for c in cursors if stream in (None, c.stream)}))
        hint = f"shards: {known}" if known else None
        raise InputError("no-shard", f"{of} has no shard {shard} that is read here", hint=hint)
    return found


def missing(stream: str) -> InputError:
    return InputError("missing-stream", f"there is no stream '{stream}'", hint="create it, or send to it")


def _before(client: redis.Redis, cursor: Cursor, time: datetime) -> Id:
    """The place before the first message that is not older.

    An id tells when its message was stored, which is not before it happened: what is stored earlier can be
    left out, and of the rest the messages themselves tell.
    """
    at = Id.at(time)
    while True:
        page: Any = client.xrange(cursor.key, str(at), "+", PAGE)
        for id, fields in page:
            if Entry(cursor.stream, cursor.shard, id, fields).timestamp >= time:
                return Id.of(id).before()
        if len(page) < PAGE:
            return max(Id.at(time).before(), Id.of(page[-1][0]) if page else START)
        last = Id.of(page[-1][0])
        at = Id(last.time, last.number + 1)
