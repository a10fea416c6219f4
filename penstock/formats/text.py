"""Lines of text, and files as they are. A message is one text, or its bytes as they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from penstock.errors import DataError, OptionError
from penstock.formats import expressions
from penstock.formats.base import Format
from penstock.formats.frames import broken_rows, finished, spark_ddl, under_base, wanted
from penstock.formats.lines.messages import VALUE
from penstock.formats.messages import written
from penstock.options import Options
from penstock.schema import Column, is_flat, quoted

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression
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


class _Whole(Format):
    """A message is one value: a single column, whatever its name."""

    in_messages = True
    _type: ClassVar[str]

    def _value(self) -> Expression:
        """The message as the column's value."""
        raise NotImplementedError

    def _problem(self) -> Expression:
        """What is wrong with a message."""
        raise NotImplementedError

    def sample(self, spark: SparkSession, messages: Sequence[bytes], source: str) -> tuple[Column, ...]:
        return (Column(VALUE, self._type),)

    def decode(
        self,
        frame: DataFrame,
        columns: tuple[Column, ...],
        request: Any,
        *,
        carried: Sequence[str] = (),
        place: Sequence[str] = (),
    ) -> DataFrame:
        used, records = request.prune(columns), self._records(columns)
        return expressions.rows(frame, used, request, records, self._problem(), carried=carried, place=place)

    def decode_rejects(
        self, frame: DataFrame, columns: tuple[Column, ...], request: Any, *, carried: Sequence[str] = ()
    ) -> DataFrame:
        used, records = request.prune(columns), self._records(columns)
        return expressions.rejects(frame, used, records, self._problem(), carried=carried)

    def encode(self, frame: DataFrame, carried: Sequence[str] = (), *, name: str = "") -> DataFrame:
        from pyspark.sql import functions as f

        names = written(frame, carried)
        types = [frame.schema[name].dataType.simpleString() for name in names]
        if types not in ([self._type.lower()], ["string"]):
            raise DataError(
                "text-columns",
                f"a message of {self.name} takes one {self._type} column, not ({', '.join(names)})",
                hint="join them into one: SELECT concat_ws(' ', a, b) AS value",
            )
        value = f.col(quoted(names[0])).cast("binary").alias(VALUE)
        return frame.select(value, *map(quoted, carried))

    def _records(self, columns: tuple[Column, ...]) -> Expression:
        from pyspark.sql import functions as f

        if len(columns) != 1 or not self._fits(columns[0]):
            raise DataError(
                "text-columns",
                f"a message of {self.name} has one {self._type} column, not"
                f" ({', '.join(f'{c.name} {c.type}' for c in columns)})",
                hint=f"declare it as (value {self._type})",
            )
        good = f.lit(None).cast("string").alias(expressions.BAD)
        return f.array(f.struct(self._value().alias(columns[0].name), good))

    def _fits(self, column: Column) -> bool:
        return column.type.upper() == self._type or (
            self._type == "STRING" and is_flat(column) and "CHAR" in column.type.upper()
        )


class Text(_Whole):
    """One column, `value`, with a line of the file in each row."""

    name = "text"
    aliases = ("txt", "log")
    extensions = ("txt", "log", "text")
    WriteOptions = TextWriteOptions
    _type = "STRING"

    def _value(self) -> Expression:
        return expressions.text()

    def _problem(self) -> Expression:
        return expressions.not_utf8()

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
        frame.write.mode("append").partitionBy(*partition_by).option(
            "compression", self.options.compression
        ).text(path)


class Binary(_Whole):
    """A row for each file: `path`, `modificationTime`, `length` and `content`. Files are only read."""

    name = "binary"
    aliases = ("bin", "raw", "bytes")
    extensions = ("bin",)
    _type = "BINARY"

    def _value(self) -> Expression:
        from pyspark.sql import functions as f

        return f.col(VALUE)

    def _problem(self) -> Expression:
        from pyspark.sql import functions as f

        return f.lit(None).cast("string")

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
        raise OptionError(
            "read-only-format", "files of format 'binary' are only read", hint="write Parquet, or text"
        )
