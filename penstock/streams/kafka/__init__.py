"""Kafka and Redpanda, by confluent-kafka.

    kafka://[user:password@]host:9092[,host:9092][/topic[,topic]][?timeout=30s]

A shard is a partition, a sequence an offset. Sends at most once without an answer of the brokers, else each
message once whatever is tried again; in a transaction, together with the positions that were read. Reads what
is committed, from any offset or time. A group shares partitions and keeps positions: at least once. Exactly
once with a position store, or in the group of a producer's transaction.
"""

from __future__ import annotations

from penstock.streams.kafka.streamer import Kafka

__all__ = ["Kafka"]
