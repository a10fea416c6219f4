"""Transactions of a producer: what is sent is there with the positions that were read, or not at all.

A client of librdkafka's that has transactions sends nothing outside of them, so there is one more for these.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from penstock.errors import InputError, PenstockError
from penstock.streams.base import Consumer
from penstock.streams.kafka.errors import explained
from penstock.streams.kafka.group import GroupConsumer

if TYPE_CHECKING:
    import confluent_kafka

    from penstock.streams.kafka.producer import KafkaProducer

STEP = 10.0
"""Seconds that one step may take before it is tried again."""
PAUSE = 0.05


class Transactions:
    def __init__(self, producer: KafkaProducer) -> None:
        self._producer = producer
        self._id = producer.options.transactional_id or f"penstock-{uuid.uuid4().hex}"
        self._client: confluent_kafka.Producer | None = None
        self.open = False
        """Whether one is under way."""
        self.ending = False
        """Whether messages that fail do so since their transaction is rolled back."""
        self._ended: PenstockError | None = None

    @contextmanager
    def one(self, consumer: Consumer | None) -> Iterator[None]:
        if self.open:
            raise InputError("open-transaction", "one transaction is in another", hint="end the first")
        if consumer is not None and not (isinstance(consumer, GroupConsumer) and consumer.transacts):
            raise InputError(
                "no-group",
                "a transaction keeps the positions of a consumer in the mode exactly_once, in a group",
                hint="consumer(..., mode='exactly_once', group='...')",
            )
        client = self._begun()
        outside = self._producer.used
        self._producer.use(client)
        self.open = True
        failed = False
        try:
            yield
            failed = True
            self._commit(client, consumer)
        except BaseException:
            self._roll_back(client, consumer, failed)
            raise
        finally:
            self.open = False
            self._producer.use(outside)

    def _begun(self) -> confluent_kafka.Producer:
        if self._ended is not None:
            raise self._ended
        client = self._client or self._opened()
        self._tried(client.begin_transaction)
        return client

    def _opened(self) -> confluent_kafka.Producer:
        """A client that has ended what another of its id left open, and has shut it out."""
        options = self._producer.options
        limit = max(1000, int(options.transaction_timeout.total_seconds() * 1000))
        patience = max(1, min(limit, int(options.timeout.total_seconds() * 1000)))
        told = {
            "transactional.id": self._id,
            "transaction.timeout.ms": limit,
            "delivery.timeout.ms": patience,
        }
        client = self._producer.client(told)
        try:
            self._tried(lambda: client.init_transactions(STEP))
        except PenstockError:
            self._producer.forget(client)
            raise
        self._client = client
        return client

    def _commit(self, client: confluent_kafka.Producer, consumer: GroupConsumer | None) -> None:
        self._producer.flush()
        if consumer is not None:
            offsets, member = consumer.read()
            if offsets:
                self._tried(lambda: client.send_offsets_to_transaction(offsets, member, STEP))
        self._tried(lambda: client.commit_transaction(STEP))
        if consumer is not None:
            consumer.kept()

    def _roll_back(
        self, client: confluent_kafka.Producer, consumer: GroupConsumer | None, failed: bool
    ) -> None:
        """Ends it without effect. What is given to a client after it has `failed` it may drop, so the next
        transaction has another."""
        if consumer is not None:
            consumer.again()
        self.ending, is_open = True, False
        try:
            self._tried(lambda: client.abort_transaction(STEP))
        except PenstockError:
            is_open = True
        if failed or is_open:
            self._client = None
            self._producer.forget(client)
        self.ending = False
        if is_open and self._ended is None:
            with suppress(PenstockError):  # the next transaction tells
                self._opened()

    def _tried(self, step: Callable[[], Any]) -> None:
        """Takes a step, again while it may succeed."""
        from confluent_kafka import KafkaException

        end = time.monotonic() + self._producer.options.timeout.total_seconds()
        while True:
            try:
                step()
                return
            except KafkaException as failure:
                error = failure.args[0]
                if not error.retriable() or time.monotonic() > end:
                    told = explained(error, self._producer.options, self._producer.stream)
                    if error.fatal():
                        self._ended = told
                    raise told from None
            time.sleep(PAUSE)
