"""What every connector must do, by its capabilities: one suite for all, never edited for one of them.

A `Subject` says how a connector is tried: a source with known rows, a target, and a reader of the target
that has nothing to do with the connector. A check raises AssertionError and says what is wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import date, datetime, timezone
from typing import TYPE_CHECKING, Any, Literal

import pytest

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
    """A connector, and how it is tried."""

    connector: Connector
    required: frozenset[str]
    """Capabilities that it must declare, so that none passes by declaring less."""
    columns: tuple[Column, ...] = COLUMNS
    format: Format | None = None

    def source(self) -> SourceOptions:
        """A source that holds `rows()`."""
        raise NotImplementedError

    def rows(self) -> list[Row]:
        return known_rows()

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


def rows_of(frame: DataFrame) -> list[Row]:
    """The rows of a frame, times with their zone."""
    rows: list[Row] = frame.toArrow().to_pylist()
    return rows


def frame_of(spark: SparkSession, rows: list[Row], parts: int = 3) -> DataFrame:
    import pyarrow as pa

    frame = spark.createDataFrame(pa.Table.from_pylist(rows), ddl(COLUMNS))
    return frame.repartition(parts, "id")


def failing_frame(spark: SparkSession, rows: list[Row]) -> DataFrame:
    """Rows of which the last one cannot be made, when others have been written already."""
    from pyspark.sql import functions as f

    bad = f.when(f.col("id") == rows[-1]["id"], f.raise_error(f.lit("made to fail")))
    # More tasks than run side by side, and the last row in the last one.
    ordered = frame_of(spark, rows).repartitionByRange(3 * spark.sparkContext.defaultParallelism, "id")
    return ordered.withColumn("name", f.coalesce(bad.cast("string"), f.col("name")))


def reads_all_rows(spark: SparkSession, subject: Subject) -> None:
    frame = subject.connector.read(spark, subject.source(), subject.request())
    same_rows(rows_of(frame), subject.rows(), "read")


def reads_only_the_columns_that_are_used(spark: SparkSession, subject: Subject) -> None:
    source = subject.source()
    for column in subject.columns:
        request = subject.request(used=frozenset({column.name.lower(), "unrelated"}))
        frame = subject.connector.read(spark, source, request)
        assert frame.columns == [column.name], f"asked for {column.name}, got {frame.columns}"
        expected = [{column.name: row[column.name]} for row in subject.rows()]
        same_rows(rows_of(frame), expected, f"column {column.name}")


def reads_for_counting(spark: SparkSession, subject: Subject) -> None:
    frame = subject.connector.read(spark, subject.source(), subject.request(used=frozenset()))
    assert frame.count() == len(subject.rows()), "counting without columns gives another number"


def reads_declared_columns(spark: SparkSession, subject: Subject) -> None:
    columns = subject.declared()
    frame = subject.connector.read(spark, subject.source(), subject.request(columns=columns))
    got = [(field.name, field.dataType.simpleString().upper()) for field in frame.schema.fields]
    assert got == [(c.name, c.type) for c in columns], f"declared {columns}, got {got}"
    expected = [{c.name: row[c.name] for c in columns} for row in subject.rows()]
    same_rows(rows_of(frame), expected, "declared columns")


def replays_a_range(spark: SparkSession, subject: Subject) -> None:
    reader = subject.connector.reader(subject.source())
    for split in reader.splits():
        bounds = (reader.earliest(split), reader.latest(split))
        once, again = (_range(reader, split, *bounds) for _ in range(2))
        assert once == again, f"split {split.id}: the same range gives other rows the second time"


def starts_at_a_position(spark: SparkSession, subject: Subject) -> None:
    reader = subject.connector.reader(subject.source())
    for split in reader.splits():
        first, middle, last = reader.earliest(split), subject.middle(reader, split), reader.latest(split)
        whole = _range(reader, split, first, last)
        before, after = _range(reader, split, first, middle), _range(reader, split, middle, last)
        assert before, f"split {split.id}: no rows before position {middle}"
        early = [row for row in after if row in before]
        assert not early, f"split {split.id}: read from {middle}, got rows before it: {early[0]}"
        same_rows(before + after, whole, f"split {split.id}, read in two ranges")


def starts_at_a_position_in_spark(spark: SparkSession, subject: Subject) -> None:
    from penstock.connectors.adapter import Range, read_ranges

    reader = subject.connector.reader(subject.source())
    ranges = [Range(s, subject.middle(reader, s), reader.latest(s)) for s in reader.splits()]
    expected = [row for r in ranges for row in _range(reader, r.split, r.start, r.stop)]
    assert len(expected) < len(subject.rows()), "read from the middle, got all rows"
    same_rows(rows_of(read_ranges(spark, reader, ranges, reader.columns())), expected, "ranges in Spark")


def _range(reader: Reader, split: Split, start: Offset, stop: Offset) -> list[Row]:
    rows: list[Row] = []
    for some in reader.read(split, start, stop):
        rows += [some] if isinstance(some, dict) else some.to_pylist()
    return rows


def makes_the_target(spark: SparkSession, subject: Subject) -> None:
    sink = subject.sink(None)
    subject.connector.check_target(spark, sink)
    assert not subject.connector.holds_rows(spark, sink), "a target that is not there holds rows"
    subject.connector.write(frame_of(spark, known_rows()), sink, subject.batch(0))
    same_rows(subject.stored(), known_rows(), "written to a new target")
    assert subject.connector.holds_rows(spark, sink), "the target was written, but holds no rows"
    assert subject.leftovers() == [], "left beside the rows"


def appends(spark: SparkSession, subject: Subject) -> None:
    for number, first in enumerate((0, 100, 200)):
        subject.connector.write(
            frame_of(spark, known_rows(first)), subject.sink("append"), subject.batch(number)
        )
    expected = [row for first in (0, 100, 200) for row in known_rows(first)]
    same_rows(subject.stored(), expected, "appended three times")


def failed_append_leaves_nothing(spark: SparkSession, subject: Subject) -> None:
    with pytest.raises(Exception, match="made to fail"):
        subject.connector.write(failing_frame(spark, known_rows()), subject.sink("append"), subject.batch(0))
    same_rows(subject.stored(), [], "after a batch that failed")
    assert subject.leftovers() == [], "left by a batch that failed"
    subject.connector.write(frame_of(spark, known_rows()), subject.sink("append"), subject.batch(0))
    same_rows(subject.stored(), known_rows(), "written after a batch that failed")


def overwrites(spark: SparkSession, subject: Subject) -> None:
    subject.connector.write(frame_of(spark, known_rows()), subject.sink(None), subject.batch(0))
    new = known_rows(100, 7)
    subject.connector.write(frame_of(spark, new), subject.sink("overwrite"), subject.batch(1))
    same_rows(subject.stored(), new, "overwritten")
    assert subject.leftovers() == [], "left beside the rows"


def failed_overwrite_keeps_the_rows(spark: SparkSession, subject: Subject) -> None:
    subject.connector.write(frame_of(spark, known_rows()), subject.sink(None), subject.batch(0))
    with pytest.raises(Exception, match="made to fail"):
        subject.connector.write(
            failing_frame(spark, known_rows(100)), subject.sink("overwrite"), subject.batch(1)
        )
    same_rows(subject.stored(), known_rows(), "after an overwrite that failed")
    assert subject.leftovers() == [], "left by a batch that failed"


def repeated_batch_changes_nothing(spark: SparkSession, subject: Subject) -> None:
    for number, rows, parts in ((0, known_rows(), 3), (1, known_rows(100), 3), (1, known_rows(100), 2)):
        subject.connector.write(frame_of(spark, rows, parts), subject.sink("append"), subject.batch(number))
    same_rows(subject.stored(), known_rows() + known_rows(100), "a batch that ran twice")


Check = Callable[["SparkSession", Subject], None]

CHECKS: dict[str, tuple[Check, ...]] = {
    "bounded": (
        reads_all_rows,
        reads_only_the_columns_that_are_used,
        reads_for_counting,
        reads_declared_columns,
    ),
    "replay": (replays_a_range, starts_at_a_position, starts_at_a_position_in_spark),
    "append": (appends, failed_append_leaves_nothing),
    "overwrite": (overwrites, failed_overwrite_keeps_the_rows),
    "create_target": (makes_the_target,),
    "transactional": (repeated_batch_changes_nothing,),
}


def checks_for(connector: Connector) -> list[Check]:
    """The checks that a connector's capabilities select."""
    return [check for name in connector.capabilities.names() for check in CHECKS.get(name, ())]
