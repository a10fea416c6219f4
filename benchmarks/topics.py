"""What stands in Kafka and in Parquet: events to read, and the rows that a job has made of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import TopicPartition

from benchmarks.data import STREAM_COLUMNS, STREAM_FILTER, STREAM_SELECTED
from tests.servers.kafka import Kafka

PARTITIONS = 4
TYPES = dict(column.split() for column in STREAM_COLUMNS.replace("STRING", "VARCHAR").split(", "))
# Texts until the digest, since systems write times of day in JSON in their own ways.
TEXTS = {name: kind.replace("TIMESTAMP", "VARCHAR") for name, kind in TYPES.items()}


def load(kafka: Kafka, topic: str, file: Path) -> None:
    """A topic with a message for each line of a file, by number."""
    kafka.create_topic(topic, PARTITIONS)
    producer = kafka.producer(
        {"linger.ms": 50, "batch.size": 1 << 20, "batch.num.messages": 10_000, "acks": 1}
    )
    with file.open("rb") as lines:
        for number, line in enumerate(lines):
            while True:
                try:
                    producer.produce(topic, line.rstrip(b"\n"), str(number))
                    break
                except BufferError:
                    producer.poll(0.1)
    producer.flush()
    if sum(kafka.end_offsets(topic).values()) != number + 1:
        raise SystemExit(f"{topic} does not hold all of {file}")


def read_through(kafka: Kafka, topic: str) -> None:
    """Reads a topic once, so that the first job finds it, and the broker, no colder than the others do."""
    left = sum(kafka.end_offsets(topic).values())
    consumer = kafka.consumer()
    consumer.assign([TopicPartition(topic, partition, 0) for partition in kafka.partitions(topic)])
    while left > 0:
        left -= len(consumer.consume(10_000, timeout=60))
    consumer.close()


def expected(file: Path) -> dict[str, Any]:
    """The digest of what a job must make of the events of a JSON file."""
    return _digest(
        f"(SELECT * FROM read_json('{file}', format = 'newline_delimited', columns = {TEXTS})"
        f" WHERE {STREAM_FILTER})"
    )


def in_parquet(folder: Path) -> dict[str, Any]:
    """The digest of all that stands in a folder."""
    return _digest("made", pq.read_table(folder))


def in_topic(kafka: Kafka, topic: str) -> dict[str, Any]:
    """The digest of all messages of a topic that a reader of committed ones sees."""
    made = pa.table({"value": pa.array([record.value for record in kafka.rows(topic)], pa.string())})
    shape = str({name: TEXTS[name] for name in STREAM_SELECTED.split(", ")}).replace("'", '"')
    return _digest(f"(SELECT unnest(from_json(value, '{shape}')) FROM made)", made)


def _digest(rows: str, made: pa.Table | None = None) -> dict[str, Any]:
    """How many rows, and a sum over them that neither order nor files change."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        if made is not None:
            connection.register("made", made)
        values = [f"CAST({name} AS {TYPES[name]})" for name in STREAM_SELECTED.split(", ")]
        values[1] = "epoch_us(CAST(ts AS TIMESTAMPTZ))"
        query = f"SELECT count(*), sum(hash({', '.join(values)})) FROM {rows}"
        ((count, total),) = connection.execute(query).fetchall()
    return {"rows": count, "checksum": f"{int(total or 0) % 2**64:016x}"}
