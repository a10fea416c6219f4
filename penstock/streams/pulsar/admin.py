"""Looks after the topics of a namespace, by the admin REST."""

from __future__ import annotations

import time
import uuid
from collections import defaultdict
from datetime import timedelta
from typing import Any

from penstock.errors import InputError, PenstockError
from penstock.streams.base import Admin, Client, Description, Retention, Shard
from penstock.streams.message import Message
from penstock.streams.pulsar.connection import Cluster
from penstock.streams.pulsar.consumer import IDENTITY
from penstock.streams.pulsar.cursors import Cursor
from penstock.streams.pulsar.rest import PARTITIONED, Refused, Rest
from penstock.streams.pulsar.topics import PARTITION, Namespace, Topic

AGE, SIZE = "penstock-age", "penstock-size"
UNKNOWN, CONFLICTING = 405, 412
KNOWN = 20.0
"""Seconds in which the brokers know a setting; far more than it takes."""
PAUSE = 0.02
_MINUTE = timedelta(minutes=1)
_MEGABYTE = 1 << 20


class PulsarAdmin(Admin):
    def __init__(self, cluster: Cluster, rest: Rest, namespace: Namespace) -> None:
        self._cluster = cluster
        self._rest = rest
        self._namespace = namespace

    def close(self) -> None:
        """The streamer holds the connection."""

    def streams(self) -> list[str]:
        try:
            topics = self._rest.call("GET", f"persistent/{self._namespace}")
            whole = self._rest.call("GET", f"persistent/{self._namespace}/partitioned")
        except Refused as failure:
            raise _failed(self._rest, failure, self._namespace) from None
        names = {full.rpartition("/")[2] for full in [*topics, *whole]}
        return sorted(n for n in names if not PARTITION.search(n) and not n.startswith("__"))

    def create(self, stream: str, *, shards: int = 1, retention: Retention | None = None) -> None:
        if shards < 1:
            raise InputError("bad-shards", f"a stream has one shard at least, not {shards}")
        create(self._rest, self._namespace.topic(stream), shards, retention or Retention())

    def describe(self, stream: str) -> Description:
        topic = self._topic(stream)
        told = [self._rest.stats(shard) for shard in topic.shards()]
        lag: dict[str, int] = defaultdict(int)
        online: dict[tuple[str, str], list[int]] = defaultdict(list)
        for number, stats in enumerate(told):
            for group, subscription in stats["subscriptions"].items():
                if not subscription.get("isDurable", subscription.get("durable", True)):
                    continue  # of a reader, which has no group
                lag[group] += int(subscription["msgBacklog"])
                for consumer in subscription["consumers"]:
                    held = online[consumer["consumerName"], group]
                    if subscription.get("activeConsumerName") in (None, "", consumer["consumerName"]):
                        held.append(number)
        producers = sorted({p["producerName"] for stats in told for p in stats["publishers"]})
        return Description(
            stream,
            tuple(self._shard(n, shard, told[n]) for n, shard in enumerate(topic.shards())),
            size=sum(int(stats["storageSize"]) for stats in told),
            retention=self._retention(topic),
            producers=tuple(Client(name) for name in producers),
            consumers=tuple(Client(name, group, tuple(on)) for (name, group), on in sorted(online.items())),
            lag=dict(lag),
        )

    def latest(self, stream: str) -> Message | None:
        found = []
        for number, shard in enumerate(self._topic(stream).shards()):
            message = Cursor(self._cluster, self._rest, shard, number).newest()
            if message is not None:
                found.append(message)
        return max(found, key=lambda m: (m.message.publish_timestamp(), m.id), default=None)

    def delete(self, stream: str) -> None:
        topic = self._topic(stream)
        path = f"{topic.path}/partitions" if topic.partitions else topic.path
        try:
            self._rest.call("DELETE", path, force="true")
        except Refused as failure:
            raise self._rest.failed(failure, stream) from None

    def _topic(self, stream: str) -> Topic:
        return self._rest.topic(self._namespace.topic(stream))

    def _shard(self, number: int, topic: Topic, stats: dict[str, Any]) -> Shard:
        first = self._rest.first(topic)
        last = None if first is None else self._rest.last(topic)
        return Shard(
            number,
            None if first is None else str(first),
            None if last is None else str(last),
            int(stats["msgInCounter"]),
        )

    def _retention(self, topic: Topic) -> Retention:
        """As it was asked for, where Pulsar still keeps that: it has minutes and megabytes alone."""
        try:
            told = self._rest.call("GET", f"{topic.path}/retention", applied="true") or {}
        except Refused as failure:
            raise self._rest.failed(failure, topic.stream) from None
        asked = self._rest.properties(topic)
        minutes, megabytes = int(told.get("retentionTimeInMinutes", 0)), int(told.get("retentionSizeInMB", 0))
        age = timedelta(seconds=float(asked[AGE])) if AGE in asked else minutes * _MINUTE
        size = int(asked[SIZE]) if SIZE in asked else megabytes * _MEGABYTE
        if _minutes(age) != minutes:
            age = minutes * _MINUTE
        if _megabytes(size) != megabytes:
            size = megabytes * _MEGABYTE
        return Retention(None if minutes < 0 else age, None if megabytes < 0 else size)


def create(rest: Rest, topic: Topic, shards: int, retention: Retention) -> None:
    """Makes a topic that keeps its messages; by itself Pulsar deletes what all groups have read."""
    asked = {IDENTITY: uuid.uuid4().hex}
    if retention.age is not None:
        asked[AGE] = str(retention.age.total_seconds())
    if retention.size is not None:
        asked[SIZE] = str(retention.size)
    try:
        if shards == 1:
            rest.call("PUT", topic.path, asked)
        else:
            body = {"partitions": shards, "properties": asked}
            rest.call("PUT", f"{topic.path}/partitions", body, kind=PARTITIONED)
    except Refused as failure:
        if failure.status != 409:
            raise _failed(rest, failure, topic.namespace) from None
        if not (failure.again and _made_before(rest, topic, asked)):
            raise InputError("exists", f"there is a stream '{topic.stream}'") from None
    try:
        _keep(rest, topic, retention)
    except Refused as failure:
        # A broker may have no such settings; who asked for none is not troubled with that.
        if retention != Retention() or failure.status != UNKNOWN:
            raise rest.failed(failure, topic.stream) from None


def _made_before(rest: Rest, topic: Topic, asked: dict[str, str]) -> bool:
    """Whether an earlier try has made the topic, whole or without properties, though its broker failed."""
    there = rest.properties(topic)
    if not there:
        rest.give(topic, asked)
        there = rest.properties(topic)
    return there.get(IDENTITY) == asked[IDENTITY]


def _keep(rest: Rest, topic: Topic, retention: Retention) -> None:
    """Sets the retention, and returns when the brokers know it, which takes a moment."""
    wanted = {
        "retentionTimeInMinutes": -1 if retention.age is None else _minutes(retention.age),
        "retentionSizeInMB": -1 if retention.size is None else _megabytes(retention.size),
    }
    if retention != Retention():
        # A topic may not keep less than its groups may leave unread.
        endless = {"limitSize": -1, "limitTime": -1, "policy": "producer_request_hold"}
        for kind in ("destination_storage", "message_age"):
            rest.call("POST", f"{topic.path}/backlogQuota", endless, backlogQuotaType=kind)
    end = time.monotonic() + KNOWN
    while True:
        try:
            rest.call("POST", f"{topic.path}/retention", wanted)
            break
        except Refused as failure:
            if failure.status != CONFLICTING or time.monotonic() > end:
                raise
        time.sleep(PAUSE)
    while time.monotonic() < end:
        told = rest.call("GET", f"{topic.path}/retention") or {}
        if wanted.items() <= told.items():
            return
        time.sleep(PAUSE)


def _failed(rest: Rest, failure: Refused, namespace: Namespace) -> PenstockError:
    if failure.status == 404:
        return InputError("missing-namespace", f"the Pulsar cluster has no namespace '{namespace}'")
    return rest.failed(failure)


def _minutes(age: timedelta) -> int:
    return -(-age // _MINUTE)


def _megabytes(size: int) -> int:
    return -(-size // _MEGABYTE)
