"""Sends messages by librdkafka, whose own threads store them."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from datetime import datetime
from functools import partial
from itertools import cycle, repeat, starmap
from operator import length_hint
from typing import TYPE_CHECKING, Any

from penstock.errors import InputError, PenstockError, RunError
from penstock.streams.base import Consumer, Delivery, Outgoing, Place, Producer, Receipt
from penstock.streams.codecs import Codec, Payload
from penstock.streams.kafka.client import AS_SET, Cluster, made
from penstock.streams.kafka.errors import explained, missing
from penstock.streams.kafka.messages import milliseconds, pairs_of
from penstock.streams.kafka.options import StreamOptions
from penstock.streams.kafka.transaction import Transactions
from penstock.streams.message import Headers
from penstock.streams.producer import ROOM, Unkeyed, in_slices
from penstock.streams.untold import Untold

if TYPE_CHECKING:
    import confluent_kafka

POLL_EVERY = 500
"""Messages between two looks at what has become of earlier ones."""
TOGETHER = 2000
"""Messages without receipts that are taken at a time."""
TURN = 0.1
ANY_SHARD = -1
NOW = 0
UNKNOWN = -1
"""The sequence of a message that brokers were not asked to answer for."""
_DELIVERIES: dict[Delivery, dict[str, Any]] = {
    "at_most_once": {"acks": 0, "retries": 0},
    # One request at a time: what is tried again overtakes nothing. Idempotence would do the same, and tell
    # what came twice, but begins only after half a second.
    "at_least_once": {"acks": "all", "max.in.flight.requests.per.connection": 1},
    "exactly_once": {"enable.idempotence": True},
}


class KafkaReceipt(Receipt):
    """The receipt of a message, which librdkafka calls when it knows what has become of it.

    There is one for each message, so it is made of little.
    """

    __slots__ = ("_at",)
    _producer: KafkaProducer

    def __init__(self, producer: KafkaProducer) -> None:
        self._producer = producer
        self._at: tuple[int, int] | PenstockError | None = None

    def __call__(self, error: Any, message: Any) -> None:
        if error is None:
            self._at = message.partition(), message.offset()
        else:
            self._at = self._producer.failed(error, self)

    @property
    def done(self) -> bool:
        if self._at is None:
            self._producer.serve(0)
        return self._at is not None

    def result(self, timeout: float | None = None) -> Place:
        end = None if timeout is None else time.monotonic() + timeout
        while not self.done and (end is None or time.monotonic() < end):
            self._producer.serve(TURN if end is None else min(TURN, max(0.0, end - time.monotonic())))
        if self._at is None:
            raise RunError("not-stored-yet", "the message was not stored in that time")
        if isinstance(self._at, PenstockError):
            self._producer.told(self)
            raise self._at
        shard, sequence = self._at
        return Place(self._producer.stream, shard, max(UNKNOWN, sequence))


class KafkaProducer(Producer):
    def __init__(
        self, cluster: Cluster, options: StreamOptions, stream: str, codec: Codec, delivery: Delivery
    ) -> None:
        from confluent_kafka import KafkaException

        super().__init__(stream, codec)
        self._refusal = KafkaException
        self.cluster = cluster
        self.options = options
        self.delivery = delivery
        there = cluster.topics()
        if stream not in there:
            if not options.create_topic:
                raise missing(stream, there)
            cluster.create(stream, AS_SET, AS_SET, {}, hint="penstock stream create says how")
        self._largest = int(cluster.config_of(stream).get("max.message.bytes") or 1_000_000)
        self._untold: Untold[KafkaReceipt] = Untold()
        self._is_due = cycle([False] * (POLL_EVERY - 1) + [True])
        self._closed = False
        self._clients: list[confluent_kafka.Producer] = []
        self._pouring: confluent_kafka.Producer | None = None
        """The client for messages without receipts: only of failures is it told."""
        self._transactions = Transactions(self)
        self.use(None)

    def client(self, settings: dict[str, Any] | None = None) -> confluent_kafka.Producer:
        """A client of librdkafka's, which waits as long as the options say."""
        from confluent_kafka import Producer

        patience = max(1, int(self.options.timeout.total_seconds() * 1000))
        told: dict[str, Any] = {
            "partitioner": "murmur2_random",  # as all clients do by now
            "linger.ms": 5,
            "message.max.bytes": max(1000, self._largest),
            "batch.size": min(1_000_000, max(1000, self._largest)),
            "delivery.timeout.ms": patience,
            "queue.buffering.max.messages": 0,  # no limit but that of their size
            "queue.buffering.max.kbytes": max(1, self.options.buffer // 1024),
            "topic.metadata.propagation.max.ms": min(patience, 10_000),
            "logger": _silence(),
        }
        client: confluent_kafka.Producer = made(
            Producer, self.cluster.settings | told | _DELIVERIES[self.delivery] | (settings or {})
        )
        self._clients.append(client)
        return client

    def use(self, client: confluent_kafka.Producer | None) -> None:
        """Sends by this client from now on, after what was poured; by None, one is made for the next message.

        Who only pours needs no other.
        """
        while self._pouring is not None and len(self._pouring):
            self._served(self._pouring.flush, TURN)
        self.used = client
        self._produce: Any = self._send_after if client is None else client.produce
        self._poll: Any = None if client is None else partial(self._served, client.poll)

    def forget(self, client: confluent_kafka.Producer) -> None:
        """Gives up what this client has not stored."""
        client.purge()
        with suppress(PenstockError):
            self._served(client.poll, 0)
        self._clients.remove(client)

    def send(
        self,
        payload: Payload,
        *,
        key: bytes | str | None = None,
        timestamp: datetime | None = None,
        headers: Mapping[str, bytes | str] | Headers = (),
        id: str | None = None,
    ) -> Receipt:
        if type(payload) is not bytes or timestamp is not None or headers:
            return super().send(payload, key=key, timestamp=timestamp, headers=headers, id=id)
        # What most messages are has a shorter way: the longer one takes as much time as librdkafka does.
        receipt = KafkaReceipt(self)
        try:
            self._produce(self.stream, payload, key, ANY_SHARD, receipt)
        except (BufferError, self._refusal) as failure:
            self._again(failure, receipt, payload, key)
        if next(self._is_due):
            self._poll(0)
        return receipt

    def _put(self, outgoing: Outgoing) -> Receipt:
        payload, key, timestamp, headers, _, _ = outgoing
        receipt = KafkaReceipt(self)
        at = NOW if timestamp is None else milliseconds(timestamp)
        pairs = pairs_of(headers)
        try:
            self._produce(self.stream, payload, key, ANY_SHARD, receipt, None, at, pairs)
        except (BufferError, self._refusal) as failure:
            self._again(failure, receipt, payload, key, at, pairs)
        if next(self._is_due):
            self._poll(0)
        return receipt

    def pour(self, messages: Iterable[tuple[bytes, bytes | None]]) -> None:
        if self._closed:
            self._refuse()
        if self._transactions.open:
            return super().pour(messages)
        if self._pouring is None:
            told = {"delivery.report.only.error": True, "on_delivery": KafkaReceipt(self)}
            self._pouring = self.client(told)
        if self.used is not None and len(self.used):
            self.flush()  # else what was sent before would come after
        self._produce = self._send_after
        if isinstance(messages, Unkeyed):
            self._pour_payloads(self._pouring, messages.payloads)
        else:
            in_slices(messages, TOGETHER, partial(self._pour_pairs, self._pouring))
        return self._served(self._pouring.poll, 0)

    def _pour_payloads(self, client: confluent_kafka.Producer, payloads: list[bytes]) -> None:
        left = iter(payloads)
        calls = map(client.produce, repeat(self.stream), left)
        for place in self._refused(calls, left, len(payloads)):
            self._squeeze(client, payloads[place])

    def _pour_pairs(self, client: confluent_kafka.Producer, many: list[tuple[bytes, bytes | None]]) -> None:
        left = iter(many)
        calls = starmap(partial(client.produce, self.stream), left)
        for place in self._refused(calls, left, len(many)):
            self._squeeze(client, *many[place])

    def _refused(self, calls: Iterator[None], left: Iterator[Any], count: int) -> Iterator[int]:
        """Makes the calls, no Python code between them, and gives the places of those that are refused: each
        before the next call is made. They take one of what is `left`, of so many."""
        while length_hint(left):
            try:
                deque(calls, maxlen=0)
            except (BufferError, self._refusal):  # noqa: PERF203
                yield count - 1 - length_hint(left)

    def _squeeze(self, client: confluent_kafka.Producer, payload: bytes, key: bytes | None = None) -> None:
        """Waits for room; what fails meanwhile is told."""
        while True:
            try:
                return client.produce(self.stream, payload, key)
            except BufferError:  # noqa: PERF203
                self._served(client.poll, ROOM)
                self._tell()
            except self._refusal as failure:
                return KafkaReceipt(self)(failure.args[0], None)

    def _send_after(self, *message: Any) -> None:
        """The first message that is sent by itself, maybe after others were poured: these are with another
        client, so there is no room for it before they are stored."""
        if self._pouring is not None and len(self._pouring):
            raise BufferError
        self.use(self.client() if self.used is None else self.used)
        self._produce(*message)

    def _again(
        self,
        failure: Exception,
        receipt: KafkaReceipt,
        payload: bytes,
        key: bytes | str | None,
        at: int = NOW,
        pairs: list[tuple[str, bytes | str]] | None = None,
    ) -> None:
        """What is stored takes room until its receipts know: then there may be some."""
        if not isinstance(failure, BufferError):
            receipt(failure.args[0], None)
            return
        self.serve(0)
        try:
            self._produce(self.stream, payload, key, ANY_SHARD, receipt, None, at, pairs)
        except BufferError:
            raise RunError(
                "buffer-full",
                "messages are not stored yet, more than fit the buffer",
                hint="flush makes room; the buffer may be larger",
            ) from None

    def failed(self, error: Any, receipt: KafkaReceipt) -> PenstockError:
        """For receipts: what keeps a message from being stored; `flush` tells it if no receipt is asked."""
        if self._transactions.ending:
            return RunError("rolled-back", "the transaction of the message was rolled back")
        failure = explained(error, self.options, self.stream)
        if self.delivery != "at_most_once":
            self._untold.keep(receipt, failure)
        return failure

    def told(self, receipt: KafkaReceipt) -> None:
        """For receipts: somebody knows of the failure."""
        self._untold.told(receipt)

    def serve(self, seconds: float) -> None:
        """Lets receipts know what has become of their messages."""
        for client in self._clients:
            self._served(client.poll, seconds / len(self._clients))

    def _served(self, call: Callable[[float], int], seconds: float) -> None:
        """What a client cannot recover from, it raises here, whoever else is told."""
        try:
            call(seconds)
        except self._refusal as failure:
            raise explained(failure.args[0], self.options, self.stream) from None

    def flush(self, timeout: float | None = None) -> None:
        end = None if timeout is None else time.monotonic() + timeout
        while left := sum(len(client) for client in self._clients):
            turn = TURN if end is None else min(TURN, end - time.monotonic())
            if turn <= 0:
                raise RunError("not-stored-yet", f"{left} messages are not stored yet")
            for client in self._clients:
                self._served(client.flush, turn)
        self._tell()

    def _tell(self) -> None:
        failure = self._untold.take()
        if failure is not None:
            raise failure

    def transaction(self, consumer: Consumer | None = None) -> AbstractContextManager[None]:
        if self.delivery != "exactly_once":
            raise InputError(
                "no-transactions", "transactions are of the delivery exactly_once", hint="delivery="
            )
        return self._transactions.one(consumer)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._produce = self._refuse
        try:
            self.flush()
        finally:
            self._clients.clear()
            self._pouring = None

    def _refuse(self, *_: Any) -> None:
        raise RunError("closed", "the producer is closed")


def _silence() -> logging.Logger:
    """For what librdkafka prints even where it is told not to."""
    logger = logging.getLogger("penstock.streams.kafka")
    logger.propagate = False
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
    return logger
