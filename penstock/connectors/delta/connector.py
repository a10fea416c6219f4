"""Delta tables. Exactly once: a batch is one commit that keeps its number, and one that runs again changes
nothing. Writers that meet, of one process or of several, try again.

`delta://path` begins in the project's `warehouse`; `delta+s3://bucket/path`, `delta+gs://`, `delta+azure://`,
`delta+abfss://` and `delta+hdfs://` stand in stores, and take the options of those.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from itertools import islice
from threading import Thread
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import AliasChoices, Field, model_validator

from penstock.connectors import storage as stores
from penstock.connectors.base import (
    Access,
    Batch,
    Column,
    Limits,
    ReadRequest,
    Refused,
    SourceOptions,
)
from penstock.connectors.delta.committing import commit_safely
from penstock.connectors.merging import OPERATION
from penstock.connectors.places import InPlaces, Place, schemes_of
from penstock.connectors.session_settings import changed
from penstock.connectors.storage import join
from penstock.connectors.tables import Tables, TableSink, chosen
from penstock.errors import DataError, PenstockError, said
from penstock.options import Names, Value
from penstock.schema import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_OPERATIONS = {"insert": "insert", "update_postimage": "update", "delete": "delete"}
_COMMIT = (Column("_commit_version", "BIGINT"), Column("_commit_timestamp", "TIMESTAMP"))
_TRANSACTION = "spark.databricks.delta.write.txn"
_LISTING_TASKS = 8
_COMMITS = 10
_NOTE = "spark.databricks.delta.commitInfo.userMetadata"
_NO_LOG = "DELTA_CANNOT_CREATE_LOG_PATH"
_MISSING = re.compile(r"DELTA_TABLE_NOT_FOUND|DELTA_PATH_DOES_NOT_EXIST|DELTA_MISSING_DELTA_TABLE"
                      r"|PATH_NOT_FOUND|DELTA_READ_TABLE_WITHOUT_COLUMNS")  # fmt: skip


class Source(Place, SourceOptions):
    version: int | None = Field(None, ge=0, description="The version to read; the newest unless set.")
    timestamp: str | None = Field(None, description="The time at which to read it, such as 2026-01-31.")
    watch: bool = Field(False, description="Whether to go on with rows that are added later.")
    changes: bool = Field(
        False,
        description="Whether to read its changes, with `_op`, in place of its rows; the table needs the"
        " property delta.enableChangeDataFeed = 'true'. `_commit_version` and `_commit_timestamp` tell when.",
    )
    start: str | None = Field(
        None,
        description="Where a new stream, or changes, begin: earliest, latest, a version, or a time.",
        validation_alias=AliasChoices("start", "startingVersion", "startingTimestamp"),
    )
    skip_changes: bool = Field(
        False, description="Whether a stream of rows passes over commits that change or delete rows."
    )
    files_per_batch: int | None = Field(None, gt=0, description="How many new files a batch has at most.")

    @model_validator(mode="after")
    def _one_time(self) -> Source:
        if self.version is not None and self.timestamp is not None:
            raise ValueError("version and timestamp exclude each other")
        if (self.watch or self.changes) and (self.version is not None or self.timestamp is not None):
            raise ValueError("version and timestamp are of one state of the table: use start")
        if self.start is not None and not (self.watch or self.changes):
            raise ValueError("start needs watch = true or changes = true")
        if not self.watch and (self.skip_changes or self.files_per_batch):
            raise ValueError("skip_changes and files_per_batch need watch = true")
        return self


class Sink(Place, TableSink):
    cluster_by: Names = Field((), description="Columns by which a new table's rows are kept together.")
    optimize_write: bool = Field(False, description="Whether files are made large, at the cost of a shuffle.")

    @model_validator(mode="after")
    def _one_layout(self) -> Sink:
        if self.cluster_by and self.partition_by:
            raise ValueError("cluster_by and partition_by exclude each other")
        return self


class Delta(InPlaces, Tables):
    name = "delta"
    aliases = ("delta-lake", "deltalake")
    schemes = schemes_of("delta", "hdfs")
    jars = (
        "io.delta:delta-spark_4.1_2.13:4.4.0",
        "io.delta:delta-storage:4.4.0",
        "io.delta:delta-kernel-api:4.4.0",
        "io.delta:delta-kernel-defaults:4.4.0",
        "io.delta:delta-kernel-unitycatalog:4.4.0",
        "io.unitycatalog:unitycatalog-client:0.6.0",
        "io.unitycatalog:unitycatalog-hadoop:0.6.0",
    )
    extensions = ("io.delta.sql.DeltaSparkSessionExtension",)
    Source = Source
    Sink = Sink
    using = "delta"
    conflicts = re.compile(
        r"DELTA_CONCURRENT_|Concurrent(?:Append|DeleteRead|DeleteDelete|Transaction|Write)Exception"
        r"|DELTA_METADATA_CHANGED|MetadataChangedException|DELTA_PROTOCOL_CHANGED|FileAlreadyExistsException"
        r"|DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION|TABLE_OR_VIEW_ALREADY_EXISTS|NoSuchFileException"
        r"|FIELD_ALREADY_EXISTS|DELTA_SCHEMA_CHANGED"
    )
    missing = _MISSING
    # The changes are at rest already; Delta would lay them down once more, and lose how they lie.
    merging: ClassVar[Mapping[str, str]] = {"spark.databricks.delta.merge.materializeSource": "none"}

    def access(self, options: Any) -> Access:
        return Access(
            {
                "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
                # What a table holds is small on most; Delta would make fifty parts of it.
                "spark.databricks.delta.snapshotPartitions": "2",
            }
        )

    def hidden(self, source: Any) -> tuple[Column, ...]:
        return _COMMIT if source.changes else ()

    def is_unbounded(self, source: Any) -> bool:
        return bool(source.watch)

    def is_ordered(self, source: Any) -> bool:
        return bool(source.changes)

    def identity(self, source: Any) -> str:
        return f"{source.path}{' changes' if source.changes else ''}"

    def stream(self, spark: SparkSession, source: Any, limits: Limits) -> DataFrame:
        reader = spark.readStream.format("delta").options(**self._beginning(spark, source, limits))
        if source.files_per_batch:
            reader = reader.option("maxFilesPerTrigger", source.files_per_batch)
        if source.changes:
            return reader.option("readChangeFeed", "true").load(source.path)
        return reader.option("skipChangeCommits", str(source.skip_changes).lower()).load(source.path)

    def read(self, spark: SparkSession, source: Any, request: ReadRequest) -> DataFrame:
        frame = request.records if request.records is not None else self._open(spark, source)
        if source.changes:
            frame = _as_changes(frame, request)
        return chosen(frame, request)

    def _open(self, spark: SparkSession, source: Any) -> DataFrame:
        reader = spark.read.format("delta")
        if source.changes:
            begin = self._beginning(spark, source, Limits())
            return reader.options(readChangeFeed="true", **begin).load(source.path)
        if source.version is not None:
            reader = reader.option("versionAsOf", source.version)
        if source.timestamp is not None:
            reader = reader.option("timestampAsOf", source.timestamp)
        return reader.load(source.path)

    def _beginning(self, spark: SparkSession, source: Any, limits: Limits) -> dict[str, str]:
        """Where a stream, or changes, begin; a stream that has begun goes on from where it stands."""
        start = source.start or limits.start
        if start == "earliest":
            return {"startingVersion": "0"} if source.changes else {}
        if start != "latest":
            return {"startingVersion" if start.isdecimal() else "startingTimestamp": start}
        if limits.since is not None:
            # A stream that was ended before its first batch begins where it would have begun then.
            since, first = limits.since.timestamp(), None
            for commit in self._history(spark, source):
                if commit.timestamp.timestamp() <= since:
                    break
                first = commit.version
            if first is not None:
                return {"startingVersion": str(first)}
        return {"startingVersion": "latest"}

    def _history(self, spark: SparkSession, options: Any) -> Iterator[Any]:
        """Its commits, the newest first; no more are read than are needed."""
        count, told = _COMMITS, 0
        while True:
            commits = spark.sql(f"DESCRIBE HISTORY {self.named(options)} LIMIT {count}").collect()
            yield from commits[told:]
            if len(commits) < count:
                return
            count, told = count * 10, count

    def facts(self, spark: SparkSession, source: Any) -> dict[str, Value]:
        detail = spark.sql(f"DESCRIBE DETAIL {self.named(source)}").collect()[0]
        commits = list(islice(self._history(spark, source), 5))
        return {
            "files": detail.numFiles,
            "size": detail.sizeInBytes,
            "comment": detail.description,
            "partitioned by": ", ".join(detail.partitionColumns),
            "partitions": self._partitions(spark, source, detail.partitionColumns),
            "clustered by": ", ".join(detail.clusteringColumns),
            "properties": ", ".join(f"{k} = {v}" for k, v in sorted(detail.properties.items())),
            "version": commits[0].version,
            "newest commits": [
                f"{c.version}: {c.operation} at {c.timestamp:%Y-%m-%d %H:%M:%S}" for c in commits
            ],
        }

    def _partitions(self, spark: SparkSession, source: Any, columns: Sequence[str]) -> int | None:
        """How many there are; None for a table that has none."""
        if not columns:
            return None
        return spark.table(self.named(source)).select(*map(quoted, columns)).distinct().count()

    def optimize(self, spark: SparkSession, source: Any) -> dict[str, int]:
        commit_safely(spark)
        (done,) = spark.sql(f"OPTIMIZE {self.named(source)}").collect()
        return {"files removed": done.metrics.numFilesRemoved, "files added": done.metrics.numFilesAdded}

    def vacuum(self, spark: SparkSession, source: Any, retain: timedelta) -> dict[str, int]:
        hours = retain.total_seconds() / 3600
        settings = {
            # Whoever says how far back it is to be readable knows what for.
            "spark.databricks.delta.retentionDurationCheck.enabled": "false",
            # It would list folders in ten thousand tasks.
            "spark.sql.sources.parallelPartitionDiscovery.parallelism": str(_LISTING_TASKS),
        }
        with changed(spark, settings):
            files = spark.sql(f"VACUUM {self.named(source)} RETAIN {hours} HOURS DRY RUN").count()
            spark.sql(f"VACUUM {self.named(source)} RETAIN {hours} HOURS").collect()
        return {"files deleted": files}

    def explain_failure(self, failure: Exception, options: Any) -> PenstockError | None:
        text = said(failure)
        if _MISSING.search(text) and options.path in text:
            return DataError("missing-table", f"there is no Delta table at {options.path}")
        if "DELTA_SOURCE_TABLE_IGNORE_CHANGES" in text or "DELTA_SOURCE_IGNORE_DELETE" in text:
            return DataError(
                "changed-rows",
                f"rows of {options.path} were changed or deleted, and a stream of rows cannot tell of that",
                hint="changes = true reads the changes, skip_changes = true passes over them",
            )
        if "DELTA_MISSING_CHANGE_DATA" in text:
            return DataError(
                "no-changes",
                f"{options.path} keeps no changes, or not from so early on",
                hint="ALTER TABLE ... SET TBLPROPERTIES (delta.enableChangeDataFeed = true); start later",
            )
        return super().explain_failure(failure, options)

    # Writing.

    def write(self, frame: DataFrame, sink: Any, batch: Batch) -> Sequence[Refused]:
        commit_safely(frame.sparkSession)
        return super().write(frame, sink, batch)

    def named(self, options: Any) -> str:
        return f"delta.{quoted(options.path)}"

    def check_target(self, spark: SparkSession, sink: Any) -> None:
        if self.columns_of(spark, sink) is not None:
            if sink.merge_on:
                Thread(target=self._load, args=(spark, sink), daemon=True).start()
            return
        there = stores.of(spark, sink.path).children(sink.path)
        if any(not entry.hidden for entry in there):
            raise DataError(
                "not-a-table",
                f"{sink.path} holds something else than a Delta table",
                hint="write to an empty folder, or to one that is not there",
            )

    def _load(self, spark: SparkSession, sink: Any) -> None:
        """Has Delta read what the table's files hold, which MERGE begins with, while a batch is prepared."""
        with suppress(Exception):  # what is wrong, the batch tells
            rows = spark.table(self.named(sink))
            rows.where(rows[quoted(rows.columns[0])].isNotNull()).inputFiles()

    def is_passing(self, failure: Exception) -> bool:
        # As another writer makes way, it may remove the folder of the log under Delta's hands.
        return super().is_passing(failure) or _NO_LOG in said(failure)

    def make_way(self, spark: SparkSession, sink: Any) -> None:
        # Delta takes a folder whose log has no version for a table, and then does not find it.
        store, log = stores.of(spark, sink.path), join(sink.path, "_delta_log")
        for entry in store.children(log):
            if entry.name.startswith("."):
                store.delete(entry.path)
        store.delete_empty(log)

    def layout(self, sink: Any, columns: StructType) -> str:
        # Delta takes a column to cluster by for another one where only its case differs.
        own = {name.lower(): name for name in columns.names}
        by = ", ".join(quoted(own.get(name.lower(), name)) for name in sink.cluster_by or sink.partition_by)
        return by and f"{'CLUSTER' if sink.cluster_by else 'PARTITIONED'} BY ({by})"

    def laid_by(self, sink: Any) -> Iterator[tuple[str, tuple[str, ...]]]:
        yield from super().laid_by(sink)
        for name in sink.cluster_by:
            yield "cluster_by", (name,)

    def widen(self, spark: SparkSession, table: str) -> None:
        spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')")

    @contextmanager
    def marked(self, spark: SparkSession, sink: Any, batch: Batch) -> Iterator[bool]:
        who, settings = f"{batch.pipeline}/{batch.sink}", dict[str, str]()
        if batch.streaming:
            # Delta itself passes over a batch whose number it has.
            settings |= {f"{_TRANSACTION}AppId": who, f"{_TRANSACTION}Version": str(batch.number)}
        elif sink.mode == "append":
            settings[_NOTE] = f"{who}/{batch.number}"
            self._undo(spark, sink, settings[_NOTE])
        if sink.optimize_write:
            settings["spark.databricks.delta.optimizeWrite.enabled"] = "true"
        with changed(spark, settings):
            yield False

    def _undo(self, spark: SparkSession, sink: Any, note: str) -> None:
        """Takes back what a run of the same number left, which ended before that was noted."""
        history = spark.sql(f"DESCRIBE HISTORY {self.named(sink)}")
        found = history.where(history.userMetadata == note).orderBy("version", ascending=False).head()
        if found is None:
            return
        newest = next(self._history(spark, sink))
        if _is_restored(newest, found.version):
            return
        if found.version != newest.version:
            raise DataError(
                "delivered-before",
                f"an earlier run ended before it could note that its rows are in {sink.path}, as version"
                f" {found.version}, and others have written since",
                hint="delete those rows; or keep them, and begin anew with `penstock reset`",
            )
        spark.sql(f"RESTORE TABLE {self.named(sink)} TO VERSION AS OF {found.version - 1}")


def _is_restored(commit: Any, version: int) -> bool:
    """Whether a commit has taken back that of a version."""
    return commit.operation == "RESTORE" and int(commit.operationParameters["version"]) < int(version)


def _as_changes(frame: DataFrame, request: ReadRequest) -> DataFrame:
    """Changes as all change streams have them: what happened is in `_op`, and only new values are told.

    Delta reads what was added in all commits before what was deleted in any: they are put in order, so that
    the last change to a key is the last. A commit that replaces rows deletes the old ones first.
    """
    from pyspark.sql import functions as f

    names = f.create_map(*(f.lit(word) for pair in _OPERATIONS.items() for word in pair))
    kept = frame.where(f.col("_change_type") != "update_preimage")
    ordered = kept.orderBy("_commit_version", f.col("_change_type") != "delete")
    hidden = [c.name for c in _COMMIT if c.name not in request.hidden]
    return ordered.withColumn(OPERATION, names[f.col("_change_type")]).drop("_change_type", *hidden)
