"""What Kafka's clients say on workers, Java's through Spark and librdkafka, -> our errors."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock.connectors.telling import lost, text_of
from penstock.errors import DataError, PenstockError, RunError
from penstock.streams.kafka.errors import bad_credentials, denied, kind_of, no_answer, plain, tls

if TYPE_CHECKING:
    from penstock.streams.kafka.connection import Connection

_MARKER = "PENSTOCK-KAFKA "
_PASSING = re.compile(
    r"org\.apache\.kafka\.common\.errors\.(?:Timeout|Disconnect|Network|NotLeaderOrFollower|LeaderNotAvailable"
    r"|NotCoordinator|CoordinatorNotAvailable|CoordinatorLoadInProgress|BrokerNotAvailable|KafkaStorage"
    r"|NotEnoughReplicas|NotEnoughReplicasAfterAppend|UnknownTopicOrPartition|ReplicaNotAvailable|Retriable"
    r"|RebootstrapRequired|NotController|ConcurrentTransactions|FencedLeaderEpoch|UnknownLeaderEpoch"
    r"|OffsetNotAvailable|ListenerNotFound)Exception"
)
_OURS = {"broker-unreachable"}
"""Codes of ours that may go away."""


class Told(Exception):
    """What a worker tells the driver: `kind` is how `explain` takes it."""

    def __init__(self, kind: str, reason: str, payload: str | None = None) -> None:
        super().__init__(_MARKER + json.dumps({"kind": kind, "reason": reason, "payload": payload}))


def told_by(failure: Any) -> Told:
    """What librdkafka raised on a worker, ready for the driver."""
    error = failure.args[0] if isinstance(failure, Exception) else failure
    return Told(kind_of(error), plain(error.str()))


def is_passing(failure: Exception) -> bool:
    """Whether trying again makes sense."""
    if isinstance(failure, PenstockError):
        return failure.code in _OURS
    text = text_of(failure)
    told = _told(text)
    if told is not None:
        return bool(told["kind"] == "unreachable")
    return _loss(text, None) is None and _PASSING.search(text) is not None


def explain(failure: Exception, options: Connection) -> PenstockError | None:
    """Our error for a failure that Kafka is the cause of; None for others."""
    text = text_of(failure)
    told = _told(text)
    if told is not None:
        return _KINDS[told["kind"]](options, told["reason"], told["payload"])
    loss = _loss(text, options)
    if loss is not None:
        return loss
    for pattern, make in _JAVA.items():
        found = re.search(pattern, text)
        if found:
            return make(options, found["reason"].strip(), None)
    return None


def _told(text: str) -> dict[str, Any] | None:
    _, found, rest = text.partition(_MARKER)
    if not found:
        return None
    told: dict[str, Any] = json.JSONDecoder().raw_decode(rest)[0]
    return told


def _loss(text: str, options: Connection | None) -> DataError | None:
    """The error for messages that are gone before they were read."""
    moved = re.search(r"Partition (\S+)-(\d+) offset was changed from (\d+) to (\d+)", text)
    if moved:
        topic, partition, old, new = moved.groups()
        return lost(
            f"topic '{topic}', partition {partition} ends at offset {new}, before our position {old}: it was"
            " deleted and made again, or `start` is beyond its end"
        )
    gone = re.search(r"Partitions Set\((.+?)\) have been deleted", text)
    if gone:
        return lost(f"partitions are gone: {gone[1]}; their topic was deleted")
    behind = re.search(r"FetchPosition\{offset=(\d+),.*? out of range for partition (\S+)-(\d+)", text)
    if behind:
        return _behind(int(behind[1]), behind[2], int(behind[3]), options)
    if "Some data may have been lost" in text or "KAFKA_DATA_LOSS" in text:
        return lost("messages are gone from Kafka before they were read")
    return None


def _behind(position: int, topic: str, partition: int, options: Connection | None) -> DataError:
    first = None if options is None else _first(options, topic, partition)
    which = f"{position} to {first - 1}" if first is not None and first > position else f"from {position} on"
    return lost(f"topic '{topic}', partition {partition}: messages {which} are gone before they were read")


def _first(options: Connection, topic: str, partition: int) -> int | None:
    """The first offset that can be read now, if the brokers tell."""
    from penstock.streams.kafka.client import Cluster
    from penstock.streams.kafka.offsets import EARLIEST, listed

    place = (topic, partition)
    try:
        return listed(Cluster(options), {place: EARLIEST})[place]
    except PenstockError:
        return None


def _refused(options: Connection, reason: str, payload: str | None = None) -> DataError:
    row = f": {payload}" if payload else ""
    topic = getattr(options, "topic", None)
    where = f"topic '{topic}'" if topic else "Kafka"
    return DataError(
        "row-refused",
        f"{where} refuses a row, {reason}{row}",
        hint="on_error = 'skip' drops such rows and counts them, 'dead_letter' keeps them aside",
    )


def _fenced(options: Connection, reason: str, payload: str | None = None) -> RunError:
    return RunError("fenced", "another run of this pipeline has taken over, and this one is shut out")


def _bad_setting(options: Connection, reason: str, payload: str | None = None) -> DataError:
    return DataError("bad-setting", f"Kafka does not take a setting: {reason}")


def _failed(options: Connection, reason: str, payload: str | None = None) -> RunError:
    return RunError("kafka", f"Kafka at {options.bootstrap_servers}: {reason}")


_Maker = Callable[["Connection", str, "str | None"], PenstockError]
_KINDS: dict[str, _Maker] = {
    "refused": _refused,
    "fenced": _fenced,
    "unreachable": no_answer,
    "credentials": bad_credentials,
    "tls": tls,
    "setting": _bad_setting,
    "denied": denied,
    "failed": _failed,
}
_CLASS = r"org\.apache\.kafka\.common\.errors\.{}Exception:(?P<reason>.*)"
_JAVA: dict[str, _Maker] = {
    _CLASS.format("SaslAuthentication"): bad_credentials,
    r"SSLHandshakeException:(?P<reason>.*)": tls,
    _CLASS.format("SslAuthentication"): tls,
    _CLASS.format("RecordTooLarge"): _refused,
    r"org\.apache\.kafka\.common\.(?:errors\.)?InvalidRecordException:(?P<reason>.*)": _refused,
    _CLASS.format("InvalidTimestamp"): _refused,
    r"(?P<reason>Failed to append record because it was part of a batch.*)": _refused,
    _CLASS.format(r"(?:Topic|Group|Cluster|TransactionalId)?Authorization"): denied,
    _CLASS.format(r"(?:ProducerFenced|InvalidProducerEpoch)"): _fenced,
    r"org\.apache\.kafka\.common\.config\.ConfigException:(?P<reason>.*)": _bad_setting,
    r"Failed to (?:resolve|construct)[^\n]*\n.*?ConfigException:(?P<reason>.*)": _bad_setting,
    _PASSING.pattern + r":(?P<reason>.*)": no_answer,
}
"""In this order: what is said first is nearer to the cause."""
