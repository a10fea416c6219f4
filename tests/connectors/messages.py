"""Kafka as the tests of its connector see it: topics of their own, and options that name them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from penstock.connectors.base import Batch, ReadRequest
from penstock.connectors.kafka.connector import Kafka as Connector
from penstock.connectors.kafka.options import Sink, Source
from penstock.formats import registry as formats

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

from tests.servers.kafka import Kafka, Record
from tests.waiting import until

connector = Connector()
_json, _ = formats.find("json")
READING: Any = _json(_json.ReadOptions())
WRITING: Any = _json(_json.WriteOptions())


def new_topic(kafka: Kafka, partitions: int = 1, settings: Mapping[str, str] | None = None) -> str:
    name = f"t-{uuid4().hex[:12]}"
    kafka.create_topic(name, partitions, settings)
    return name


def filled(kafka: Kafka, rows: list[dict[str, Any]], partitions: int = 1) -> str:
    """A topic with these rows as JSON, from partition to partition in turn."""
    topic = new_topic(kafka, partitions)
    kafka.produce(topic, [(None, json.dumps(r), (), None, n % partitions) for n, r in enumerate(rows)])
    return topic


def source(kafka: Kafka, topic: str, **more: Any) -> Source:
    return Source.model_validate({"bootstrap_servers": kafka.bootstrap, "topic": topic, **more})


def sink(kafka: Kafka, topic: str | None, **more: Any) -> Sink:
    return Sink.model_validate({"bootstrap_servers": kafka.bootstrap, "topic": topic, **more})


def request(*used: str, **more: Any) -> ReadRequest:
    """For the columns that are `used`, or for all; a hidden one is named with its underscore."""
    more.setdefault("hidden", frozenset(name for name in used if name.startswith("_")))
    return ReadRequest(format=READING, used=frozenset(used) if used else None, **more)


def batch(number: int = 0, pipeline: str | None = None, aside: Any = None) -> Batch:
    """One of a pipeline that no other test has, unless it is named."""
    time = datetime(2024, 2, 3, tzinfo=timezone.utc)
    return Batch(pipeline or uuid4().hex, "0-kafka", number, time, WRITING, aside and str(aside))


def rows_of(frame: DataFrame) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = frame.toArrow().to_pylist()
    return rows


def sent(kafka: Kafka, topic: str) -> list[Record]:
    """The committed messages, once all transactions are over: their marks are written after the commit."""

    def over() -> bool:
        return kafka.end_offsets(topic, "read_committed") == kafka.end_offsets(topic, "read_uncommitted")

    until(over, "the end of all transactions")
    return kafka.rows(topic)


def values(kafka: Kafka, topic: str) -> list[Any]:
    """The messages of a topic, as JSON tells them."""
    return [json.loads(record.value) for record in sent(kafka, topic) if record.value is not None]
