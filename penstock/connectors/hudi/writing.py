"""A batch into a Hudi table: staged as Avro by Spark, written by Hudi's Java client, seen as one commit.

The batch's name stands in the commit. The numbers of streams are carried on from commit to commit, so that
they outlive the commits themselves, which Hudi archives.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.connectors import merging
from penstock.connectors import storage as stores
from penstock.connectors.base import Batch, Refused
from penstock.connectors.hudi import changes, java
from penstock.connectors.hudi.access import access_of
from penstock.connectors.hudi.columns import as_avro, evolved, named, stored_as
from penstock.connectors.hudi.locking import busy, only_writer
from penstock.connectors.hudi.options import Sink
from penstock.connectors.hudi.store_locks import Lock, only_writer_in_store
from penstock.connectors.hudi.table import Table, find
from penstock.connectors.session_settings import changed
from penstock.connectors.staging import ASIDE
from penstock.connectors.storage import join
from penstock.errors import DataError
from penstock.schema import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_BATCH, _STREAMS = "penstock.batch", "penstock.streams"
_ROWS, _BYTES = 100_000, 32 << 20
"""What the driver's heap holds of a batch at once, as staged; or all changes to one file."""
_SETTINGS = {
    "hoodie.embed.timeline.server": "false",
    "hoodie.write.markers.type": "DIRECT",
    # Several slices are one commit.
    "_.hoodie.allow.multi.write.on.same.instant": "true",
    # A row for each key is all that comes.
    "hoodie.combine.before.upsert": "false",
    "hoodie.combine.before.insert": "false",
    # The usual one fails on lists of structs in tables to which Spark's Hudi has written.
    "hoodie.write.merge.handle.class": "org.apache.hudi.io.HoodieWriteMergeHandle",
    # What an update of all its rows takes of the heap goes by the size of a file.
    "hoodie.parquet.max.file.size": str(64 << 20),
    "hoodie.parquet.small.file.limit": str(48 << 20),
}
_LATEST = "COMMIT_TIME_ORDERING"
"""Of two rows of a key, the one that is written later stays."""
_FOLDERS = (
    "hoodie.datasource.write.hive_style_partitioning",
    "hoodie.datasource.write.partitionpath.urlencode",
)
_INDEXES = {
    "files": "hoodie.metadata.enable",
    "column_stats": "hoodie.metadata.index.column.stats.enable",
    "partition_stats": "hoodie.metadata.index.partition.stats.enable",
}
"""What a table may have in `.hoodie/metadata`; readers go by it, so that each commit must keep it up."""
_KEY_GENERATORS = ("SIMPLE", "COMPLEX", "NON_PARTITION")


def deliver(frame: DataFrame, sink: Sink, batch: Batch, jars: Sequence[Path]) -> Sequence[Refused]:
    """Writes a batch, unless it is there; hands back the rows that have no key."""
    with _alone(frame.sparkSession, sink.path) as lock:
        table = find(sink.path, access_of(sink))
        told = _told(table, batch)
        if told is None:
            return ()
        if table is not None and (own := _own_commit(table, batch)) is not None:
            if not _client(frame, sink, table, jars, lock).rollback(own):
                raise busy(sink.path)
            table = Table(sink.path, table.access)
        refused: Sequence[Refused] = ()
        if sink.merge_on:
            frame, refused = merging.without_keys(frame, sink)
        columns = columns_of(frame, sink, table)
        if sink.merge_on:
            records = changes.merged(frame, sink, columns, table)
        else:
            records = changes.inserted(frame, columns, named(_partition_by(sink, table), columns))
        with _staged(records, sink.path, as_avro(columns)) as files:
            client = _client(frame, sink, table, jars, lock, columns)
            if table is None:
                client.create(java.as_map(frame.sparkSession, _new_table(sink, columns)))
            extra = java.as_map(frame.sparkSession, told)
            prefix = f"{_label(batch)}/"
            newest = next((commit.instant for commit in table.commits()), "") if table is not None else ""
            if not client.write(files, extra, prefix, sink.mode == "overwrite", newest, _ROWS, _BYTES):
                raise busy(sink.path)
        return refused


@contextmanager
def _alone(spark: SparkSession, path: str) -> Iterator[Lock | None]:
    """Keeps other writers away, of this process and of others; gives the lock that a store needs."""
    if stores.is_remote(path):
        with only_writer_in_store(spark, path) as lock:
            yield lock
    else:
        with only_writer(path):
            yield None


def columns_of(frame: DataFrame, sink: Sink, table: Table | None) -> StructType:
    """The table's columns with those of the rows; raises where they do not fit."""
    rows = stored_as(frame.select(*map(quoted, merging.stored(frame, sink))).schema)
    as_avro(rows)
    if table is None:
        return rows
    for what, wanted, there in (
        ("record key", sink.merge_on, table.record_key),
        ("partitions", sink.partition_by, table.partition_by),
    ):
        if wanted and [name.lower() for name in wanted] != [name.lower() for name in there]:
            raise DataError(
                "other-table",
                f"the {what} of {table.path}: {', '.join(there) or 'none'}; not {', '.join(wanted)}",
                hint="write to another path, or say what the table has",
            )
    unknown = [index for index in table.indexes if index not in _INDEXES]
    if unknown:
        hint = "write it with the Spark that made it, or drop the index"
        raise DataError(
            "other-table", f"{table.path} has indexes that are not known here: {unknown}", hint=hint
        )
    generator = _key_generator(table, sink)
    if generator not in _KEY_GENERATORS:
        raise DataError("other-table", f"{table.path} makes its keys by {generator}, which is not known here")
    return evolved(table.schema, rows, table.path)


def _label(batch: Batch) -> str:
    return f"{batch.pipeline}/{batch.sink}/{batch.number}"


def _told(table: Table | None, batch: Batch) -> dict[str, str] | None:
    """What the commit of a batch tells of it; None for a batch of a stream that is there."""
    commits = table.commits() if table is not None else iter(())
    streams = next((commit.told[_STREAMS] for commit in commits if _STREAMS in commit.told), "{}")
    numbers: dict[str, int] = json.loads(streams)
    stream = f"{batch.pipeline}/{batch.sink}"
    if batch.streaming:
        if numbers.get(stream, -1) >= batch.number:
            return None  # Invariant 3
        numbers[stream] = batch.number
    return {_BATCH: _label(batch), _STREAMS: json.dumps(numbers)}


def _own_commit(table: Table, batch: Batch) -> str | None:
    """The commit that the same batch left when it ran before; None where there is none."""
    label = _label(batch)
    for position, commit in enumerate(table.commits()):
        if commit.told.get(_BATCH) == label:
            if position == 0:
                return commit.instant
            raise DataError(
                "later-commits",
                f"the batch that is to be replaced in {table.path} is not its newest commit",
                hint=f"look at {commit.instant} and what came after it, or run it under another name",
            )
    return None


def _partition_by(sink: Sink, table: Table | None) -> tuple[str, ...]:
    return table.partition_by if table is not None else sink.partition_by


def _client(
    frame: DataFrame,
    sink: Sink,
    table: Table | None,
    jars: Sequence[Path],
    lock: Lock | None,
    columns: StructType | None = None,
) -> Any:
    there, by = table.settings if table is not None else _new_table(sink, columns), _partition_by(sink, table)
    told = {
        **_SETTINGS,
        "hoodie.table.name": there["hoodie.table.name"],
        "hoodie.table.keygenerator.type": _key_generator(table, sink),
        "hoodie.datasource.write.recordkey.field": there.get("hoodie.table.recordkey.fields", ""),
        "hoodie.datasource.write.partitionpath.field": ",".join(named(by, columns) if columns else by),
        **{key: there.get(key, "false") for key in _FOLDERS},
        "hoodie.write.record.merge.mode": there.get("hoodie.record.merge.mode", _LATEST),
        # New tables have none: it makes small commits four times as slow.
        **{key: str(index in (table.indexes if table else ())).lower() for index, key in _INDEXES.items()},
    }
    if columns is not None:
        told["hoodie.avro.schema"] = json.dumps(as_avro(columns))
    client = java.writing(frame.sparkSession, jars, sink.path, told)
    if lock is not None:
        client.guard(lock.path, lock.mark)
    return client


def _key_generator(table: Table | None, sink: Sink) -> str:
    """How a table makes keys and partitions of rows; for one that does not say, as Hudi itself would."""
    told = table.settings.get("hoodie.table.keygenerator.type", "") if table is not None else ""
    keys, by = len(table.record_key if table else sink.merge_on), len(_partition_by(sink, table))
    inferred = "NON_PARTITION" if not by else "COMPLEX" if by > 1 or keys > 1 else "SIMPLE"
    return told.removesuffix("_AVRO") or inferred


def _new_table(sink: Sink, columns: StructType | None) -> dict[str, str]:
    """The settings of a table that is to be made."""
    assert columns is not None
    told = {
        "hoodie.table.name": sink.path.rpartition("/")[2],
        "hoodie.table.type": sink.table_type,
        "hoodie.table.create.schema": json.dumps(as_avro(columns)),
        "hoodie.table.recordkey.fields": ",".join(named(sink.merge_on, columns)),
        "hoodie.table.partition.fields": ",".join(named(sink.partition_by, columns)),
        "hoodie.table.keygenerator.type": _key_generator(None, sink),
        "hoodie.table.timeline.timezone": "UTC",
        "hoodie.record.merge.mode": _LATEST,
        **dict.fromkeys(_FOLDERS, "true"),
    }
    return {key: value for key, value in told.items() if value}


@contextmanager
def _staged(records: DataFrame, path: str, row: dict[str, Any]) -> Iterator[Any]:
    """The Avro files of a batch's records; removed in the end, and of a table that is not there, all."""
    fields = [{"name": "row", "type": ["null", row]}]
    fields += [{"name": name, "type": ["null", "string"]} for name in changes.PLACE]
    schema = {"type": "record", "name": "staged", "namespace": "penstock", "fields": fields}
    spark: Any = records.sparkSession
    storage, hudis = stores.of(spark, path), join(path, ".hoodie")
    home, folder = join(hudis, ".temp"), join(hudis, ".temp/penstock")
    try:
        storage.delete(folder)  # of a try that was killed
        with changed(spark, ASIDE):
            # A slice goes by what its rows take in the heap, not by how well they can be compressed.
            told = {"avroSchema": json.dumps(schema), "compression": "uncompressed"}
            records.write.format("avro").options(**told).save(_address(folder))
        files = spark._jvm.java.util.ArrayList()
        for entry in storage.children(folder):
            if entry.name.endswith(".avro"):
                files.add(_address(entry.path))
        yield files
    finally:
        with suppress(OSError):
            storage.delete(folder)
            for empty in (home, hudis):
                storage.delete_empty(empty)


def _address(path: str) -> str:
    return path if stores.is_remote(path) else f"file://{path}"
