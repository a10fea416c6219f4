"""Kafka as a subject of the conformance suite."""

from __future__ import annotations

from penstock.streams import Streamer
from penstock.streams.kafka import Kafka
from penstock.uri import Uri

from .subject import Subject


class KafkaSubject(Subject):
    fixture = "kafka"
    required = frozenset(
        {"shards", "keys", "headers", "timestamps", "replay", "seek_time", "groups",
         "shared_positions", "transactions", "admin", "retention"}
    )  # fmt: skip

    def streamer(self) -> Streamer:
        return Kafka(Uri.parse(f"kafka://{self.place.bootstrap}?claim_after=6s"))
