"""Readers and writers that know nothing of Spark, run by it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from penstock.connectors import adapter
from penstock.connectors.base import Batch, Column, Offset, Part, Reader, ReadRequest, Split, Writer
from penstock.errors import DataError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCH = Batch("p", "0", 3, datetime(2024, 1, 1, tzinfo=timezone.utc))
SCHEMA = pa.schema([("a", pa.int64()), ("t", pa.timestamp("us", "UTC"))])


class Numbers(Reader):
    """Splits of the given sizes, as Arrow batches with a column that nobody declared, or as rows."""

    def __init__(self, sizes: list[int], arrow: bool) -> None:
        self.sizes = sizes
        self.arrow = arrow

    def columns(self) -> tuple[Column, ...]:
        return (Column("a", "INT", nullable=False), Column("B c", "STRING"))

    def splits(self) -> list[Split]:
        return [Split(str(i)) for i in range(len(self.sizes))]

    def earliest(self, split: Split) -> Offset:
        return 0

    def latest(self, split: Split) -> Offset:
        return self.sizes[int(split.id)]

    def read(self, split: Split, start: Offset, stop: Offset) -> Iterator[Any]:
        rows = [{"a": int(split.id) * 100 + n, "B c": f"<{n}>"} for n in range(int(start), int(stop))]
        if self.arrow:
            yield pa.RecordBatch.from_pylist([{"extra": 1, **row} for row in rows])
        else:
            yield from rows


class Failing(Writer):
    """Notes what it is asked in a folder."""

    def __init__(self, folder: Path, fails: str = "") -> None:
        self.folder = str(folder)
        self.fails = fails

    def note(self, what: str) -> None:
        Path(self.folder, what).touch()
        if what.startswith(self.fails or "never"):
            raise ValueError(f"{what} failed")

    def write(self, rows: Iterator[pa.RecordBatch], part: Part) -> None:
        count = sum(batch.num_rows for batch in rows)
        self.note(f"part {part.name} of {part.batch.number} has {count}")

    def commit(self, batch: Batch) -> None:
        self.note("commit")

    def abort(self, batch: Batch) -> None:
        self.note("abort")


def notes(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.spark
@pytest.mark.parametrize("arrow", [True, False])
def test_a_split_is_a_task(spark: SparkSession, arrow: bool) -> None:
    frame = adapter.read(spark, Numbers([2, 0, 3], arrow), ReadRequest())
    assert [(f.name, f.dataType.simpleString(), f.nullable) for f in frame.schema.fields] == [
        ("a", "int", False), ("B c", "string", True),
    ]  # fmt: skip
    assert sorted(row.a for row in frame.collect()) == [0, 1, 200, 201, 202]
    assert frame.rdd.getNumPartitions() == 2


@pytest.mark.spark
def test_no_splits_are_no_rows(spark: SparkSession) -> None:
    assert adapter.read(spark, Numbers([], True), ReadRequest()).count() == 0


@pytest.mark.spark
def test_declared_columns_name_and_type_the_rows(spark: SparkSession) -> None:
    columns = (Column("b C", "STRING"), Column("A", "DOUBLE"))
    frame = adapter.read(spark, Numbers([1], True), ReadRequest(columns=columns))
    assert frame.columns == ["b C", "A"]
    assert tuple(frame.collect()[0]) == ("<0>", 0.0)


def test_a_declared_column_must_be_there() -> None:
    columns = (Column("a", "INT"), Column("bb", "INT"))
    with pytest.raises(DataError) as caught:
        adapter.chosen(columns[:1], ReadRequest(columns=columns))
    assert (caught.value.code, caught.value.hint) == ("unknown-column", "known: a")


@pytest.mark.spark
def test_rows_go_by_their_partition(spark: SparkSession, tmp_path: Path) -> None:
    adapter.write(spark.range(10, numPartitions=2), Failing(tmp_path), BATCH)
    assert notes(tmp_path) == ["commit", "part 00000 of 3 has 5", "part 00001 of 3 has 5"]


@pytest.mark.spark
@pytest.mark.parametrize("fails", ["part 00001", "commit"])
def test_a_failure_aborts_and_is_told(spark: SparkSession, tmp_path: Path, fails: str) -> None:
    with pytest.raises(Exception, match=f"{fails}.*failed"):
        adapter.write(spark.range(10, numPartitions=2), Failing(tmp_path, fails), BATCH)
    assert "abort" in notes(tmp_path)
    assert ("commit" in notes(tmp_path)) == (fails == "commit")


def test_rows_become_batches_with_nulls_for_what_they_lack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapter, "_ROWS", 2)
    noon = datetime(2024, 1, 1, 12)
    batches = list(adapter.in_batches(iter([{"a": 1, "t": noon}, {"a": 2}, {"x": 0}]), SCHEMA))
    assert [batch.to_pylist() for batch in batches] == [
        [{"a": 1, "t": noon.replace(tzinfo=timezone.utc)}, {"a": 2, "t": None}],
        [{"a": None, "t": None}],
    ]


def test_a_reader_yields_one_kind() -> None:
    batch = pa.RecordBatch.from_pylist([], schema=SCHEMA)
    with pytest.raises(TypeError, match="not both"):
        list(adapter.in_batches(iter([{"a": 1}, batch]), SCHEMA))
