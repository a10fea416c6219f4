"""Sends messages in pipelines, by a thread of its own."""

from __future__ import annotations

import itertools
import time
import uuid
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

from penstock.streams.base import Delivery, Outgoing, Place, Producer, Receipt
from penstock.streams.codecs import Codec
from penstock.streams.ledger import Pending
from penstock.streams.outbox import Outbox
from penstock.streams.redis.connection import Connection, explain, explained, is_passing, told_to
from penstock.streams.redis.entries import Id, fields_of
from penstock.streams.redis.layout import Layout, ids_of
from penstock.uri import Uri

if TYPE_CHECKING:
    import redis

BATCH = 1000
TRIM_EVERY = 1.0
PAUSES = (0.05, 0.1, 0.2, 0.5, 1.0)

# KEYS: the ids, their order, the shards. ARGV: the window, then for each message its shard, its id, how many
# fields it has, and these. An id that is known gives the place where its message stands.
_ONCE = """
local window, at, places = tonumber(ARGV[1]), 2, {}
while at <= #ARGV do
    local shard, id, count = ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2])
    local place = redis.call('HGET', KEYS[1], id)
    if not place then
        local entry = redis.call('XADD', KEYS[3 + shard], '*', unpack(ARGV, at + 3, at + 2 + count))
        place = shard .. ' ' .. entry
        redis.call('HSET', KEYS[1], id, place)
        redis.call('RPUSH', KEYS[2], id)
    end
    places[#places + 1] = place
    at = at + 3 + count
end
local beyond = redis.call('LLEN', KEYS[2]) - window
if beyond > 0 then
    for _, id in ipairs(redis.call('LPOP', KEYS[2], beyond)) do redis.call('HDEL', KEYS[1], id) end
end
return places
"""


class NewEntry(NamedTuple):
    shard: int
    fields: list[bytes]
    id: str


class RedisProducer(Producer):
    """Messages with one key go to one shard; those without go round."""

    def __init__(
        self,
        client: redis.Redis,
        uri: Uri,
        options: Connection,
        stream: str,
        codec: Codec,
        delivery: Delivery,
    ) -> None:
        super().__init__(stream, codec)
        self._client = client
        self._uri = uri
        self._options = options
        self._delivery = delivery
        with explained(uri):
            self._layout = Layout.of(client, stream)
        self._once = client.register_script(_ONCE)
        self._turn = itertools.count()
        self._own = uuid.uuid4().hex
        self._trimmed = 0.0
        self._outbox: Outbox[NewEntry] = Outbox(
            self, self._store, limit=options.buffer, batch=BATCH, silent=delivery == "at_most_once"
        )

    def _put(self, outgoing: Outgoing) -> Receipt:
        payload, key, timestamp, headers, id, _ = outgoing
        turn = next(self._turn)
        shard = (turn if key is None else crc32(key)) % self._layout.shards
        # A message without an id has one of its own, so that it is not stored twice when it is sent again.
        entry = NewEntry(shard, fields_of(payload, key, timestamp, headers), id or f"{self._own}-{turn}")
        return self._outbox.put(entry, sum(map(len, entry.fields)))

    def flush(self, timeout: float | None = None) -> None:
        self._outbox.flush(timeout)

    def close(self) -> None:
        self._outbox.close()
        with explained(self._uri):
            self._trim()

    def _store(self, items: list[tuple[NewEntry, Pending]]) -> None:
        """Stores a batch; again while the server is away, for as long as it may be."""
        end = time.monotonic() + self._options.timeout.total_seconds()
        for pause in itertools.chain(PAUSES, itertools.repeat(PAUSES[-1])):
            failure = self._tried(items)
            if failure is None:
                return
            again = is_passing(failure) and self._delivery != "at_most_once"
            if not again or time.monotonic() + pause > end:
                raise explain(failure, self._uri) from None
            time.sleep(pause)

    def _tried(self, items: list[tuple[NewEntry, Pending]]) -> redis.RedisError | None:
        from redis import RedisError

        try:
            if self._delivery == "exactly_once":
                self._store_once(items)
            else:
                self._store_all(items)
            if time.monotonic() - self._trimmed >= TRIM_EVERY:
                self._trim()
        except RedisError as failure:
            return failure
        return None

    def _store_all(self, items: list[tuple[NewEntry, Pending]]) -> None:
        pipeline = self._client.pipeline(transaction=False)
        left = [(item, receipt) for item, receipt in items if not receipt.done]
        for item, _ in left:
            told_to(pipeline, "XADD", self._layout.keys[item.shard], "*", *item.fields)
        for (item, receipt), answer in zip(left, pipeline.execute(raise_on_error=False), strict=True):
            if isinstance(answer, Exception):
                # A server that is still loading refuses what comes: that is tried again.
                if is_passing(answer):
                    raise answer
                receipt.settle(None, explain(answer, self._uri))
            else:
                receipt.settle(Place(self.stream, item.shard, answer.decode()))

    def _store_once(self, items: list[tuple[NewEntry, Pending]]) -> None:
        told: list[Any] = [self._options.dedup_window]
        for item, _ in items:
            told += [item.shard, item.id, len(item.fields), *item.fields]
        places = self._once(keys=[*ids_of(self.stream), *self._layout.keys], args=told)
        for (_, receipt), place in zip(items, places, strict=True):
            shard, sequence = place.decode().split(" ")
            receipt.settle(Place(self.stream, int(shard), sequence))

    def _trim(self) -> None:
        """Removes what the stream's retention no longer keeps: Redis does not by itself."""
        self._trimmed = time.monotonic()
        age, size = self._layout.retention.age, self._layout.retention.size
        for key in self._layout.keys:
            if age is not None:
                now: Any = self._client.time()
                oldest = Id(max(0, int((now[0] - age.total_seconds()) * 1000)), 0)
                told_to(self._client, "XTRIM", key, "MINID", "=", str(oldest))
            if size is not None:
                used: Any = self._client.memory_usage(key)
                share = size // self._layout.shards
                if used is not None and used > share:
                    length: Any = self._client.xlen(key)
                    told_to(self._client, "XTRIM", key, "MAXLEN", "=", length * share // used)
