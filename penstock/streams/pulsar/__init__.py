"""Pulsar, by pulsar-client and the admin REST.

    pulsar://host:6650[/[tenant/namespace/]topic[,topic]][?admin=http://host:8080]

Sends at least once: what is not answered when a connection breaks is sent again, also in the delivery
at_most_once, which only does not tell of what is lost. Exactly once is refused, since brokers know no message
again by its id. Reads again from any message, also inside a batch: exactly once with a position store. A
group is a subscription, in which each shard is read by one member at a time: at least once. Its members
cannot share a position store.

A producer stores each message by itself, unless `batch` is set. A broker keeps that a batch was processed in
part only with `acknowledgmentAtBatchIndexLevelEnabled`, and counts the lag of a group in batches.

A shard is a partition; a topic without partitions is one shard. A stream that is made here keeps its messages
as long as it was asked to; one that a broker makes by itself, those that some group has not read.
"""

from __future__ import annotations

from penstock.streams.pulsar.streamer import Pulsar

__all__ = ["Pulsar"]
