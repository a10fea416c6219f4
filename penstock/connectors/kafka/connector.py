"""Kafka and Redpanda topics. At least once; exactly once with `delivery_guarantee = 'exactly_once'`, for
consumers that read committed messages only: each part of a batch is a transaction that keeps its number.

A message's key, headers, topic, partition, offset and time are `_key`, `_headers`, `_topic`, `_partition`,
`_offset` and `_timestamp`, both ways.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from penstock.connectors.base import (
    Batch,
    Capabilities,
    Limits,
    ReadRequest,
    Refused,
    Uri,
)
from penstock.connectors.kafka.chunks import Target
from penstock.connectors.kafka.errors import explain, is_passing
from penstock.connectors.kafka.offsets import as_json, partitions_of, range_of, recognised, sample
from penstock.connectors.kafka.options import Sink, Source
from penstock.connectors.kafka.settings import (
    c_producer_settings,
    is_compressed,
    java_producer_settings,
    java_settings,
    suits_spark,
)
from penstock.connectors.kafka.topics import known, ready
from penstock.connectors.messaging.connector import MessageConnector, format_of
from penstock.connectors.messaging.records import Layout, messages_of
from penstock.connectors.messaging.start import EARLIEST, Start
from penstock.connectors.session_settings import changed
from penstock.errors import DataError, PenstockError
from penstock.options import Value
from penstock.streams.kafka.client import Cluster
from penstock.streams.kafka.settings import c_settings

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_CONSUMER = {
    "isolation.level": "read_committed",
    # Of the 500 that Java's client hands out at a time by itself, it takes a third longer over a topic.
    "max.poll.records": "5000",
    # At the end of a batch Spark asks for offsets, and the broker first lets the client's last fetch wait for
    # messages that have not come: at Kafka's own half a second, longer than most batches.
    "fetch.max.wait.ms": "20",
}
_ranges: dict[str, tuple[str, str]] = {}
"""The offsets of each source that were read last, so that its bad records are those of the same messages."""


class Kafka(MessageConnector):
    name = "kafka"
    noun = "topic"
    layout = Layout({"topic": "STRING", "partition": "INT", "offset": "BIGINT"})
    aliases = ("redpanda",)
    schemes = ("kafka", "redpanda")
    capabilities = Capabilities(
        bounded=True,
        unbounded=True,
        replay=True,
        formats=True,
        append=True,
        transactional=True,
        create_target=True,
    )
    jars = (
        "org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.3",
        "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
        "org.apache.kafka:kafka-clients:3.9.1",
        "org.apache.commons:commons-pool2:2.12.1",
    )
    passes_in_real_time = True
    fills_batches = True
    Source = Source
    Sink = Sink

    def settings_of(self, uri: Uri) -> dict[str, Value]:
        told: dict[str, Value] = {"bootstrap_servers": uri.authority} if uri.authority else {}
        if uri.path:
            told["topic"] = uri.path
        if uri.user is not None:
            told |= {"sasl_username": uri.user, "sasl_password": uri.password or ""}
        return told | dict(uri.query)

    def identity(self, source: Any) -> str:
        return source.topic_pattern or ",".join(sorted(source.topic))

    def recognise(self, source: Any, known: Value) -> Value:
        return recognised(Cluster(source), source, known)

    def title(self, source: Any) -> str:
        return self.identity(source)

    def sample(self, source: Any) -> list[bytes]:
        return sample(Cluster(source), source)

    def stream(self, spark: SparkSession, source: Any, limits: Limits) -> DataFrame:
        partitions = partitions_of(Cluster(source), source)
        start = source.begin or Start(limits.start)
        rows = min(filter(None, (limits.rows, source.max_rows_per_batch)), default=None)
        told = {
            "maxOffsetsPerTrigger": rows,
            "minOffsetsPerTrigger": min(limits.fill, rows or limits.fill) if limits.fill else None,
            "maxTriggerDelay": f"{limits.patience.total_seconds() * 1000:.0f}ms" if limits.patience else None,
        }
        reader = spark.readStream.format("kafka").options(**_reading(source), **_starting(start, partitions))
        return reader.options(**{key: str(value) for key, value in told.items() if value is not None}).load()

    def tasks(self, source: Any) -> int:
        return len(partitions_of(Cluster(source), source))

    def facts(self, spark: SparkSession, source: Any) -> dict[str, Value]:
        first, last = range_of(Cluster(source), source)
        return {"messages": sum(last.values()) - sum(first.values()), "topic partitions": len(last)}

    def records(
        self, spark: SparkSession, source: Any, request: ReadRequest, *, again: bool = False
    ) -> DataFrame:
        if request.records is not None:
            return request.records
        key = f"{source.bootstrap_servers}/{self.identity(source)}/{source.begin}"
        if not again or key not in _ranges:
            first, last = range_of(Cluster(source), source)
            _ranges[key] = as_json(first), as_json(last)
        begin, end = _ranges[key]
        told = {"startingOffsets": begin, "endingOffsets": end}
        return spark.read.format("kafka").options(**_reading(source), **told).load()

    def check_target(self, spark: SparkSession, sink: Any) -> None:
        ready(sink)

    def needs_parts(self, sink: Any) -> bool:
        return bool(sink.delivery_guarantee == "exactly_once")

    def is_passing(self, failure: Exception) -> bool:
        return is_passing(failure)

    def explain_failure(self, failure: Exception, options: Any) -> PenstockError | None:
        return explain(failure, options)

    def write(self, frame: DataFrame, sink: Any, batch: Batch) -> Sequence[Refused]:
        rows = _messages(frame, sink, batch, tell_rows=sink.on_error != "fail")
        elsewhere = "_topic" in rows.columns and not self.needs_parts(sink)
        target = Target(None) if elsewhere else known(sink)
        by_spark = "_timestamp" not in rows.columns and suits_spark(sink, target)
        try:
            return _write_natively(rows, sink, target) if by_spark else _write(rows, sink, target, batch)
        except Exception as failure:
            told = self.explain_failure(failure, sink)
            if told is None:
                raise
            raise told from failure

    def stream_into(self, frame: DataFrame, sink: Any, batch: Batch) -> DataStreamWriter:
        rows = _messages(frame, sink, batch)
        if "_timestamp" in rows.columns:
            raise DataError("no-timestamps", "messages that pass in real time have no time of their own")
        renamed = rows.withColumnsRenamed(_spark_names(rows))
        return renamed.writeStream.format("kafka").options(**_writing(rows, sink, known(sink)))


def _write(rows: DataFrame, sink: Sink, target: Target, batch: Batch) -> Sequence[Refused]:
    """By our own producers, one for each partition of the frame."""
    from penstock.connectors import adapter
    from penstock.connectors.kafka.writer import MessageWriter

    writer = MessageWriter(
        target=replace(target, largest=None) if is_compressed(sink.producer) else target,
        connection=c_settings(sink),
        producing=c_producer_settings(sink.producer, target.largest),
        patience=int(sink.producer.get("max.block.ms", 60_000)) / 1000,
        keeps_refused=sink.on_error != "fail",
        transactional=sink.delivery_guarantee == "exactly_once",
    )
    return adapter.write(rows, writer, replace(batch, format=None))


def _write_natively(rows: DataFrame, sink: Sink, target: Target) -> Sequence[Refused]:
    renamed = rows.withColumnsRenamed(_spark_names(rows))
    # Spark's older way to write is its default for Kafka; it tells nothing of what passed.
    spark, key = rows.sparkSession, "spark.sql.sources.useV1SourceList"
    others = [name for name in str(spark.conf.get(key)).split(",") if name != "kafka"]
    with changed(spark, {key: ",".join(others)}):
        renamed.write.format("kafka").mode("append").options(**_writing(rows, sink, target)).save()
    return ()


def _writing(rows: DataFrame, sink: Sink, target: Target) -> dict[str, Any]:
    """What Spark's sink is told."""
    where = {"topic": sink.topic} if sink.topic and "_topic" not in rows.columns else {}
    told = java_producer_settings(sink.producer, target.largest)
    return {**where, **_prefixed(java_settings(sink, told))}


def _spark_names(rows: DataFrame) -> dict[str, str]:
    return {name: name.removeprefix("_") for name in rows.columns}


def _messages(frame: DataFrame, sink: Sink, batch: Batch, *, tell_rows: bool = False) -> DataFrame:
    from pyspark.sql import functions as f

    def topic(column: Expression | None) -> Expression | None:
        if column is None and sink.topic is None:
            raise DataError("no-topic", "the sink names no topic, and the rows have no column `_topic`")
        return None if column is None else f.coalesce(column, f.lit(sink.topic))

    def partition(column: Expression | None) -> Expression | None:
        return None if column is None else column.cast("int")

    others = {"_partition": partition, "_topic": topic}
    return messages_of(frame, sink, format_of(batch), others, name=sink.topic or "", tell_rows=tell_rows)


def _reading(source: Source) -> dict[str, Any]:
    """What Spark's source is told."""
    pattern = source.topic_pattern
    which = {"subscribePattern": pattern} if pattern else {"subscribe": ",".join(source.topic)}
    consumer = _CONSUMER | source.consumer
    # Invariant 1: what is gone is an error, never skipped.
    told = {"failOnDataLoss": "true", "includeHeaders": "true"}
    return {**which, **told, **_prefixed(java_settings(source, consumer))}


def _starting(start: Start, partitions: list[tuple[str, int]]) -> dict[str, str]:
    if start.kind == "time":
        return {"startingTimestamp": str(start.time), "startingOffsetsByTimestampStrategy": "latest"}
    if start.kind in ("earliest", "latest"):
        return {"startingOffsets": start.kind}
    # Spark wants the offset of every partition.
    given = {p: start.offsets.get(p[0], {}).get(p[1], EARLIEST) for p in partitions}
    return {"startingOffsets": as_json(given)}


def _prefixed(settings: dict[str, str]) -> dict[str, str]:
    return {f"kafka.{key}": value for key, value in settings.items()}
