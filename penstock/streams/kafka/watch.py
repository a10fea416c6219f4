"""Whether the topics that are read are still what they were, asked now and then, without waiting."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

from penstock.errors import PenstockError
from penstock.streams.kafka.client import PATIENCE, Cluster
from penstock.streams.kafka.errors import explained, kind_of, missing
from penstock.streams.kafka.messages import lost
from penstock.streams.kafka.offsets import Place

EVERY = 2.0


class Watch:
    def __init__(self, cluster: Cluster, streams: tuple[str, ...], timeout: float) -> None:
        self._cluster = cluster
        self._timeout = timeout
        there = cluster.topics()
        for stream in streams:
            if not there.get(stream):
                raise missing(stream, there)
        self._streams = tuple(dict.fromkeys(streams))
        self.places = [(stream, shard) for stream in self._streams for shard in there[stream]]
        """All shards that are known."""
        self._ids: dict[str, str] = {}
        self.renewed: set[str] = set()
        """Streams that were made again since."""
        self._asked: Mapping[str, Future[Any]] = {}
        self._at = 0.0
        self._seen = time.monotonic()
        """When the brokers answered last."""
        self._gone: set[str] = set()
        """Topics that were not there when they were asked for last."""

    def look(self) -> list[Place]:
        """Shards that are new; raises when a stream is gone, was made again, or nobody answers for long."""
        if self._asked:
            if not all(answer.done() for answer in self._asked.values()):
                return []
            asked, self._asked = self._asked, {}
            return [place for stream, answer in asked.items() for place in self._heard(stream, answer)]
        if time.monotonic() - self._at >= EVERY:
            self._ask()
        return []

    def _ask(self) -> None:
        from confluent_kafka import TopicCollection

        self._at = time.monotonic()
        patience = max(0.1, min(PATIENCE, self._timeout))
        names = TopicCollection(list(self._streams))
        self._asked = self._cluster.admin.describe_topics(names, request_timeout=patience)

    def _heard(self, stream: str, answer: Future[Any]) -> list[Place]:
        from confluent_kafka import KafkaException

        try:
            topic = answer.result()
        except KafkaException as failure:
            trouble = self._trouble(stream, failure.args[0])
            if trouble is not None:
                raise trouble from None
            return []
        self._seen = time.monotonic()
        self._gone.discard(stream)
        if self._ids.setdefault(stream, str(topic.topic_id)) != str(topic.topic_id):
            self._ids[stream] = str(topic.topic_id)
            self.renewed.add(stream)
            raise lost(stream, 0, "the stream was made again")
        known = set(self.places)
        new = [(stream, part.id) for part in topic.partitions if (stream, part.id) not in known]
        self.places += new
        return new

    def _trouble(self, stream: str, error: Any) -> PenstockError | None:
        told = explained(error, self._cluster.options, stream)
        if told.code == "missing-stream":
            self._seen = time.monotonic()
            # Brokers that have just started may not have heard of all topics.
            is_gone = stream in self._gone
            self._gone.add(stream)
            return told if is_gone else None
        passing = kind_of(error) == "unreachable"
        return told if not passing or time.monotonic() - self._seen > self._timeout else None
