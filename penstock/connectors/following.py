"""Readers of the toolkit as streams of Spark's, which go on as rows arrive.

Spark keeps the end of each batch, and hands it back after a restart before it asks for anything. Where the
stream began is kept with it, so that the first batch is the same when it runs again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader

from penstock.connectors.adapter import Pickled, Range, cloudpickle, in_batches, register
from penstock.connectors.base import Offset, Reader, Split
from penstock.connectors.telling import lost, telling

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

Offsets = dict[str, Offset]
"""By split."""
_FIRST = "/first"


def follow(
    spark: SparkSession,
    reader: Reader,
    name: str,
    begin: Offsets,
    *,
    end: Offsets | None = None,
    rows: int | None = None,
) -> DataFrame:
    """The rows of a reader's splits from `begin` on, and up to `end`, so many at most in a batch.

    A split that appears later is read from its earliest row. `name` is that of the source, for people.
    """
    payload = (reader, name, begin, end, rows)
    alias = register(spark, _Source, reader, payload, reader.columns())
    return spark.readStream.format(alias).load()


class _Source(Pickled):
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        reader, name, begin, end, rows = cloudpickle.loads(self.payload)
        return Follower(reader, name, begin, end, rows, schema)


class Follower(DataSourceStreamReader):
    """Lives as long as its query. It moves on only when Spark asks for the partitions of a batch."""

    def __init__(
        self,
        reader: Reader,
        name: str,
        begin: Offsets,
        end: Offsets | None,
        rows: int | None,
        schema: StructType | None = None,
    ) -> None:
        self._reader, self._name, self._first, self._end, self._rows = reader, name, begin, end, rows
        self._at = begin
        self._schema = schema

    def initialOffset(self) -> dict[str, Offsets]:
        return self._told(self._first)

    def latestOffset(self) -> dict[str, Offsets]:
        with telling():
            ends = {s.id: self._reader.latest(s) for s in self._reader.splits()}
            for id in ends.keys() - self._first.keys():
                self._first = {**self._first, id: self._reader.earliest(Split(id))}
            if self._end is not None:
                ends = {id: self._end.get(id, self._first[id]) for id in ends}
            at = {**self._first, **self._at}
            for id, end in ends.items():
                if isinstance(end, int) and isinstance(was := at[id], int) and end < was:
                    raise lost(f"{self._name}, split {id} ends at {end}, before our position {was}")
            return self._told({**at, **_limited(at, ends, self._rows)})

    def partitions(self, start: dict[str, Offsets], end: dict[str, Offsets]) -> list[Range]:
        first, stop = end[_FIRST], end[self._name]
        self._first, self._at = first, stop
        # What is begun anew may have another beginning by now; the batch keeps that which it had.
        begin = first if start[self._name] == start[_FIRST] else {**first, **start[self._name]}
        return [Range(Split(id), begin[id], to) for id, to in stop.items() if to != begin[id]]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        from pyspark.sql.pandas.types import to_arrow_schema

        assert self._schema is not None
        rows = self._reader.read(partition.split, partition.start, partition.stop)
        yield from in_batches(iter(rows), to_arrow_schema(self._schema))

    def _told(self, offsets: Offsets) -> dict[str, Offsets]:
        """In one order, since Spark compares texts."""
        return {name: dict(sorted(o.items())) for name, o in ((self._name, offsets), (_FIRST, self._first))}


def _limited(at: Offsets, ends: Offsets, rows: int | None) -> Offsets:
    """Ends of a batch of so many rows, shared by the splits as they have them waiting."""
    waiting = {
        id: end - was
        for id, end in ends.items()
        if isinstance(end, int) and isinstance(was := at[id], int) and end > was
    }
    total = sum(waiting.values())
    if rows is None or total <= rows:
        return ends
    shares = {id: most * rows // total for id, most in waiting.items()}
    left = rows - sum(shares.values())
    for id in sorted(waiting, key=lambda id: shares[id] - waiting[id])[:left]:
        shares[id] += 1
    limited: Offsets = {id: int(at[id]) + share for id, share in shares.items()}
    return {**ends, **limited}
