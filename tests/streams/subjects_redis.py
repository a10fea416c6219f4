"""Redis streams as a subject of the conformance suite."""

from __future__ import annotations

from penstock.streams import Streamer
from penstock.streams.redis import Redis
from penstock.uri import Uri

from .subject import Subject


class RedisSubject(Subject):
    fixture = "redis"
    required = frozenset(
        {"shards", "keys", "headers", "timestamps", "replay", "seek_time", "groups", "deduplicates", "admin",
         "retention"}
    )  # fmt: skip

    def streamer(self) -> Streamer:
        return Redis(Uri.parse(f"redis://{self.place.address}"))
