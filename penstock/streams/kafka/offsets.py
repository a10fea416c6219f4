"""Offsets of partitions, as the brokers tell them."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import TYPE_CHECKING, Any

from penstock.errors import InputError
from penstock.streams.base import Start
from penstock.streams.kafka.client import PATIENCE, Cluster
from penstock.streams.kafka.messages import milliseconds

if TYPE_CHECKING:
    from confluent_kafka import TopicPartition

Place = tuple[str, int]
"""A topic and a partition."""
Offsets = dict[Place, int]
EARLIEST, LATEST = -2, -1
"""What Kafka's clients, and Spark, write for an offset that is not known yet."""


def listed(
    cluster: Cluster, partitions: Offsets, *, time: int | None = None, committed: bool = True
) -> Offsets:
    """The offsets that the brokers tell; -1 where no message is as late as `time`."""
    from confluent_kafka import IsolationLevel, TopicPartition, admin

    spec: Any = vars(admin)["OffsetSpec"]  # untyped there
    specs = {EARLIEST: spec.earliest(), LATEST: spec.latest()}
    asked = {
        TopicPartition(*place): specs[kind] if time is None else spec.for_timestamp(time)
        for place, kind in partitions.items()
    }
    level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
    told = cluster.answers(
        lambda: cluster.admin.list_offsets(asked, isolation_level=level, request_timeout=PATIENCE)
    )
    return {(place.topic, place.partition): found.offset for place, found in told.items()}


def placed(cluster: Cluster, places: Collection[Place], to: Start) -> Offsets:
    """Where reading goes on at `to`; a shard that has not come so far goes on at its end."""
    if to == "earliest" or not places:
        return dict.fromkeys(places, EARLIEST)
    ends = listed(cluster, dict.fromkeys(places, LATEST), committed=False)
    if to == "latest":
        return ends
    if isinstance(to, datetime):
        # Kafka counts milliseconds: what is within the one that `to` stands in may be older.
        time = milliseconds(to) + (1 if to.microsecond % 1000 else 0)
        found = listed(cluster, dict.fromkeys(places, EARLIEST), time=max(0, time), committed=False)
        return {place: ends[place] if offset < 0 else offset for place, offset in found.items()}
    return {place: min(sequence_of(to), end) for place, end in ends.items()}


def counted(cluster: Cluster, offsets: Offsets) -> Offsets:
    """The same with a number for each that is `EARLIEST`.

    A client that is told no number asks for it, and goes there when the answer comes: even if it was sent
    elsewhere meanwhile (librdkafka 5345).
    """
    unknown = {place: offset for place, offset in offsets.items() if offset < 0}
    return offsets | listed(cluster, unknown) if unknown else offsets


def sequence_of(to: Start) -> int:
    if isinstance(to, int) and to >= 0:
        return to
    if isinstance(to, str) and to.isdigit():
        return int(to)
    raise InputError("bad-sequence", f"no offset of Kafka: '{to}'", hint="a number, from 0")


def partitions_at(offsets: Offsets) -> list[TopicPartition]:
    from confluent_kafka import TopicPartition

    return [TopicPartition(*place, offset) for place, offset in offsets.items()]
