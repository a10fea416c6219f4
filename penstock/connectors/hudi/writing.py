"""A batch into a Hudi table: staged as Avro by Spark, written by Hudi's Java client, seen as one commit.

The batch's name stands in the commit. The numbers of streams are carried on from commit to commit, so that
they outlive the commits themselves, which Hudi archives.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.connectors import merging
from penstock.connectors.base import Batch, Refused
from penstock.connectors.hudi import changes, java
from penstock.connectors.hudi.columns import as_avro, evolved, named, stored_as
from penstock.connectors.hudi.locking import busy, only_writer
from penstock.connectors.hudi.options import Sink
from penstock.connectors.hudi.table import Table, is_table
from penstock.errors import DataError
from penstock.schema import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
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
    with only_writer(sink.path):
        table = Table(sink.path) if is_table(sink.path) else None
        told = _told(table, batch)
        if told is None:
            return ()
        if table is not None and (own := _own_commit(table, batch)) is not None:
            if not _client(frame, sink, table, jars).rollback(own):
                raise busy(sink.path)
            table = Table(sink.path)
        refused: Sequence[Refused] = ()
        if sink.merge_on:
            frame, refused = merging.without_keys(frame, sink)
        columns = columns_of(frame, sink, table)
        if sink.merge_on:
            records = changes.merged(frame, sink, columns, table)
        else:
            records = changes.inserted(frame, columns, named(_partition_by(sink, table), columns))
        with _staged(records, sink.path, as_avro(columns)) as files:
            client = _client(frame, sink, table, jars, columns)
            if table is None:
                client.create(java.as_map(frame.sparkSession, _new_table(sink, columns)))
            extra = java.as_map(frame.sparkSession, told)
            prefix = f"{_label(batch)}/"
            newest = next((commit.instant for commit in table.commits()), "") if table is not None else ""
            if not client.write(files, extra, prefix, sink.mode == "overwrite", newest, _ROWS, _BYTES):
                raise busy(sink.path)
        return refused


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
    frame: DataFrame, sink: Sink, table: Table | None, jars: Sequence[Path], columns: StructType | None = None
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
    return java.writing(frame.sparkSession, jars, sink.path, told)


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
        "hoodie.table.name": os.path.basename(sink.path),
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
    home = os.path.join(path, ".hoodie", ".temp")
    folder = os.path.join(home, "penstock")
    try:
        shutil.rmtree(folder, ignore_errors=True)  # of a try that was killed
        records.write.format("avro").option("avroSchema", json.dumps(schema)).save(f"file://{folder}")
        session: Any = records.sparkSession
        files = session._jvm.java.util.ArrayList()
        for file in sorted(Path(folder).glob("*.avro")):
            files.add(f"file://{file}")
        yield files
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        for empty in (home, os.path.dirname(home)):
            with suppress(OSError):
                os.rmdir(empty)
