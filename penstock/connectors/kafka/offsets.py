"""Positions in topics: where a read begins and ends, and a sample of what stands there."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from penstock.connectors.kafka.options import Source
from penstock.connectors.messaging.start import Start
from penstock.connectors.telling import lost
from penstock.errors import DataError, did_you_mean
from penstock.options import Value
from penstock.streams.kafka.client import PATIENCE, Cluster
from penstock.streams.kafka.offsets import EARLIEST, LATEST, Offsets, listed

SAMPLE = 10_000


def partitions_of(cluster: Cluster, source: Source) -> list[tuple[str, int]]:
    """The partitions of all topics that a source means; raises when one is missing."""
    there = cluster.topics()
    if source.topic_pattern:
        names = [name for name in sorted(there) if re.fullmatch(source.topic_pattern, name)]
        if not names:
            raise _missing(f"a topic like '{source.topic_pattern}'", source.topic_pattern, cluster, there)
    else:
        names = list(source.topic)
    for name in names:
        if not there.get(name):
            raise _missing(f"topic '{name}'", name, cluster, there)
    return [(name, partition) for name in names for partition in there[name]]


def _missing(what: str, name: str, cluster: Cluster, there: Mapping[str, Any]) -> DataError:
    return DataError(
        "missing-topic",
        f"there is no {what} at {cluster.options.bootstrap_servers}",
        hint=did_you_mean(name, [topic for topic in there if not topic.startswith("__")])
        or "penstock reads a topic only when it is there",
    )


def recognised(cluster: Cluster, source: Source, known: Value) -> Value:
    """The id of each topic; raises when one is not what it was."""
    from confluent_kafka import TopicCollection

    names = TopicCollection(sorted({topic for topic, _ in partitions_of(cluster, source)}))
    told = cluster.answers(lambda: cluster.admin.describe_topics(names, request_timeout=PATIENCE))
    ids = {name: str(topic.topic_id) for name, topic in told.items()}
    for name, old in (known if isinstance(known, dict) else {}).items():
        if ids.get(name, old) != old:
            raise lost(f"topic '{name}' was deleted and made again since it was read last")
    return ids


def range_of(cluster: Cluster, source: Source) -> tuple[Offsets, Offsets]:
    """From where a source begins, up to, and without, what comes after now."""
    partitions = partitions_of(cluster, source)
    committed = is_committed(source)
    first = listed(cluster, dict.fromkeys(partitions, EARLIEST), committed=committed)
    last = listed(cluster, dict.fromkeys(partitions, LATEST), committed=committed)
    begin = begin_of(cluster, source.begin or Start("earliest"), partitions, first, last)
    return {p: min(max(begin[p], first[p]), last[p]) for p in partitions}, last


def begin_of(
    cluster: Cluster, start: Start, partitions: list[tuple[str, int]], first: Offsets, last: Offsets
) -> Offsets:
    """The offset of each partition that a start means."""
    if start.kind in ("earliest", "latest"):
        return first if start.kind == "earliest" else last
    if start.kind == "time":
        found = listed(cluster, dict.fromkeys(partitions, EARLIEST), time=start.time)
        return {p: last[p] if offset < 0 else offset for p, offset in found.items()}
    given = {p: start.offsets.get(p[0], {}).get(p[1], EARLIEST) for p in partitions}
    return {p: {EARLIEST: first, LATEST: last}.get(o, {p: o})[p] for p, o in given.items()}


def is_committed(source: Source) -> bool:
    """Whether a source reads only what transactions have committed."""
    return str(source.consumer.get("isolation.level", "read_committed")) == "read_committed"


def as_json(offsets: Offsets) -> str:
    """As Spark reads them."""
    told: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in offsets.items():
        told.setdefault(topic, {})[str(partition)] = offset
    return json.dumps(told)


def sample(cluster: Cluster, source: Source) -> list[bytes]:
    """Messages from the begin and the end of each partition, tombstones left out."""
    first, last = range_of(cluster, source.model_copy(update={"start": "earliest", "start_timestamp": None}))
    filled = {place: end for place, end in last.items() if end > first[place]}
    share = max(1, SAMPLE // max(1, len(filled)))
    ranges: list[tuple[tuple[str, int], int, int]] = []
    for place, end in filled.items():
        begin = first[place]
        if end - begin <= share:
            ranges.append((place, begin, end))
        else:
            ranges += [(place, begin, begin + share // 2), (place, end - share // 2, end)]
    level = "read_committed" if is_committed(source) else "read_uncommitted"
    heads = [r for i, r in enumerate(ranges) if i == 0 or ranges[i - 1][0] != r[0]]
    tails = [r for r in ranges if r not in heads]
    with cluster.consumer({"isolation.level": level, "fetch.wait.max.ms": 10}) as consumer:
        return [value for some in (heads, tails) for value in _values(consumer, some)]


def _values(consumer: Any, ranges: list[tuple[tuple[str, int], int, int]]) -> Iterator[bytes]:
    """The values of the messages in ranges of different partitions."""
    from confluent_kafka import KafkaError, KafkaException, TopicPartition

    ends = {place: end for place, _, end in ranges}
    consumer.assign([TopicPartition(*place, begin) for place, begin, _ in ranges])
    while ends:
        message = consumer.poll(PATIENCE)
        if message is None:
            return
        place, error = (message.topic(), message.partition()), message.error()
        # The last offsets may be marks of transactions, which are never handed out.
        over = error is not None and error.code() == KafkaError._PARTITION_EOF
        if error is not None and not over:
            raise KafkaException(error)
        if place not in ends:
            continue
        if not over and message.offset() < ends[place] and message.value() is not None:
            yield message.value()
        if over or message.offset() >= ends[place] - 1:
            del ends[place]
            consumer.incremental_unassign([TopicPartition(*place)])
