"""Topics that rows go to: made where they are missing, and asked what they take."""

from __future__ import annotations

from typing import Any

from penstock.connectors.kafka.chunks import Target
from penstock.connectors.kafka.options import Sink
from penstock.errors import DataError, OptionError, did_you_mean
from penstock.streams.kafka.client import AS_SET, Cluster

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
        there = cluster.topics()
    topic = _asked(cluster, sink.topic, len(there[sink.topic]))
    _known[sink.bootstrap_servers, sink.topic] = topic
    return topic


def known(sink: Sink) -> Target:
    """The same, without asking again what this process has heard before."""
    found = _known.get((sink.bootstrap_servers, sink.topic or ""))
    return found or ready(sink)


def _create(cluster: Cluster, sink: Sink) -> None:
    assert sink.topic is not None
    config = dict(sink.topic_config)
    partitions, copies = (_count(config.pop(n, AS_SET), n) for n in ("partitions", "replication_factor"))
    settings = {key: _text(value) for key, value in config.items()}
    hint = "topic_config says how; with create_topic = false it must be there already"
    cluster.create(sink.topic, partitions, copies, settings, hint=hint)


def _count(value: Any, name: str) -> int:
    if isinstance(value, bool) or not str(value).lstrip("-").isdecimal():
        raise OptionError("bad-option", f"option 'topic_config.{name}' of kafka: expected a whole number")
    return int(value)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _asked(cluster: Cluster, name: str, partitions: int) -> Target:
    told = cluster.config_of(name)
    largest = int(told.get("max.message.bytes") or 0) or 1_048_588
    return Target(name, partitions, largest, "compact" in str(told.get("cleanup.policy")))
