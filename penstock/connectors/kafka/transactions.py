"""A part of a batch as one transaction of Kafka, which is there once however often it is written."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from penstock.connectors.base import Part, Refused
from penstock.connectors.kafka.chunks import Chunk, chunks_of
from penstock.connectors.kafka.writer import SINGLY, MessageWriter, Sender

if TYPE_CHECKING:
    import pyarrow as pa

_ABORT = 5.0
"""Seconds to end a transaction that has failed."""
_PROBED = 500
"""Messages that are tried together to find those which are refused."""


def write_part(writer: MessageWriter, rows: Iterator[pa.RecordBatch], part: Part) -> Sequence[Refused]:
    """Sends the messages of a part, unless they are there already."""
    from confluent_kafka import Consumer, TopicPartition

    batch = part.batch
    name = f"penstock-{batch.pipeline}-{batch.sink}-{part.name}"
    group = Consumer(writer.connection | {"group.id": name, "enable.auto.commit": False})
    with closing(group), tempfile.TemporaryFile() as spool:
        sender = _opened(writer, name)
        assert writer.target.topic is not None
        place = TopicPartition(writer.target.topic, 0)
        (marker,) = group.committed([place], writer.patience)
        if marker.offset > batch.number:  # Invariant 3
            return _told_before(part)
        refused: dict[int, dict[int, str]] = {}
        batches = _spooled(rows, spool) if writer.keeps_refused else rows
        while not _sent(sender, _without(chunks_of(batches, writer.target), refused)):
            if not writer.keeps_refused:
                sender.doubt_is_over()
            refused = _probed(writer, f"{name}-probe", chunks_of(_again(spool), writer.target))
            batches, sender = _again(spool), _opened(writer, name)
        place.offset = batch.number + 1
        with _ended(sender):
            _remember(part, sender.refused)
            group_of = group.consumer_group_metadata()
            sender.producer.send_offsets_to_transaction([place], group_of, writer.patience)
            sender.producer.commit_transaction(writer.patience)
        return sender.refused


@contextmanager
def _ended(sender: Sender) -> Iterator[None]:
    """Ends the transaction when something fails, since readers wait for it; else the next attempt does."""
    try:
        yield
    except BaseException:
        with suppress(Exception):  # the first failure is the one to tell
            sender.producer.abort_transaction(_ABORT)
        raise


def _opened(writer: MessageWriter, name: str, settings: dict[str, Any] | None = None) -> Sender:
    """A producer that has ended all transactions of this name, and shut out all others of it."""
    sender = Sender(writer, {**(settings or {}), "transactional.id": name})
    sender.producer.init_transactions(writer.patience)
    return sender


def _sent(sender: Sender, chunks: Iterable[Chunk]) -> bool:
    """Sends messages in a new transaction; says no when some were refused.

    The transaction is lost then, and so is the producer: what it is given after that, it may drop.
    """
    sender.producer.begin_transaction()
    with _ended(sender):
        sender.send(chunks)
        sender.flush()
    if sender.doubtful:
        with suppress(Exception):
            sender.producer.abort_transaction(_ABORT)
    return not sender.doubtful


def _without(chunks: Iterable[Chunk], refused: dict[int, dict[int, str]]) -> Iterator[Chunk]:
    for chunk in chunks:
        chunk.refused |= refused.get(chunk.first, {})
        yield chunk


def _probed(writer: MessageWriter, name: str, chunks: Iterable[Chunk]) -> dict[int, dict[int, str]]:
    """Which messages are refused, by their chunks, found in transactions that are all ended without effect.

    After the first one that is refused, a transaction takes no more: so few messages are tried at once.
    """
    sender = _opened(writer, name, SINGLY)
    found: dict[int, dict[int, str]] = {}
    for chunk in chunks:
        for begin in range(0, len(chunk.batch), _PROBED):
            here = range(begin, begin + _PROBED)
            known = {number - begin: error for number, error in chunk.refused.items() if number in here}
            some = Chunk(chunk.first + begin, chunk.batch.slice(begin, _PROBED), known)
            while not _sent(sender, [some]):
                _, errors = sender.doubtful[some.first]
                some.refused |= errors
                found.setdefault(chunk.first, {}).update({begin + n: e for n, e in errors.items()})
                sender = _opened(writer, name, SINGLY)
            sender.producer.abort_transaction(writer.patience)
    return found


def _spooled(rows: Iterator[pa.RecordBatch], spool: IO[bytes]) -> Iterator[pa.RecordBatch]:
    """The rows, kept as they pass, to be sent again."""
    import pyarrow as pa

    keeping: Any = None
    for batch in rows:
        keeping = keeping or pa.ipc.new_stream(spool, batch.schema)
        keeping.write_batch(batch)
        yield batch
    if keeping is not None:
        keeping.close()


def _again(spool: IO[bytes]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    spool.seek(0)
    yield from pa.ipc.open_stream(spool)


def _aside(part: Part) -> Path | None:
    batch = part.batch
    return None if batch.aside is None else Path(batch.aside, f"refused-{batch.sink}-{part.name}.json")


def _remember(part: Part, refused: Sequence[Refused]) -> None:
    """Keeps what was refused before the part is there for good: it is not sent, nor refused, again."""
    path = _aside(part)
    if path is None or not refused:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_suffix(".new").write_text(json.dumps([[r.payload, r.error] for r in refused]), encoding="utf-8")
    path.with_suffix(".new").replace(path)


def _told_before(part: Part) -> Sequence[Refused]:
    path = _aside(part)
    if path is None or not path.exists():
        return ()
    return [Refused(*pair) for pair in json.loads(path.read_text(encoding="utf-8"))]
