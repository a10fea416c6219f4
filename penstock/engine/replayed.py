"""A source whose records are dead letters: decoded as they were the first time, and rejected the same way."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from penstock.connectors.base import AS_ROW, METADATA, PAYLOAD, POSITION, REJECTED, Connector, ReadRequest
from penstock.errors import DataError
from penstock.formats import registry as formats
from penstock.formats.base import PAYLOAD_LIMIT, Format
from penstock.plan.nodes import Scan
from penstock.schema import METADATA_TYPES, Column, Unknown, ddl, quoted

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_CORRUPT = "_penstock_corrupt"
_PARTITION = re.compile(r"/([^/=]+)=[^/]*(?=/)")


class ReplayedSource(Connector):
    """In place of a source's own connector, which still makes rows of messages."""

    def __init__(self, scan: Scan, letters: DataFrame) -> None:
        self.name = scan.connector.name  # type: ignore[misc]
        self.jars = scan.connector.jars  # type: ignore[misc]
        self._scan, self._letters = scan, letters

    def read(self, spark: SparkSession, source: Any, request: ReadRequest) -> DataFrame:
        return self._decoded(spark, request, traced=False).drop(PAYLOAD, POSITION)

    def unknown(self, spark: SparkSession, source: Any, request: ReadRequest) -> tuple[Unknown, ...]:
        from pyspark.sql import functions as f

        found: list[Unknown] = []
        messages = self._scan.connector.as_records(self._records())
        if messages is not None:
            own = replace(request, records=messages)
            found += self._scan.connector.unknown(spark, self._scan.options, own)
        if self._has_rows:
            json, _ = formats.find("json")
            rows = self._letters.where(self._is_row()).withColumn("value", f.col("payload").cast("binary"))
            found += json(json.ReadOptions()).unknown_in_messages(rows, request.columns, ("position",))
        return tuple({unknown.column.name: unknown for unknown in found}.values())

    def traced(self, spark: SparkSession, source: Any, request: ReadRequest) -> DataFrame:
        return self._decoded(spark, request, traced=True)

    def rejects(self, spark: SparkSession, source: Any, request: ReadRequest) -> DataFrame:
        form, (inner, records) = self._format, (self._scan.connector, self._records())
        messages = inner.as_records(records)
        if messages is not None:
            return inner.rejects(spark, self._scan.options, replace(request, records=messages))
        assert form is not None
        carried = records.withColumnRenamed("position", POSITION)
        found = form.decode_rejects(carried, self._in_record(request), request, carried=(POSITION,))
        return found.withColumnRenamed(POSITION, "position")

    @property
    def _format(self) -> Format | None:
        """What decodes the letters; None when they are rows, as those of files that hold no text are."""
        form = self._scan.format
        return form if form is not None and form.in_messages else None

    def _is_row(self) -> Expression:
        from pyspark.sql import functions as f

        return f.col("encoding") == "row" if self._format else f.lit(True)

    @cached_property
    def _has_rows(self) -> bool:
        return not self._letters.where(self._is_row()).isEmpty()

    def _records(self) -> DataFrame:
        """The bytes of the records, and where they were."""
        from pyspark.sql import functions as f

        payload = f.col("payload")
        value = f.when(f.col("encoding") == "base64", f.unbase64(payload)).otherwise(payload.cast("binary"))
        return self._letters.where(~self._is_row()).select(value.alias("value"), "position")

    def _decoded(self, spark: SparkSession, request: ReadRequest, *, traced: bool) -> DataFrame:
        """The records, decoded; and the letters that are rows already."""
        from pyspark.sql import functions as f

        inner, messages = self._scan.connector, self._scan.connector.as_records(self._records())
        if messages is not None:
            read = inner.traced if traced else inner.read
            frame = read(spark, self._scan.options, replace(request, records=messages))
            if POSITION in frame.columns:
                frame = frame.withColumn(POSITION, f.to_json(POSITION))
        elif self._format is not None:
            frame = self._by_format(self._format, request)
        else:
            return self._rows(request, spark.createDataFrame([], ddl(request.prune(request.columns))).schema)
        if not self._has_rows:
            return frame
        return frame.unionByName(self._rows(request, frame.schema), allowMissingColumns=True)

    def _by_format(self, form: Format, request: ReadRequest) -> DataFrame:
        from pyspark.sql import functions as f

        records = self._records().select(
            "value", f.col("value").alias(PAYLOAD), f.col("position").alias(POSITION)
        )
        frame = form.decode(records, self._in_record(request), request, carried=(PAYLOAD, POSITION))
        for key in request.prune(self._keys(request)):
            text = f.regexp_extract(_told("file"), f"/{re.escape(key.name)}=([^/]*)/", 1)
            frame = frame.withColumn(key.name, f.url_decode(text).cast(key.type))
        if request.metadata:
            frame = frame.withColumn(METADATA, _metadata(request.metadata))
        used = [quoted(column.name) for column in request.prune(request.columns)]
        hidden = [c for c in (METADATA, PAYLOAD, POSITION, REJECTED) if c in frame.columns]
        return frame.select(*used, *hidden)

    def _rows(self, request: ReadRequest, schema: StructType) -> DataFrame:
        from pyspark.sql import functions as f
        from pyspark.sql.types import StructType

        own = (METADATA, PAYLOAD, POSITION, REJECTED)
        columns = StructType([field for field in schema.fields if field.name not in own])
        rows = self._letters.where(self._is_row())
        there = _keys_of(rows.where("encoding = 'row'"), columns.names)
        if lacking := {name for name in columns.names if name.lower() not in request.optional} - there:
            raise DataError(
                "letters-lack-columns",
                f"the letters of {self._scan.label} have no {', '.join(sorted(lacking))}",
                hint="they hold the columns that the statement used when they were kept",
            )
        frame = rows_of_json(rows, columns, carried=("position",)).withColumnRenamed("position", POSITION)
        if request.metadata:
            frame = frame.withColumn(METADATA, _metadata(request.metadata))
        return frame.withColumn(REJECTED, f.lit(False)) if request.on_error != "fail" else frame

    @cached_property
    def _key_names(self) -> set[str]:
        found = self._letters.select(_told("file", "position")).where("file IS NOT NULL").first()
        return {name.lower() for name in _PARTITION.findall(found[0])} if found else set()

    def _keys(self, request: ReadRequest) -> tuple[Column, ...]:
        """The columns that stand in the names of the files' folders."""
        return tuple(column for column in request.columns if column.name.lower() in self._key_names)

    def _in_record(self, request: ReadRequest) -> tuple[Column, ...]:
        return tuple(column for column in request.columns if column.name.lower() not in self._key_names)


def rows_of_json(letters: DataFrame, schema: StructType, carried: Sequence[str] = ()) -> DataFrame:
    """The rows that letters hold as JSON; raises when one does not fit."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import StructType

    # Not by FAILFAST: Spark looks into letters that it is to leave out, too.
    whole = StructType([*schema.fields]).add(_CORRUPT, "string")
    row = f.from_json("payload", whole, {**AS_ROW, "columnNameOfCorruptRecord": _CORRUPT}).alias("row")
    parsed = letters.select(row, *carried)
    bad = parsed.where(f"row.{_CORRUPT} IS NOT NULL").select(f"row.{_CORRUPT}").first()
    if bad is not None:
        raise DataError(
            "letters-differ",
            f"a letter is no row of {schema.simpleString()}: {bad[0][:PAYLOAD_LIMIT]}",
            hint="replay it with a statement over the same columns",
        )
    return parsed.select("row.*", *carried).drop(_CORRUPT)


def check_keys(letters: DataFrame, schema: StructType, sink: str) -> None:
    """Raises when rows that a sink refused have columns that the statement does not make."""
    unknown = {row[0] for row in _all_keys(letters).collect()} - set(schema.names)
    if unknown:
        raise DataError(
            "letters-differ",
            f"the letters of {sink} have {', '.join(sorted(unknown))}, which the statement does not make",
            hint="replay them with a statement that makes the same columns",
        )


def _all_keys(letters: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    return letters.select(f.explode(f.json_object_keys("payload")).alias("key")).distinct()


def _keys_of(letters: DataFrame, otherwise: Sequence[str]) -> set[str]:
    """The columns that all of these letters have."""
    from pyspark.sql import functions as f

    kinds = letters.select(f.json_object_keys("payload").alias("keys")).distinct().collect()
    return set(otherwise).intersection(*(set(kind["keys"]) for kind in kinds))


def _told(name: str, column: str = POSITION) -> Expression:
    """A part of what the position tells."""
    from pyspark.sql import functions as f

    return f.get_json_object(column, f"$.{name}").alias(name)


def _metadata(fields: frozenset[str]) -> Expression:
    """What is still known of a row's file."""
    from pyspark.sql import functions as f

    number = f.coalesce(_told("row"), _told("line"))
    known = {
        "path": _told("file"),
        "filename": f.substring_index(_told("file"), "/", -1),
        "row_number": number,
    }
    parts = (known.get(name, f.lit(None)).cast(METADATA_TYPES[name]).alias(name) for name in sorted(fields))
    return f.struct(*parts)
