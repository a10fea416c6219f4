"""Arrow batches of messages as a producer takes them: column by column, without an object for each row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import TYPE_CHECKING, Any

from penstock.connectors.messaging.records import ROW

if TYPE_CHECKING:
    import pyarrow as pa

_ANY_PARTITION = -1


@dataclass(frozen=True)
class Target:
    """Where messages go, and what is taken there."""

    topic: str | None
    """For messages that do not name theirs."""
    partitions: int | None = None
    largest: int | None = None
    """Bytes of a message that is refused for certain when it has more; unknown when it is compressed."""
    keyed: bool = False
    """Whether messages without a key are refused."""

    def refuses(self, batch: pa.RecordBatch) -> dict[int, str]:
        """The messages that need not be sent to know that they are refused, and why; by their number."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if "_topic" in batch.schema.names:
            return dict.fromkeys(_where(pc.is_null(batch.column("_topic"))), "a message without a topic")
        found: dict[int, str] = {}
        keys = batch.column("_key") if "_key" in batch.schema.names else pa.nulls(len(batch), pa.binary())
        if self.largest is not None:
            sizes = pc.add(_size(batch.column("value")), _size(keys))
            for number in _where(pc.greater(sizes, self.largest)):
                found[number] = f"a message of {sizes[number].as_py()} bytes: it takes {self.largest} at most"
        if self.keyed and keys.null_count:
            reason = "a message without a key: it is compacted, and keeps the last message of each key"
            found |= dict.fromkeys(_where(pc.is_null(keys)), reason)
        if self.partitions is not None and "_partition" in batch.schema.names:
            column = batch.column("_partition")
            outside = pc.or_(pc.less(column, 0), pc.greater_equal(column, self.partitions))
            for number in _where(outside):
                found[number] = f"partition {column[number].as_py()}: it has {self.partitions}"
        return found


def _size(column: pa.Array) -> pa.Array:
    import pyarrow.compute as pc

    return pc.fill_null(pc.binary_length(column), 0)


def _where(mask: pa.Array) -> list[int]:
    import pyarrow.compute as pc

    return pc.indices_nonzero(pc.fill_null(mask, False)).to_pylist()  # type: ignore[no-any-return]


@dataclass
class Chunk:
    """The messages of one Arrow batch."""

    first: int
    """How many messages of the part stand before it."""
    batch: pa.RecordBatch
    refused: dict[int, str] = field(default_factory=dict)
    """Messages that are not sent, by their number in the chunk, and why."""

    def calls(self, topic: str | None, callback: Callable[[int], Any] | None) -> Iterator[tuple[Any, ...]]:
        """The arguments of `Producer.produce` for each message, the refused ones as well."""
        count = len(self.batch)
        callbacks = repeat(None, count) if callback is None else map(callback, range(count))
        return zip(
            self._column("_topic", topic),
            self._column("value"),
            self._column("_key"),
            self._column("_partition", _ANY_PARTITION),
            callbacks,
            repeat(None),
            self._times(),
            self._headers(),
            strict=False,
        )

    def payload(self, number: int) -> str:
        """The row of a message, as JSON."""
        name = ROW if ROW in self.batch.schema.names else "value"
        value = self.batch.column(name)[number].as_py()
        return value if isinstance(value, str) else (value or b"null").decode("utf-8", "replace")

    def _column(self, name: str, otherwise: Any = None) -> Iterable[Any]:
        if name not in self.batch.schema.names:
            return repeat(otherwise, len(self.batch))
        column = self.batch.column(name)
        values: list[Any] = column.to_pylist()
        if otherwise is None or not column.null_count:
            return values
        return [otherwise if value is None else value for value in values]

    def _times(self) -> Iterable[int]:
        """Milliseconds since 1970; 0 is now."""
        if "_timestamp" not in self.batch.schema.names:
            return repeat(0)
        import pyarrow as pa
        import pyarrow.compute as pc

        micros = self.batch.column("_timestamp").cast(pa.timestamp("us", "UTC")).cast(pa.int64())
        millis: list[int] = pc.fill_null(pc.divide(micros, 1000), 0).to_pylist()
        return millis

    def _headers(self) -> Iterable[Any]:
        if "_headers" not in self.batch.schema.names:
            return repeat(None)
        rows: list[Sequence[dict[str, Any]] | None] = self.batch.column("_headers").to_pylist()
        return [[(h["key"], h["value"]) for h in row] if row else None for row in rows]


def chunks_of(batches: Iterable[pa.RecordBatch], target: Target) -> Iterator[Chunk]:
    """The messages of a part, with those marked that are refused for certain."""
    first = 0
    for batch in batches:
        yield Chunk(first, batch, target.refuses(batch))
        first += len(batch)
