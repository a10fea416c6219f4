"""How a connector is tried by the conformance suite, and the rows that it is tried with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import date, datetime, timezone
from typing import TYPE_CHECKING, Any, Literal

from penstock.connectors.base import (
    Batch,
    Column,
    Connector,
    Format,
    Offset,
    Reader,
    ReadRequest,
    SinkOptions,
    SourceOptions,
    Split,
)
from penstock.schema import ddl

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Row = dict[str, Any]

COLUMNS = (
    Column("id", "BIGINT"),
    Column("name", "STRING"),
    Column("amount", "DOUBLE"),
    Column("day", "DATE"),
    Column("at", "TIMESTAMP"),
)


def known_rows(first: int = 0, count: int = 20) -> list[Row]:
    """Rows of COLUMNS, each one different; some values are null."""
    return [
        {
            "id": n,
            "name": f'naïve, "quoted" {n}',
            "amount": None if n % 7 == 3 else n / 8,
            "day": date(2024, 2, 1 + n % 28),
            "at": datetime(2024, 2, 1, n % 24, 30, 15, tzinfo=timezone.utc),
        }
        for n in range(first, first + count)
    ]


class Subject:
    """A connector, and how it is tried: a source with known rows, a target, and a reader of the target that
    has nothing to do with the connector."""

    connector: Connector
    required: frozenset[str]
    """Capabilities that it must declare, so that none passes by declaring less."""
    columns: tuple[Column, ...] = COLUMNS
    format: Format | None = None

    def session(self, spark: SparkSession) -> SparkSession:
        """The session that it is tried in."""
        return spark

    def source(self) -> SourceOptions:
        """A source that holds `rows()`."""
        raise NotImplementedError

    def rows(self) -> list[Row]:
        return known_rows()

    def unbounded_source(self, name: str = "first") -> SourceOptions:
        """A source that goes on; the same one for the same name. It holds `rows()` when first asked for."""
        raise NotImplementedError

    def add(self, rows: list[Row]) -> None:
        """Puts rows into `source()` and `unbounded_source()`, whichever were asked for, after they were made.

        Only for connectors that are unbounded, or find rows by key.
        """
        raise NotImplementedError

    def declared(self) -> tuple[Column, ...]:
        """Columns that a statement declares for the source; a type may be unlike the one it would find."""
        return (Column("id", "INT"), *self.columns[1:])

    def middle(self, reader: Reader, split: Split) -> Offset:
        """A position inside a split, after some of its rows and before others."""
        first, last = reader.earliest(split), reader.latest(split)
        assert isinstance(first, int)
        assert isinstance(last, int)
        return (first + last) // 2

    def sink(self, mode: Literal["append", "overwrite"] | None) -> SinkOptions:
        """A target that does not exist at first; the same one each time."""
        raise NotImplementedError

    def merging_sink(self, **options: Any) -> SinkOptions:
        """The same target, to be merged into by `id`; only for connectors that update rows."""
        raise NotImplementedError

    def stored(self) -> list[Row]:
        """The rows of the target, read by other means."""
        raise NotImplementedError

    def leftovers(self) -> list[str]:
        """Whatever stands at the target beside rows that were delivered."""
        return []

    def request(self, **changes: Any) -> ReadRequest:
        return replace(ReadRequest(format=self.format), **changes)

    def batch(self, number: int) -> Batch:
        return Batch("conformance", "0", number, datetime(2024, 2, 3, tzinfo=timezone.utc), self.format)


def same_rows(got: Iterable[Row], expected: Iterable[Row], what: str) -> None:
    """Raises unless both hold the same rows, in whatever order, each as often."""
    have, want = (Counter(tuple(sorted(row.items())) for row in rows) for rows in (got, expected))
    missing, extra = want - have, have - want
    assert not missing, f"{what}: {missing.total()} of {want.total()} rows are missing: {next(iter(missing))}"
    assert not extra, f"{what}: {extra.total()} rows too many: {next(iter(extra))}"


def in_utc(time: datetime) -> datetime:
    return time if time.tzinfo else time.replace(tzinfo=timezone.utc)


def rows_of(frame: DataFrame) -> list[Row]:
    """The rows of a frame, times with their zone."""
    rows: list[Row] = frame.toArrow().to_pylist()
    return rows


def frame_of(
    spark: SparkSession, rows: list[Row], parts: int = 3, columns: Sequence[Column] = COLUMNS
) -> DataFrame:
    import pyarrow as pa

    frame = spark.createDataFrame(pa.Table.from_pylist(rows), ddl(tuple(columns)))
    return frame.repartition(parts, "id")


def failing_frame(spark: SparkSession, rows: list[Row]) -> DataFrame:
    """Rows of which the last one cannot be made, when others have been written already."""
    from pyspark.sql import functions as f

    bad = f.when(f.col("id") == rows[-1]["id"], f.raise_error(f.lit("made to fail")))
    # More tasks than run side by side, and the last row in the last one.
    ordered = frame_of(spark, rows).repartitionByRange(3 * spark.sparkContext.defaultParallelism, "id")
    return ordered.withColumn("name", f.coalesce(bad.cast("string"), f.col("name")))
