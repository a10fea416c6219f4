"""Sends to a stream in a folder."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from datetime import datetime

from penstock.errors import PenstockError, RunError
from penstock.streams.base import Delivery, Outgoing, Place, Producer, Receipt
from penstock.streams.codecs import Codec, Payload
from penstock.streams.file.block import Batch, microseconds, pack_headers
from penstock.streams.file.log import now
from penstock.streams.file.writer import Writer
from penstock.streams.message import Headers
from penstock.streams.producer import in_slices

TOGETHER = 256
"""Messages without receipts that are taken at a time."""
_REMEMBERED = 1000
"""Batches after which a producer forgets those that are stored."""
_PLAIN = {bytes, type(None)}


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


class FileProducer(Producer):
    def __init__(self, writer: Writer, codec: Codec, delivery: Delivery) -> None:
        super().__init__(writer.folder.name, codec)
        self._writer: Writer | None = writer
        self._delivery = delivery
        self._once = delivery == "exactly_once"
        self._sent: dict[Batch, None] = {}
        """Batches of which it is not known that they are stored."""
        self._last: Batch | None = None
        """The one that was noted last."""

    def send(
        self,
        payload: Payload,
        *,
        key: bytes | str | None = None,
        timestamp: datetime | None = None,
        headers: Mapping[str, bytes | str] | Headers = (),
        id: str | None = None,
    ) -> Receipt:
        writer = self._writer
        if type(payload) is not bytes or timestamp is not None or headers or id is not None or writer is None:
            return super().send(payload, key=key, timestamp=timestamp, headers=headers, id=id)
        # What most messages are has a shorter way: the longer one takes as much time as all the rest.
        batch, number = writer.add(
            payload, key.encode() if isinstance(key, str) else key, time.time_ns() // 1000
        )
        if batch is not self._last:
            self._note(batch)
        return FileReceipt(self, batch, number)

    def _put(self, outgoing: Outgoing) -> Receipt:
        payload, key, timestamp, headers, id, _ = outgoing
        batch, number = self._open_writer().add(
            payload,
            key,
            now() if timestamp is None else microseconds(timestamp),
            pack_headers(headers) if headers else b"",
            None if id is None else id.encode(),
            self._once,
        )
        if batch is not self._last:
            self._note(batch)
        return FileReceipt(self, batch, number)

    def pour(self, messages: Iterable[tuple[bytes, bytes | None]]) -> None:
        in_slices(messages, TOGETHER, self._hand_over)

    def _hand_over(self, some: list[tuple[bytes, bytes | None]]) -> None:
        if not some:
            return
        payloads, keys = zip(*some, strict=True)
        if not {*map(type, payloads), *map(type, keys)} <= _PLAIN:
            super().pour(some)
            return
        while payloads:
            try:
                batches, taken = self._open_writer().add_all(payloads, keys, now())
            except RunError as failure:
                if failure.code != "buffer-full":
                    raise
                self._make_room()
                continue
            for batch in batches:
                self._note(batch)
            payloads, keys = payloads[taken:], keys[taken:]

    def _open_writer(self) -> Writer:
        if self._writer is None:
            raise RunError("closed", "the producer is closed")
        return self._writer

    def _note(self, batch: Batch) -> None:
        if batch not in self._sent:
            if len(self._sent) >= _REMEMBERED:
                for known in list(self._sent):
                    if known.stored:
                        self._sent.pop(known, None)
            self._sent[batch] = None
        self._last = batch  # no sooner: another thread that finds it here may flush at once

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
