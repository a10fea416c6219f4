"""Messages to Kafka from Python workers: in transactions, with times of their own, or where rows that are
refused are to be handed back. All others are sent by Spark itself.

A transaction holds one part of a batch, and beside its messages the batch's number: an offset, committed for
a consumer group that is the part's own. In this order: `init_transactions`, which ends what an earlier
attempt has left open and shuts it out; look for the number; begin, send, commit.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from penstock.connectors.base import Part, Refused, Writer
from penstock.connectors.kafka.chunks import Chunk, Target, chunks_of
from penstock.connectors.kafka.errors import Told, told_by

if TYPE_CHECKING:
    import pyarrow as pa

SINGLY = {"batch.num.messages": 1}
"""A broker refuses batches of messages; one that is alone in its batch is refused for its own sake."""
_POLL = 1000
"""Messages between two looks at what has become of earlier ones."""
_SHOWN = 200
_LATER = 5.0


@dataclass(frozen=True)
class MessageWriter(Writer):
    """Sends the messages of a part."""

    target: Target
    connection: dict[str, Any] = field(repr=False)
    producing: dict[str, Any]
    patience: float
    """Seconds that one step of a transaction may take."""
    keeps_refused: bool
    """Whether a row that is refused is handed back, and the others are sent; else the first raises."""
    transactional: bool = False

    def write(self, rows: Iterator[pa.RecordBatch], part: Part) -> Sequence[Refused]:
        from confluent_kafka import KafkaException

        try:
            if self.transactional:
                from penstock.connectors.kafka.transactions import write_part

                return write_part(self, rows, part)
            return self._write(rows)
        except KafkaException as failure:
            raise told_by(failure) from failure

    def _write(self, rows: Iterator[pa.RecordBatch]) -> Sequence[Refused]:
        sender = Sender(self)
        sender.send(chunks_of(rows, self.target))
        sender.finish()
        if not sender.doubtful:
            return sender.refused
        alone = Sender(self, SINGLY)
        alone.send(_only(chunk, numbers) for chunk, numbers in sender.doubtful.values())
        alone.finish()
        alone.doubt_is_over()
        return [*sender.refused, *alone.refused]


def _only(chunk: Chunk, numbers: dict[int, str]) -> Chunk:
    import pyarrow as pa

    return Chunk(chunk.first, chunk.batch.take(pa.array(sorted(numbers))))


class Sender:
    """A producer, and what has become of the messages that it was given."""

    def __init__(self, writer: MessageWriter, settings: dict[str, Any] | None = None) -> None:
        from confluent_kafka import KafkaError, Producer

        self.refused: list[Refused] = []
        self.doubtful: dict[int, tuple[Chunk, dict[int, str]]] = {}
        """Messages that were refused, perhaps for the sake of others in their batch; by their chunks."""
        self._keeps, self._topic = writer.keeps_refused, writer.target.topic
        self._failure: Told | None = None
        self._dropped = False
        self._for_another = KafkaError._INVALID_DIFFERENT_RECORD
        self._about_rows = {
            KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_RECORD, KafkaError.INVALID_TIMESTAMP,
            KafkaError._UNKNOWN_PARTITION, self._for_another,
        }  # fmt: skip
        if self._topic is None:
            self._about_rows |= {KafkaError._UNKNOWN_TOPIC, KafkaError.TOPIC_EXCEPTION}
        self._drops = {KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT}
        told = {"delivery.report.only.error": True}
        self.producer = Producer(writer.connection | writer.producing | told | (settings or {}))

    def send(self, chunks: Iterable[Chunk]) -> None:
        """Hands the messages to the producer, all but those that are refused."""
        from confluent_kafka import KafkaException

        produce, poll = self.producer.produce, self.producer.poll
        for chunk in chunks:
            self._refuse(chunk, chunk.refused)
            callback = partial(partial, self._returned, chunk)
            for number, arguments in enumerate(chunk.calls(self._topic, callback)):
                if chunk.refused and number in chunk.refused:
                    continue
                try:
                    produce(*arguments)
                except BufferError:
                    self._when_there_is_room(arguments)
                except KafkaException as failure:
                    self._not_taken(chunk, number, failure)
                if not number % _POLL:
                    poll(0)
            self.check()

    def finish(self) -> None:
        """Returns when nothing is under way any more."""
        self.producer.flush()
        self.check()

    def flush(self) -> None:
        """Returns when nothing is under way any more, or something was refused, which ends a transaction."""
        while len(self.producer) and not self.doubtful:
            self.producer.flush(0.1)
            self.check()
        if self._dropped:
            self._reason(Told("unreachable", "messages were dropped before they were sent"))

    def check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def doubt_is_over(self) -> None:
        """What was refused was so for its own sake: it was alone in its batch, or it does not matter."""
        for chunk, errors in self.doubtful.values():
            self._refuse(chunk, {n: error for n, error in errors.items() if error} or errors)
        self.doubtful = {}

    def _refuse(self, chunk: Chunk, errors: dict[int, str]) -> None:
        for number, error in errors.items():
            if not self._keeps:
                raise Told("refused", error, chunk.payload(number)[:_SHOWN])
            self.refused.append(Refused(chunk.payload(number), error))

    def _when_there_is_room(self, arguments: tuple[Any, ...]) -> None:
        while True:
            self.producer.poll(0.1)
            self.check()
            with suppress(BufferError):
                return self.producer.produce(*arguments)

    def _not_taken(self, chunk: Chunk, number: int, failure: Any) -> None:
        """The producer itself refuses a message: for its size, or since its transaction has failed."""
        error = failure.args[0]
        if error.code() in self._about_rows:
            chunk.refused[number] = error.str().removeprefix("Unable to produce message: ")
            self._refuse(chunk, {number: chunk.refused[number]})
        else:
            self._reason(failure)

    def _reason(self, otherwise: Exception) -> None:
        """Waits for what has failed earlier messages, which is told a moment later than its effects."""
        end = time.monotonic() + _LATER
        while not self.doubtful and time.monotonic() < end:
            self.producer.poll(0.05)
            self.check()
        if not self.doubtful:
            raise otherwise

    def _returned(self, chunk: Chunk, number: int, error: Any, message: Any) -> None:
        if error.code() in self._about_rows:
            reason = "" if error.code() == self._for_another else error.str()
            self.doubtful.setdefault(chunk.first, (chunk, {}))[1][number] = reason
        elif error.code() in self._drops:
            self._dropped = True
        elif self._failure is None:
            self._failure = told_by(error)
