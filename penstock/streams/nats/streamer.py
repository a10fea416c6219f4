"""A NATS server with JetStream as a cluster of streams."""

from __future__ import annotations

from typing import ClassVar

from penstock.streams.base import Admin, Capabilities, Consumer, Delivery, Producer, Reading, Streamer
from penstock.streams.codecs import codec
from penstock.streams.nats.admin import NatsAdmin, subject_of
from penstock.streams.nats.connection import PORT, Server, options_of
from penstock.streams.nats.consumer import GroupConsumer, NatsConsumer
from penstock.streams.nats.producer import NatsProducer
from penstock.uri import Uri


class Nats(Streamer):
    schemes: ClassVar[tuple[str, ...]] = ("nats",)
    example: ClassVar[str] = "nats://host:4222/stream"
    port: ClassVar[int] = PORT
    capabilities: ClassVar[Capabilities] = Capabilities(
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
        self._server = Server(uri, options_of(uri))

    def places(self, stream: str) -> frozenset[tuple[object, ...]]:
        # Who comes as another may have streams of other messages by the same names.
        return frozenset((*place, self.uri.user) for place in super().places(stream))

    def _producer(self, stream: str, format: str, delivery: Delivery) -> Producer:
        encode = codec(format)
        self._server.open()
        subject = self._server.run(subject_of(self._server, stream))
        return NatsProducer(self._server, stream, subject, encode, delivery)

    def _consumer(self, streams: tuple[str, ...], reading: Reading) -> Consumer:
        self._server.open()
        if reading.group is not None:
            return GroupConsumer(self._server, streams, reading.begin, reading.group)
        return NatsConsumer(self._server, streams, reading.begin, reading.positions)

    def admin(self) -> Admin:
        self._server.open()
        return NatsAdmin(self._server)

    def close(self) -> None:
        self._server.close()
