"""What Spark's own file sources need on top: metadata, row numbers, checks, and bad rows set apart."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from penstock.errors import DataError
from penstock.formats.records import MARKER, METADATA, REJECTED
from penstock.schema import Column, ddl, quoted

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column as Expression
    from pyspark.sql import DataFrame, DataFrameReader

_TEXT = re.compile(r"(?:VARCHAR|CHAR|CHARACTER)\s*\(\s*(\d+)\s*\)", re.IGNORECASE)
_FILE, _BLOCK, _COUNTER, _ABOUT, _ROW = "_file", "_block", "_counter", "_about", "_row"


def text_limit(column: Column) -> int | None:
    """How many characters a `VARCHAR(n)` or `CHAR(n)` holds."""
    match = _TEXT.fullmatch(column.type.strip())
    return int(match[1]) if match else None


def spark_columns(columns: Sequence[Column]) -> tuple[Column, ...]:
    """The columns as they are read: texts of limited length as plain strings, and all nullable."""
    return tuple(Column(c.name, "STRING" if text_limit(c) else c.type) for c in columns)


def spark_ddl(columns: Sequence[Column]) -> str:
    """The columns as Spark reads them, before they are checked."""
    return ddl(spark_columns(columns))


def wanted(columns: tuple[Column, ...], request: Any) -> tuple[Column, ...]:
    """The columns that a request uses: those of the files, then those of their folders' names."""
    return (*request.prune(columns), *request.prune(request.partitions))


def under_base(reader: DataFrameReader, request: Any) -> DataFrameReader:
    """A reader that finds the request's partitions in folders' names."""
    return reader.option("basePath", request.base) if request.base else reader


def columns_of(schema: Any) -> tuple[Column, ...]:
    """The columns of a Spark schema."""
    return tuple(Column(f.name, f.dataType.simpleString(), True) for f in schema.fields)


def nothing_to_infer(paths: Sequence[str]) -> DataError:
    """The error for a source that shows no columns."""
    where = (
        paths[0] if len(paths) == 1 else f"{len(paths)} files, {paths[0]} the first," if paths else "no files"
    )
    return DataError(
        "empty-source",
        f"cannot tell the columns of {where}: there are no records to look at",
        hint="declare them: CREATE SOURCE name (a INT, b STRING) WITH (...), or schema_file = 'x.avsc'",
    )


def file_path() -> Expression:
    """The file of a row as people write it: decoded, and a plain path when it is local."""
    from pyspark.sql import functions as f

    # url_decode takes a plus for a blank, which a path does not mean.
    decoded = f.url_decode(f.replace(f.col("_metadata.file_path"), f.lit("+"), f.lit("%2B")))
    return f.regexp_replace(decoded, "^file:/+", "/")


def finished(
    frame: DataFrame,
    used: Sequence[Column],
    request: Any,
    *,
    bad: Expression | None = None,
    row_index: bool = False,
) -> DataFrame:
    """`frame`, of one of Spark's file sources, as a request wants it.

    Rows that their columns forbid raise, or are marked in `_rejected` with those of which `bad` is true.
    `row_index` tells that the source numbers its rows itself.
    """
    from pyspark.sql import functions as f

    rule = broken_rule(used)
    names = [quoted(c.name) for c in used]
    if request.on_error != "fail":
        wrong = bad if bad is not None else f.lit(False)
        frame = frame.withColumn(REJECTED, wrong if rule is None else wrong | rule.isNotNull())
        names.append(REJECTED)
    elif rule is not None:
        frame = frame.where(raising(rule, file_path().alias("file")))
    described = _described(frame, request.metadata, row_index)
    if request.metadata:
        names.insert(len(used), METADATA)
    return described.select(*names)


def _described(frame: DataFrame, fields: frozenset[str], row_index: bool) -> DataFrame:
    """`frame` with our `_metadata` in place of Spark's."""
    from pyspark.sql import functions as f

    if not fields:
        return frame
    parts = {
        "filename": f.substring_index(file_path(), "/", -1),
        "path": file_path(),
        "size": f.col("_metadata.file_size"),
        "modified": f.col("_metadata.file_modification_time"),
    }
    chosen = {name: value.alias(name) for name, value in parts.items() if name in fields}
    names = [f.col(quoted(name)) for name in frame.columns]
    if "row_number" in fields and not row_index:
        whole = numbered(
            frame.select(*names, f.struct(f.lit(1), *chosen.values()).alias(_ABOUT)), "row_number"
        )
        kept = [f.col(f"{_ABOUT}.{name}") for name in chosen]
        return whole.select(*names, f.struct(*kept, "row_number").alias(METADATA))
    if "row_number" in fields:
        chosen["row_number"] = (f.col("_metadata.row_index") + 1).alias("row_number")
    return frame.select(*names, f.struct(*chosen.values()).alias(METADATA))


def numbered(frame: DataFrame, name: str) -> DataFrame:
    """`frame`, of one of Spark's file sources, with the number of each row in its file.

    Files are read in blocks, side by side. A row's number is its number in its block, plus the rows of the
    blocks before it, which are counted by reading the source a first time.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as f
    from pyspark.sql.types import LongType, StructField, StructType

    # The row travels as one struct, since mapInArrow does not take names with dots.
    blocks = frame.select(
        f.struct(*(quoted(c) for c in frame.columns)).alias(_ROW),
        f.col("_metadata.file_path").alias(_FILE),
        f.col("_metadata.file_block_start").alias(_BLOCK),
    )
    before = Window.partitionBy(_FILE).orderBy(_BLOCK).rowsBetween(Window.unboundedPreceding, -1)
    counts = blocks.groupBy(_FILE, _BLOCK).agg(f.count(f.lit(1)).alias("_rows"))
    starts = counts.select(_FILE, _BLOCK, f.coalesce(f.sum("_rows").over(before), f.lit(0)).alias("_start"))
    schema = StructType([*blocks.schema.fields, StructField(_COUNTER, LongType())])
    joined = blocks.mapInArrow(_count_rows, schema).join(f.broadcast(starts), [_FILE, _BLOCK])
    return joined.select(f"{_ROW}.*", (f.col(_COUNTER) + f.col("_start")).alias(name))


def _count_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    counters: dict[tuple[str, int], int] = {}
    for batch in batches:
        numbers = []
        for key in zip(batch.column(_FILE).to_pylist(), batch.column(_BLOCK).to_pylist(), strict=True):
            counters[key] = counters.get(key, 0) + 1
            numbers.append(counters[key])
        yield batch.append_column(_COUNTER, pa.array(numbers, pa.int64()))


def broken_rule(columns: Sequence[Column], of: Expression | None = None) -> Expression | None:
    """What is wrong with a row of typed columns: a null or a text that its declaration forbids.

    `of` is a struct that holds the columns, if they do not stand alone.
    """
    from pyspark.sql import functions as f

    rules = []
    for column in columns:
        value = f.col(quoted(column.name)) if of is None else of.getField(column.name)
        limit = text_limit(column)
        if not column.nullable:
            rules.append(f.when(value.isNull(), f.lit(f"{column.name}: null, but it is NOT NULL")))
        if limit is not None:
            text = f.lit(f"{column.name}: longer than {limit} characters")
            rules.append(f.when(f.char_length(value) > limit, text))
    return f.coalesce(*rules) if rules else None


def raising(error: Expression, *about: Expression) -> Expression:
    """A condition that fails with a bad record, and what is told `about` it, where there is an error."""
    from pyspark.sql import functions as f

    record = f.to_json(f.struct(error.alias("error"), *about))
    failure = f.raise_error(f.concat(f.lit(MARKER), record)).cast("boolean")
    return f.when(error.isNotNull(), failure).otherwise(True)


def broken_rows(frame: DataFrame, columns: Sequence[Column]) -> DataFrame:
    """The rows of `frame` that break the rules of their columns, as rejects."""
    from pyspark.sql import functions as f

    rule = broken_rule(columns)
    if rule is None:
        return frame.limit(0).select(
            f.lit(None).cast("string").alias("payload"),
            f.lit(None).cast("string").alias("error"),
            f.lit(None).cast("string").alias("file"),
            f.lit(None).cast("bigint").alias("line"),
        )
    payload = f.to_json(f.struct(*(quoted(c) for c in frame.columns)))
    return frame.where(rule.isNotNull()).select(
        payload.alias("payload"),
        rule.alias("error"),
        file_path().alias("file"),
        f.lit(None).cast("bigint").alias("line"),
    )
