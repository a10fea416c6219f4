"""A Kafka cluster as a cluster of streams."""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar

from penstock.streams.base import Admin, Capabilities, Consumer, Delivery, Producer, Reading, Streamer
from penstock.streams.codecs import codec
from penstock.streams.kafka.admin import KafkaAdmin
from penstock.streams.kafka.client import Cluster
from penstock.streams.kafka.consumer import KafkaConsumer
from penstock.streams.kafka.group import GroupConsumer
from penstock.streams.kafka.options import options_of
from penstock.streams.kafka.producer import KafkaProducer
from penstock.uri import Uri


class Kafka(Streamer):
    schemes: ClassVar[tuple[str, ...]] = ("kafka", "redpanda")
    example: ClassVar[str] = "kafka://host:9092/topic"
    capabilities: ClassVar[Capabilities] = Capabilities(
        shards=True,
        keys=True,
        headers=True,
        timestamps=True,
        replay=True,
        seek_time=True,
        groups=True,
        shared_positions=True,
        transactions=True,
        admin=True,
        retention=True,
    )

    def __init__(self, uri: Uri) -> None:
        super().__init__(uri)
        self._options = options_of(uri)

    @cached_property
    def _cluster(self) -> Cluster:
        return Cluster(self._options)

    def places(self, stream: str) -> frozenset[tuple[object, ...]]:
        return frozenset({("kafka", self._cluster.id, stream)})

    def _producer(self, stream: str, format: str, delivery: Delivery) -> Producer:
        return KafkaProducer(self._cluster, self._options, stream, codec(format), delivery)

    def _consumer(self, streams: tuple[str, ...], reading: Reading) -> Consumer:
        cluster, options, begin = self._cluster, self._options, reading.begin
        if reading.group is not None:
            return GroupConsumer(
                cluster, options, streams, reading.mode, reading.group, begin, reading.positions
            )
        return KafkaConsumer(cluster, options, streams, begin, reading.positions)

    def admin(self) -> Admin:
        return KafkaAdmin(self._cluster)
