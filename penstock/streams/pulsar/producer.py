"""Sends messages by pulsar-client, which keeps them until they are stored, and sends again what is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock.errors import PenstockError
from penstock.streams.base import Delivery, Outgoing, Place, Producer, Receipt
from penstock.streams.codecs import Codec
from penstock.streams.headers import size_of
from penstock.streams.ledger import Ledger, Pending
from penstock.streams.pulsar.connection import Cluster, explain, explained
from penstock.streams.pulsar.messages import Id, told_of
from penstock.streams.pulsar.topics import Topic

if TYPE_CHECKING:
    import pulsar


class PulsarProducer(Producer):
    """Messages with one key go to one shard; those without go round."""

    def __init__(self, cluster: Cluster, topic: Topic, codec: Codec, delivery: Delivery) -> None:
        super().__init__(topic.stream, codec)
        self._cluster = cluster
        silent = delivery == "at_most_once"
        self._ledger = Ledger(self, cluster.options.buffer, silent=silent)
        batch = round(cluster.options.batch.total_seconds() * 1000)
        with explained(cluster.uri, topic.stream):
            self._sender: pulsar.Producer = cluster.client().create_producer(
                topic.full,
                send_timeout_millis=max(1, round(cluster.patience * 1000)),
                # How much is held is counted here, in bytes.
                max_pending_messages=0,
                max_pending_messages_across_partitions=0,
                batching_enabled=batch > 0,
                batching_max_publish_delay_ms=max(1, batch),
            )

    def _put(self, outgoing: Outgoing) -> Receipt:
        payload, key, timestamp, headers, _, _ = outgoing
        told = told_of(key, timestamp, headers)
        size = len(payload) + len(told.get("partition_key", "")) + size_of(told["properties"])
        receipt = self._ledger.take(size)
        try:
            self._sender.send_async(payload, self._settling(receipt), **told)
        except BaseException:
            self._ledger.settled([receipt])  # the client has not taken it, and nobody waits for it
            raise
        return receipt

    def _settling(self, receipt: Pending) -> Callable[[Any, Any], None]:
        """What the client calls, in a thread of its own; raising there would end the process."""

        def settle(result: Any, id: Any) -> None:
            receipt.settle(*self._outcome(result, id))
            self._ledger.settled([receipt])

        return settle

    def _outcome(self, result: Any, id: Any) -> tuple[Place | None, PenstockError | None]:
        if result.name != "Ok":
            return None, explain(result.name, self._cluster.uri, stream=self.stream)
        return Place(self.stream, max(0, id.partition()), str(Id.told(id))), None

    def flush(self, timeout: float | None = None) -> None:
        self._ledger.flush(timeout)

    def close(self) -> None:
        closed = self._ledger.closed
        self._ledger.close()
        # The client has given up by then, unless it was closed before.
        self._ledger.wait(2 * self._cluster.patience + 1)
        if not closed:
            with explained(self._cluster.uri, self.stream):
                self._sender.close()
        self.flush()
