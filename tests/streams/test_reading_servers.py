"""What is read up to its end comes whole, though servers go away, and count what they never give out."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from threading import Timer
from typing import Any

import pytest

from penstock.errors import SetupError
from penstock.streams import Streamer, connect
from penstock.streams.reading import Reading
from tests.servers.kafka import Kafka
from tests.waiting import until

from .talking import numbers, put

pytestmark = pytest.mark.server

OUTAGE = 4.0
"""Seconds."""


def running(request: pytest.FixtureRequest, system: str) -> tuple[str, Any]:
    """The URI of a server, and the server."""
    found: Any = request.getfixturevalue(system)
    address = found.bootstrap if system == "kafka" else found.address
    return f"{system}://{address}", found


@pytest.fixture(params=["redis", "nats"])
def server(request: pytest.FixtureRequest) -> tuple[str, Any]:
    return running(request, request.param)


def read(reading: Reading, meanwhile: Callable[[int], object] = lambda count: None) -> list[str]:
    """All that comes; `meanwhile` is called with the number of messages that came."""
    got: list[str] = []
    with reading:
        for batch in reading.batches(lambda: False, lambda: 100):
            got += [message.text() for message in batch]
            meanwhile(len(got))
    return got


class Outage:
    """Kills the server in the middle, and lets it be back after a while."""

    def __init__(self, server: Any) -> None:
        self._server = server
        self.over = Timer(OUTAGE, server.start)

    def __call__(self, count: int) -> None:
        if count >= 100 and self.over.ident is None:
            self._server.kill()
            self.over.start()


@pytest.mark.parametrize("group", [None, "g"])
# Kafka's client fetches far ahead of its readers.
@pytest.mark.parametrize(("system", "count"), [("redis", 3000), ("nats", 3000), ("kafka", 300_000)])
def test_an_outage_in_the_middle_loses_nothing(
    request: pytest.FixtureRequest, system: str, count: int, stream: str, group: str | None
) -> None:
    uri, process = running(request, system)
    outage = Outage(process)
    with connect(f"{uri}/{stream}") as streamer:
        put(streamer, stream, count)
        try:
            got = read(Reading(streamer, group=group), outage)
        finally:
            outage.over.join()
    # A group is given some again, if it did not get so far as to acknowledge them.
    assert (got if group is None else sorted(set(got), key=int)) == numbers(0, count)


def test_a_server_that_stays_away_is_told(server: tuple[str, Any], stream: str) -> None:
    uri, process = server
    with connect(f"{uri}/{stream}?timeout=2s") as streamer:
        put(streamer, stream, 3000)
        reading = Reading(streamer)
        with pytest.raises(SetupError) as told, process.down():
            read(reading)
    assert told.value.code == "server-unreachable"


def test_a_last_message_that_was_deleted_is_not_waited_for(redis: Any, stream: str) -> None:
    with connect(f"redis://{redis.address}/{stream}") as streamer:
        places = put(streamer, stream, 5)
        for group in (None, "g"):
            reading = Reading(streamer, group=group)
            with redis.client() as client:
                client.xdel(stream, places.pop().sequence)
            assert read(reading) == numbers(0, len(places))


@pytest.fixture
def cluster(kafka: Any, stream: str) -> Iterator[Streamer]:
    with connect(f"kafka://{kafka.bootstrap}/{stream}") as streamer:
        yield streamer


@pytest.mark.parametrize("group", [None, "g"])
def test_marks_of_transactions_at_the_end_are_no_messages(
    kafka: Any, cluster: Streamer, stream: str, group: str | None
) -> None:
    with cluster.admin() as admin:
        admin.create(stream, shards=2)
    with cluster.producer(stream, delivery="exactly_once") as producer:
        with producer.transaction():
            for n in range(20):
                producer.send(f"{n}", key=f"{n}")
        with contextlib.suppress(ZeroDivisionError), producer.transaction():
            for n in range(20):
                producer.send("lost", key=f"{n}")
            raise ZeroDivisionError
    # Brokers mark what is committed a moment after they have said so.
    until(lambda: kafka.end_offsets(stream, "read_committed") == kafka.end_offsets(stream), "it is marked")
    name = None if group is None else f"{group}-{stream}"
    assert sorted(read(Reading(cluster, group=name)), key=int) == numbers(0, 20)
    # A group goes on after the marks.
    assert len(read(Reading(cluster, group=name))) == (20 if group is None else 0)


def test_a_new_group_is_waited_for(tmp_path_factory: pytest.TempPathFactory, stream: str) -> None:
    """Brokers take three seconds to let the first members of a group in, as they are set at first."""
    settings = {"group.initial.rebalance.delay.ms": "3000"}
    with (
        Kafka(tmp_path_factory.mktemp("kafka"), settings=settings) as broker,
        connect(f"kafka://{broker.bootstrap}/{stream}") as streamer,
    ):
        put(streamer, stream, 50)
        assert read(Reading(streamer, group="g")) == numbers(0, 50)
