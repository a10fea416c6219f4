"""Topics as targets: what a message is made of, and that each row is there once, or handed back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa
import pytest

from penstock.connectors.base import Part, Refused
from penstock.connectors.kafka.chunks import Target
from penstock.connectors.kafka.errors import Told
from penstock.connectors.kafka.writer import MessageWriter
from penstock.errors import DataError, PenstockError, RunError, SetupError
from tests.servers.kafka import PASSWORD, USER, Kafka

from .messages import batch, connector, new_topic, sent, sink, values

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.server]

ONCE = {"delivery_guarantee": "exactly_once"}
WAYS = [
    pytest.param({}, id="by Spark"),
    pytest.param({"on_error": "skip"}, id="by us"),
    pytest.param(ONCE, id="exactly once"),
]
AT = datetime(2024, 1, 31, 12, 0, 0, 123000, tzinfo=timezone.utc)


def rows(spark: SparkSession, count: int = 10, parts: int = 2) -> DataFrame:
    return spark.range(0, count, 1, parts).selectExpr("id", "concat('n', id) AS name")


def ids(kafka: Kafka, topic: str) -> list[int]:
    return sorted(value["id"] for value in values(kafka, topic))


@pytest.mark.parametrize("way", WAYS)
def test_writes_rows(spark: SparkSession, kafka: Kafka, way: Any) -> None:
    topic = new_topic(kafka, 3)
    assert list(connector.write(rows(spark), sink(kafka, topic, **way), batch())) == []
    found = sorted(values(kafka, topic), key=lambda row: row["id"])
    assert found == [{"id": n, "name": f"n{n}"} for n in range(10)]


@pytest.mark.parametrize("way", WAYS)
def test_writes_all_parts_of_a_message(spark: SparkSession, kafka: Kafka, way: Any) -> None:
    topic = new_topic(kafka, 3)
    frame = spark.sql(
        "SELECT 7 AS id, 'k' AS _key, map('a', 'x') AS _headers, 2 AS _partition"
        " UNION ALL SELECT 8, NULL, NULL, NULL"
    )
    connector.write(frame, sink(kafka, topic, headers={"team": "t"}, **way), batch())
    first, second = sorted(sent(kafka, topic), key=lambda r: str(r.value))
    assert (first.key, first.value, first.partition) == (b"k", b'{"id":7}', 2)
    assert first.headers == (("team", b"t"), ("a", b"x"))
    assert (second.key, second.value, second.headers) == (None, b'{"id":8}', (("team", b"t"),))


@pytest.mark.parametrize("way", WAYS)
def test_headers_as_they_are_read_are_written(spark: SparkSession, kafka: Kafka, way: Any) -> None:
    topic = new_topic(kafka)
    headers = "array(struct('a' AS key, X'FF' AS value), struct('a' AS key, CAST(NULL AS BINARY) AS value))"
    connector.write(spark.sql(f"SELECT 7 AS id, {headers} AS _headers"), sink(kafka, topic, **way), batch())
    (record,) = sent(kafka, topic)
    assert record.headers == (("a", b"\xff"), ("a", None))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"key": "name"}, b"n1"),
        ({"key": "ID"}, b"1"),
        ({"key": "id,name"}, b'{"id":1,"name":"n1"}'),
        ({"key": "id", "key_format": "json"}, b'{"id":1}'),
        ({"key": "id", "key_format": "long"}, (1).to_bytes(8, "big")),
        ({"key": "id", "key_format": "int"}, (1).to_bytes(4, "big")),
    ],
)
def test_writes_keys(
    spark: SparkSession, kafka: Kafka, way: Any, settings: dict[str, str], expected: bytes
) -> None:
    topic = new_topic(kafka)
    frame = rows(spark, 2, 1).where("id = 1")
    connector.write(frame, sink(kafka, topic, **settings, **way), batch())
    assert [(r.key, r.value) for r in sent(kafka, topic)] == [(expected, b'{"id":1,"name":"n1"}')]


def test_a_key_has_one_partition_whoever_writes_it(spark: SparkSession, kafka: Kafka) -> None:
    places = []
    for way in ({}, {"on_error": "skip"}, ONCE):
        topic = new_topic(kafka, 5)
        connector.write(rows(spark, 40), sink(kafka, topic, key="name", **way), batch())
        places.append({record.key: record.partition for record in sent(kafka, topic)})
    assert places[0] == places[1] == places[2]
    assert len(set(places[0].values())) > 1


@pytest.mark.parametrize("way", WAYS)
def test_a_single_value_is_a_message_as_it_is(spark: SparkSession, kafka: Kafka, way: Any) -> None:
    topic = new_topic(kafka)
    frame = spark.sql("SELECT 'k' AS _key, 'any text' AS value UNION ALL SELECT 'gone', NULL")
    connector.write(frame, sink(kafka, topic, **way), batch())
    assert sorted((r.key, r.value) for r in sent(kafka, topic)) == [(b"gone", None), (b"k", b"any text")]


@pytest.mark.parametrize("way", [{}, {"on_error": "skip"}])
def test_rows_may_name_their_topic(spark: SparkSession, kafka: Kafka, way: Any) -> None:
    first, second = new_topic(kafka), new_topic(kafka)
    frame = spark.sql(f"SELECT 1 AS id, '{first}' AS _topic UNION ALL SELECT 2, NULL")
    connector.write(frame, sink(kafka, second, **way), batch())
    assert (ids(kafka, first), ids(kafka, second)) == ([1], [2])
    connector.write(frame.limit(1), sink(kafka, None, **way), batch())
    assert ids(kafka, first) == [1, 1]
    with pytest.raises(DataError) as caught:
        connector.write(rows(spark), sink(kafka, None, **way), batch())
    assert caught.value.code == "no-topic"


def test_a_row_without_a_topic_is_refused(spark: SparkSession, kafka: Kafka) -> None:
    topic = new_topic(kafka)
    frame = spark.sql(f"SELECT 1 AS id, '{topic}' AS _topic UNION ALL SELECT 2, NULL")
    (refused,) = connector.write(frame, sink(kafka, None, on_error="skip"), batch())
    assert json.loads(refused.payload) == {"id": 2, "_topic": None}
    assert ids(kafka, topic) == [1]
    with pytest.raises(DataError, match="without a topic"):
        connector.write(frame, sink(kafka, None), batch())


@pytest.mark.parametrize("way", [{}, ONCE])
@pytest.mark.parametrize(
    ("settings", "column"),
    [({}, "_timestamp"), ({"preserve_timestamps": True}, "_timestamp"), ({"timestamp_column": "At"}, "at")],
)
def test_messages_have_the_time_of_their_rows(
    spark: SparkSession, kafka: Kafka, way: Any, settings: dict[str, Any], column: str
) -> None:
    topic = new_topic(kafka)
    frame = spark.sql(f"SELECT 1 AS id, TIMESTAMP '{AT.isoformat()}' AS {column}")
    connector.write(frame, sink(kafka, topic, **settings, **way), batch())
    (record,) = sent(kafka, topic)
    assert record.timestamp == int(AT.timestamp() * 1000)
    assert ("at" in json.loads(str(record.value, "utf-8"))) == (column == "at")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"key": "nme"}, "key names a column 'nme'"),
        ({"timestamp_column": "when"}, "timestamp_column names a column 'when'"),
        ({"preserve_timestamps": True}, "a column `_timestamp`"),
    ],
)
def test_columns_that_are_not_there(
    spark: SparkSession, kafka: Kafka, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(DataError, match=message) as caught:
        connector.write(rows(spark), sink(kafka, new_topic(kafka), **settings), batch())
    assert caught.value.code == "missing-column"


@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SSL", "SASL_SSL"])
@pytest.mark.parametrize("way", [{}, ONCE])
def test_comes_in_by_every_way(spark: SparkSession, kafka: Kafka, protocol: str, way: Any) -> None:
    topic = new_topic(kafka)
    told: dict[str, Any] = {"bootstrap_servers": kafka.address(protocol), "security_protocol": protocol}
    if protocol.startswith("SASL"):
        told |= {"sasl_username": USER, "sasl_password": PASSWORD}
    if protocol.endswith("SSL"):
        told |= {"ssl_ca_location": kafka.certificate.read_text()}
    connector.write(rows(spark), sink(kafka, topic, **told, **way), batch())
    assert ids(kafka, topic) == list(range(10))


def test_makes_the_topic(spark: SparkSession, kafka: Kafka) -> None:
    topic = f"new-{uuid4().hex[:12]}"
    options = sink(
        kafka, topic, topic_config={"partitions": 3, "replication_factor": 1, "retention_ms": 86_400_000}
    )
    connector.check_target(spark, options)
    assert kafka.partitions(topic) == [0, 1, 2]
    connector.check_target(spark, options)
    connector.write(rows(spark), options, batch())
    assert ids(kafka, topic) == list(range(10))
    assert not connector.holds_rows(spark, options)


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ({"create_topic": False}, "missing-topic"),
        ({"topic_config": {"replication_factor": 7}}, "topic-refused"),
        ({"topic_config": {"retention_ms": "soon"}}, "topic-refused"),
        ({"topic_config": {"partitions": "many"}}, "bad-option"),
    ],
)
def test_a_topic_that_is_not_made(
    spark: SparkSession, kafka: Kafka, settings: dict[str, Any], code: str
) -> None:
    with pytest.raises(PenstockError) as caught:
        connector.check_target(spark, sink(kafka, f"new-{uuid4().hex[:12]}", **settings))
    assert caught.value.code == code


def test_a_target_that_cannot_be_reached(spark: SparkSession, kafka: Kafka) -> None:
    wrong = {
        "bootstrap_servers": kafka.address("SASL_PLAINTEXT"), "security_protocol": "SASL_PLAINTEXT",
        "sasl_username": USER, "sasl_password": "wrong secret",
    }  # fmt: skip
    with pytest.raises(SetupError) as caught:
        connector.check_target(spark, sink(kafka, "t", **wrong))
    assert caught.value.code == "bad-credentials"
    assert "wrong secret" not in str(caught.value)
    with pytest.raises(SetupError) as caught:
        connector.check_target(spark, sink(kafka, "t", bootstrap_servers="127.0.0.1:1"))
    assert caught.value.code == "broker-unreachable"


def test_a_batch_that_runs_again_changes_nothing(spark: SparkSession, kafka: Kafka) -> None:
    topic, pipeline = new_topic(kafka, 2), uuid4().hex
    options = sink(kafka, topic, **ONCE)
    assert connector.needs_parts(options)
    for number in (0, 1, 1, 0):
        connector.write(rows(spark).selectExpr(f"id + {10 * number} AS id"), options, batch(number, pipeline))
    assert ids(kafka, topic) == list(range(20))


def test_a_batch_that_failed_half_way_is_completed(spark: SparkSession, kafka: Kafka) -> None:
    topic, pipeline = new_topic(kafka, 2), uuid4().hex
    options = sink(kafka, topic, **ONCE)
    bad = rows(spark).selectExpr("IF(id = 9, raise_error('made to fail'), id) AS id")
    with pytest.raises(Exception, match="made to fail"):
        connector.write(bad, options, batch(0, pipeline))
    assert 9 not in ids(kafka, topic)
    connector.write(rows(spark), options, batch(0, pipeline))
    assert ids(kafka, topic) == list(range(10))


def test_what_a_dead_run_left_open_is_ended(spark: SparkSession, kafka: Kafka) -> None:
    topic, pipeline = new_topic(kafka), uuid4().hex
    zombie = kafka.producer({"transactional.id": f"penstock-{pipeline}-0-kafka-00000"})
    zombie.init_transactions(30)
    zombie.begin_transaction()
    zombie.produce(topic, '{"id": 99}')
    zombie.flush()
    connector.write(rows(spark, parts=1), sink(kafka, topic, **ONCE), batch(0, pipeline))
    assert ids(kafka, topic) == list(range(10))
    with pytest.raises(Exception, match=r"(?i)fenced"):
        zombie.commit_transaction(30)
    assert ids(kafka, topic) == list(range(10))


def test_a_run_that_was_shut_out_is_told(kafka: Kafka) -> None:
    topic, number = new_topic(kafka), batch()
    writer = MessageWriter(
        Target(topic), kafka.client(), {}, patience=30, keeps_refused=False, transactional=True
    )

    def rows_while_another_takes_over() -> Iterator[pa.RecordBatch]:
        for n in range(2):
            yield pa.RecordBatch.from_pylist([{"value": b'{"id": %d}' % n}])
            other = kafka.producer({"transactional.id": f"penstock-{number.pipeline}-0-kafka-00000"})
            other.init_transactions(30)

    with pytest.raises(Told) as caught:
        writer.write(rows_while_another_takes_over(), Part(number, "00000"))
    error = connector.explain_failure(caught.value, sink(kafka, topic))
    assert isinstance(error, RunError)
    assert error.code == "fenced"
    assert not connector.is_passing(caught.value)
    assert ids(kafka, topic) == []


LARGE = "SELECT id, IF(id = 3, repeat('x', 3000), 'small') AS name FROM range(0, 8, 1, 2)"
RANDOM = "SELECT id, IF(id = 3, randstr(9000, 1), 'small') AS name FROM range(0, 8, 1, 2)"
KEYLESS = "SELECT id, IF(id = 3, NULL, 'k') AS _key FROM range(0, 8, 1, 2)"
FAR = "SELECT id, TIMESTAMP '2124-01-01' + INTERVAL 1 DAY * id AS _timestamp FROM range(3, 4)"
OUTSIDE = "SELECT id, IF(id = 3, 7, 0) AS _partition FROM range(0, 8, 1, 2)"
SMALL = {"max.message.bytes": "2000"}
COMPACT = {"cleanup.policy": "compact"}
REFUSED = [
    pytest.param(LARGE, SMALL, {}, "3", id="too large"),
    pytest.param(RANDOM, SMALL, {"producer": {"compression.type": "gzip"}}, "", id="too large, compressed"),
    pytest.param(LARGE, {}, {"producer": {"max.request.size": 1500}}, "", id="too large for the producer"),
    pytest.param(KEYLESS, COMPACT, {}, "without a key", id="without a key"),
    pytest.param(OUTSIDE, {}, {}, "partition 7: it has 1", id="no such partition"),
]


@pytest.mark.parametrize("way", [{}, ONCE])
@pytest.mark.parametrize(("query", "config", "settings", "reason"), REFUSED)
def test_rows_that_are_refused_are_handed_back(
    spark: SparkSession, kafka: Kafka, way: Any, query: str, config: Any, settings: Any, reason: str
) -> None:
    topic = new_topic(kafka, 1, config)
    options = sink(kafka, topic, on_error="dead_letter", **settings, **way)
    (refused,) = connector.write(spark.sql(query), options, batch())
    assert json.loads(refused.payload)["id"] == 3
    assert reason in refused.error
    assert ids(kafka, topic) == [0, 1, 2, 4, 5, 6, 7]


@pytest.mark.parametrize("way", [{}, ONCE])
@pytest.mark.parametrize(("query", "config", "settings", "reason"), [*REFUSED[:3], REFUSED[3]])
def test_a_row_that_is_refused_stops_the_batch(
    spark: SparkSession, kafka: Kafka, way: Any, query: str, config: Any, settings: Any, reason: str
) -> None:
    topic = new_topic(kafka, 1, config)
    with pytest.raises(DataError) as caught:
        connector.write(spark.sql(query), sink(kafka, topic, **settings, **way), batch())
    assert caught.value.code == "row-refused"
    assert topic in caught.value.message
    assert not connector.is_passing(caught.value)
    assert 3 not in ids(kafka, topic)


@pytest.mark.parametrize("way", [{}, ONCE])
def test_refusals_that_nobody_foresaw(spark: SparkSession, kafka: Kafka, way: Any) -> None:
    """Among many rows, of which a broker refuses whole batches: it takes no messages of the far future."""
    topic = new_topic(kafka, 1, {"message.timestamp.after.max.ms": "1000"})
    far = "IF(id % 400 = 3, TIMESTAMP '2124-01-01', current_timestamp()) AS _timestamp"
    frame = spark.range(0, 1200, 1, 2).selectExpr("id", far)
    refused = connector.write(frame, sink(kafka, topic, on_error="skip", **way), batch())
    assert sorted(json.loads(r.payload)["id"] for r in refused) == [3, 403, 803]
    assert ids(kafka, topic) == [n for n in range(1200) if n % 400 != 3]


def test_what_was_refused_is_told_again_when_the_batch_runs_again(
    spark: SparkSession, kafka: Kafka, tmp_path: Path
) -> None:
    topic, pipeline = new_topic(kafka, 1, SMALL), uuid4().hex
    options = sink(kafka, topic, on_error="dead_letter", **ONCE)
    once, again = (
        list(connector.write(spark.sql(LARGE), options, batch(0, pipeline, tmp_path))) for _ in range(2)
    )
    assert once == again
    assert [type(r) for r in again] == [Refused]
    assert ids(kafka, topic) == [0, 1, 2, 4, 5, 6, 7]


def test_a_broker_that_goes_away_may_come_back(spark: SparkSession, kafka: Kafka) -> None:
    hasty = {"max.block.ms": 2000, "delivery.timeout.ms": 2000, "request.timeout.ms": 1000, "linger.ms": 0}
    ways: list[dict[str, Any]] = [{}, {"on_error": "skip"}, ONCE]
    sinks = [sink(kafka, new_topic(kafka), producer=hasty, **way) for way in ways]
    for options in sinks:
        connector.check_target(spark, options)
    with kafka.down():
        for options in sinks:
            with pytest.raises(PenstockError) as caught:
                connector.write(rows(spark), options, batch())
            assert caught.value.code == "broker-unreachable"
            assert connector.is_passing(caught.value)


def test_settings_that_kafka_does_not_take(spark: SparkSession, kafka: Kafka) -> None:
    topic = new_topic(kafka)
    for way in ({}, {"on_error": "skip"}):
        with pytest.raises(PenstockError) as caught:
            connector.write(rows(spark), sink(kafka, topic, producer={"acks": "some"}, **way), batch())
        assert caught.value.code == "bad-setting"
        assert "acks" in caught.value.message


def test_streams_rows_in_real_time(spark: SparkSession, kafka: Kafka, tmp_path: Path) -> None:
    topic = new_topic(kafka)
    frame = spark.readStream.format("rate").load().selectExpr("value AS id")
    writer = connector.stream_into(frame, sink(kafka, topic, key="id"), batch())
    query = writer.option("checkpointLocation", str(tmp_path)).start()
    try:
        while len(sent(kafka, topic)) < 2:
            assert query.isActive, query.exception()
    finally:
        query.stop()
    assert [r.key for r in sent(kafka, topic)[:2]] == [b"0", b"1"]
