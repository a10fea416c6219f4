"""A Redis server, or one of its databases, as a cluster of streams."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from penstock.streams.base import Admin, Capabilities, Consumer, Delivery, Producer, Reading, Streamer
from penstock.streams.codecs import codec
from penstock.streams.redis.admin import RedisAdmin
from penstock.streams.redis.connection import PORT, client_of, options_of
from penstock.streams.redis.consumer import RedisConsumer
from penstock.streams.redis.group import GroupConsumer
from penstock.streams.redis.producer import RedisProducer
from penstock.uri import Uri

if TYPE_CHECKING:
    import redis


class Redis(Streamer):
    schemes: ClassVar[tuple[str, ...]] = ("redis", "rediss")
    example: ClassVar[str] = "redis://host:6379/stream"
    port: ClassVar[int] = PORT
    capabilities: ClassVar[Capabilities] = Capabilities(
        shards=True,
        keys=True,
        headers=True,
        timestamps=True,
        replay=True,
        seek_time=True,
        groups=True,
        deduplicates=True,
        admin=True,
        retention=True,
    )

    def __init__(self, uri: Uri) -> None:
        super().__init__(uri)
        self._options = options_of(uri)

    @cached_property
    def _client(self) -> redis.Redis:
        return client_of(self.uri, self._options)

    def places(self, stream: str) -> frozenset[tuple[object, ...]]:
        return frozenset((*place, self._options.db) for place in super().places(stream))

    def _producer(self, stream: str, format: str, delivery: Delivery) -> Producer:
        return RedisProducer(self._client, self.uri, self._options, stream, codec(format), delivery)

    def _consumer(self, streams: tuple[str, ...], reading: Reading) -> Consumer:
        client, options, begin = self._client, self._options, reading.begin
        if reading.group is not None:
            return GroupConsumer(client, self.uri, options, streams, begin, reading.group)
        return RedisConsumer(client, self.uri, options, streams, begin, reading.positions)

    def admin(self) -> Admin:
        return RedisAdmin(self._client, self.uri, self._options)

    def close(self) -> None:
        if "_client" in self.__dict__:
            self._client.close()
