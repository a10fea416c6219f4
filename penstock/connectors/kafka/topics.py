"""Topics that rows go to: made where they are missing, and asked what they take."""

from __future__ import annotations

import time
from typing import Any

from penstock.connectors.kafka.chunks import Target
from penstock.connectors.kafka.client import PATIENCE, Cluster
from penstock.connectors.kafka.options import Sink
from penstock.errors import DataError, OptionError, PenstockError, did_you_mean

_DEFAULT = -1
"""What Kafka takes for: as the brokers are set."""
_known: dict[tuple[str, str], Target] = {}


def ready(sink: Sink) -> Target:
    """The sink's topic, made now if need be; when the rows name theirs, at least the brokers are there."""
    cluster = Cluster(sink)
    there = cluster.topics()
    if sink.topic is None:
        return Target(None)
    if sink.topic not in there:
        if not sink.create_topic:
            raise DataError(
                "missing-topic",
                f"there is no topic '{sink.topic}' at {sink.bootstrap_servers}",
                hint=f"create_topic = true makes it; {did_you_mean(sink.topic, there) or ''}".rstrip("; "),
            )
        _create(cluster, sink)
        there = _seen(cluster, sink.topic)
    topic = _asked(cluster, sink.topic, len(there[sink.topic]))
    _known[sink.bootstrap_servers, sink.topic] = topic
    return topic


def known(sink: Sink) -> Target:
    """The same, without asking again what this process has heard before."""
    found = _known.get((sink.bootstrap_servers, sink.topic or ""))
    return found or ready(sink)


def _create(cluster: Cluster, sink: Sink) -> None:
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.cimpl import NewTopic

    assert sink.topic is not None
    config = dict(sink.topic_config)
    partitions, copies = (_count(config.pop(n, _DEFAULT), n) for n in ("partitions", "replication_factor"))
    settings = {key: _text(value) for key, value in config.items()}
    topic = NewTopic(sink.topic, partitions, copies, config=settings)
    try:
        cluster.admin.create_topics([topic], request_timeout=PATIENCE)[sink.topic].result(PATIENCE)
    except KafkaException as failure:
        error = failure.args[0]
        if error.code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise _refused(cluster, sink.topic, error) from None


def _refused(cluster: Cluster, name: str, error: Any) -> PenstockError:
    from confluent_kafka import KafkaError

    wrong = (
        KafkaError.INVALID_CONFIG, KafkaError.INVALID_PARTITIONS, KafkaError.INVALID_REPLICATION_FACTOR,
        KafkaError.POLICY_VIOLATION, KafkaError.TOPIC_EXCEPTION, KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    )  # fmt: skip
    if error.code() not in wrong:
        return cluster.explained(error)
    return DataError(
        "topic-refused",
        f"the broker at {cluster.options.bootstrap_servers} does not make topic '{name}': {error.str()}",
        hint="topic_config says how; with create_topic = false it must be there already",
    )


def _count(value: Any, name: str) -> int:
    if isinstance(value, bool) or not str(value).lstrip("-").isdecimal():
        raise OptionError("bad-option", f"option 'topic_config.{name}' of kafka: expected a whole number")
    return int(value)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _seen(cluster: Cluster, name: str) -> dict[str, list[int]]:
    """Waits until the brokers, who hear of a new topic from the controller, all have it."""
    end = time.monotonic() + PATIENCE
    while name not in (there := cluster.topics()) and time.monotonic() < end:
        time.sleep(0.02)
    if name not in there:
        raise DataError("missing-topic", f"topic '{name}' was made, but no broker has it")
    return there


def _asked(cluster: Cluster, name: str, partitions: int) -> Target:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin._config import ConfigResource

    resource = ConfigResource(ConfigResource.Type.TOPIC, name)
    try:
        answers = cluster.admin.describe_configs([resource], request_timeout=PATIENCE)
        told = {key: entry.value for key, entry in answers[resource].result(PATIENCE).items()}
    except KafkaException:  # not everybody may ask
        told = {}
    largest = int(told.get("max.message.bytes") or 0) or 1_048_588
    return Target(name, partitions, largest, "compact" in str(told.get("cleanup.policy")))
