"""Pulsar as a subject of the conformance suite."""

from __future__ import annotations

from penstock.streams import Streamer
from penstock.streams.pulsar import Pulsar
from penstock.uri import Uri

from .subject import Subject


class PulsarSubject(Subject):
    fixture = "pulsar"
    required = frozenset(
        {"shards", "keys", "headers", "timestamps", "replay", "seek_time", "groups", "admin", "retention"}
    )

    def streamer(self) -> Streamer:
        return Pulsar(Uri.parse(f"pulsar://{self.place.address}{self.place.query}"))
