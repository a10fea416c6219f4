"""Sends to a stream in a folder."""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Any

from penstock.errors import InputError, PenstockError
from penstock.streams.aside import aside
from penstock.streams.base import Delivery, Outgoing, Place, Producer, Receipt
from penstock.streams.codecs import Codec
from penstock.streams.file.block import Batch, microseconds, pack_headers
from penstock.streams.file.writer import Writer

_REMEMBERED = 1000
"""Batches after which a producer forgets those that are stored."""


class FileReceipt(Receipt):
    """Looks its message up in the batch that it was put into."""

    __slots__ = ("_batch", "_number")

    _producer: FileProducer

    def __init__(self, producer: FileProducer, batch: Batch, number: int) -> None:
        self._producer = producer
        self._batch = batch
        self._number = number

    @property
    def done(self) -> bool:
        return self._batch.settled

    def result(self, timeout: float | None = None) -> Place:
        batch = self._batch
        if not self.done:
            self._producer.wait([batch], timeout)
        if batch.failure is not None:
            batch.asked = True
            raise batch.failure
        return Place(self._producer.stream, batch.shard, batch.base + self._number)

    def __await__(self) -> Generator[Any, None, Place]:
        if not self.done:
            yield from aside(self._producer.wait, [self._batch], None).__await__()
        return self.result(0)


class FileProducer(Producer):
    def __init__(self, writer: Writer, codec: Codec, delivery: Delivery) -> None:
        super().__init__(writer.folder.name, codec)
        self._writer: Writer | None = writer
        self._delivery = delivery
        self._once = delivery == "exactly_once"
        self._sent: dict[Batch, None] = {}
        """Batches of which it is not known that they are stored."""

    def _put(self, outgoing: Outgoing) -> Receipt:
        payload, key, timestamp, headers, id, _ = outgoing
        if self._writer is None:
            raise InputError("closed", f"the producer of '{self.stream}' is closed")
        batch, number = self._writer.add(
            payload,
            key,
            time.time_ns() // 1000 if timestamp is None else microseconds(timestamp),
            pack_headers(headers) if headers else b"",
            None if id is None else id.encode(),
            self._once,
        )
        sent = self._sent
        if batch not in sent:
            if len(sent) >= _REMEMBERED:
                self._sent = sent = {b: None for b in sent if not b.stored}
            sent[batch] = None
        return FileReceipt(self, batch, number)

    def flush(self, timeout: float | None = None) -> None:
        sent = list(self._sent)
        self.wait(sent, timeout)
        for batch in sent:
            self._sent.pop(batch, None)
        failure = next((b.failure for b in sent if b.failure is not None and not b.asked), None)
        if failure is not None and self._delivery != "at_most_once":
            raise failure

    def wait(self, batches: list[Batch], timeout: float | None) -> None:
        if self._writer is not None:
            self._writer.wait(batches, timeout)

    def close(self) -> None:
        if self._writer is None:
            return
        failure: PenstockError | None = None
        try:
            self.flush()
        except PenstockError as told:
            failure = told
        writer, self._writer = self._writer, None
        writer.leave()
        if failure is not None:
            raise failure
