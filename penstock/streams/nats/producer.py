"""Sends messages in batches whose answers are awaited together, by a thread of its own."""

from __future__ import annotations

import asyncio
import itertools
import time
import uuid

from penstock.streams.base import Delivery, Outgoing, Place, Producer, Receipt
from penstock.streams.codecs import Codec
from penstock.streams.headers import size_of
from penstock.streams.ledger import Pending
from penstock.streams.nats.connection import Server, explain, is_passing
from penstock.streams.nats.messages import headers_of
from penstock.streams.outbox import Outbox

BATCH = 500
ANSWER = 5.0
"""Seconds after which a message that the server has not answered for is sent again."""
PAUSES = (0.05, 0.1, 0.2, 0.5, 1.0)
Published = tuple[bytes, dict[str, str]]
"""A payload and its headers, as NATS has them."""


class NatsProducer(Producer):
    def __init__(self, server: Server, stream: str, subject: str, codec: Codec, delivery: Delivery) -> None:
        super().__init__(stream, codec)
        self._server = server
        self._subject = subject
        self._delivery = delivery
        self._turn = itertools.count()
        self._own = uuid.uuid4().hex
        self._outbox: Outbox[Published] = Outbox(
            self,
            self._store,
            limit=server.options.buffer,
            batch=BATCH,
            silent=delivery == "at_most_once",
        )

    def _put(self, outgoing: Outgoing) -> Receipt:
        payload, key, timestamp, headers, id, _ = outgoing
        # With an id of its own, a message that is sent again for want of an answer is mostly stored once.
        known = (
            id if id is not None and self._delivery == "exactly_once" else f"{self._own}-{next(self._turn)}"
        )
        told = headers_of(known, key, timestamp, headers)
        return self._outbox.put((payload, told), len(payload) + size_of(told))

    def flush(self, timeout: float | None = None) -> None:
        self._outbox.flush(timeout)

    def close(self) -> None:
        self._outbox.close()

    def _store(self, items: list[tuple[Published, Pending]]) -> None:
        """Stores a batch; again while the server is away, for as long as it may be."""
        end = time.monotonic() + self._server.options.timeout.total_seconds()
        for pause in itertools.chain(PAUSES, itertools.repeat(PAUSES[-1])):
            failure = self._server.run(self._publish([i for i in items if not i[1].done]))
            if failure is None:
                return
            if self._delivery == "at_most_once" or time.monotonic() + pause > end:
                raise explain(failure, self._server.uri) from None
            time.sleep(pause)

    async def _publish(self, items: list[tuple[Published, Pending]]) -> BaseException | None:
        """Sends all, settles what was answered, and gives the first failure that may pass."""
        js = self._server.js
        answers = await asyncio.gather(
            *(
                js.publish(self._subject, payload, timeout=ANSWER, headers=headers)
                for (payload, headers), _ in items
            ),
            return_exceptions=True,
        )
        passing: BaseException | None = None
        for (_, receipt), answer in zip(items, answers, strict=True):
            if not isinstance(answer, BaseException):
                receipt.settle(Place(self.stream, 0, answer.seq))
            elif is_passing(answer):
                passing = passing or answer
            else:
                receipt.settle(None, explain(answer, self._server.uri))
        return passing
