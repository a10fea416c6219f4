"""NATS JetStream as a subject of the conformance suite."""

from __future__ import annotations

from penstock.streams import Streamer
from penstock.streams.nats import Nats
from penstock.uri import Uri

from .subject import Subject


class NatsSubject(Subject):
    fixture = "nats"
    required = frozenset(
        {
            "keys",
            "headers",
            "timestamps",
            "replay",
            "seek_time",
            "groups",
            "deduplicates",
            "admin",
            "retention",
        }
    )

    def streamer(self) -> Streamer:
        return Nats(Uri.parse(f"nats://{self.place.address}"))
