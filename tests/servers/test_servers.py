"""The servers are real: they keep, refuse and forget as those in production do."""

from __future__ import annotations

from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen
from uuid import uuid4

import pytest
from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient

from tests.servers.cluster import Cluster
from tests.servers.kafka import PROTOCOLS, Kafka, Record
from tests.servers.process import ServerError
from tests.servers.pulsar import Pulsar
from tests.servers.registry import Refused, Registry
from tests.waiting import until

pytestmark = pytest.mark.server


@pytest.fixture
def topic(kafka: Kafka) -> str:
    """A topic of two partitions."""
    name = f"t-{uuid4()}"
    kafka.create_topic(name, 2)
    return name


def values(kafka: Kafka, topic: str, isolation: str = "read_committed") -> list[str]:
    return [str(row.value, "utf-8") for row in kafka.rows(topic, isolation) if isinstance(row.value, bytes)]


def test_what_is_sent_is_read_whole(kafka: Kafka, topic: str) -> None:
    headers = (("h", b"1"), ("h", None))
    kafka.produce(topic, [("k", "v", headers, 1_700_000_000_000, 1), (None, None, (), 5, 0)])
    assert kafka.rows(topic) == [
        Record(None, None, (), 5, 0, 0),
        Record(b"k", b"v", headers, 1_700_000_000_000, 1, 0),
    ]
    assert kafka.end_offsets(topic) == {0: 1, 1: 1}


def test_killed_and_started_again_it_has_all(kafka: Kafka, topic: str) -> None:
    kafka.produce(topic, [(str(n), str(n)) for n in range(10_000)])
    before, pid = kafka.rows(topic), kafka.pid
    with kafka.down():
        pass
    assert kafka.pid != pid
    assert len(before) == 10_000
    assert kafka.rows(topic) == before


def test_only_committed_transactions_are_seen(kafka: Kafka, topic: str) -> None:
    producer = kafka.producer({"transactional.id": topic})
    producer.init_transactions(60)
    for value in ("committed", "aborted", "open"):
        producer.begin_transaction()
        producer.produce(topic, value, partition=0)
        producer.flush(60)
        if value == "committed":
            producer.commit_transaction(60)
        elif value == "aborted":
            producer.abort_transaction(60)
    # The marks that end a transaction are written after it is over for its producer.
    until(lambda: values(kafka, topic) == ["committed"], "the first is seen, and no other")
    assert values(kafka, topic, "read_uncommitted") == ["committed", "aborted", "open"]
    assert kafka.end_offsets(topic, "read_committed")[0] < kafka.end_offsets(topic)[0]
    producer.commit_transaction(60)
    until(lambda: values(kafka, topic) == ["committed", "open"], "the last is seen, too")


def test_topics_change(kafka: Kafka, topic: str) -> None:
    kafka.produce(topic, [(None, str(n), (), None, 0) for n in range(5)])
    kafka.delete_records(topic, {0: 3})
    assert values(kafka, topic) == ["3", "4"]
    kafka.add_partitions(topic, 3)
    assert kafka.end_offsets(topic) == {0: 5, 1: 0, 2: 0}
    kafka.delete_topic(topic)
    assert kafka.partitions(topic) == []


def test_a_missing_topic_is_not_made(kafka: Kafka) -> None:
    assert kafka.partitions("missing") == []
    with pytest.raises(ServerError, match="Unknown topic"):
        kafka.produce("missing", [("k", "v")])
    assert kafka.partitions("missing") == []


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_each_listener_lets_in(kafka: Kafka, topic: str, protocol: str) -> None:
    assert topic in AdminClient(kafka.client(protocol)).list_topics(timeout=60).topics


@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_a_wrong_password_is_refused(kafka: Kafka, protocol: str) -> None:
    assert refusal(kafka.client(protocol, password="wrong")) == KafkaError._AUTHENTICATION


def test_a_certificate_that_is_not_trusted_is_refused(kafka: Kafka) -> None:
    told = kafka.client("SSL")
    del told["ssl.ca.location"]
    assert refusal(told) == KafkaError._SSL


def refusal(told: dict[str, Any]) -> int:
    """The first error that a client is told of itself, and not of a connection that was lost before it was
    tried; a call of it would only say that nobody answers."""
    errors: list[KafkaError] = []
    admin = AdminClient(told | {"error_cb": errors.append})
    passing = (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN)

    def found() -> list[int]:
        admin.poll(0.1)
        return [error.code() for error in errors if error.code() not in passing]

    until(found, "a refusal")
    return found()[0]


def avro(**fields: object) -> dict[str, object]:
    """A schema: a name's value is its type, with a default when it is a pair."""
    listed = [
        {"name": name, "type": type[0], "default": type[1]}
        if isinstance(type, tuple)
        else {"name": name, "type": type}
        for name, type in fields.items()
    ]
    return {"type": "record", "name": "event", "fields": listed}


def test_the_registry_hands_out_what_was_registered(registry: Registry) -> None:
    subject = f"s-{uuid4()}"
    first = registry.register(subject, avro(id="long"))
    second = registry.register(subject, avro(id="long", name=("string", "")))
    assert registry.schema(first) == avro(id="long")
    assert registry.versions(subject) == [1, 2]
    assert registry.register(subject, avro(id="long")) == first != second


def test_the_registry_refuses_an_incompatible_schema(registry: Registry) -> None:
    subject = f"s-{uuid4()}"
    registry.register(subject, avro(id="long"))
    registry.set_compatibility(subject, "BACKWARD")
    with pytest.raises(Refused) as raised:
        registry.register(subject, avro(id="long", name="string"))
    assert raised.value.status == 409
    registry.set_compatibility(subject, "NONE")
    registry.register(subject, avro(id="long", name="string"))


def test_an_unknown_id_is_refused(registry: Registry) -> None:
    with pytest.raises(Refused) as raised:
        registry.schema(999_999)
    assert raised.value.status == 404


def test_a_cluster_that_was_killed_is_back(cluster: Cluster) -> None:
    before = [cluster.master.pid, *(worker.pid for worker in cluster.workers)]
    cluster.restart()
    state = cluster.state()
    assert (state["url"], state["aliveworkers"], state["cores"]) == (cluster.url, 2, 2)
    assert not {cluster.master.pid, *(worker.pid for worker in cluster.workers)} & set(before)


def test_pulsar_asks_for_a_token(pulsar: Pulsar) -> None:
    assert pulsar.call("GET", "tenants") == ["public", "pulsar"]
    with pytest.raises(HTTPError) as refused:
        urlopen(f"{pulsar.admin}/admin/v2/tenants", timeout=60)
    refused.value.close()
    assert refused.value.code == 401
