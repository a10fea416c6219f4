"""What happens to Kafka while a stream runs: restarts, new partitions, topics and messages that are gone."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from penstock.api import Pipeline, Ran, Session
from penstock.errors import PenstockError
from tests.servers.kafka import Kafka
from tests.waiting import until

if TYPE_CHECKING:
    pass

pytestmark = [pytest.mark.spark, pytest.mark.server]


@pytest.fixture
def topic(kafka: Kafka, request: pytest.FixtureRequest) -> Iterator[str]:
    """A topic of two partitions."""
    name = request.node.name.replace("[", "-").replace("]", "")
    kafka.create_topic(name, 2)
    yield name
    if kafka.partitions(name):
        kafka.delete_topic(name)


def put(kafka: Kafka, topic: str, *ids: int, partition: int | None = None) -> None:
    kafka.produce(topic, ((None, json.dumps({"id": n}), (), None, partition) for n in ids))


def copy(kafka: Kafka, topic: str, sink: str = "'out/*.parquet'") -> str:
    return f"SELECT id FROM 'kafka://{kafka.bootstrap}/{topic}' INTO {sink}"


def ids(path: str = "out/*.parquet") -> list[int]:
    return sorted(row[0] for row in duckdb.sql(f"SELECT id FROM '{path}'").fetchall())


def happens(pipeline: Pipeline, what: Callable[[], Any], name: str) -> None:
    """Waits; fails at once when the pipeline has."""
    until(lambda: what() or pipeline.wait(0), name)
    assert what(), name


def ended(pipeline: Pipeline) -> Ran:
    pipeline.stop()
    assert pipeline.wait(120)
    return pipeline.ran()


def test_kafka_is_restarted(session: Session, kafka: Kafka, topic: str) -> None:
    put(kafka, topic, *range(10))
    once = f"'kafka://{kafka.bootstrap}/{topic}-out' WITH (delivery_guarantee = 'exactly_once')"
    pipeline = session.start(copy(kafka, topic, f"'out/*.parquet', {once}"), name="p")
    happens(pipeline, lambda: pipeline.progress.rows == 10, "the first rows")
    kafka.restart()
    put(kafka, topic, *range(10, 20))
    happens(pipeline, lambda: pipeline.progress.rows == 20, "rows after the restart")
    ended(pipeline)
    assert ids() == list(range(20))
    sent = [json.loads(record.value or "")["id"] for record in kafka.rows(f"{topic}-out")]
    assert sorted(sent) == list(range(20))


def test_kafka_is_away_for_a_minute(session: Session, kafka: Kafka, topic: str) -> None:
    put(kafka, topic, *range(10))
    pipeline = session.start(copy(kafka, topic), name="p")
    happens(pipeline, lambda: pipeline.progress.rows == 10, "the first rows")
    with kafka.down():
        time.sleep(60)
        assert pipeline.status == "running"
    put(kafka, topic, *range(10, 20))
    happens(pipeline, lambda: pipeline.progress.rows == 20, "rows after a minute")
    ended(pipeline)
    assert ids() == list(range(20))


def test_a_partition_is_added(session: Session, kafka: Kafka, topic: str) -> None:
    put(kafka, topic, 1, 2)
    pipeline = session.start(copy(kafka, topic), name="p")
    happens(pipeline, lambda: pipeline.progress.rows == 2, "the first rows")
    kafka.add_partitions(topic, 3)
    put(kafka, topic, 3, 4, partition=2)
    happens(pipeline, lambda: pipeline.progress.rows == 4, "rows of the new partition")
    ended(pipeline)
    assert ids() == [1, 2, 3, 4]


def test_messages_that_are_gone_are_told_as_lost(session: Session, kafka: Kafka, topic: str) -> None:
    put(kafka, topic, *range(10), partition=0)
    session.run(copy(kafka, topic), name="p", until_caught_up=True)
    put(kafka, topic, *range(10, 30), partition=0)
    kafka.delete_records(topic, {0: 20})
    with pytest.raises(PenstockError) as caught:
        session.run(copy(kafka, topic), name="p", until_caught_up=True)
    assert caught.value.code == "data-loss"
    assert topic in caught.value.message
    assert "messages 10 to 19 are gone" in caught.value.message
    assert "reset" in str(caught.value.hint)
    assert ids() == list(range(10)), "nothing is skipped over"


def test_a_topic_is_deleted(session: Session, kafka: Kafka, topic: str) -> None:
    put(kafka, topic, *range(10))
    session.run(copy(kafka, topic), name="p", until_caught_up=True)
    kafka.delete_topic(topic)
    with pytest.raises(PenstockError) as caught:
        session.run(copy(kafka, topic), name="p", until_caught_up=True)
    assert caught.value.code in ("data-loss", "missing-topic")
    kafka.create_topic(topic, 2)
    put(kafka, topic, 1)
    with pytest.raises(PenstockError) as caught:
        session.run(copy(kafka, topic), name="p", until_caught_up=True)
    assert caught.value.code == "data-loss"
    assert ids() == list(range(10))


def test_a_topic_is_deleted_while_it_is_read(session: Session, kafka: Kafka, topic: str) -> None:
    put(kafka, topic, *range(10))
    pipeline = session.start(copy(kafka, topic), name="p")
    happens(pipeline, lambda: pipeline.progress.rows == 10, "the first rows")
    kafka.delete_topic(topic)
    with pytest.raises(PenstockError) as caught:
        pipeline.wait(170)
    assert caught.value.code in ("data-loss", "missing-topic")
    assert ids() == list(range(10))
