"""Comma-separated values, and their variants.

A record is bad when it has more or fewer values than the file has columns, or when a column that is used does
not have the declared type. Nothing between two delimiters is null; quotes with nothing between them are an
empty text. Blanks belong to values. With a header, columns are found by their names.
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field, field_validator

from penstock.errors import DataError, did_you_mean
from penstock.formats.base import Format
from penstock.formats.frames import broken_rule, file_path, finished, numbered, spark_ddl, under_base, wanted
from penstock.formats.json import patterns
from penstock.formats.lines.csv_record import Dialect
from penstock.formats.text import TEXT_SUFFIX, TextCompression
from penstock.options import Options
from penstock.schema import Column, is_flat

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CORRUPT = "_corrupt"


class _CsvOptions(Options):
    delimiter: str = Field(",", description="What stands between values; `tab` is a tab.")
    quote: str = Field('"', description="The sign around values that hold delimiters; empty for none.")
    escape: str = Field(
        '"', description="The sign before a quote within quotes; a quote itself stands for a doubled quote."
    )
    header: bool = Field(True, description="Whether the first line of a file names its columns.")
    null_value: str = Field("", description="A word that stands for null, beside nothing at all.")
    timestamp_format: str | None = Field(
        None, description="How timestamps are written, as a pattern of Spark; ISO 8601 unless set."
    )
    date_format: str | None = Field(
        None, description="How dates are written, as a pattern of Spark; ISO 8601 unless set."
    )

    @field_validator("delimiter")
    @classmethod
    def _delimiter(cls, value: str) -> str:
        value = {"tab": "\t", "\\t": "\t"}.get(value.lower(), value)
        if not value or "\n" in value or "\r" in value:
            raise ValueError("expected one or more characters that are no line end")
        return value

    @field_validator("quote", "escape")
    @classmethod
    def _sign(cls, value: str) -> str:
        if len(value) > 1 or not value.isascii():
            raise ValueError("expected one ASCII character, or nothing")
        return value


class CsvReadOptions(_CsvOptions):
    multiline: bool = Field(False, description="Whether values in quotes may hold line ends.")
    comment: str = Field("", description="The sign that begins lines which are not read; none unless set.")
    encoding: str = Field("utf-8", description="How characters stand in the file: `utf-8`, `iso-8859-1`, ...")

    @field_validator("comment")
    @classmethod
    def _comment(cls, value: str) -> str:
        if len(value) > 1 or not value.isascii():
            raise ValueError("expected one ASCII character, or nothing")
        return value

    @field_validator("encoding")
    @classmethod
    def _encoding(cls, value: str) -> str:
        try:
            return codecs.lookup(value).name
        except LookupError:
            raise ValueError(f"unknown encoding '{value}'") from None


class CsvWriteOptions(_CsvOptions):
    compression: TextCompression = Field("none", description="How written files are compressed.")


class Csv(Format):
    """Comma-separated values."""

    name = "csv"
    aliases = ("tsv", "psv")
    extensions = ("csv", "tsv", "psv")
    implied = {"tsv": {"delimiter": "\t"}, "psv": {"delimiter": "|"}}
    ReadOptions = CsvReadOptions
    WriteOptions = CsvWriteOptions

    @property
    def suffix(self) -> str:
        return f".csv{TEXT_SUFFIX[self.options.compression]}"

    @property
    def _dialect(self) -> Dialect:
        o = self.options
        return Dialect(o.delimiter, o.quote, o.escape, o.null_value, o.comment, o.multiline)

    def discover(self, spark: SparkSession, paths: list[str]) -> tuple[Column, ...]:
        from penstock.formats.sampling import csv_columns, sample_lines

        quote = self.options.quote.encode() if self.options.multiline else None
        files = sample_lines(spark, paths, encoding=self.options.encoding, quote=quote or None)
        return csv_columns(spark, paths, files, self._dialect, self.options.header)

    def read(
        self, spark: SparkSession, paths: list[str], columns: tuple[Column, ...], request: Any
    ) -> DataFrame:
        from pyspark.sql import functions as f

        used = wanted(columns, request)
        files = self._fast(spark, paths, columns, request)
        if files is not None:
            from penstock.formats.lines.local import read_local

            return read_local(
                spark,
                files,
                used,
                request,
                dialect=self._dialect,
                encoding=self.options.encoding,
                inspect=lambda file: self._layout(file, columns, used),
            )
        fails = request.on_error == "fail"
        bad = None if fails else f.col(_CORRUPT).isNotNull()
        return finished(self._load(spark, paths, columns, fails, request), used, request, bad=bad)

    def rejects(
        self, spark: SparkSession, paths: list[str], columns: tuple[Column, ...], request: Any
    ) -> DataFrame:
        used = request.prune(columns)
        files = self._fast(spark, paths, columns, request)
        if files is not None:
            from penstock.formats.lines.local import local_rejects

            return local_rejects(
                spark,
                files,
                used,
                dialect=self._dialect,
                encoding=self.options.encoding,
                inspect=lambda file: self._layout(file, columns, used),
            )
        return self._spark_rejects(spark, paths, columns, request)

    def _fast(self, spark: SparkSession, paths: list[str], columns: tuple[Column, ...], request: Any) -> Any:
        """The files, when they are decoded outside the JVM; the rule is in docs/decisions/0002."""
        nested = next((c for c in columns if not is_flat(c)), None)
        if nested is not None:
            raise DataError(
                "csv-type",
                f"CSV cannot hold column '{nested.name}' of type {nested.type}",
                hint="declare it as STRING, and take it apart with from_json or split",
            )
        if request.prune(request.partitions):
            return None
        if patterns(self.options) and any(c.type.upper().startswith(("DATE", "TIMESTAMP")) for c in columns):
            return None
        from penstock.formats.paths import local_files

        return local_files(spark, paths)

    def _layout(self, file: Path, columns: Sequence[Column], used: Sequence[Column]) -> tuple[int, Any]:
        """Where the data of a file begins; how many values a record has, and where the used ones stand."""
        inside, chosen = [c.name for c in columns], [c.name for c in used]
        if not self.options.header:
            return 0, [len(inside), [inside.index(name) for name in chosen]]
        from penstock.formats.lines.csv_header import read_header

        names, begin = read_header(file, self._dialect, self.options.encoding)
        if not names:
            return begin, [0, []]
        positions = header_positions(names, inside, str(file))
        return begin, [len(names), [positions[name] for name in chosen]]

    def _load(
        self, spark: SparkSession, paths: list[str], columns: tuple[Column, ...], fails: bool, request: Any
    ) -> DataFrame:
        more = () if fails else (Column(_CORRUPT, "STRING"),)
        schema = spark_ddl((*self._in_file_order(spark, paths, columns), *more, *request.partitions))
        reader = under_base(spark.read.schema(schema), request).options(**self._spark_options())
        mode = "FAILFAST" if fails else "PERMISSIVE"
        return reader.option("header", self.options.header).option("mode", mode).csv(paths)

    def _in_file_order(
        self, spark: SparkSession, paths: list[str], columns: tuple[Column, ...]
    ) -> tuple[Column, ...]:
        """The declared columns where the header has them, and its other columns between."""
        first = spark.read.text(paths).select("value").limit(1).collect() if self.options.header else None
        if not first:
            return columns
        from penstock.formats.sampling import header_of

        names = header_of(first[0].value.encode(), self._dialect, paths[0])
        positions = header_positions(names, [c.name for c in columns], paths[0])
        at = {positions[column.name]: column for column in columns}
        return tuple(at.get(i, Column(name, "STRING")) for i, name in enumerate(names))

    def _spark_options(self) -> dict[str, Any]:
        o = self.options
        return {
            "sep": o.delimiter, "quote": o.quote or "\0", "escape": o.escape or "\0",
            "nullValue": o.null_value, "multiLine": o.multiline, "encoding": o.encoding,
            "columnPruning": False, "enforceSchema": False, "columnNameOfCorruptRecord": _CORRUPT,
            **({"comment": o.comment} if o.comment else {}), **patterns(o),
        }  # fmt: skip

    def _spark_rejects(
        self, spark: SparkSession, paths: list[str], columns: tuple[Column, ...], request: Any
    ) -> DataFrame:
        from pyspark.sql import functions as f

        rule = broken_rule(request.prune(columns))
        error = f.when(f.col(_CORRUPT).isNotNull(), f.lit("not as many values, or not of the columns' types"))
        error = error if rule is None else f.coalesce(error, rule)
        if self.options.multiline:
            frame = self._load(spark, paths, columns, False, request)
            told = frame.select(
                f.col(_CORRUPT).alias("payload"), error.alias("error"), file_path().alias("file")
            )
            return told.where("error IS NOT NULL").withColumn("line", f.lit(None).cast("bigint"))
        schema = spark_ddl((*self._in_file_order(spark, paths, columns), Column(_CORRUPT, "STRING")))
        lines = numbered(spark.read.text(paths).select("value", file_path().alias("file")), "line")
        data = f.trim("value") != ""
        lines = lines.where(data & (f.col("line") > 1) if self.options.header else data)
        options = {k: str(v).lower() if isinstance(v, bool) else v for k, v in self._spark_options().items()}
        rows = lines.select("value", "file", "line", f.from_csv("value", schema, options).alias("record"))
        rows = rows.select("value", "file", "line", "record.*")
        told = rows.select(f.col("value").alias("payload"), error.alias("error"), "file", "line")
        return told.where("error IS NOT NULL")

    def write(self, frame: DataFrame, path: str, partition_by: tuple[str, ...] = ()) -> None:
        nested = next(
            (x for x in frame.schema.fields if not is_flat(Column(x.name, x.dataType.simpleString()))), None
        )
        if nested is not None:
            raise DataError(
                "csv-type",
                f"CSV cannot hold column '{nested.name}' of type {nested.dataType.simpleString()}",
                hint="write it as text: to_json(x), or array_join(x, ' ')",
            )
        o = self.options
        options = {
            "sep": o.delimiter, "quote": o.quote or "\0", "escape": o.escape or "\0", "header": o.header,
            "nullValue": o.null_value, "emptyValue": '""', "compression": o.compression,
            # Spark would cut blanks off texts.
            "ignoreLeadingWhiteSpace": False, "ignoreTrailingWhiteSpace": False, **patterns(o),
        }  # fmt: skip
        frame.write.partitionBy(*partition_by).options(**options).csv(path)


def header_positions(names: Sequence[str], wanted: Sequence[str], file: str) -> dict[str, int]:
    """Where the wanted columns stand in a header; their case need not be that of the header."""
    exact = {name: i for i, name in enumerate(names)}
    lower = {name.lower(): i for i, name in enumerate(names)}
    found = {}
    for name in wanted:
        position = exact.get(name, lower.get(name.lower()))
        if position is None:
            raise DataError(
                "missing-column",
                f"{file} has no column '{name}'; its header names {', '.join(names)}",
                hint=did_you_mean(name, names),
            )
        found[name] = position
    return found
