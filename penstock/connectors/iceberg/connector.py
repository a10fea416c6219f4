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
from penstock.connectors.iceberg.options import Sink, Source, term_of
from penstock.connectors.places import scheme_of
from penstock.connectors.session_settings import changed
from penstock.connectors.storage import absolute
from penstock.connectors.tables import Tables, chosen, literal
from penstock.errors import DataError, PenstockError, SetupError, said
from penstock.options import Value
from penstock.schema import quoted
from penstock.uri import mask

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_MARK = "penstock.batch"
_MISSING = re.compile(r"TABLE_OR_VIEW_NOT_FOUND|NoSuchTableException")
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
    )

    def settings_of(self, uri: Uri) -> dict[str, Value]:
        catalog, _, table = f"{uri.authority}{'/' if uri.path else ''}{uri.path}".partition(".")
        return {"catalog": catalog, "table": table.replace("/", "."), **dict(uri.query)}

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
        if source.own is not None and stores.Local().find(source.own) is None:
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
        snapshots = spark.sql(f"SELECT * FROM {table}.snapshots ORDER BY committed_at DESC").collect()  # noqa: S608
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
            "snapshots": len(snapshots),
            "newest commits": [
                f"{s.snapshot_id}: {s.operation} at {s.committed_at:%Y-%m-%d %H:%M:%S}" for s in snapshots[:5]
            ],
        }

    def optimize(self, spark: SparkSession, source: Any) -> dict[str, int]:
        data = self._call(spark, source, "rewrite_data_files")
        deletes = self._call(spark, source, "rewrite_position_delete_files")
        self._call(spark, source, "rewrite_manifests")
        return {
            "files removed": data.rewritten_data_files_count + deletes.rewritten_delete_files_count,
            "files added": data.added_data_files_count + deletes.added_delete_files_count,
        }

    def vacuum(self, spark: SparkSession, source: Any, retain: timedelta) -> dict[str, int]:
        now = datetime.now(timezone.utc)
        expired = self._call(spark, source, "expire_snapshots", older_than=now - retain, retain_last=1)
        # Younger files may be those of a write that is not done yet: Iceberg looks at none of the last day.
        before = now - max(retain, timedelta(days=1, minutes=1))
        orphans = self._rows(spark, source, "remove_orphan_files", older_than=before)
        counts = expired.asDict()
        return {
            "data files deleted": counts["deleted_data_files_count"],
            "other files deleted": sum(counts.values()) - counts["deleted_data_files_count"],
            "files of no table deleted": len(orphans),
        }

    def _call(self, spark: SparkSession, source: Any, procedure: str, **given: Any) -> Any:
        return self._rows(spark, source, procedure, **given)[0]

    def _rows(self, spark: SparkSession, source: Any, procedure: str, **given: Any) -> list[Any]:
        """What one of Iceberg's procedures answers."""
        told = [f"table => {literal(source.table)}"]
        for name, value in given.items():
            shown = f"TIMESTAMP '{value:%Y-%m-%d %H:%M:%S.%f}'" if isinstance(value, datetime) else value
            told.append(f"{name} => {shown}")
        return spark.sql(f"CALL {quoted(source.catalog)}.system.{procedure}({', '.join(told)})").collect()

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
        if re.search(r"RESTException|UncheckedSQLException|Failed to connect|Connection refused", text):
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
        return (
            f"{self._of_table(options)}.{quoted(f'branch_{branch}')}" if branch else self._of_table(options)
        )

    def check_target(self, spark: SparkSession, sink: Any) -> None:
        if sink.own is not None:
            stores.of(spark, absolute(sink.state)).make_folder(absolute(sink.state))
        database = ".".join(map(quoted, [sink.catalog, *sink.table.split(".")[:-1]]))
        spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {database}")

    def layout(self, sink: Any) -> str:
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
        line = self._line(spark, sink)
        if batch.streaming:
            numbers = [int(mark.rpartition("/")[2]) for _, _, mark in line if mark.startswith(f"{who}/")]
            delivered = bool(numbers) and numbers[0] >= batch.number
        elif sink.mode != "overwrite" and not sink.merge_on:
            self._undo(spark, sink, line, f"{who}/{batch.number}")
        with changed(spark, {f"spark.sql.iceberg.snapshot-property.{_MARK}": f"{who}/{batch.number}"}):
            yield delivered

    def _line(self, spark: SparkSession, sink: Any) -> list[tuple[int, int | None, str]]:
        """The snapshots that the table's rows are made of, the newest first: id, the one before, its mark."""
        table, branch = self._of_table(sink), sink.branch or "main"
        rows = spark.sql(f"SELECT snapshot_id, parent_id, summary['{_MARK}'] FROM {table}.snapshots")  # noqa: S608
        known = {row[0]: (row[0], row[1], row[2] or "") for row in rows.collect()}
        heads = spark.sql(f"SELECT name, snapshot_id FROM {table}.refs").collect()  # noqa: S608
        line, at = [], dict(map(tuple, heads)).get(branch)
        while at in known:
            line.append(known[at])
            at = known[at][1]
        return line

    def _undo(
        self, spark: SparkSession, sink: Any, line: list[tuple[int, int | None, str]], mark: str
    ) -> None:
        """Takes back what a run of the same number left, which ended before that was noted."""
        found = next((one for one in line if one[2] == mark), None)
        if found is None:
            return
        if found is not line[0]:
            raise DataError(
                "delivered-before",
                f"an earlier run ended before it could note that its rows are in {sink.table}, as snapshot"
                f" {found[0]}, and others have written since",
                hint="delete those rows; or keep them, and begin anew with `penstock reset`",
            )
        if found[1] is None:
            spark.sql(f"DELETE FROM {self.named(sink)}")  # noqa: S608
            return
        branch = sink.branch or "main"
        self._loaded(spark, sink).manageSnapshots().replaceBranch(branch, found[1]).commit()

    def _loaded(self, spark: SparkSession, options: Any) -> Any:
        """The table as Iceberg's own library has it."""
        session: Any = spark
        library = session._jvm.org.apache.iceberg.spark.Spark3Util
        return library.loadIcebergTable(session._jsparkSession, self._of_table(options))

    def _of_table(self, options: Any) -> str:
        return ".".join(map(quoted, [options.catalog, *options.table.split(".")]))


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
