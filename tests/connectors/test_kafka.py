"""Topics as sources: what is read, from where, and what is said when it cannot be."""

from __future__ import annotations

import json
import socket
from ast import literal_eval
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.connectors.base import PAYLOAD, POSITION, Column, Limits
from penstock.connectors.kafka.options import Sink, Source
from penstock.errors import DataError, PenstockError, SetupError
from tests.servers.kafka import PASSWORD, USER, Kafka
from tests.waiting import until

from .messages import batch, connector, filled, new_topic, request, rows_of, source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.server]

ROWS = [{"id": n, "name": f"n{n}"} for n in range(10)]
COLUMNS = (Column("id", "BIGINT"), Column("name", "STRING"))


def streamed(
    spark: SparkSession, options: Source, folder: Path, limits: Limits | None = None
) -> list[list[int]]:
    """The ids of each batch of what is there now, from where the folder's checkpoint stands."""
    batches: list[list[int]] = []

    def take(records: DataFrame, number: int) -> None:
        rows = connector.read(records.sparkSession, options, request(columns=COLUMNS, records=records))
        batches.append([row.id for row in rows.collect()])

    frame = connector.stream(spark, options, limits or Limits())
    query = (
        frame.writeStream.foreachBatch(take)
        .option("checkpointLocation", str(folder))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return batches


def test_reads_what_there_is(spark: SparkSession, kafka: Kafka) -> None:
    topic = filled(kafka, ROWS, partitions=3)
    frame = connector.read(spark, source(kafka, topic), request())
    assert sorted(rows_of(frame), key=lambda r: r["id"]) == ROWS
    kafka.produce(topic, [(None, '{"id": 99, "name": "late"}')])
    assert frame.count() == len(ROWS), "a frame that is read twice gives other rows"


def test_reads_all_parts_of_a_message(spark: SparkSession, kafka: Kafka) -> None:
    topic = new_topic(kafka, 2)
    at = datetime(2024, 1, 31, 12, 0, 0, 123000, tzinfo=timezone.utc)
    millis = int(at.timestamp() * 1000)
    kafka.produce(topic, [("k", '{"id": 1}', [("a", b"x"), ("a", b"\xff")], millis, 1)])
    hidden = [c.name for c in connector.hidden(source(kafka, topic))]
    frame = connector.read(spark, source(kafka, topic), request("id", *hidden))
    assert [(c, t) for c, t in frame.dtypes if c != "id"] == [
        (c.name, c.type.lower().replace(": ", ":").replace(", ", ","))
        for c in connector.hidden(source(kafka, topic))
    ]
    assert rows_of(frame) == [
        {
            "id": 1,
            "_key": "k",
            "_headers": [{"key": "a", "value": b"x"}, {"key": "a", "value": b"\xff"}],
            "_topic": topic,
            "_partition": 1,
            "_offset": 0,
            "_timestamp": at,
        }
    ]


def test_reads_parts_of_a_message_beside_all_columns(spark: SparkSession, kafka: Kafka) -> None:
    topic = filled(kafka, ROWS[:1])
    frame = connector.read(spark, source(kafka, topic), request(hidden=frozenset({"_offset"})))
    assert rows_of(frame) == [{**ROWS[0], "_offset": 0}]


@pytest.mark.parametrize(
    ("format", "key", "expected"),
    [
        ("string", b"k", "k"),
        ("json", b'{"a":1}', '{"a":1}'),
        ("binary", b"\xff", b"\xff"),
        ("int", (-7).to_bytes(4, "big", signed=True), -7),
        ("int", (7).to_bytes(4, "big"), 7),
        ("long", (-(2**40)).to_bytes(8, "big", signed=True), -(2**40)),
        ("long", b"seven", None),
        ("string", None, None),
    ],
)
def test_reads_keys(spark: SparkSession, kafka: Kafka, format: str, key: Any, expected: Any) -> None:
    topic = new_topic(kafka)
    kafka.produce(topic, [(key, '{"id": 1}')])
    frame = connector.read(spark, source(kafka, topic, key_format=format), request("_key"))
    assert rows_of(frame) == [{"_key": expected}]


def test_reads_several_topics(spark: SparkSession, kafka: Kafka) -> None:
    first, second = filled(kafka, ROWS[:4]), filled(kafka, ROWS[4:])
    both = source(kafka, f"{first},{second}")
    like = Source(bootstrap_servers=kafka.bootstrap, topic_pattern=f"{first}|{second}")
    for options in (both, like):
        frame = connector.read(spark, options, request())
        assert sorted(rows_of(frame), key=lambda r: r["id"]) == ROWS
    assert connector.identity(both) == ",".join(sorted((first, second)))


def test_finds_the_columns(spark: SparkSession, kafka: Kafka) -> None:
    topic = filled(kafka, [{"id": 1}, {"id": 2, "name": "x"}], partitions=2)
    kafka.produce(topic, [("gone", None)])
    found = connector.discover(spark, source(kafka, topic), request())
    assert [(c.name, c.type.upper()) for c in found] == [(c.name, c.type) for c in COLUMNS]


def test_an_empty_topic_tells_no_columns(spark: SparkSession, kafka: Kafka) -> None:
    topic = new_topic(kafka)
    kafka.produce(topic, [("gone", None)])
    with pytest.raises(DataError) as caught:
        connector.discover(spark, source(kafka, topic), request())
    assert caught.value.code == "empty-source"
    frame = connector.read(spark, source(kafka, topic), request(columns=COLUMNS))
    assert [row.asDict() for row in frame.collect() if row.id is not None] == []


def test_streams_in_batches(spark: SparkSession, kafka: Kafka, tmp_path: Path) -> None:
    topic = filled(kafka, ROWS)
    assert streamed(spark, source(kafka, topic), tmp_path, Limits(rows=4)) == [
        [0, 1, 2, 3],
        [4, 5, 6, 7],
        [8, 9],
    ]
    kafka.produce(topic, [(None, '{"id": 10}')])
    assert streamed(spark, source(kafka, topic, max_rows_per_batch=4), tmp_path, Limits(rows=6)) == [[10]]


def test_a_stream_waits_until_a_batch_is_worth_it(spark: SparkSession, kafka: Kafka, tmp_path: Path) -> None:
    topic = filled(kafka, ROWS)
    session = spark.newSession()
    session.conf.set("spark.sql.streaming.noDataProgressEventInterval", "100")
    frame = connector.stream(session, source(kafka, topic), Limits(fill=100, patience=timedelta(hours=1)))
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path))
    query = writer.trigger(processingTime="0 seconds").start()

    def batches() -> list[int]:
        return [told.numInputRows for told in query.recentProgress if told.numInputRows]

    def seen() -> int:
        latest = query.lastProgress.sources[0].latestOffset if query.lastProgress else None
        return literal_eval(latest)[topic]["0"] if latest else 0

    try:
        until(batches, "the first batch, which takes what is there")
        kafka.produce(topic, [(None, '{"id": 1}')] * 60)
        until(lambda: seen() == 70, "Spark sees what was added")
        assert batches() == [10]
        kafka.produce(topic, [(None, '{"id": 1}')] * 40)
        until(lambda: len(batches()) == 2, "the second batch")
        assert batches() == [10, 100]
    finally:
        query.stop()


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ("earliest", list(range(10))),
        ({"0": 7}, [7, 8, 9]),
        ({"0": -1}, []),
        ("2024-01-01T00:00:05Z", [5, 6, 7, 8, 9]),
        ("2034-01-01", []),
        (None, list(range(10))),
    ],
)
def test_begins_where_it_is_told(
    spark: SparkSession, kafka: Kafka, tmp_path: Path, start: Any, expected: list[int]
) -> None:
    topic = new_topic(kafka)
    first = int(datetime(2024, 1, 1, tzinfo=timezone.utc).timestamp() * 1000)
    kafka.produce(topic, [(None, json.dumps(row), (), first + 1000 * n) for n, row in enumerate(ROWS)])
    options = source(kafka, topic, start=start)
    frame = connector.read(spark, options, request(columns=COLUMNS))
    assert sorted(row.id for row in frame.collect()) == expected
    assert [n for ids in streamed(spark, options, tmp_path) for n in ids] == expected


def test_begins_at_the_latest_where_the_source_does_not_say(
    spark: SparkSession, kafka: Kafka, tmp_path: Path
) -> None:
    topic = filled(kafka, ROWS)
    assert streamed(spark, source(kafka, topic), tmp_path, Limits(start="latest")) == [[]]
    kafka.produce(topic, [(None, '{"id": 10}')])
    assert streamed(spark, source(kafka, topic), tmp_path, Limits(start="latest")) == [[10]]


def test_a_partition_that_is_added_is_read_from_its_begin(
    spark: SparkSession, kafka: Kafka, tmp_path: Path
) -> None:
    topic = filled(kafka, ROWS)
    options = source(kafka, topic)
    streamed(spark, options, tmp_path)
    kafka.add_partitions(topic, 2)
    kafka.produce(topic, [(None, '{"id": 10}', (), None, 1), (None, '{"id": 11}', (), None, 0)])
    assert sorted(n for ids in streamed(spark, options, tmp_path) for n in ids) == [10, 11]


def test_reads_what_was_committed(spark: SparkSession, kafka: Kafka) -> None:
    topic = new_topic(kafka)
    producer = kafka.producer({"transactional.id": topic})
    producer.init_transactions(30)
    for value, end in (('{"id": 1}', producer.commit_transaction), ('{"id": 2}', producer.abort_transaction)):
        producer.begin_transaction()
        producer.produce(topic, value)
        producer.flush()
        end(30)
    assert rows_of(connector.read(spark, source(kafka, topic), request("id"))) == [{"id": 1}]
    dirty = source(kafka, topic, consumer={"isolation.level": "read_uncommitted"})
    assert sorted(r["id"] for r in rows_of(connector.read(spark, dirty, request("id")))) == [1, 2]


def test_tells_the_records_that_are_bad(spark: SparkSession, kafka: Kafka) -> None:
    topic = new_topic(kafka, 2)
    kafka.produce(topic, [("k", '{"id": 1}', (), None, 0), ("k", "no json", [("h", b"x")], 5000, 1)])
    options = source(kafka, topic, on_error="dead_letter")
    asked = request(columns=(COLUMNS[0],), on_error="dead_letter")
    frame = connector.read(spark, options, asked)
    assert sorted(rows_of(frame), key=str) == [
        {"id": 1, "_rejected": False},
        {"id": None, "_rejected": True},
    ]
    kafka.produce(topic, [("k", "no json")])
    (bad,) = rows_of(connector.rejects(spark, options, asked))
    assert (bad["payload"], bad["encoding"]) == ("no json", "text")
    assert (bad["topic"], bad["partition"], bad["offset"]) == (topic, 1, 0)


def test_a_bad_record_is_told_with_its_place(spark: SparkSession, kafka: Kafka) -> None:
    topic = filled(kafka, ROWS[:3])
    kafka.produce(topic, [(None, "no json")])
    frame = connector.read(spark, source(kafka, topic), request(columns=COLUMNS))
    with pytest.raises(Exception, match=f"topic {topic}, partition 0, offset 3"):
        frame.collect()


def test_traces_rows_to_their_messages(spark: SparkSession, kafka: Kafka) -> None:
    topic = new_topic(kafka)
    kafka.produce(topic, [("k", '{"id": 1}', [("h", b"x")], 5000)])
    asked = request("id", columns=COLUMNS)
    (row,) = rows_of(connector.traced(spark, source(kafka, topic), asked))
    assert (row["id"], row[PAYLOAD]) == (1, b'{"id": 1}')
    assert (row[POSITION]["topic"], row[POSITION]["offset"]) == (topic, 0)


def test_dead_letters_are_records_again(spark: SparkSession, kafka: Kafka) -> None:
    from pyspark.sql import functions as f

    topic = new_topic(kafka)
    kafka.produce(topic, [("k", '{"id": 1}', [("h", b"x")], 5000)])
    options, asked = source(kafka, topic), request("id", "_key", "_headers", "_timestamp", "_offset")
    traced = connector.traced(spark, options, asked)
    letters = traced.select(f.col(PAYLOAD).alias("value"), f.to_json(POSITION).alias("position"))
    records = connector.as_records(letters)
    assert records is not None
    again = connector.read(spark, options, replace(asked, columns=COLUMNS, records=records))
    assert rows_of(again) == rows_of(connector.read(spark, options, asked))


def test_tells_how_much_there_is(spark: SparkSession, kafka: Kafka) -> None:
    topic = filled(kafka, ROWS, partitions=3)
    assert connector.facts(spark, source(kafka, topic)) == {"messages": 10, "topic partitions": 3}
    assert connector.tasks(source(kafka, topic)) == 3


@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SSL", "SASL_SSL"])
def test_comes_in_by_every_way(spark: SparkSession, kafka: Kafka, protocol: str) -> None:
    topic = filled(kafka, ROWS)
    frame = connector.read(spark, secured(kafka, topic, protocol), request())
    assert frame.count() == len(ROWS)


def test_a_password_stands_in_no_plan(spark: SparkSession, kafka: Kafka) -> None:
    topic = filled(kafka, ROWS)
    options = secured(kafka, topic, "SASL_PLAINTEXT")
    frame = connector.read(spark, options, request(columns=COLUMNS))
    target = Sink.model_validate(
        options.model_dump(exclude={"consumer", "start"}, exclude_unset=True) | {"topic": topic}
    )
    connector.write(frame, target, batch())
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    shown = spark._jsparkSession.sharedState().statusStore().executionsList()
    plans = [shown.apply(n).physicalPlanDescription() for n in range(shown.size())]
    for one in (frame, connector.stream(spark, options, Limits())):
        jvm: Any = spark._jvm
        plans.append(jvm.PythonSQLUtils.explainString(one._jdf.queryExecution(), "extended"))
    assert any("PlainLoginModule" in plan for plan in plans)
    assert not any(PASSWORD in plan for plan in plans)


def secured(kafka: Kafka, topic: str, protocol: str, **more: Any) -> Source:
    told: dict[str, Any] = {"bootstrap_servers": kafka.address(protocol), "security_protocol": protocol}
    if protocol.startswith("SASL"):
        told |= {"sasl_username": USER, "sasl_password": PASSWORD}
    if protocol.endswith("SSL"):
        told |= {"ssl_ca_location": str(kafka.certificate)}
    return Source.model_validate({"topic": topic, **told, **more})


def raised(spark: SparkSession, options: Source) -> PenstockError:
    """What a read, a look for columns and a stream all raise."""
    found = []
    for ask in (
        lambda: connector.read(spark, options, request(columns=COLUMNS)),
        lambda: connector.discover(spark, options, request()),
        lambda: connector.stream(spark, options, Limits()),
    ):
        with pytest.raises(PenstockError) as caught:
            ask()
        found.append(caught.value)
    assert len({str(error) for error in found}) == 1
    return found[0]


def test_a_missing_topic(spark: SparkSession, kafka: Kafka) -> None:
    topic = new_topic(kafka)
    error = raised(spark, source(kafka, f"{topic}x"))
    assert (error.code, error.exit_code) == ("missing-topic", 2)
    assert f"did you mean '{topic}'?" in str(error.hint)
    error = raised(spark, Source(bootstrap_servers=kafka.bootstrap, topic_pattern="no-such-.*"))
    assert error.code == "missing-topic"


def test_a_wrong_password(spark: SparkSession, kafka: Kafka) -> None:
    topic = new_topic(kafka)
    for protocol in ("SASL_PLAINTEXT", "SASL_SSL"):
        error = raised(spark, secured(kafka, topic, protocol, sasl_password="wrong secret"))
        assert (error.code, error.exit_code) == ("bad-credentials", 3)
        assert kafka.address(protocol) in error.message
        assert USER in error.message
        assert "wrong secret" not in str(error)


def test_a_certificate_that_is_not_trusted(spark: SparkSession, kafka: Kafka) -> None:
    error = raised(spark, secured(kafka, new_topic(kafka), "SSL", ssl_ca_location=None))
    assert (error.code, error.exit_code) == ("tls", 3)
    assert kafka.address("SSL") in error.message


def test_a_broker_that_is_not_there(spark: SparkSession, kafka: Kafka) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        options = Source(bootstrap_servers=f"127.0.0.1:{port}", topic=("t",))
        error = raised(spark, options)
    assert isinstance(error, SetupError)
    assert error.code == "broker-unreachable"
    assert f"127.0.0.1:{port}" in error.message
    assert connector.is_passing(error)


def test_messages_that_are_gone_are_an_error(spark: SparkSession, kafka: Kafka, tmp_path: Path) -> None:
    topic = filled(kafka, ROWS)
    options = source(kafka, topic)
    streamed(spark, options, tmp_path)
    kafka.produce(topic, [(None, '{"id": 1}')] * 10)
    kafka.delete_records(topic, {0: 15})
    error = failure_of(lambda: streamed(spark, options, tmp_path), options)
    assert (error.code, error.message) == (
        "data-loss",
        f"topic '{topic}', partition 0: messages 10 to 14 are gone before they were read",
    )
    assert "reset" in str(error.hint)


def test_a_topic_that_was_made_again_is_an_error(spark: SparkSession, kafka: Kafka, tmp_path: Path) -> None:
    topic = filled(kafka, ROWS)
    options = source(kafka, topic)
    streamed(spark, options, tmp_path)
    known = connector.recognise(options, None)
    assert connector.recognise(options, known) == known
    kafka.delete_topic(topic)
    assert failure_of(lambda: streamed(spark, options, tmp_path), options).code == "missing-topic"
    kafka.create_topic(topic)
    with pytest.raises(DataError, match="was deleted and made again") as caught:
        connector.recognise(options, known)
    assert caught.value.code == "data-loss"
    kafka.produce(topic, [(None, '{"id": 1}')] * 5)
    error = failure_of(lambda: streamed(spark, options, tmp_path), options)
    assert error.code == "data-loss"
    assert f"'{topic}', partition 0 ends at offset 5, before our position 10" in error.message


def failure_of(work: Any, options: Source) -> PenstockError:
    with pytest.raises(Exception, match=r".") as caught:
        work()
    if isinstance(caught.value, PenstockError):
        return caught.value
    assert not connector.is_passing(caught.value)
    error = connector.explain_failure(caught.value, options)
    assert error is not None, caught.value
    return error


def test_a_broker_that_goes_away_may_come_back(spark: SparkSession, kafka: Kafka) -> None:
    topic = filled(kafka, ROWS)
    options = source(kafka, topic, consumer={"default.api.timeout.ms": 2000, "request.timeout.ms": 1000})
    frame = connector.read(spark, options, request(columns=COLUMNS))
    with kafka.down(), pytest.raises(Exception, match=r".") as caught:
        frame.collect()
    assert connector.is_passing(caught.value)
    error = connector.explain_failure(caught.value, options)
    assert error is not None
    assert error.code == "broker-unreachable"
    assert frame.count() == len(ROWS)
