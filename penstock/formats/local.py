"""Local files of lines, decoded outside the JVM: what the driver does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from penstock.errors import DataError
from penstock.formats.csv_record import Dialect
from penstock.formats.kinds import Field, Mismatch, from_text
from penstock.formats.lines import plan_splits
from penstock.formats.paths import LocalFile
from penstock.schema import Column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Inspect = Callable[[LocalFile], tuple[int, Any]]


def read_local(
    spark: SparkSession,
    files: Sequence[LocalFile],
    used: Sequence[Column],
    request: Any,
    *,
    dialect: Dialect | None = None,
    encoding: str = "utf-8",
    inspect: Inspect = lambda _: (0, None),
) -> DataFrame:
    """The rows of these files as a request wants them."""
    mode = "fail" if request.on_error == "fail" else "mark"
    return _load(spark, files, used, mode, request.metadata, dialect, encoding, inspect)


def local_rejects(
    spark: SparkSession,
    files: Sequence[LocalFile],
    used: Sequence[Column],
    *,
    dialect: Dialect | None = None,
    encoding: str = "utf-8",
    inspect: Inspect = lambda _: (0, None),
) -> DataFrame:
    """The bad records of these files."""
    return _load(spark, files, used, "rejects", frozenset(), dialect, encoding, inspect)


def _load(
    spark: SparkSession,
    files: Sequence[LocalFile],
    used: Sequence[Column],
    mode: str,
    metadata: frozenset[str],
    dialect: Dialect | None,
    encoding: str,
    inspect: Inspect,
) -> DataFrame:
    from penstock.formats.source import Task, load

    _check_partitions(files, used)
    fields: list[str] = [
        name for name in ("filename", "path", "size", "modified", "row_number") if name in metadata
    ]
    task = Task(
        list(used), mode, spark.conf.get("spark.sql.session.timeZone") or "UTC", fields, dialect, encoding
    )
    whole = "row_number" in metadata or encoding != "utf-8" or bool(dialect and dialect.multiline)
    cores = spark.sparkContext.defaultParallelism
    return load(spark, task, plan_splits(files, cores, whole=whole, inspect=inspect))


def _check_partitions(files: Sequence[LocalFile], used: Sequence[Column]) -> None:
    """Folders' names must be values of the declared types: there is no record to set aside."""
    for file in files:
        for name, text in file.partition.items():
            column = next((c for c in used if c.name.lower() == name), None)
            if column is None or text is None:
                continue
            try:
                from_text(Field.of(column), text, "UTC")
            except Mismatch as failure:
                raise DataError("bad-partition", f"{file.path}: {failure}") from None
