"""Files and folders: plain paths, `file://`, globs. Exactly once: a batch is delivered whole or not at all,
and one that runs again replaces its own files.

A folder means the visible files in it and in its `key=value` folders, whose keys are columns. With
`mode = 'overwrite'`, a sink whose path has the batch's time in it replaces the files of that time only;
any other replaces all files that its path means.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field, field_validator, model_validator

from penstock.connectors import folders, registering, watching
from penstock.connectors import storage as stores
from penstock.connectors.base import (
    METADATA_COLUMN,
    Batch,
    Capabilities,
    Column,
    Connector,
    Format,
    Limits,
    ReadRequest,
    Refused,
    SinkOptions,
    SourceOptions,
    Unknown,
    Uri,
)
from penstock.connectors.staging import (
    Committer,
    Delivery,
    check_format,
    check_writable,
    column_of,
    deliver,
    partition_columns,
)
from penstock.connectors.templates import Target, as_glob, compression_of
from penstock.errors import DataError
from penstock.options import Names, Value

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Source(SourceOptions):
    path: str = Field(description="A file, a folder, or a pattern with *, **, ?, [a-z] and {a,b}.")
    format: str | None = Field(None, description="How rows stand in the files; by their ending unless set.")
    recursive: bool = Field(
        False, description="Whether a folder means all folders below it, not only those named key=value."
    )
    watch: bool = Field(
        False, description="Whether to go on with files that appear later; they must appear whole."
    )
    files_per_batch: int | None = Field(None, gt=0, description="How many new files a batch has at most.")
    delete_after_read: bool = Field(
        False, description="Whether watched files are deleted once their rows are delivered."
    )
    archive_to: str | None = Field(
        None,
        description="A folder of the same store, to which watched files are moved once they are delivered.",
    )

    @model_validator(mode="after")
    def _watched(self) -> Source:
        if not self.watch and (self.delete_after_read or self.archive_to or self.files_per_batch):
            raise ValueError("delete_after_read, archive_to and files_per_batch need watch = true")
        if self.delete_after_read and self.archive_to:
            raise ValueError("files are deleted or archived, not both")
        return self

    @model_validator(mode="after")
    def _archived_where_they_are(self) -> Source:
        """Elsewhere a move would be a copy, by a way in that nobody has told."""
        if self.archive_to is not None:
            here, there = (stores.root_of(stores.absolute(path)) for path in (self.path, self.archive_to))
            if here != there:
                place = f"below {here}/, where they are" if here else "a local folder, as they are local"
                raise ValueError(f"files can only be archived {place}, not in {self.archive_to}")
        return self


class Sink(SinkOptions):
    path: str = Field(
        description="A folder, dir/*.ending, or a single file; {YYYY}, {MM}, {DD}, {HH} and {YYYY-MM-DD}"
        " in it are the time of the batch, or of each row with `timestamp_column`."
    )
    format: str | None = Field(None, description="How rows stand in the files; by their ending unless set.")
    timestamp_column: str | None = Field(None, description="The column whose time the path's templates take.")
    partition_by: Names = Field(
        (),
        description="Columns that become folders, key=value; separated by commas. It may also name keys that"
        " the path has: date={YYYY-MM-DD}.",
    )
    register_as: str | None = Field(
        None,
        description="A table, database.table, that the files are to be for other engines: made in Spark's"
        " Hive metastore, its partitions and columns following the files.",
    )
    batch_size: int | None = Field(
        None,
        gt=0,
        description="How many rows a file has at most; with `batch_timeout`, a stream waits for so many.",
    )

    @field_validator("path")
    @classmethod
    def _path(cls, value: str) -> str:
        Target.parse(value)
        return value

    @field_validator("register_as")
    @classmethod
    def _table(cls, value: str | None) -> str | None:
        if value is not None and not re.fullmatch(r"[A-Za-z0-9_]+\.[A-Za-z0-9_]+", value):
            raise ValueError("expected database.table, each of letters, digits and '_'")
        return value

    @model_validator(mode="after")
    def _single(self) -> Sink:
        if self.target.single and (self.batch_size or self.partition_by or self.register_as):
            raise ValueError(
                "batch_size, partition_by and register_as need a folder: a path that ends in '/' or"
                " '*.ending'"
            )
        if self.register_as and self.target.has_plain_times():
            raise ValueError(
                "register_as needs times in folders with a key, such as date={YYYY-MM-DD}: those are the"
                " table's partitions"
            )
        return self

    @cached_property
    def target(self) -> Target:
        return Target.parse(self.path)


class Files(Connector):
    name = "files"
    aliases: ClassVar[tuple[str, ...]] = ("file", "filesystem", "local")
    schemes: ClassVar[tuple[str, ...]] = ("file",)
    capabilities = Capabilities(
        bounded=True,
        unbounded=True,
        replay=True,
        lookup=True,
        formats=True,
        append=True,
        overwrite=True,
        transactional=True,
        create_target=True,
        evolve_schema=True,
    )
    Source: ClassVar[type[SourceOptions] | None] = Source
    Sink: ClassVar[type[SinkOptions] | None] = Sink

    def settings_of(self, uri: Uri) -> dict[str, Value]:
        if uri.scheme in ("", "file"):
            return {"path": uri.path}
        user = f"{uri.user}@" if uri.user else ""
        return {"path": f"{uri.scheme}://{user}{uri.authority}/{uri.path}", **dict(uri.query)}

    def format_of(self, options: Any) -> str | None:
        """By the path's ending; for a local folder that is read, by the one ending of the files in it."""
        ending = folders.ending_of(options.path)
        if ending is None and isinstance(options, Source) and not stores.is_remote(options.path):
            files = folders.find(stores.Local(), options.path, options.recursive)
            if not files:
                failure = folders.missing(stores.Local(), options.path)
                failure.hint = f"{failure.hint}; if a statement is still to make it, set `format`"
                raise failure
            endings = {folders.ending_of(f) for f in files}
            ending = endings.pop() if len(endings) == 1 else None
        return ending

    def format_options(self, options: Any) -> dict[str, Value]:
        compression = compression_of(options.path) if isinstance(options, Sink) else None
        return {"compression": compression} if compression else {}

    def hidden(self, source: Any) -> tuple[Column, ...]:
        return (METADATA_COLUMN,)

    def is_unbounded(self, source: Any) -> bool:
        return bool(source.watch)

    def is_ordered(self, source: Any) -> bool:
        """Several files are read side by side."""
        single = PurePosixPath(source.path).suffix and not stores.is_wild(as_glob(source.path))
        return source.files_per_batch == 1 or bool(single)

    def identity(self, source: Any) -> str:
        return f"{stores.absolute(source.path)}{' recursive' if source.recursive else ''}"

    def discover(self, spark: SparkSession, source: Any, request: ReadRequest) -> tuple[Column, ...]:
        if request.columns:
            return request.columns
        root = stores.fixed_root(stores.absolute(source.path))
        try:
            return folders.columns_in(spark, source.path, source, request, recursive=source.recursive)
        except DataError as failure:
            if failure.code == "missing-file" and source.watch and stores.of(spark, root).find(root):
                raise DataError("empty-source", failure.message, hint=failure.hint) from None
            raise

    def unknown(self, spark: SparkSession, source: Any, request: ReadRequest) -> tuple[Unknown, ...]:
        return folders.unknown_in(spark, source.path, request)

    def stream(self, spark: SparkSession, source: Any, limits: Limits) -> DataFrame:
        return watching.new_files(
            spark, source.path, limits, recursive=source.recursive, files_per_batch=source.files_per_batch
        )

    def to_acknowledge(self, source: Any, records: DataFrame) -> Value:
        return watching.paths_in(records) if source.delete_after_read or source.archive_to else None

    def acknowledge(self, spark: SparkSession, source: Any, what: Any) -> None:
        whole = stores.absolute(source.path)
        storage = stores.of(spark, whole)
        if source.archive_to:
            there = storage.find(whole)
            root = whole if there is not None and there.is_folder else stores.fixed_root(whole)
            watching.archive(storage, what, root, stores.absolute(source.archive_to))
        else:
            watching.remove(storage, what)

    def read(self, spark: SparkSession, source: Any, request: ReadRequest) -> DataFrame:
        return folders.read_files(spark, source.path, source, request, recursive=source.recursive)

    def rejects(self, spark: SparkSession, source: Any, request: ReadRequest) -> DataFrame:
        return folders.file_rejects(spark, source.path, source, request, recursive=source.recursive)

    def traced(self, spark: SparkSession, source: Any, request: ReadRequest) -> DataFrame:
        return folders.traced_files(spark, source.path, source, request, recursive=source.recursive)

    def facts(self, spark: SparkSession, source: Any) -> dict[str, Value]:
        return folders.facts(spark, source.path, recursive=source.recursive)

    def check_target(self, spark: SparkSession, sink: Any) -> None:
        if sink.register_as:
            registering.check_metastore(spark)
        check_writable(stores.of(spark, sink.target.root), sink.target)

    def check_rows(self, frame: DataFrame, sink: Any, format: Format | None) -> None:
        partition_columns(frame, sink.target, sink.partition_by)
        if format is not None:
            check_format(frame, sink.target, format)
        if sink.timestamp_column and sink.target.templated:
            column_of(frame, sink.timestamp_column)
        if sink.register_as:
            known = folders.known_format(format, sink.path)
            registering.check(frame, sink.register_as, sink.target, sink.partition_by, known)

    def takes_new_columns(self, sink: Any, format: Format | None) -> bool:
        return not (sink.register_as and format and registering.is_settled(format))

    def holds_rows(self, spark: SparkSession, sink: Any) -> bool:
        target = sink.target
        return any(True for _ in target.data_files(stores.of(spark, target.root)))

    def is_atomic(self, sink: Any) -> bool:
        return True

    def write(self, frame: DataFrame, sink: Any, batch: Batch) -> Sequence[Refused]:
        self._deliver(frame, sink, batch)
        return ()

    def _deliver(self, frame: DataFrame, sink: Any, batch: Batch, committer: Committer | None = None) -> None:
        delivery = Delivery(
            target=sink.target,
            batch=batch,
            format=folders.known_format(batch.format, sink.path),
            mode=sink.mode,
            partition_by=sink.partition_by,
            timestamp_column=sink.timestamp_column,
            rows_per_file=sink.batch_size,
            committer=committer,
        )
        with registering.registered(frame, sink.register_as, delivery):
            deliver(frame, delivery)
