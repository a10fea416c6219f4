"""Kafka in the conformance suite."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from penstock.connectors.base import Batch, Connector, SinkOptions, SourceOptions

from . import messages
from .subject import Row, Subject, known_rows

if TYPE_CHECKING:
    from tests.servers.kafka import Kafka


class KafkaSubject(Subject):
    required = frozenset(
        {"bounded", "unbounded", "replay", "formats", "append", "transactional", "create_target"}
    )
    format = messages.READING

    def __init__(self, typed: Callable[[dict[str, Any]], Row]) -> None:
        self.connector: Connector = messages.connector
        self.kafka: Kafka
        self._typed = typed
        self._topics: dict[str, str] = {}
        self._target = f"target-{uuid4().hex[:12]}"
        self._pipeline = uuid4().hex

    def source(self) -> SourceOptions:
        return self._source("bounded")

    def unbounded_source(self, name: str = "first") -> SourceOptions:
        return self._source(name)

    def _source(self, name: str) -> SourceOptions:
        if name not in self._topics:
            self._topics[name] = messages.filled(self.kafka, _texts(known_rows()), partitions=3)
        return messages.source(self.kafka, self._topics[name])

    def add(self, rows: list[Row]) -> None:
        for topic in self._topics.values():
            self.kafka.produce(topic, [(None, json.dumps(row)) for row in _texts(rows)])

    def request(self, **changes: Any) -> Any:
        return super().request(**{"columns": self.columns} | changes)  # JSON does not tell its types

    def sink(self, mode: Any) -> SinkOptions:
        return messages.sink(self.kafka, self._target, mode=mode, delivery_guarantee="exactly_once")

    def batch(self, number: int) -> Batch:
        return replace(super().batch(number), pipeline=self._pipeline, format=messages.WRITING)

    def stored(self) -> list[Row]:
        if not self.kafka.partitions(self._target):
            return []
        return [self._typed(value) for value in messages.values(self.kafka, self._target)]


def _texts(rows: list[Row]) -> list[dict[str, Any]]:
    return [{k: v.isoformat() if k in ("day", "at") else v for k, v in row.items()} for row in rows]
