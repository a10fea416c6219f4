"""What every connector must do, by its capabilities: one suite for all, never edited for one of them.

A check raises AssertionError and says what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from penstock.connectors.base import Column, Connector, Offset, Reader, Split

from . import conformance_merges as merges
from . import conformance_streams as streams
from .subject import COLUMNS, Row, Subject, failing_frame, frame_of, known_rows, rows_of, same_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["CHECKS", "COLUMNS", "Check", "Row", "Subject", "checks_for", "known_rows"]


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
    if subject.connector.capabilities.overwrite:  # where rows are only ever added, nobody need say what to do
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
    sink, failing = subject.sink("append"), failing_frame(spark, known_rows())
    with pytest.raises(Exception, match="made to fail"):
        subject.connector.write(handed_over(failing, subject), sink, subject.batch(0))
    same_rows(subject.stored(), [], "after a batch that failed")
    assert subject.leftovers() == [], "left by a batch that failed"
    subject.connector.write(frame_of(spark, known_rows()), subject.sink("append"), subject.batch(0))
    same_rows(subject.stored(), known_rows(), "written after a batch that failed")


def handed_over(frame: DataFrame, subject: Subject) -> DataFrame:
    """A batch as the engine hands it over: made before, for a sink that needs the same parts again."""
    kept = subject.connector.needs_parts(subject.sink("append"))
    return frame.localCheckpoint() if kept else frame


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
    """The last batch again, in other parts: that of a bounded statement, and that of a stream."""
    for streaming, first in ((False, 0), (True, 2)):
        for number, parts in ((first, 3), (first + 1, 3), (first + 1, 2)):
            batch = replace(subject.batch(number), streaming=streaming)
            subject.connector.write(
                frame_of(spark, known_rows(100 * number), parts), subject.sink("append"), batch
            )
        expected = [row for number in range(first + 2) for row in known_rows(100 * number)]
        same_rows(
            subject.stored(), expected, f"a batch that ran twice, {'of a stream' if streaming else 'bounded'}"
        )


def finds_rows_by_key(spark: SparkSession, subject: Subject) -> None:
    from pyspark.sql import functions as f

    source, (first, *_, last) = subject.source(), [row["id"] for row in subject.rows()]
    nobody = 999_999_999
    for keys in ((first, nobody, last), (last,), (nobody,)):
        condition = ("id", "in", keys) if len(keys) > 1 else ("id", "=", keys[0])
        frame = subject.connector.read(spark, source, subject.request(filters=(condition,)))
        expected = [row for row in subject.rows() if row["id"] in keys]
        same_rows(rows_of(frame.where(f.col("id").isin(*keys))), expected, f"looked up by {condition}")


def finds_rows_that_were_added_since(spark: SparkSession, subject: Subject) -> None:
    from pyspark.sql import functions as f

    source, added = subject.source(), known_rows(1000, 3)
    request = subject.request(filters=(("id", "=", 1001),))

    def found() -> list[Row]:
        return rows_of(subject.connector.read(spark, source, request).where(f.col("id") == 1001))

    same_rows(found(), [], "looked up before it was there")
    subject.add(added)
    same_rows(found(), added[1:2], "looked up after it was added")


def takes_a_new_column(spark: SparkSession, subject: Subject) -> None:
    wider = (*COLUMNS, Column("note", "STRING"))
    noted = [row | {"note": f"note {row['id']}"} for row in known_rows(100)]
    batches = ((known_rows(), COLUMNS), (noted, wider), (known_rows(200), COLUMNS))
    expected: list[Row] = []
    for number, (rows, columns) in enumerate(batches):
        frame = frame_of(spark, rows, columns=columns)
        subject.connector.write(frame, subject.sink("append"), subject.batch(number))
        expected += rows
        names = [c.name for c in (wider if number else COLUMNS)]
        # Files have no columns of their own, and may leave out what is null.
        got = [{name: row.get(name) for name in names} for row in subject.stored()]
        wanted = [{name: row.get(name) for name in names} for row in expected]
        same_rows(got, wanted, ("before the new column", "with the new column", "without it again")[number])


Check = Callable[["SparkSession", Subject], None]

TOOLKIT_REPLAY: tuple[Check, ...] = (replays_a_range, starts_at_a_position, starts_at_a_position_in_spark)

CHECKS: dict[str, tuple[Check, ...]] = {
    "bounded": (
        reads_all_rows,
        reads_only_the_columns_that_are_used,
        reads_for_counting,
        reads_declared_columns,
    ),
    "unbounded": streams.UNBOUNDED,
    "replay": (*TOOLKIT_REPLAY, *streams.REPLAY),
    "lookup": (finds_rows_by_key, finds_rows_that_were_added_since),
    "append": (appends, failed_append_leaves_nothing),
    "overwrite": (overwrites, failed_overwrite_keeps_the_rows),
    "upsert": merges.UPSERT,
    "delete": merges.DELETE,
    "create_target": (makes_the_target,),
    "transactional": (repeated_batch_changes_nothing,),
    "evolve_schema": (takes_a_new_column,),
}


def checks_for(connector: Connector) -> list[Check]:
    """The checks that a connector's capabilities select; positions are tried where it has them."""
    without: set[Check] = set()
    if type(connector).reader is Connector.reader:
        without.update(TOOLKIT_REPLAY)
    if not connector.capabilities.unbounded:
        without.update(streams.REPLAY)
    selected = [check for name in connector.capabilities.names() for check in CHECKS.get(name, ())]
    return [check for check in selected if check not in without]
