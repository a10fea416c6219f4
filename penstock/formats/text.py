"""Lines of text, and files as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from penstock.errors import DataError, OptionError
from penstock.formats.base import Format
from penstock.formats.frames import broken_rows, finished, spark_ddl, under_base, wanted
from penstock.options import Options
from penstock.schema import Column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TextCompression = Literal["none", "gzip", "bzip2", "deflate", "snappy", "lz4"]
"""What Spark writes text files with, and reads again, without libraries of the system."""
TEXT_SUFFIX = {
    "none": "", "gzip": ".gz", "bzip2": ".bz2", "deflate": ".deflate", "snappy": ".snappy", "lz4": ".lz4",
}  # fmt: skip


_LINE = "\x01line"
"""A name that no partition has."""


class TextWriteOptions(Options):
    compression: TextCompression = Field("none", description="How written files are compressed.")


class Text(Format):
    """One column, `value`, with a line of the file in each row."""

    name = "text"
    aliases = ("txt", "log")
    extensions = ("txt", "log", "text")
    WriteOptions = TextWriteOptions

    @property
    def suffix(self) -> str:
        return f".txt{TEXT_SUFFIX[self.options.compression]}"

    def discover(self, spark: SparkSession, paths: list[str]) -> tuple[Column, ...]:
        return (Column("value", "STRING"),)

    def read(
        self, spark: SparkSession, paths: list[str], columns: tuple[Column, ...], request: Any
    ) -> DataFrame:
        return finished(self._lines(spark, paths, columns, request), wanted(columns, request), request)

    def rejects(
        self, spark: SparkSession, paths: list[str], columns: tuple[Column, ...], request: Any
    ) -> DataFrame:
        return broken_rows(self._lines(spark, paths, columns, request), request.prune(columns))

    def _lines(
        self, spark: SparkSession, paths: list[str], columns: tuple[Column, ...], request: Any
    ) -> DataFrame:
        if len(columns) != 1:
            raise DataError(
                "text-columns",
                f"text has one column, not {len(columns)}",
                hint="declare it as (value STRING)",
            )
        schema = spark_ddl((Column(_LINE, "STRING"), *request.partitions))
        frame = under_base(spark.read.schema(schema), request).text(paths)
        return frame.withColumnRenamed(_LINE, columns[0].name)

    def write(self, frame: DataFrame, path: str, partition_by: tuple[str, ...] = ()) -> None:
        if [field.dataType.simpleString() for field in frame.schema.fields] != ["string"]:
            raise DataError(
                "text-columns",
                f"text takes one STRING column, not ({', '.join(frame.columns)})",
                hint="join them into one: SELECT concat_ws(' ', a, b) AS value",
            )
        frame.write.partitionBy(*partition_by).option("compression", self.options.compression).text(path)


class Binary(Format):
    """A row for each file: `path`, `modificationTime`, `length` and `content`. Read only."""

    name = "binary"
    aliases = ("bin",)
    extensions = ("bin",)

    @property
    def suffix(self) -> str:
        return ".bin"

    def discover(self, spark: SparkSession, paths: list[str]) -> tuple[Column, ...]:
        return (
            Column("path", "STRING"),
            Column("modificationTime", "TIMESTAMP"),
            Column("length", "BIGINT"),
            Column("content", "BINARY"),
        )

    def read(
        self, spark: SparkSession, paths: list[str], columns: tuple[Column, ...], request: Any
    ) -> DataFrame:
        frame = under_base(spark.read.format("binaryFile"), request).load(paths)
        known = {name.lower() for name in frame.columns}
        missing = [c.name for c in columns if c.name.lower() not in known]
        if missing:
            raise DataError(
                "binary-columns",
                f"binary files have no column '{missing[0]}'",
                hint="they have path, modificationTime, length and content",
            )
        return finished(frame, wanted(columns, request), request)

    def rejects(
        self, spark: SparkSession, paths: list[str], columns: tuple[Column, ...], request: Any
    ) -> DataFrame:
        frame = spark.read.format("binaryFile").load(paths)
        return broken_rows(frame, request.prune(columns))

    def write(self, frame: DataFrame, path: str, partition_by: tuple[str, ...] = ()) -> None:
        raise OptionError("read-only-format", "format 'binary' is only read", hint="write Parquet, or text")
