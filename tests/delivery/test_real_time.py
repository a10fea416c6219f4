"""Rows that pass one by one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from penstock.api import Session, Text
from penstock.errors import PenstockError
from tests.servers.kafka import Kafka
from tests.waiting import until

if TYPE_CHECKING:
    pass

pytestmark = [pytest.mark.spark, pytest.mark.server]


def statement(kafka: Kafka, topic: str, more: str = "", into: str = "") -> str:
    return f"""
        SELECT id, id * 2 AS twice, _key FROM 'kafka://{kafka.bootstrap}/{topic}'
        WITH (performance_profile = 'ultra_low_latency'{more}) WHERE id % 2 = 0
        INTO 'kafka://{kafka.bootstrap}/{topic}-out' {into}
    """


def put(kafka: Kafka, topic: str, *ids: int) -> None:
    kafka.produce(topic, ((f"k{n}", json.dumps({"id": n})) for n in ids))


def sent(kafka: Kafka, topic: str) -> list[tuple[int, bytes]]:
    records = kafka.rows(f"{topic}-out")
    return [(json.loads(record.value or "")["twice"], record.key) for record in records]  # type: ignore[misc]


def test_rows_pass_one_by_one(session: Session, kafka: Kafka) -> None:
    kafka.create_topic("live", 2)
    put(kafka, "live", *range(10))
    text = statement(kafka, "live")
    (plan,) = session.run(f"EXPLAIN {text}")
    assert isinstance(plan, Text)
    assert "stream in real time" in plan.text
    pipeline = session.start(text, name="live")
    try:
        until(lambda: len(sent(kafka, "live")) == 5 or pipeline.wait(0), "what is there")
        put(kafka, "live", *range(10, 20))
        until(lambda: len(sent(kafka, "live")) == 10 or pipeline.wait(0), "what comes later")
        # In one batch, which is not over: nothing but real-time mode does that.
        folder = session.state / "pipelines" / pipeline.id / "checkpoint"
        assert not (folder / "commits" / "0").exists()
    finally:
        pipeline.stop()
    assert pipeline.wait(60)
    assert sorted(sent(kafka, "live")) == [(2 * n, f"k{n}".encode()) for n in range(0, 20, 2)]
    pipeline = session.start(text, name="live")
    try:
        put(kafka, "live", 20)
        until(lambda: (40, b"k20") in sent(kafka, "live") or pipeline.wait(0), "what comes after a restart")
    finally:
        pipeline.stop()
    assert pipeline.wait(60)


@pytest.mark.parametrize(
    ("more", "into", "why"),
    [
        (", on_error = 'skip'", "", "no dead letters"),
        ("", "WITH (delivery_guarantee = 'exactly_once')", "at least once"),
        (", format = 'msgpack'", "", "format 'msgpack'"),
        ("", "WITH (rate_limit = 5)", "rate_limit"),
    ],
)
def test_what_cannot_pass_so_goes_in_batches(
    session: Session, kafka: Kafka, more: str, into: str, why: str
) -> None:
    (plan,) = session.run(f"EXPLAIN {statement(kafka, 'any', more, into)}")
    assert isinstance(plan, Text)
    assert "stream in batches" in plan.text
    assert why in plan.text


def test_too_few_slots_are_told(session: Session, kafka: Kafka) -> None:
    from penstock.api import Running

    kafka.create_topic("wide", 9)
    put(kafka, "wide", *range(10))
    told: list[str] = []
    outcomes = session.run_each(session.check(statement(kafka, "wide")), Running("wide", tell=told.append))
    next(outcomes)
    (pipeline,) = session.running
    until(lambda: len(sent(kafka, "wide")) == 5 or pipeline.wait(0), "the rows, in batches")
    pipeline.stop()
    assert pipeline.wait(60)
    assert any("it needs 9 tasks at once" in text for text in told)


def test_a_bad_message_stops_it(session: Session, kafka: Kafka) -> None:
    kafka.create_topic("live-bad", 1)
    put(kafka, "live-bad", 2)
    pipeline = session.start(statement(kafka, "live-bad"), name="bad")
    try:
        until(lambda: len(sent(kafka, "live-bad")) == 1 or pipeline.wait(0), "the good one")
        kafka.produce("live-bad", [(None, "{bad")])
        with pytest.raises(PenstockError) as caught:
            pipeline.wait(120)
        assert caught.value.code == "bad-record"
    finally:
        pipeline.stop()
