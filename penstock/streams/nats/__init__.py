"""NATS JetStream, by nats-py.

    nats://[user:password@]host:4222[/stream[,stream]]

Sends at least once, or exactly once by ids that the stream remembers for two minutes. Reads again from any
sequence. A group is a durable consumer, whose members share messages one by one: at least once. Exactly once
with a position store, which the members of a group cannot share. A stream has one shard; one that Penstock
makes has its name for a subject.
"""

from __future__ import annotations

from penstock.streams.nats.streamer import Nats

__all__ = ["Nats"]
