"""A batch of rows or changes -> what is to happen to each file of the table.

Hudi's Java client is told where the row of each key stands; Spark finds it, by a join with the table's keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.connectors import adapter, merging
from penstock.connectors.base import Column
from penstock.connectors.hudi.columns import named
from penstock.connectors.hudi.options import Sink
from penstock.connectors.hudi.reading import Slices
from penstock.connectors.hudi.table import Table
from penstock.schema import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

PLACE = ("file", "instant", "partition", "key")
"""What is staged beside `row`: where the row of its key stands, as text; null for a new row."""
_KEY, _PARTITION, _FILE = "_hoodie_record_key", "_hoodie_partition_path", "_hoodie_file_name"
_OLD, _GROUP = "_penstock_old", "_penstock_group"


def inserted(frame: DataFrame, columns: StructType, partition_by: tuple[str, ...]) -> DataFrame:
    """All rows as new ones, those of a partition together."""
    from pyspark.sql import functions as f

    rows = frame.select(_row(frame, columns), *_nowhere())
    if not partition_by:
        return rows
    by = [f.col(f"row.{quoted(name)}") for name in partition_by]
    return rows.repartition(*by).sortWithinPartitions(*by)


def merged(frame: DataFrame, sink: Sink, columns: StructType, table: Table | None) -> DataFrame:
    """What `merging.fold` makes of the rows, with the place of each key in the table."""
    from pyspark.sql import functions as f

    changes = merging.fold(frame, sink)
    if table is None:
        kept = changes.where(f.col(merging.CHANGE) != merging.GONE)
        return inserted(kept, columns, sink.partition_by)
    told = {name.lower() for name in changes.columns}
    partial = bool(
        sink.update_columns or sink.insert_only or any(c.name.lower() not in told for c in columns)
    )
    stored = _stored(changes, sink, table, whole=partial)
    changes = _cast(changes, columns)
    on = [changes[quoted(key)] == f.col(f"{_OLD}.{quoted(key)}") for key in named(sink.merge_on, columns)]
    both = changes.join(stored, on, "left")
    known, change = f.col(_OLD).isNotNull(), f.col(merging.CHANGE)
    both = both.where(known | (change != merging.GONE))
    if sink.insert_only:
        both = both.where(~known | (change != merging.KEPT))
    row = _combined(both, sink, columns) if partial else _row(changes, columns)
    return _grouped(_placed(both, row, known, change, table))


def _placed(
    both: DataFrame, row: Expression, known: Expression, change: Expression, table: Table
) -> DataFrame:
    """A record for each change; two where a row moves to another partition."""
    from pyspark.sql import functions as f

    old = f.col(_OLD)
    place = {
        "file": f.substring_index(old[_FILE], "_", 1),
        "instant": f.regexp_extract(old[_FILE], r"_(\d+)\.[^_]*$", 1),
        "partition": old[_PARTITION],
        "key": old[_KEY],
    }
    nothing = f.lit(None).cast("string")
    moves = f.lit(False)
    for by in table.partition_by:
        moves = moves | ~row[by].eqNullSafe(old[by])
    gone = known & (change == merging.GONE)
    there = {name: f.when(known, place[name]).otherwise(nothing).alias(name) for name in PLACE}
    stays = f.struct(f.when(~gone, row).alias("row"), *there.values())
    leaves = f.struct(f.when(f.lit(False), row).alias("row"), *there.values())
    comes = f.struct(row.alias("row"), *(nothing.alias(name) for name in PLACE))
    records = f.when(known & ~gone & moves, f.array(leaves, comes)).otherwise(f.array(stays))
    return both.select(f.explode(records).alias("record")).select("record.*")


def _grouped(records: DataFrame) -> DataFrame:
    """The changes of one file one after the other; new rows spread."""
    from pyspark.sql import functions as f

    group = f.coalesce(f.col("file"), f.monotonically_increasing_id().cast("string"))
    spread = records.withColumn(_GROUP, group).repartition(_GROUP)
    return spread.sortWithinPartitions("file").drop(_GROUP)


def _stored(changes: DataFrame, sink: Sink, table: Table, *, whole: bool) -> DataFrame:
    """The rows of the table as one column: what is needed of them, and where they stand."""
    from pyspark.sql import functions as f

    needed = {name.lower() for name in (*sink.merge_on, *table.partition_by)}
    own = [c for c in table.columns() if whole or c.name.lower() in needed]
    where = [Column(name, "STRING") for name in (_KEY, _PARTITION, _FILE)]
    reader = Slices(table.path, (*own, *where), access=table.access)
    frame = adapter.read_ranges(changes.sparkSession, reader, adapter.all_ranges(reader), reader.chosen)
    return frame.select(f.struct(*(quoted(c.name) for c in reader.chosen)).alias(_OLD))


def _combined(both: DataFrame, sink: Sink, columns: StructType) -> Expression:
    """The row that a change makes of the one that is stored."""
    from pyspark.sql import functions as f

    there = {name.lower() for name in both.columns}
    old_names = {name.lower() for name in both.schema[_OLD].dataType.names}  # type: ignore[attr-defined]
    changed = {name.lower() for name in sink.update_columns}
    keeps = f.col(_OLD).isNotNull() & (f.col(merging.CHANGE) == merging.KEPT)
    fields = []
    for column in columns.fields:
        name = column.name.lower()
        new = f.col(quoted(column.name)) if name in there else f.lit(None)
        old = f.col(f"{_OLD}.{quoted(column.name)}") if name in old_names else f.lit(None)
        stays = name not in there or (changed and name not in changed)
        value = f.when(keeps, old).otherwise(new) if stays else new
        fields.append(value.cast(column.dataType).alias(column.name))
    return f.struct(*fields)


def _row(frame: DataFrame, columns: StructType) -> Expression:
    from pyspark.sql import functions as f

    there = {name.lower() for name in frame.columns}
    values = (f.col(quoted(c.name)) if c.name.lower() in there else f.lit(None) for c in columns.fields)
    return f.struct(
        *(value.cast(c.dataType).alias(c.name) for value, c in zip(values, columns.fields, strict=True))
    ).alias("row")


def _cast(changes: DataFrame, columns: StructType) -> DataFrame:
    """The changes in the types of the table, so that keys of both are compared as one type."""
    from pyspark.sql import functions as f

    kinds = {c.name.lower(): c for c in columns.fields}
    return changes.select(
        *(
            f.col(quoted(n)).cast(kinds[n.lower()].dataType).alias(kinds[n.lower()].name)
            if n.lower() in kinds
            else f.col(quoted(n))
            for n in changes.columns
        )
    )


def _nowhere() -> list[Expression]:
    from pyspark.sql import functions as f

    return [f.lit(None).cast("string").alias(name) for name in PLACE]
