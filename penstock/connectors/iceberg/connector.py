"""Iceberg tables. Exactly once: a batch is one snapshot that keeps its number, and one that runs again
changes nothing; writers that meet try again.

`iceberg://catalog.database.table` is a table of one of the project's `catalogs:`. A project that has none
gets one of its own, kept in its state folder, for whatever catalog is named.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from penstock.connectors import storage as stores
from penstock.connectors.base import (
    Access,
    Batch,
    Limits,
    Places,
    ReadRequest,
    Uri,
)
from penstock.connectors.iceberg.options import Sink, Source, column_of, term_of
from penstock.connectors.places import scheme_of
from penstock.connectors.session_settings import changed
from penstock.connectors.storage import absolute
from penstock.connectors.tables import Tables, chosen, literal
from penstock.errors import DataError, OptionError, PenstockError, SetupError, said
from penstock.options import Value
from penstock.schema import quoted
from penstock.uri import mask

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_MARK = "penstock.batch"
_MISSING = re.compile(r"TABLE_OR_VIEW_NOT_FOUND|NoSuchTableException")
_UNREACHABLE = re.compile(
    r"iceberg\.exceptions\.(?:REST|NotAuthorized|Forbidden|ServiceFailure|ServiceUnavailable)Exception"
    r"|RESTException: |UncheckedSQLException|RuntimeMetaException|HiveMetaStoreClient|awssdk\.services\.glue"
)
"""What catalogs of each kind say; other systems, too, refuse connections."""
_FEW = "options => map('min-input-files', '2')"
"""Iceberg leaves four small files as they are."""
_GONE = re.compile(r"Failed to open input stream for file: (\S+\.metadata\.json)")


class Iceberg(Tables):
    name = "iceberg"
    schemes = ("iceberg",)
    jars = (
        "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
        "org.xerial:sqlite-jdbc:3.50.3.0",
        "org.postgresql:postgresql:42.7.7",
    )
    # Catalogs are found by class: Spark must have its jar from the start.
    extensions = ("org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",)
    Source = Source
    Sink = Sink
    using = "iceberg"
    missing = _MISSING
    conflicts = re.compile(
        r"CommitFailedException|CommitStateUnknownException|Found conflicting files|Found new conflicting"
        r"|Missing required files to delete|SQLITE_BUSY|database is locked|Cannot commit .*changed"
        r"|AlreadyExistsException|TABLE_OR_VIEW_ALREADY_EXISTS|FIELD_ALREADY_EXISTS"
        # Two that make a namespace.
        r"|SQLITE_CONSTRAINT_PRIMARYKEY|duplicate key value violates unique constraint"
    )

    def settings_of(self, uri: Uri) -> dict[str, Value]:
        name = f"{uri.authority}{'/' if uri.path else ''}{uri.path}"
        catalog, _, table = name.partition(".")
        table = table.replace("/", ".")
        if name and "." not in table:
            hint = "write iceberg://catalog.database.table"
            raise OptionError(
                "bad-name", f"'{name}' does not name a table of a catalog's database", hint=hint
            )
        return {"catalog": catalog, "table": table, **dict(uri.query)}

    def settings_in(self, project: Places) -> dict[str, Value]:
        return {"state": project.state}

    def store_of(self, settings: Mapping[str, Value]) -> str | None:
        return scheme_of(str(settings.get("path") or settings.get("warehouse") or "")) or None

    def access(self, options: Any) -> Access:
        return Access(options.settings())

    def is_unbounded(self, source: Any) -> bool:
        return bool(source.watch)

    def identity(self, source: Any) -> str:
        return f"{source.catalog}.{source.table}"

    def stream(self, spark: SparkSession, source: Any, limits: Limits) -> DataFrame:
        begin = _time_of(source.start, limits)
        told = {
            "stream-from-timestamp": begin,
            "streaming-max-files-per-micro-batch": source.files_per_batch,
            "streaming-skip-overwrite-snapshots": source.skip_changes or None,
            "streaming-skip-delete-snapshots": source.skip_changes or None,
        }
        options = {key: str(value).lower() for key, value in told.items() if value is not None}
        return spark.readStream.options(**options).table(self.named(source))

    def read(self, spark: SparkSession, source: Any, request: ReadRequest) -> DataFrame:
        if request.records is not None:
            return chosen(request.records, request)
        if not _has_catalog(source):
            raise _missing(source)
        table, then = self.named(source), ""
        if source.snapshot is not None or source.branch is not None:
            then = f" VERSION AS OF {source.snapshot or literal(source.branch)}"
        elif source.timestamp is not None:
            then = f" TIMESTAMP AS OF {literal(source.timestamp)}"
        # By SQL: Spark's reader of a path would look into a Hive metastore of its own first.
        return chosen(spark.sql(f"SELECT * FROM {table}{then}"), request)  # noqa: S608

    def facts(self, spark: SparkSession, source: Any) -> dict[str, Value]:
        table = self.named(source)
        files = spark.sql(f"SELECT count(*), sum(file_size_in_bytes) FROM {table}.files").collect()[0]  # noqa: S608
        newest = spark.sql(f"SELECT * FROM {table}.snapshots ORDER BY committed_at DESC LIMIT 5").collect()  # noqa: S608
        about = self._loaded(spark, source)
        terms = [(f.transform().toString(), f.sourceId()) for f in about.spec().fields()]
        named = [(how, about.schema().findColumnName(column)) for how, column in terms]
        parts = [name if how == "identity" else f"{how}({name})" for how, name in named]
        properties = dict(about.properties())
        return {
            "files": files[0],
            "size": files[1] or 0,
            "comment": properties.pop("comment", None),
            "partitioned by": ", ".join(parts),
            "partitions": spark.table(f"{table}.partitions").count() if parts else None,
            "properties": ", ".join(f"{k} = {v}" for k, v in sorted(properties.items())),
            "snapshots": spark.table(f"{table}.snapshots").count(),
            "newest commits": [
                f"{s.snapshot_id}: {s.operation} at {s.committed_at:%Y-%m-%d %H:%M:%S}" for s in newest
            ],
        }

    def optimize(self, spark: SparkSession, source: Any) -> dict[str, int]:
        data = self._call(spark, source, "rewrite_data_files", _FEW)
        deletes = self._call(spark, source, "rewrite_position_delete_files", _FEW)
        self._call(spark, source, "rewrite_manifests")
        return {
            "files removed": data.rewritten_data_files_count + deletes.rewritten_delete_files_count,
            "files added": data.added_data_files_count + deletes.added_delete_files_count,
        }

    def vacuum(self, spark: SparkSession, source: Any, retain: timedelta) -> dict[str, int]:
        now = datetime.now(timezone.utc)
        expired = self._call(spark, source, "expire_snapshots", _before(now - retain), "retain_last => 1")
        # Younger files may be those of a write that is not done yet: Iceberg looks at none of the last day.
        before = _before(now - max(retain, timedelta(days=1, minutes=1)))
        orphans = self._rows(spark, source, "remove_orphan_files", before)
        counts = expired.asDict()
        return {
            "data files deleted": counts["deleted_data_files_count"],
            "other files deleted": sum(counts.values()) - counts["deleted_data_files_count"],
            "files of no table deleted": len(orphans),
        }

    def _call(self, spark: SparkSession, source: Any, procedure: str, *given: str) -> Any:
        return self._rows(spark, source, procedure, *given)[0]

    def _rows(self, spark: SparkSession, source: Any, procedure: str, *given: str) -> list[Any]:
        """What one of Iceberg's procedures answers."""
        told = ", ".join([f"table => {literal(self.table(source))}", *given])
        return spark.sql(f"CALL {quoted(source.catalog)}.system.{procedure}({told})").collect()

    def explain_failure(self, failure: Exception, options: Any) -> PenstockError | None:
        text = said(failure)
        if _MISSING.search(text):
            return _missing(options)
        if "Cannot process overwrite snapshot" in text or "Cannot process delete snapshot" in text:
            return DataError(
                "changed-rows",
                f"rows of {options.table} were changed or deleted, and a stream of rows cannot tell of that",
                hint="skip_changes = true passes over them",
            )
        if _UNREACHABLE.search(text):
            return SetupError(
                "catalog-unreachable",
                f"cannot reach the catalog '{options.catalog}'",
                hint=f"check that {mask(options.catalog_uri or 'it')} runs, and what its user may do",
            )
        if gone := _GONE.search(text):
            return DataError(
                "missing-file",
                f"the catalog '{options.catalog}' has {options.table} at {gone[1]}, which is not there",
                hint="bring back its bucket or folder; or drop the table from the catalog: it is made anew",
            )
        return super().explain_failure(failure, options)

    # Writing.

    def named(self, options: Any) -> str:
        # A branch is written under a name of its own; it is read by an option.
        branch = options.branch if isinstance(options, Sink) else None
        return f"{self.table(options)}.{quoted(f'branch_{branch}')}" if branch else self.table(options)

    def table(self, options: Any) -> str:
        return ".".join(map(quoted, [options.catalog, *options.table.split(".")]))

    def columns_of(self, spark: SparkSession, options: Any) -> StructType | None:
        # To ask a catalog that is not there would make it.
        return super().columns_of(spark, options) if _has_catalog(options) else None

    def check_target(self, spark: SparkSession, sink: Any) -> None:
        if sink.branch is None:
            self.columns_of(spark, sink)  # whether the catalog answers
        else:
            self._check_branch(spark, sink)

    def _check_branch(self, spark: SparkSession, sink: Any) -> None:
        if self.columns_of(spark, sink) is None:
            raise _missing(sink)
        known = spark.sql(f"SELECT name FROM {self.table(sink)}.refs WHERE type = 'BRANCH'").collect()  # noqa: S608
        if sink.branch not in (row.name for row in known):
            names = ", ".join(sorted(row.name for row in known)) or "none"
            raise DataError(
                "missing-branch",
                f"{sink.catalog}.{sink.table} has no branch '{sink.branch}'",
                hint=f"ALTER TABLE ... CREATE BRANCH makes one; there: {names}",
            )

    def make_way(self, spark: SparkSession, sink: Any) -> None:
        if sink.branch is not None:
            raise _missing(sink)
        if sink.own is not None:
            stores.of(spark, absolute(sink.state)).make_folder(absolute(sink.state))
        database = ".".join(map(quoted, [sink.catalog, *sink.table.split(".")[:-1]]))
        spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {database}")

    def laid_by(self, sink: Any) -> Iterator[tuple[str, tuple[str, ...]]]:
        for term in sink.partition_by:
            yield "partition_by", column_of(term)

    def layout(self, sink: Any, columns: StructType) -> str:
        terms = ", ".join(map(term_of, sink.partition_by))
        return f"PARTITIONED BY ({terms})" if terms else ""

    def properties_of(self, sink: Any) -> dict[str, str]:
        way = (sink.write_mode or "").replace("_", "-")
        modes = {f"write.{kind}.mode": way for kind in ("merge", "update", "delete")
                 if sink.write_mode}  # fmt: skip
        return {**modes, **sink.properties}

    @contextmanager
    def marked(self, spark: SparkSession, sink: Any, batch: Batch) -> Iterator[bool]:
        who, delivered = f"{batch.pipeline}/{batch.sink}", False
        mark = f"{who}/{batch.number}"
        if batch.streaming:
            newest = self._newest(spark, sink, who)
            delivered = newest is not None and newest >= batch.number
        elif sink.mode != "overwrite" and not sink.merge_on:
            self._undo(spark, sink, mark)
        with changed(spark, {f"spark.sql.iceberg.snapshot-property.{_MARK}": mark}):
            yield delivered

    def _newest(self, spark: SparkSession, sink: Any, who: str) -> int | None:
        """The number of a stream's newest batch among the snapshots that the table's rows are made of."""
        table = self._loaded(spark, sink)
        snapshot = table.snapshot(sink.branch or "main")
        while snapshot is not None:
            writer, _, number = str(snapshot.summary().get(_MARK)).rpartition("/")
            if writer == who:
                return int(number)
            before = snapshot.parentId()
            snapshot = table.snapshot(before) if before is not None else None
        return None

    def _undo(self, spark: SparkSession, sink: Any, mark: str) -> None:
        """Takes back what a run of the same number left, which ended before that was noted."""
        is_own = f"summary['{_MARK}'] = {literal(mark)}"
        left = spark.sql(f"SELECT snapshot_id FROM {self.table(sink)}.snapshots WHERE {is_own}").collect()  # noqa: S608
        if not left:
            return
        table, branch = self._loaded(spark, sink), sink.branch or "main"
        head = table.snapshot(branch)
        session: Any = spark
        line = session._jvm.org.apache.iceberg.util.SnapshotUtil
        found = next((s for (s,) in left if line.isAncestorOf(table, head.snapshotId(), s)), None)
        if found is None:
            return
        if found != head.snapshotId():
            raise DataError(
                "delivered-before",
                f"an earlier run ended before it could note that its rows are in {sink.table}, as snapshot"
                f" {found}, and others have written since",
                hint="delete those rows; or keep them, and begin anew with `penstock reset`",
            )
        if head.parentId() is None:
            spark.sql(f"DELETE FROM {self.named(sink)}")  # noqa: S608
            return
        table.manageSnapshots().replaceBranch(branch, head.parentId()).commit()

    def _loaded(self, spark: SparkSession, options: Any) -> Any:
        """The table as Iceberg's own library has it."""
        session: Any = spark
        library = session._jvm.org.apache.iceberg.spark.Spark3Util
        return library.loadIcebergTable(session._jsparkSession, self.table(options))


def _has_catalog(options: Any) -> bool:
    """Whether the catalog is there, where it is the project's own."""
    return options.own is None or stores.Local().find(options.own) is not None


def _before(time: datetime) -> str:
    return f"older_than => TIMESTAMP '{time:%Y-%m-%d %H:%M:%S.%f}'"


def _missing(options: Any) -> DataError:
    return DataError("missing-table", f"there is no Iceberg table {options.catalog}.{options.table}")


def _time_of(start: str | None, limits: Limits) -> int | None:
    """From when on a stream reads; None for all that there is."""
    wanted = start or limits.start
    if wanted == "earliest":
        return None
    if wanted != "latest":
        return _milliseconds(wanted)
    return int(limits.since.timestamp() * 1000) + 1 if limits.since is not None else _milliseconds("now")


def _milliseconds(text: str) -> int:
    if text == "now":
        return int(datetime.now(timezone.utc).timestamp() * 1000)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise DataError("bad-time", f"'{text}' is no time", hint="write it as 2026-01-31 14:30:00") from None
    return int((time if time.tzinfo else time.replace(tzinfo=timezone.utc)).timestamp() * 1000)
