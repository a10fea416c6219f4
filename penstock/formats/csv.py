"""Comma-separated values, and their variants.

A record is bad when it has more or fewer values than the file has columns, or when a column that is used does
not have the declared type. Nothing between two delimiters is null; quotes with nothing between them are an
empty text. Blanks belong to values. With a header, columns are found by their names. A message holds one
record, in UTF-8 and without a header.
"""

from __future__ import annotations

import codecs
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field, field_validator

from penstock.errors import DataError, OptionError, did_you_mean
from penstock.formats import expressions
from penstock.formats.base import Format
from penstock.formats.frames import broken_rule, file_path, finished, numbered, spark_ddl, under_base, wanted
from penstock.formats.json import exact, patterns
from penstock.formats.lines.csv_record import Dialect
from penstock.formats.lines.messages import VALUE, message_rejects, read_messages
from penstock.formats.messages import written
from penstock.formats.records import NOTHING
from penstock.formats.text import TEXT_SUFFIX, TextCompression
from penstock.formats.unknown import lacking
from penstock.options import Options
from penstock.schema import Column, Unknown, is_flat, quoted

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

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
    in_messages = True
    implied = {"tsv": {"delimiter": "\t"}, "psv": {"delimiter": "|"}}
    ReadOptions = CsvReadOptions
    WriteOptions = CsvWriteOptions

    @property
    def suffix(self) -> str:
        return f".csv{TEXT_SUFFIX[self.options.compression]}"

    @property
    def table_options(self) -> dict[str, str]:
        o = self.options
        return {
            "sep": o.delimiter, "quote": o.quote, "escape": o.escape,
            # Nothing at all is null in any case; an empty word for it would make nulls of empty texts, too.
            "nullValue": o.null_value or "\x01",
            "header": str(o.header).lower(), "multiLine": "true", **patterns(o),
        }  # fmt: skip

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
                inspect=lambda file: self._layout(file, columns, used, request),
            )
        fails = request.on_error == "fail"
        bad = None if fails else f.col(_CORRUPT).isNotNull()
        frames = (
            self._load(spark, alike, columns, fails, request) for alike in self._alike(spark, paths, request)
        )
        return _together(finished(frame, used, request, bad=bad) for frame in frames)

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
                inspect=lambda file: self._layout(file, columns, used, request),
            )
        groups = self._alike(spark, paths, request)
        return _together(self._spark_rejects(spark, alike, columns, request) for alike in groups)

    def _fast(self, spark: SparkSession, paths: list[str], columns: tuple[Column, ...], request: Any) -> Any:
        """The files, when they are decoded outside the JVM; the rule is in docs/decisions/0002."""
        _refuse_nested(columns)
        if request.prune(request.partitions) or self._needs_spark(columns):
            return None
        from penstock.formats.paths import local_files

        return local_files(spark, paths)

    def _needs_spark(self, columns: Sequence[Column]) -> bool:
        """Whether dates or times are written as only Spark reads them."""
        return bool(patterns(self.options)) and any(
            c.type.upper().startswith(("DATE", "TIMESTAMP")) for c in columns
        )

    def _layout(
        self, file: Path, columns: Sequence[Column], used: Sequence[Column], request: Any
    ) -> tuple[int, Any]:
        """Where the data of a file begins; how many values a record has, and where the used ones stand."""
        inside, chosen = [c.name for c in columns], [c.name for c in used]
        if not self.options.header:
            return 0, [len(inside), [inside.index(name) for name in chosen]]
        from penstock.formats.lines.csv_header import read_header

        names, begin = read_header(file, self._dialect, self.options.encoding)
        if not names:
            return begin, [0, []]
        positions = header_positions(names, inside, str(file), request.optional)
        return begin, [len(names), [positions.get(name) for name in chosen]]

    def _load(
        self, spark: SparkSession, paths: list[str], columns: tuple[Column, ...], fails: bool, request: Any
    ) -> DataFrame:
        from pyspark.sql import functions as f

        more = () if fails else (Column(_CORRUPT, "STRING"),)
        there = self._in_file_order(spark, paths, columns, request)
        schema = spark_ddl((*there, *more, *request.partitions))
        reader = under_base(spark.read.schema(schema), request).options(**self._spark_options())
        mode = "FAILFAST" if fails else "PERMISSIVE"
        frame = reader.option("header", self.options.header).option("mode", mode).csv(paths)
        missing = {c.name: f.lit(None).cast(c.type) for c in columns if c not in there}
        return frame.withColumns(missing) if missing else frame

    def _in_file_order(
        self, spark: SparkSession, paths: list[str], columns: tuple[Column, ...], request: Any
    ) -> tuple[Column, ...]:
        """The declared columns where the header has them, and its other columns between."""
        names = self._header(spark, paths)
        if not names:
            return columns
        positions = header_positions(names, [c.name for c in columns], paths[0], request.optional)
        at = {positions[column.name]: column for column in columns if column.name in positions}
        return tuple(at.get(i, Column(name, "STRING")) for i, name in enumerate(names))

    def _header(self, spark: SparkSession, paths: list[str]) -> tuple[str, ...]:
        """The names that the first of these files gives its columns; none without a header."""
        from penstock.formats.lines.csv_header import read_header
        from penstock.formats.paths import local_files
        from penstock.formats.sampling import header_of

        if not self.options.header:
            return ()
        if files := local_files(spark, paths[:1]):
            return tuple(read_header(files[0], self._dialect, self.options.encoding)[0])
        first = spark.read.text(paths).select("value").limit(1).collect()
        return tuple(header_of(first[0].value.encode(), self._dialect, paths[0])) if first else ()

    def _alike(self, spark: SparkSession, paths: list[str], request: Any) -> list[list[str]]:
        """The files by their headers, where these may differ."""
        return list(self._by_header(spark, paths).values()) if request.optional else [paths]

    def _by_header(self, spark: SparkSession, paths: list[str]) -> dict[tuple[str, ...], list[str]]:
        groups: dict[tuple[str, ...], list[str]] = {}
        for path in paths:
            groups.setdefault(self._header(spark, [path]), []).append(path)
        return groups

    def unknown_in_files(
        self, spark: SparkSession, paths: list[str], columns: tuple[Column, ...]
    ) -> tuple[Unknown, ...]:
        if not self.options.header:
            return ()
        found: list[Unknown] = []
        for names, files in self._by_header(spark, paths).items():
            told = [*columns, *(u.column for u in found)]
            if {name.lower() for name in names} - {c.name.lower() for c in told}:
                found += lacking(self.discover(spark, files), told, f"file {files[0]}")
        return tuple(found)

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
        schema = spark_ddl((*self._in_file_order(spark, paths, columns, request), Column(_CORRUPT, "STRING")))
        lines = numbered(spark.read.text(paths).select("value", file_path().alias("file")), "line")
        data = f.trim("value") != ""
        lines = lines.where(data & (f.col("line") > 1) if self.options.header else data)
        record = f.from_csv("value", schema, _as_texts(self._spark_options()))
        rows = lines.select("value", "file", "line", record.alias("record"))
        rows = rows.select("value", "file", "line", "record.*")
        told = rows.select(f.col("value").alias("payload"), error.alias("error"), "file", "line")
        return told.where("error IS NOT NULL")

    def write(self, frame: DataFrame, path: str, partition_by: tuple[str, ...] = ()) -> None:
        _refuse_nested_rows(frame.schema)
        o = self.options
        options = {**self._writing(), "header": o.header, "compression": o.compression, **patterns(o)}
        frame.write.mode("append").partitionBy(*partition_by).options(**options).csv(path)

    def _writing(self) -> dict[str, Any]:
        """Spark's options for files and messages."""
        o = self.options
        return {
            "sep": o.delimiter, "quote": o.quote or "\0", "escape": o.escape or "\0",
            "nullValue": o.null_value, "emptyValue": '""',
            # Spark would cut blanks off texts.
            "ignoreLeadingWhiteSpace": False, "ignoreTrailingWhiteSpace": False,
        }  # fmt: skip

    def sample(self, spark: SparkSession, messages: Sequence[bytes], source: str) -> tuple[Column, ...]:
        from penstock.formats.sampling import csv_columns

        self._refuse_encoding()
        return csv_columns(spark, [source], [messages], self._dialect, False)

    def decode(
        self,
        frame: DataFrame,
        columns: tuple[Column, ...],
        request: Any,
        *,
        carried: Sequence[str] = (),
        place: Sequence[str] = (),
    ) -> DataFrame:
        if self._outside(columns, request):
            return read_messages(frame, columns, request, carried=carried, place=place, dialect=self._dialect)
        used = request.prune(columns)
        records, problem = self._records(columns, used), self._problem()
        return expressions.rows(frame, used, request, records, problem, carried=carried, place=place)

    def decode_rejects(
        self, frame: DataFrame, columns: tuple[Column, ...], request: Any, *, carried: Sequence[str] = ()
    ) -> DataFrame:
        if self._outside(columns, request):
            return message_rejects(frame, columns, request, carried=carried, dialect=self._dialect)
        used = request.prune(columns)
        return expressions.rejects(
            frame, used, self._records(columns, used), self._problem(), carried=carried
        )

    def encode(self, frame: DataFrame, carried: Sequence[str] = (), *, name: str = "") -> DataFrame:
        from pyspark.sql import functions as f

        names = [quoted(name) for name in written(frame, carried)]
        _refuse_nested_rows(frame.select(*names).schema)
        value = f.to_csv(f.struct(*names), _as_texts({**self._writing(), **exact(self.options)}))
        return frame.select(value.cast("binary").alias(VALUE), *map(quoted, carried))

    def _outside(self, columns: tuple[Column, ...], request: Any) -> bool:
        """Whether messages are decoded outside the JVM."""
        _refuse_nested(columns)
        self._refuse_encoding()
        return not (request.streaming or self._needs_spark(request.prune(columns)))

    def _refuse_encoding(self) -> None:
        if self.options.encoding != "utf-8":
            raise OptionError("csv-encoding", f"messages of CSV are UTF-8, not {self.options.encoding}")

    def _records(self, columns: Sequence[Column], used: Sequence[Column]) -> Expression:
        """The record of a message; what is not used may be anything."""
        from pyspark.sql import functions as f

        fields = [column if column in used else Column(column.name, "STRING") for column in columns]
        schema = spark_ddl((*fields, Column(expressions.BAD, "STRING")))
        options = {**self._spark_options(), "columnNameOfCorruptRecord": expressions.BAD, "comment": "\0"}
        line = f.regexp_replace(expressions.text(), "\r?\n$", "")
        return f.array(f.from_csv(line, schema, _as_texts(options)))

    def _problem(self) -> Expression:
        """What is wrong with a message before it is parsed."""
        from pyspark.sql import functions as f

        begin = f.regexp_replace(expressions.text(), r"^[\x00-\x20]+", "")
        nothing = begin == ""
        if self.options.comment:
            nothing = nothing | begin.startswith(self.options.comment)
        return f.coalesce(expressions.not_utf8(), f.when(nothing, f.lit(NOTHING)))


def _as_texts(options: dict[str, Any]) -> dict[str, str]:
    """Options as Spark's functions take them."""
    return {key: str(value).lower() if isinstance(value, bool) else value for key, value in options.items()}


def _refuse_nested(columns: Sequence[Column]) -> None:
    nested = next((c for c in columns if not is_flat(c)), None)
    if nested is not None:
        raise DataError(
            "csv-type",
            f"CSV cannot hold column '{nested.name}' of type {nested.type}",
            hint="declare it as STRING, and take it apart with from_json or split",
        )


def _refuse_nested_rows(schema: StructType) -> None:
    columns = [Column(field.name, field.dataType.simpleString()) for field in schema.fields]
    nested = next((c for c in columns if not is_flat(c)), None)
    if nested is not None:
        raise DataError(
            "csv-type",
            f"CSV cannot hold column '{nested.name}' of type {nested.type}",
            hint="write it as text: to_json(x), or array_join(x, ' ')",
        )


def _together(frames: Iterable[DataFrame]) -> DataFrame:
    from functools import reduce

    return reduce(lambda a, b: a.unionByName(b), frames)


def header_positions(
    names: Sequence[str], wanted: Sequence[str], file: str, optional: Collection[str] = ()
) -> dict[str, int]:
    """Where the wanted columns stand in a header; their case need not be that of the header.

    Of those that may be missing, by their lower-case names, only the ones that are there.
    """
    exact = {name: i for i, name in enumerate(names)}
    lower = {name.lower(): i for i, name in enumerate(names)}
    found = {}
    for name in wanted:
        position = exact.get(name, lower.get(name.lower()))
        if position is None and name.lower() in optional:
            continue
        if position is None:
            raise DataError(
                "missing-column",
                f"{file} has no column '{name}'; its header names {', '.join(names)}",
                hint=did_you_mean(name, names),
            )
        found[name] = position
    return found
