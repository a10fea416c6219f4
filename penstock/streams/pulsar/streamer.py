"""A Pulsar cluster, or one of its namespaces, as a cluster of streams."""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar

from penstock.errors import InputError, PenstockError
from penstock.streams.base import (
    Admin,
    Capabilities,
    Consumer,
    Delivery,
    Producer,
    Reading,
    Retention,
    Streamer,
)
from penstock.streams.codecs import codec
from penstock.streams.pulsar.admin import PulsarAdmin, create
from penstock.streams.pulsar.connection import PORT, Cluster, options_of
from penstock.streams.pulsar.consumer import PulsarConsumer
from penstock.streams.pulsar.group import GroupConsumer
from penstock.streams.pulsar.producer import PulsarProducer
from penstock.streams.pulsar.rest import Rest
from penstock.streams.pulsar.topics import Topic, located
from penstock.uri import Uri


class Pulsar(Streamer):
    schemes: ClassVar[tuple[str, ...]] = ("pulsar", "pulsar+ssl")
    example: ClassVar[str] = "pulsar://host:6650/topic"
    port: ClassVar[int] = PORT
    capabilities: ClassVar[Capabilities] = Capabilities(
        shards=True,
        keys=True,
        headers=True,
        timestamps=True,
        replay=True,
        seek_time=True,
        groups=True,
        admin=True,
        retention=True,
    )

    def __init__(self, uri: Uri) -> None:
        super().__init__(uri)
        self._namespace, self._names = located(uri)
        self._cluster = Cluster(uri, options_of(uri))

    @cached_property
    def _rest(self) -> Rest:
        return Rest(self._cluster)

    def located(self) -> tuple[str, ...]:
        return self._names

    def places(self, stream: str) -> frozenset[tuple[object, ...]]:
        return super().places(self._namespace.topic(stream).full)

    def _producer(self, stream: str, format: str, delivery: Delivery) -> Producer:
        encode = codec(format)
        if delivery == "exactly_once":
            # Its brokers know a message again by a number that only grows, of a producer with a name.
            raise InputError(
                "no-exactly-once", "Pulsar does not know messages again by their ids", hint="at_least_once"
            )
        topic = self._namespace.topic(stream)
        self._cluster.client()
        self._make(topic)
        return PulsarProducer(self._cluster, topic, encode, delivery)

    def _consumer(self, streams: tuple[str, ...], reading: Reading) -> Consumer:
        self._cluster.client()
        topics = [self._rest.topic(self._namespace.topic(name)) for name in streams]
        if reading.group is not None:
            return GroupConsumer(self._cluster, self._rest, topics, reading.begin, reading.group)
        return PulsarConsumer(self._cluster, self._rest, topics, reading.begin, reading.positions)

    def admin(self) -> Admin:
        return PulsarAdmin(self._cluster, self._rest, self._namespace)

    def close(self) -> None:
        self._cluster.close()

    def _make(self, topic: Topic) -> None:
        """Makes a stream that is not there, so that its messages are kept. A broker would make it, too."""
        try:
            self._rest.topic(topic)
        except PenstockError as failure:
            if failure.code == "server-unreachable":
                return  # who only sends may come without the admin REST
            if failure.code != "missing-stream":
                raise
            try:
                create(self._rest, topic, 1, Retention())
            except PenstockError as failed:
                # Of two who make it, one comes first; who may only send leaves it to the broker.
                if failed.code not in ("exists", "bad-credentials"):
                    raise
