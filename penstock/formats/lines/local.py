"""Local files of lines, decoded outside the JVM: what the driver does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.formats.frames import spark_ddl
from penstock.formats.lines.csv_record import Dialect
from penstock.formats.lines.splits import Split, plan_splits
from penstock.formats.lines.tasks import Task
from penstock.formats.records import METADATA, REJECTED, REJECTS
from penstock.schema import METADATA_TYPES, Column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Inspect = Callable[[Path], tuple[int, Any]]


def read_local(
    spark: SparkSession,
    files: Sequence[Path],
    used: Sequence[Column],
    request: Any,
    *,
    dialect: Dialect | None = None,
    encoding: str = "utf-8",
    inspect: Inspect = lambda _: (0, None),
) -> DataFrame:
    """The rows of these files as a request wants them."""
    metadata = tuple(name for name in METADATA_TYPES if name in request.metadata)
    task = Task(
        columns=tuple(used),
        mode="fail" if request.on_error == "fail" else "mark",
        zone=_zone(spark),
        metadata=metadata,
        conditions=tuple(request.filters),
        dialect=dialect,
        encoding=encoding,
    )
    splits = _splits(spark, files, dialect, encoding, inspect, whole="row_number" in metadata)
    return _run(spark, task, splits, ", ".join(_schema(task)))


def local_rejects(
    spark: SparkSession,
    files: Sequence[Path],
    used: Sequence[Column],
    *,
    dialect: Dialect | None = None,
    encoding: str = "utf-8",
    inspect: Inspect = lambda _: (0, None),
) -> DataFrame:
    """The bad records of these files."""
    task = Task(tuple(used), "rejects", _zone(spark), dialect=dialect, encoding=encoding)
    return _run(spark, task, _splits(spark, files, dialect, encoding, inspect), REJECTS)


def _zone(spark: SparkSession) -> str:
    return spark.conf.get("spark.sql.session.timeZone") or "UTC"


def _splits(
    spark: SparkSession,
    files: Sequence[Path],
    dialect: Dialect | None,
    encoding: str,
    inspect: Inspect,
    whole: bool = False,
) -> list[Split]:
    whole = whole or encoding != "utf-8" or bool(dialect and dialect.multiline)
    return plan_splits(files, spark.sparkContext.defaultParallelism, whole=whole, inspect=inspect)


def _schema(task: Task) -> list[str]:
    parts = [spark_ddl(task.columns)] if task.columns else []
    if task.metadata:
        fields = ", ".join(f"{name}: {METADATA_TYPES[name]}" for name in task.metadata)
        parts.append(f"{METADATA} STRUCT<{fields}>")
    return [*parts, f"{REJECTED} BOOLEAN"] if task.marks else parts


def _run(spark: SparkSession, task: Task, splits: list[Split], schema: str) -> DataFrame:
    """One partition for each split, which it is told by its number."""
    if not splits:
        frame = spark.createDataFrame([], schema)
    else:
        numbers = spark.range(0, len(splits), 1, len(splits))
        frame = numbers.mapInArrow(task.over(splits), schema)
    return frame.drop(REJECTED) if task.mode == "fail" and task.marks else frame
