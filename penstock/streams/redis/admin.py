"""Looks after the streams of a Redis database."""

from __future__ import annotations

from collections import defaultdict
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from penstock.errors import InputError
from penstock.streams.base import Admin, Client, Description, Retention, Shard
from penstock.streams.message import Message
from penstock.streams.redis.connection import Connection, explained
from penstock.streams.redis.cursors import Extent, info, missing
from penstock.streams.redis.entries import Entry, Id
from penstock.streams.redis.group import LEFT, members_of
from penstock.streams.redis.layout import SUFFIX, Layout, beside, ids_of
from penstock.uri import Uri

if TYPE_CHECKING:
    import redis

PAGE = 10_000

# KEYS: what is kept beside the stream, the shards. ARGV: names and values that are kept. A group makes a
# stream that is empty; a message that is added and deleted would count as produced.
_CREATE = """
for n = 1, #KEYS do
    if redis.call('EXISTS', KEYS[n]) == 1 then return 0 end
end
for n = 2, #KEYS do
    redis.call('XGROUP', 'CREATE', KEYS[n], 'penstock', '$', 'MKSTREAM')
    redis.call('XGROUP', 'DESTROY', KEYS[n], 'penstock')
end
if #ARGV > 0 then redis.call('HSET', KEYS[1], unpack(ARGV)) end
return 1
"""


class RedisAdmin(Admin):
    def __init__(self, client: redis.Redis, uri: Uri, options: Connection) -> None:
        self._client = client
        self._uri = uri
        self._options = options

    def close(self) -> None:
        """The streamer holds the connection."""

    def streams(self) -> list[str]:
        with explained(self._uri):
            names = {
                key.decode(errors="replace") for key in self._client.scan_iter(_type="STREAM", count=1000)
            }
            sets = self._client.scan_iter(f"*{SUFFIX}", _type="HASH", count=1000)
            for key in list(sets):
                stream = key.decode(errors="replace").removesuffix(SUFFIX)
                names -= set(Layout.of(self._client, stream).keys[1:])
        return sorted(names)

    def create(self, stream: str, *, shards: int = 1, retention: Retention | None = None) -> None:
        if not stream or "," in stream:
            raise InputError("bad-name", f"no name of a stream: '{stream}'", hint="without commas")
        if shards < 1:
            raise InputError("bad-shards", f"a stream has one shard at least, not {shards}")
        layout = Layout(stream, shards, retention or Retention())
        kept = [part for pair in layout.kept().items() for part in pair]
        with explained(self._uri):
            made = self._client.register_script(_CREATE)(keys=[beside(stream), *layout.keys], args=kept)
        if not made:
            raise InputError("exists", f"there is a stream '{stream}', or a key of that name")

    def describe(self, stream: str) -> Description:
        with explained(self._uri):
            layout = self._layout(stream)
            lag: dict[str, int] = defaultdict(int)
            online: dict[tuple[str, str], list[int]] = defaultdict(list)
            for shard, key in enumerate(layout.keys):
                for group, behind, names in self._groups(key):
                    lag[group] += behind
                    for name in names:
                        online[name, group].append(shard)
            return Description(
                stream,
                tuple(self._shard(shard, key) for shard, key in enumerate(layout.keys)),
                size=sum(int(self._client.memory_usage(key) or 0) for key in layout.keys),
                retention=layout.retention,
                consumers=tuple(
                    Client(name, group, tuple(on)) for (name, group), on in sorted(online.items())
                ),
                lag=dict(lag),
            )

    def latest(self, stream: str) -> Message | None:
        with explained(self._uri):
            last: list[Message] = []
            for shard, key in enumerate(self._layout(stream).keys):
                found: Any = self._client.xrevrange(key, "+", "-", 1)
                last += [Entry(stream, shard, id, fields) for id, fields in found]
        return max(last, key=lambda message: Id.of(message.sequence), default=None)

    def delete(self, stream: str) -> None:
        with explained(self._uri):
            layout = self._layout(stream)
            told: Any = self._client.xinfo_groups(stream)
            groups = [members_of(stream, group["name"].decode()) for group in told]
            self._client.delete(*layout.keys, beside(stream), *ids_of(stream), *groups)

    def _layout(self, stream: str) -> Layout:
        if self._client.type(stream) != b"stream":
            raise missing(stream)
        return Layout.of(self._client, stream)

    def _shard(self, number: int, key: str) -> Shard:
        told = info(self._client, key)
        extent = Extent.of(told)
        last = told["last-entry"]
        return Shard(
            number,
            None if extent.first is None else str(extent.first),
            None if last is None else last[0].decode(),
            extent.added,
        )

    def _groups(self, key: str) -> list[tuple[str, int, list[str]]]:
        """Each group with its lag, and its members that are online."""
        found = []
        told: Any = self._client.xinfo_groups(key)
        for group in told:
            consumers: Any = self._client.xinfo_consumers(key, group["name"])
            names = [c["name"].decode() for c in consumers if self._is_online(c)]
            # What was given to a member and is not processed is still to be done.
            lag = self._unread(key, group) + int(group["pending"])
            found.append((group["name"].decode(), lag, names))
        return found

    def _is_online(self, consumer: dict[str, Any]) -> bool:
        silent = timedelta(milliseconds=consumer["idle"])
        return consumer["name"] != LEFT.encode() and silent < self._options.claim_after

    def _unread(self, key: str, group: dict[str, Any]) -> int:
        """Redis does not know it of a group that was moved into the middle: then it is counted."""
        if group["lag"] is not None:
            return int(group["lag"])
        count, after = 0, group["last-delivered-id"]
        while page := self._page(key, after):
            count, after = count + len(page), page[-1][0]
        return count

    def _page(self, key: str, after: bytes) -> list[Any]:
        page: Any = self._client.xrange(key, b"(" + after, "+", PAGE)
        return list(page)
