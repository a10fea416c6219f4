"""JSON Lines and CSV of local files, decoded outside the JVM: a Python data source of Spark.

The driver plans (`load`): it knows the files, their headers and splits. Workers decode chunks of lines into
Arrow batches and apply the filters that Spark pushes, so that only rows that are wanted reach the JVM.
"""

from __future__ import annotations

import gc
import json
import sys
import zipimport
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition

from penstock.formats.base import METADATA, REJECTED, REJECTS
from penstock.formats.csv_record import Dialect
from penstock.formats.frames import spark_ddl
from penstock.formats.kinds import Field
from penstock.formats.lines import Split
from penstock.schema import Column, quoted

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from penstock.formats.filters import Filters

_NAME = "penstock_lines"
_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
_METADATA_TYPES = {
    "filename": "STRING", "path": "STRING", "size": "BIGINT", "modified": "TIMESTAMP", "row_number": "BIGINT",
}  # fmt: skip


@dataclass(frozen=True)
class Task:
    """What to decode, and how; travels to the workers as JSON."""

    columns: list[Column]
    mode: str
    """`fail`, `mark` or `rejects`."""
    zone: str
    metadata: list[str]
    dialect: Dialect | None = None
    """Of CSV; None for JSON."""
    encoding: str = "utf-8"

    @classmethod
    def from_json(cls, text: str) -> Task:
        values = json.loads(text)
        dialect = values.pop("dialect")
        columns = [Column(**column) for column in values.pop("columns")]
        return cls(columns, dialect=Dialect(**dialect) if dialect else None, **values)


def load(spark: SparkSession, task: Task, splits: Sequence[Split]) -> DataFrame:
    """The rows of a task."""
    if spark.conf.get(_PUSHDOWN) != "true":
        spark.conf.set(_PUSHDOWN, "true")
    spark.dataSource.register(Lines)
    schema = REJECTS if task.mode == "rejects" else ", ".join(_schema(task))
    frame = (
        spark.read.format(_NAME)
        .schema(schema)
        .option("task", json.dumps(asdict(task)))
        .option("splits", json.dumps([asdict(split) for split in splits]))
        .load()
    )
    if task.mode == "fail":
        return frame.select(*(quoted(name) for name in frame.columns if name != REJECTED))
    return frame


def _schema(task: Task) -> Iterator[str]:
    if task.columns:
        yield spark_ddl(task.columns)
    if task.metadata:
        yield f"{METADATA} STRUCT<{', '.join(f'{name}: {_METADATA_TYPES[name]}' for name in task.metadata)}>"
    # Also when bad records fail: a frame of no columns has no rows either.
    yield f"{REJECTED} BOOLEAN"


class Lines(DataSource):
    """The entry that Spark knows."""

    @classmethod
    def name(cls) -> str:
        return _NAME

    def reader(self, schema: StructType) -> DataSourceReader:
        return _Reader(self.options["task"], self.options["splits"])


@dataclass
class _Range(InputPartition):
    split: Split


class _Reader(DataSourceReader):
    def __init__(self, task: str, splits: str) -> None:
        self._task = Task.from_json(task)
        self._splits = splits
        self._filters: list[Filter] = []

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:
        taken = self._filter()
        for filter in filters:
            if self._task.mode != "rejects" and taken.take(filter):
                self._filters.append(filter)
            else:
                yield filter

    def _filter(self) -> Filters:
        from penstock.formats.filters import Filters

        filters = Filters([Field.of(column) for column in self._task.columns])
        for filter in self._filters:
            filters.take(filter)
        return filters

    def partitions(self) -> Sequence[InputPartition]:
        splits = [_Range(Split(**split)) for split in json.loads(self._splits)]
        # Spark makes one partition of none, and reads it.
        return splits or [_Range(Split("", 0, 0, 0, 0))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Range)
        _quicken()
        from penstock.formats.batches import Batches

        if partition.split.path:
            yield from Batches(self._task, self._filter()).read(partition.split)


@cache
def _quicken() -> None:
    """Frees tasks of what Spark does before and after each of them.

    It invalidates import caches, for which Python reads the index of every archive on its path anew, and it
    collects garbage, for which Python visits every object of the modules that are loaded.
    """
    import penstock.formats.batches  # noqa: F401

    for finder in sys.path_importer_cache.values():
        if isinstance(finder, zipimport.zipimporter):
            finder.invalidate_caches = _nothing  # type: ignore[method-assign]
    gc.freeze()


def _nothing() -> None:
    pass
