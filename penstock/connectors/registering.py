"""Files that are a table as well: an external one in Spark's Hive metastore, for other engines.

The first batch makes the table. Its columns and partitions follow each batch, once the files are in place:
one that runs again registers the same again, which changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import unquote

from penstock.connectors import storage as stores
from penstock.connectors.base import Column, Format
from penstock.connectors.evolving import type_of
from penstock.connectors.staging import Delivery, partition_columns
from penstock.connectors.tables import literal
from penstock.connectors.templates import NO_VALUE, Target
from penstock.errors import DataError, OptionError, SetupError
from penstock.schema import ddl, quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SETTING = "spark.sql.catalogImplementation"
_PARTITIONS_AT_ONCE = 200

Spec = tuple[str | None, ...]
"""A partition: its values, in the order of the table's partition columns."""


def check_metastore(spark: SparkSession) -> None:
    """Raises unless Spark keeps its tables in a Hive metastore, which can be reached."""
    from pyspark.errors import AnalysisException

    if spark.conf.get(_SETTING) != "hive":
        raise SetupError(
            "no-metastore",
            "register_as needs a Hive metastore, and Spark was started without one",
            hint=f"under `spark:` in penstock.yaml, set {_SETTING}: hive, and where it is, such as"
            " spark.hadoop.hive.metastore.uris: thrift://localhost:9083",
        )
    try:
        spark.catalog.databaseExists("spark_catalog.default")
    except AnalysisException as failure:
        raise SetupError(
            "metastore-unreachable",
            "Spark cannot open its Hive metastore",
            hint="check that it runs, and what `spark:` in penstock.yaml says of it; an embedded one serves"
            " one process at a time",
        ) from failure


def is_settled(format: Format) -> bool:
    """Whether a table over such files keeps the columns that it was made with: Spark adds none to Avro's."""
    return format.name == "avro"


def check(
    frame: DataFrame, name: str, target: Target, partition_by: Sequence[str], format: Format
) -> tuple[Column, ...] | None:
    """The columns that the table lacks for these rows; None when it is still to be made.

    Raises when files with such rows cannot be that table.
    """
    if format.table_options is None:
        raise OptionError(
            "no-such-tables",
            f"Spark has no tables of {format.name} files, so they cannot be registered",
            hint="write parquet, orc, avro, csv or json, or leave register_as out",
        )
    data, keys = _columns(frame, target, partition_by)
    if not frame.sparkSession.catalog.tableExists(_named(name)):
        return None
    _check_place(frame.sparkSession, name, target, format, keys)
    return _lacking(frame.sparkSession, name, format, data, keys)


@contextmanager
def registered(frame: DataFrame, name: str | None, delivery: Delivery) -> Iterator[None]:
    """What is delivered meanwhile is in the table `name` afterwards; nothing is done for None."""
    if name is None:
        yield
        return
    spark, target = frame.sparkSession, delivery.target
    lacking = check(frame, name, target, delivery.partition_by, delivery.format)
    yield
    data, keys = _columns(frame, target, delivery.partition_by)
    if lacking is None:
        _make(spark, name, target, delivery.format, data, keys)
    elif lacking:
        spark.sql(f"ALTER TABLE {_named(name)} ADD COLUMNS ({ddl(lacking)})")
    if keys:
        _follow(spark, name, delivery, [key.name for key in keys], made=lacking is None)


def _named(name: str) -> str:
    return ".".join(map(quoted, ("spark_catalog", *name.split("."))))


def _columns(
    frame: DataFrame, target: Target, partition_by: Sequence[str]
) -> tuple[tuple[Column, ...], tuple[Column, ...]]:
    """Those that stand in the files, and those of their folders, from the highest on."""
    of_rows = {field.name: Column(field.name, type_of(field.dataType)) for field in frame.schema.fields}
    in_folders = partition_columns(frame, target, partition_by)
    keys = (*target.partitions(), *(of_rows[name] for name in in_folders))
    data = tuple(column for name, column in of_rows.items() if name not in in_folders)
    seen: set[str] = set()
    for column in (*data, *keys):
        if column.name.lower() in seen:
            raise OptionError(
                "doubled-column",
                f"the table would have two columns '{column.name}'",
                hint="give the column of the rows, or the key of the path, another name",
            )
        seen.add(column.name.lower())
    return data, keys


def _check_place(
    spark: SparkSession, name: str, target: Target, format: Format, keys: Sequence[Column]
) -> None:
    """Raises unless the table that is there is one of just these files."""
    told = json.loads(spark.sql(f"DESCRIBE TABLE EXTENDED {_named(name)} AS JSON").collect()[0][0])
    wanted = [key.name.lower() for key in keys]
    there = [key.lower() for key in told.get("partition_columns", ())]
    if "location" not in told:
        reason = "it is no table of files"
    elif stores.absolute(told["location"]) != target.root:
        reason = f"its files are in {told['location']}, not in {target.root}"
    elif told["provider"].lower() != format.name:
        reason = f"its files are {told['provider']}, not {format.name}"
    elif there != wanted:
        has, needs = (", ".join(names) or "nothing" for names in (there, wanted))
        reason = f"it is partitioned by {has}, not by {needs}"
    else:
        return
    raise DataError(
        "other-table",
        f"{name} is there already, and {reason}",
        hint="register the files as another table, or drop that one",
    )


def _lacking(
    spark: SparkSession, name: str, format: Format, data: Sequence[Column], keys: Sequence[Column]
) -> tuple[Column, ...]:
    fields = [Column(f.name, type_of(f.dataType)) for f in spark.table(_named(name)).schema.fields]
    known = {column.name.lower(): column for column in fields}
    for column in (*data, *keys):
        there = known.get(column.name.lower())
        if there is not None and there.type != column.type:
            raise DataError(
                "column-types",
                f"{name} has {quoted(there.name)} as {there.type}, and the rows have it as {column.type}",
                hint="CAST it, or give it another name",
            )
    lacking = tuple(column for column in data if column.name.lower() not in known)
    if lacking and is_settled(format):
        raise DataError(
            "changed-columns",
            f"the rows have what {name} lacks, {lacking[0].name}, and Spark adds no columns to a table of"
            f" {format.name} files",
            hint="leave it out of the SELECT, or drop the table: it is made anew, and its files stay",
        )
    inside = [column.name.lower() for column in fields[: len(fields) - len(keys)]]
    given = [column.name.lower() for column in data]
    if format.name == "csv" and any(a != b for a, b in zip(inside, given, strict=False)):
        raise DataError(
            "changed-columns",
            f"{name} has the columns {', '.join(inside)}, and the rows {', '.join(given)}: values in csv"
            " files are told by their order",
            hint="select them in the table's order, with new ones at the end",
        )
    return lacking


def _make(
    spark: SparkSession,
    name: str,
    target: Target,
    format: Format,
    data: Sequence[Column],
    keys: Sequence[Column],
) -> None:
    options = ", ".join(f"{literal(k)} {literal(v)}" for k, v in (format.table_options or {}).items())
    clauses = [
        f"CREATE TABLE IF NOT EXISTS {_named(name)} ({ddl((*data, *keys))}) USING {format.name}",
        f"OPTIONS ({options})" if options else "",
        f"PARTITIONED BY ({', '.join(quoted(key.name) for key in keys)})" if keys else "",
        f"LOCATION {literal(_location(target.root))}",
    ]
    spark.sql(f"CREATE DATABASE IF NOT EXISTS {_named(name.partition('.')[0])}")
    spark.sql(" ".join(filter(None, clauses)))


def _location(folder: str) -> str:
    return folder if stores.is_remote(folder) else f"file://{folder}"


def _follow(spark: SparkSession, name: str, delivery: Delivery, keys: Sequence[str], *, made: bool) -> None:
    """Adds the partitions of the batch's files, or of all to a new table; drops those that it emptied."""
    target, scope, replaces = delivery.target, delivery.scope(spark), delivery.mode == "overwrite"
    files = target.data_files(stores.of(spark, target.root), None if made else scope)
    own = (file for file in files if made or replaces or delivery.is_own(file))
    found = _partitions(target, own, keys)
    new = [f"PARTITION ({_spec(keys, s)}) LOCATION {literal(_location(f))}" for s, f in found.items()]
    for i in range(0, len(new), _PARTITIONS_AT_ONCE):
        clauses = " ".join(new[i : i + _PARTITIONS_AT_ONCE])
        spark.sql(f"ALTER TABLE {_named(name)} ADD IF NOT EXISTS {clauses}")
    if replaces and not made:
        fixed = _values((scope or "").split("/"))
        for row in spark.sql(f"SHOW PARTITIONS {_named(name)}").collect():
            values = _values(row.partition.split("/"))
            spec = tuple(values[key.lower()] for key in keys)
            if spec not in found and fixed.items() <= values.items():
                spark.sql(f"ALTER TABLE {_named(name)} DROP IF EXISTS PARTITION ({_spec(keys, spec)})")


def _partitions(target: Target, files: Iterable[str], keys: Sequence[str]) -> dict[Spec, str]:
    """The folder of each partition that has files."""
    found: dict[Spec, str] = {}
    for folder in dict.fromkeys(file.rpartition("/")[0] for file in files):
        values = _values(folder[len(target.root) :].split("/"))
        if values.keys() == {key.lower() for key in keys}:
            found[tuple(values[key.lower()] for key in keys)] = folder
    return found


def _values(folders: Iterable[str]) -> dict[str, str | None]:
    pairs = (folder.split("=", 1) for folder in folders if stores.is_partition(folder))
    return {unquote(key).lower(): None if text == NO_VALUE else unquote(text) for key, text in pairs}


def _spec(keys: Sequence[str], values: Spec) -> str:
    return ", ".join(
        f"{quoted(key)} = {'NULL' if value is None else literal(value)}"
        for key, value in zip(keys, values, strict=True)
    )
