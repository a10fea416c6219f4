"""JSON Lines: one object for each line; with `multiline`, one document or array for each file.

A record is bad when it is not JSON, or when a column that is used does not have the declared type. Keys are
matched as they are written. Of doubled keys the last one counts, and blank lines are none. A message holds
one object, or an array of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pydantic import Field

from penstock.errors import DataError
from penstock.formats import expressions
from penstock.formats.base import Format
from penstock.formats.frames import (
    broken_rule,
    columns_of,
    file_path,
    finished,
    nothing_to_infer,
    numbered,
    spark_ddl,
    under_base,
    wanted,
)
from penstock.formats.lines.messages import VALUE, message_rejects, read_messages
from penstock.formats.messages import written
from penstock.formats.records import NOTHING
from penstock.formats.text import TEXT_SUFFIX, TextCompression
from penstock.formats.unknown import FIELDS, unknown
from penstock.formats.whole_files import bad_file
from penstock.options import Options
from penstock.schema import Column, Unknown, is_flat, quoted

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression
    from pyspark.sql import DataFrame, SparkSession

_CORRUPT = "_corrupt"
_NEVER = "\x01"
"""A key that no record has: Spark refuses queries of the corrupt record alone."""


class JsonReadOptions(Options):
    multiline: bool = Field(False, description="Whether each file is one document, or one array of them.")
    timestamp_format: str | None = Field(
        None, description="How timestamps are written, as a pattern of Spark; ISO 8601 unless set."
    )
    date_format: str | None = Field(
        None, description="How dates are written, as a pattern of Spark; ISO 8601 unless set."
    )


class JsonWriteOptions(Options):
    compression: TextCompression = Field("none", description="How written files are compressed.")
    timestamp_format: str | None = Field(
        None, description="How timestamps are written, as a pattern of Spark; ISO 8601 unless set."
    )
    date_format: str | None = Field(
        None, description="How dates are written, as a pattern of Spark; ISO 8601 unless set."
    )
    null_fields: bool = Field(False, description="Whether a null is written, or its key left out.")


def patterns(options: Any) -> dict[str, str]:
    """Spark's options for dates and times."""
    given = {"timestampFormat": options.timestamp_format, "dateFormat": options.date_format}
    return {name: value for name, value in given.items() if value is not None}


def exact(options: Any) -> dict[str, str]:
    """The same for writing messages: Spark itself would cut times to milliseconds."""
    time = "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS]"
    return {"timestampFormat": f"{time}XXX", "timestampNTZFormat": time, **patterns(options)}


class Json(Format):
    """JSON Lines."""

    name = "json"
    aliases = ("jsonl", "ndjson", "json_lines")
    extensions = ("json", "jsonl", "ndjson")
    in_messages = True
    ReadOptions = JsonReadOptions
    WriteOptions = JsonWriteOptions

    @property
    def suffix(self) -> str:
        return f".json{TEXT_SUFFIX[self.options.compression]}"

    @property
    def table_options(self) -> dict[str, str]:
        return patterns(self.options)

    def discover(self, spark: SparkSession, paths: list[str]) -> tuple[Column, ...]:
        if self.options.multiline:
            reader = spark.read.option("multiLine", True).option("mode", "DROPMALFORMED")
            found = columns_of(reader.json(paths).schema)
            if not found:
                if damaged := self._damaged(spark, paths):
                    raise bad_file(damaged, "it is no JSON document of objects")
                raise nothing_to_infer(paths)
            return found
        from penstock.formats.sampling import json_columns, sample_lines

        lines = [line for file in sample_lines(spark, paths) for line in file]
        return json_columns(spark, paths, lines)

    def _damaged(self, spark: SparkSession, paths: list[str]) -> str | None:
        """The first file that is not one whole document."""
        from pyspark.sql import functions as f

        own = spark_ddl((Column(_NEVER, "STRING"), Column(_CORRUPT, "STRING")))
        reader = spark.read.schema(own).option("multiLine", True)
        frame = reader.option("columnNameOfCorruptRecord", _CORRUPT).json(paths)
        row = frame.where(_is_corrupt(f.col(_NEVER))).select(file_path()).first()
        return row[0] if row else None

    def read(
        self, spark: SparkSession, paths: list[str], columns: tuple[Column, ...], request: Any
    ) -> DataFrame:
        from pyspark.sql import functions as f

        used = wanted(columns, request)
        files = self._fast(spark, paths, used, request)
        if files is not None:
            from penstock.formats.lines.local import read_local

            return read_local(spark, files, used, request)
        if request.on_error == "fail":
            frame = self._load(spark, paths, columns, (_NEVER,), "FAILFAST", request)
            return finished(frame, used, request)
        frame = self._load(spark, paths, columns, (_NEVER, _CORRUPT), "PERMISSIVE", request)
        return finished(frame, used, request, bad=_is_corrupt(f.col(_NEVER)))

    def rejects(
        self, spark: SparkSession, paths: list[str], columns: tuple[Column, ...], request: Any
    ) -> DataFrame:
        from pyspark.sql import functions as f

        used = request.prune(columns)
        files = self._fast(spark, paths, used, request)
        if files is not None:
            from penstock.formats.lines.local import local_rejects

            return local_rejects(spark, files, used)
        rule = broken_rule(used)
        error = f.when(_is_corrupt(f.col(_NEVER)), f.lit("not JSON, or not of the columns' types"))
        error = error if rule is None else f.coalesce(error, rule)
        if self.options.multiline:
            frame = self._load(spark, paths, columns, (_NEVER, _CORRUPT), "PERMISSIVE", request)
            payload = f.coalesce(f.col(_CORRUPT), f.to_json(f.struct(*(quoted(c.name) for c in used))))
            told = frame.select(payload.alias("payload"), error.alias("error"), file_path().alias("file"))
            return told.where("error IS NOT NULL").withColumn("line", f.lit(None).cast("bigint"))
        lines = numbered(spark.read.text(paths).select("value", file_path().alias("file")), "line")
        fields = spark_ddl((*used, Column(_NEVER, "STRING"), Column(_CORRUPT, "STRING")))
        options = {
            "columnNameOfCorruptRecord": _CORRUPT,
            "allowSingleQuotes": "false",
            **patterns(self.options),
        }
        one = f.when(
            f.ltrim("value").startswith("["), f.from_json("value", f"ARRAY<STRUCT<{fields}>>", options)
        )
        records = one.otherwise(f.array(f.from_json("value", fields, options)))
        rows = lines.where(f.trim("value") != "").select("*", f.explode_outer(records).alias("record"))
        whole = rows.select("value", "file", "line", "record.*", f.col("record").isNull().alias("_none"))
        reason = f.when(f.col("_none"), f.lit("not JSON")).otherwise(error)
        return whole.select(f.col("value").alias("payload"), reason.alias("error"), "file", "line").where(
            "error IS NOT NULL"
        )

    def _fast(self, spark: SparkSession, paths: list[str], used: tuple[Column, ...], request: Any) -> Any:
        """The files, when they are decoded outside the JVM; the rule is in docs/decisions/0002."""
        if self.options.multiline or patterns(self.options) or not all(is_flat(c) for c in used):
            return None
        if request.prune(request.partitions):
            return None
        from penstock.formats.paths import local_files

        return local_files(spark, paths)

    def _load(
        self,
        spark: SparkSession,
        paths: list[str],
        columns: tuple[Column, ...],
        more: tuple[str, ...],
        mode: str,
        request: Any,
    ) -> DataFrame:
        """The used columns, and `more` of our own."""
        own = tuple(Column(name, "STRING") for name in more)
        schema = spark_ddl((*request.prune(columns), *own, *request.partitions))
        reader = under_base(spark.read.schema(schema), request).options(**patterns(self.options))
        reader = reader.option("multiLine", self.options.multiline).option("mode", mode)
        reader = reader.option("allowSingleQuotes", False)
        return reader.option("columnNameOfCorruptRecord", _CORRUPT).json(paths)

    def unknown_in_files(
        self, spark: SparkSession, paths: list[str], columns: tuple[Column, ...]
    ) -> tuple[Unknown, ...]:
        from pyspark.sql import functions as f

        reader = spark.read.option("ignoreCorruptFiles", True).option("wholetext", self.options.multiline)
        lines = reader.text(paths).select(f.col(VALUE).cast("binary"), file_path().alias("file"))
        return self.unknown_in_messages(lines, columns, ("file",))

    def write(self, frame: DataFrame, path: str, partition_by: tuple[str, ...] = ()) -> None:
        writer = frame.write.mode("append").partitionBy(*partition_by).options(**patterns(self.options))
        writer = writer.option("ignoreNullFields", not self.options.null_fields)
        writer.option("compression", self.options.compression).json(path)

    def sample(self, spark: SparkSession, messages: Sequence[bytes], source: str) -> tuple[Column, ...]:
        from penstock.formats.sampling import json_columns

        return json_columns(spark, [source], messages)

    def decode(
        self,
        frame: DataFrame,
        columns: tuple[Column, ...],
        request: Any,
        *,
        carried: Sequence[str] = (),
        place: Sequence[str] = (),
    ) -> DataFrame:
        used = request.prune(columns)
        if self._outside(used, request):
            return read_messages(frame, columns, request, carried=carried, place=place)
        records = self._records(used)
        return expressions.rows(frame, used, request, records, _problem(), carried=carried, place=place)

    def decode_rejects(
        self, frame: DataFrame, columns: tuple[Column, ...], request: Any, *, carried: Sequence[str] = ()
    ) -> DataFrame:
        used = request.prune(columns)
        if self._outside(used, request):
            return message_rejects(frame, columns, request, carried=carried)
        return expressions.rejects(frame, used, self._records(used), _problem(), carried=carried)

    def meets_unknown(self, columns: tuple[Column, ...], request: Any) -> bool:
        return self._outside(request.prune(columns), request)

    def unknown_in_messages(
        self, frame: DataFrame, columns: tuple[Column, ...], place: Sequence[str]
    ) -> tuple[Unknown, ...]:
        def sample(some: list[bytes]) -> tuple[Column, ...]:
            try:
                return self.sample(frame.sparkSession, some, "records with new fields")
            except DataError as failure:
                if failure.code != "no-records":
                    raise
                return ()

        return unknown(_strange(frame.select(VALUE, *place), [c.name for c in columns]), place, sample)

    def encode(self, frame: DataFrame, carried: Sequence[str] = (), *, name: str = "") -> DataFrame:
        from pyspark.sql import functions as f

        names = written(frame, carried)
        if names == [VALUE] and frame.schema[VALUE].dataType.simpleString() in ("string", "binary"):
            value = f.col(VALUE)
        else:
            options = {"ignoreNullFields": str(not self.options.null_fields).lower(), **exact(self.options)}
            value = f.to_json(f.struct(*map(quoted, names)), options)
        return frame.select(value.cast("binary").alias(VALUE), *map(quoted, carried))

    def _outside(self, used: tuple[Column, ...], request: Any) -> bool:
        """Whether messages are decoded outside the JVM."""
        return not (request.streaming or patterns(self.options)) and all(is_flat(c) for c in used)

    def _records(self, used: tuple[Column, ...]) -> Expression:
        """The objects of a message."""
        from pyspark.sql import functions as f

        text = expressions.text()
        fields = spark_ddl((*used, Column(expressions.BAD, "STRING")))
        options = {
            "columnNameOfCorruptRecord": expressions.BAD,
            "allowSingleQuotes": "false",
            **patterns(self.options),
        }
        # Each by itself: of a bad one among many, Spark gives what it could read, and says nothing.
        many = f.transform(f.from_json(text, "ARRAY<STRING>"), lambda one: f.from_json(one, fields, options))
        return f.when(f.ltrim(text).startswith("["), many).otherwise(
            f.array(f.from_json(text, fields, options))
        )


def _strange(frame: DataFrame, known: Sequence[str]) -> DataFrame:
    """The messages with other keys than those that are `known`, and which of them have values."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as f

    text = f.ltrim(expressions.text(), f.lit(" \t\r\n\ufeff"))
    names = f.array(*map(f.lit, known)).cast("ARRAY<STRING>")
    is_array = text.startswith("[")
    many, one = f.from_json(f.when(is_array, text), "ARRAY<STRING>"), f.array(text)

    def others(record: Expression) -> Expression:
        return f.array_except(f.json_object_keys(record), names)

    def valued(record: Expression) -> Expression:
        values = f.from_json(record, "MAP<STRING, STRING>")
        return f.coalesce(
            f.filter(others(record), lambda key: (key != "") & values[key].isNotNull()), f.array()
        )

    unlike = f.when(is_array, f.exists(many, lambda r: f.size(others(r)) > 0))
    suspect = frame.where(unlike.otherwise(f.size(others(text)) > 0))
    # Across an observation Spark joins no filters: what follows is done with few records only.
    suspect = suspect.observe(Observation(), f.count(f.lit(1)).alias("rows"))
    fields = f.array_distinct(f.flatten(f.transform(f.when(is_array, many).otherwise(one), valued)))
    return suspect.withColumn(FIELDS, fields).where(f.size(FIELDS) > 0)


def _problem() -> Expression:
    """What is wrong with a message before it is parsed."""
    from pyspark.sql import functions as f

    blank = f.when(f.trim(expressions.text()) == "", f.lit(NOTHING))
    return f.coalesce(expressions.not_utf8(), blank)


def _is_corrupt(never: Expression) -> Expression:
    from pyspark.sql import functions as f

    return f.col(_CORRUPT).isNotNull() & never.isNull()
