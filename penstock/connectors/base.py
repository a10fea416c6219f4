"""The connector contract: what the built-in connectors use, and all that an outsider needs.

One system is one module with one `Connector`. It declares its options, schemes and capabilities, and
then either reads and writes with Spark's own connector (`read`, `write`), or hands out a `Reader` and a
`Writer` that know nothing of Spark, on which the default `read` and `write` are built.

A connector is registered by one entry point of the group `penstock.connectors`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.connectors.declarations import Capabilities, SinkOptions, SourceOptions
from penstock.connectors.requests import (
    AS_ROW,
    METADATA,
    METADATA_COLUMN,
    PAYLOAD,
    POSITION,
    REJECTED,
    Access,
    Batch,
    Format,
    Limits,
    Offset,
    Part,
    Places,
    ReadRequest,
    Refused,
    Split,
)
from penstock.connectors.scanned import Scanned
from penstock.errors import InputError, PenstockError
from penstock.options import Value
from penstock.schema import Column, Unknown
from penstock.uri import Uri

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

__all__ = [
    "AS_ROW", "METADATA", "METADATA_COLUMN", "PAYLOAD", "POSITION", "REJECTED",
    "Access", "Batch", "Capabilities", "Column", "Connector", "Format", "Limits", "Offset", "Part",
    "Places", "ReadRequest", "Reader", "Refused", "SinkOptions", "SourceOptions", "Split", "Unknown", "Uri",
    "Writer",
]  # fmt: skip


class Reader:
    """The toolkit's source: an enumerator of splits, and a reader of each."""

    def columns(self) -> tuple[Column, ...]:
        """The columns of the rows that `read` yields."""
        raise NotImplementedError

    def splits(self) -> list[Split]:
        """All splits there are now; asked again while a stream runs."""
        raise NotImplementedError

    def earliest(self, split: Split) -> Offset:
        """The first position that can still be read."""
        raise NotImplementedError

    def latest(self, split: Split) -> Offset:
        """The position just after the last row there is now."""
        raise NotImplementedError

    def at(self, split: Split, time: datetime) -> Offset:
        """The position of the first row that is not older; for sources whose streams begin at a time."""
        raise NotImplementedError

    def read(self, split: Split, start: Offset, stop: Offset) -> Iterator[pa.RecordBatch | dict[str, Any]]:
        """The rows from `start` up to, and without, `stop`; the same ones each time it is asked."""
        raise NotImplementedError

    def commit(self, offsets: dict[Split, Offset]) -> None:
        """The rows before `offsets` are durable elsewhere and may be forgotten."""


class Writer:
    """The toolkit's sink."""

    def write(self, rows: Iterator[pa.RecordBatch], part: Part) -> Sequence[Refused] | None:
        """Stores the rows of a part; runs on a worker, and may run again for the same part.

        A target that refuses single rows may hand them back; see `Connector.write`.
        """
        raise NotImplementedError

    def commit(self, batch: Batch) -> None:
        """All parts are stored: makes them visible."""

    def abort(self, batch: Batch) -> None:
        """The batch failed: removes what its parts left."""


class Connector:
    """A system that rows come from or go to."""

    name: ClassVar[str]
    aliases: ClassVar[tuple[str, ...]] = ()
    """Other names that people know it by, in `connector = '...'`."""
    schemes: ClassVar[tuple[str, ...]] = ()
    capabilities: ClassVar[Capabilities]
    jars: ClassVar[tuple[str, ...]] = ()
    extensions: ClassVar[tuple[str, ...]] = ()
    """Classes that extend Spark's SQL; Spark must start with them."""
    starts_with_jars: ClassVar[bool] = False
    """Whether Spark must start with its jars: Hadoop finds the classes of a file system nowhere else."""
    private_jars: ClassVar[tuple[str, ...]] = ()
    """Jars that it loads by itself in order to write, since their classes must be kept from Spark's."""
    jar_files: tuple[Path, ...] = ()
    """Where its `private_jars` are; the engine fetches them, and tells before it checks the target."""
    passes_in_real_time: ClassVar[bool] = False
    """Whether Spark reads and writes it row by row: `stream_into` works, and `read` without Python."""
    fixes_its_end: ClassVar[bool] = False
    """Whether `stream` gives nothing that came after it began, where its limits say that it ends."""
    fills_batches: ClassVar[bool] = False
    """Whether `stream` waits by itself until a batch is worth it, by its limits."""
    Source: ClassVar[type[SourceOptions] | None] = None
    Sink: ClassVar[type[SinkOptions] | None] = None

    @classmethod
    def guarantee(cls) -> str:
        """Which delivery it gives, as the first paragraph of its module's docstring says."""
        paragraph = (sys.modules[cls.__module__].__doc__ or "").strip().partition("\n\n")[0]
        return " ".join(paragraph.split())

    def settings_of(self, uri: Uri) -> dict[str, Value]:
        """The options that a URI stands for, its query included."""
        raise NotImplementedError

    def settings_in(self, project: Places) -> dict[str, Value]:
        """The options that hold for all that a project reads and writes, unless they are set."""
        return {}

    def format_of(self, options: Any) -> str | None:
        """The name of the format that the options imply when none is set, by a file's ending for one."""
        return None

    def format_options(self, options: Any) -> dict[str, Value]:
        """Options of the format that the options imply, such as a compression by a file's ending."""
        return {}

    def hidden(self, source: Any) -> tuple[Column, ...]:
        """Columns beside those of the rows, such as a message's key; there only when a query names them."""
        return ()

    def store_of(self, settings: Mapping[str, Value]) -> str | None:
        """The scheme of the store that a table with these settings stands in, if another connector opens it.

        That one's jars, access and defaults are then needed as well.
        """
        return None

    def access(self, options: Any) -> Access | None:
        """What Spark must know to reach what these options name; None where nothing is to be set."""
        return None

    def is_unbounded(self, source: Any) -> bool:
        """Whether rows go on arriving, so that a statement that reads them is a stream."""
        return False

    def is_ordered(self, source: Any) -> bool:
        """Whether the rows of a batch are read in the order in which they came about, as far as it counts:
        those of one key."""
        return True

    def identity(self, source: Any) -> str:
        """What a position in the source belongs to: when it changes, the old position means nothing."""
        raise NotImplementedError(f"{self.name} is no stream")

    def recognise(self, source: Any, known: Value) -> Value:
        """What tells a source from another of the same name, such as a topic that was deleted and made again.

        Raises `data-loss` when it is not the one that is `known` from before.
        """
        return None

    def discover(self, spark: SparkSession, source: Any, request: ReadRequest) -> tuple[Column, ...]:
        """The columns of a source that a stream reads, found by looking into it; asked once, and then kept.

        An unbounded source without anything to look at raises `empty-source`, and is asked again later. One
        that always tells its columns itself need not be asked.
        """
        return request.columns

    def unknown(self, spark: SparkSession, source: Any, request: ReadRequest) -> tuple[Unknown, ...]:
        """The fields of any of `request.records` that `request.columns` lack.

        Asked for each batch of a stream whose columns were discovered and are all used. A source that always
        has the same columns need not tell.
        """
        return ()

    def meets_unknown(self, source: Any, request: ReadRequest) -> bool:
        """Whether reading by a request that is `closed` stops at fields that the columns lack.

        `unknown` is then asked only after it has, so that records are not read twice.
        """
        return False

    def stream(self, spark: SparkSession, source: Any, limits: Limits) -> DataFrame:
        """The records of an unbounded source, as a streaming frame that is cheap to read twice.

        `read` and `rejects` make rows of a batch of them: they get it as `request.records`.
        """
        raise NotImplementedError(f"{self.name} is no stream")

    def tasks(self, source: Any) -> int:
        """How many tasks read a stream side by side."""
        return 1

    def to_acknowledge(self, source: Any, records: DataFrame) -> Value:
        """What `acknowledge` is to be told once this batch is durable, as JSON keeps it; None for nothing."""
        return None

    def acknowledge(self, spark: SparkSession, source: Any, what: Value) -> None:
        """A batch is durable and will not be read again. Called again after a crash in the middle of it."""

    def read(self, spark: SparkSession, source: Any, request: ReadRequest) -> DataFrame:
        """The rows of a source."""
        from penstock.connectors.adapter import read

        return read(spark, self.reader(source), request)

    def facts(self, spark: SparkSession, source: Any) -> dict[str, Value]:
        """What `inspect` tells of a source: how many `files`, their `size` in bytes, its `partitions`."""
        return {}

    def scanned(self, source: Any, request: ReadRequest) -> Scanned | None:
        """How much of its files is read; None where Spark's own plan tells, or there are no files."""
        return None

    def optimize(self, spark: SparkSession, source: Any) -> dict[str, int]:
        """Makes few large files of a table's many small ones; what was done, in words and numbers."""
        raise NotImplementedError(f"{self.name} has no upkeep")

    def vacuum(self, spark: SparkSession, source: Any, retain: timedelta) -> dict[str, int]:
        """Deletes files that were of use to no state of a table for so long; tells what was done."""
        raise NotImplementedError(f"{self.name} has no upkeep")

    def rejects(self, spark: SparkSession, source: Any, request: ReadRequest) -> DataFrame:
        """The records that `read` rejects: payload, error, file, line. Asked only when there are any."""
        raise InputError("no-rejects", f"{self.name} does not tell which records are bad")

    def traced(self, spark: SparkSession, source: Any, request: ReadRequest) -> DataFrame:
        """The rows of `read` with `_payload` and `_position`, as far as they are known.

        Asked only when a query fails on some of the rows, which are then kept with both.
        """
        return self.read(spark, source, request)

    def as_records(self, letters: DataFrame) -> DataFrame | None:
        """Letters (`value`, the bytes of a record; `position`, JSON) as records of `stream`.

        For a system of messages; None for others, whose letters are decoded by their format alone.
        """
        return None

    def check_target(self, spark: SparkSession, sink: Any) -> None:
        """Raises when the target cannot be made or written. Asked of all sinks before anything is read."""

    def check_rows(self, frame: DataFrame, sink: Any, format: Format | None) -> None:
        """Raises when rows with the columns of `frame`, which is not read, cannot be written as is asked."""

    def holds_rows(self, spark: SparkSession, sink: Any) -> bool:
        """Whether the target has rows already, so that a bounded statement must say what to do."""
        return False

    def takes_new_columns(self, sink: Any, format: Format | None) -> bool:
        """Whether rows may have columns that the rows of earlier batches had not."""
        return self.capabilities.evolve_schema

    def is_atomic(self, sink: Any) -> bool:
        """Whether a batch that fails half-way leaves nothing in the target."""
        return False

    def needs_parts(self, sink: Any) -> bool:
        """Whether a batch that runs again must have the same rows in the same partitions."""
        return False

    def is_passing(self, failure: Exception) -> bool:
        """Whether a failure of this system may go away by itself, so that trying again makes sense."""
        return False

    def explain_failure(self, failure: Exception, options: Any) -> PenstockError | None:
        """Our error for what this system says, in whatever words Spark or a client hands it on; else None."""
        return None

    def write(self, frame: DataFrame, sink: Any, batch: Batch) -> Sequence[Refused]:
        """Delivers a batch, whole or not at all; one that was delivered before is replaced by itself.

        The rows that the target refuses are handed back, unless `on_error` is `fail`: then the first raises.
        """
        from penstock.connectors.adapter import write

        return write(frame, self.writer(sink), batch)

    def stream_into(self, frame: DataFrame, sink: Any, batch: Batch) -> DataStreamWriter:
        """What writes a streaming frame row by row; `batch` names the pipeline and the format."""
        raise NotImplementedError(f"{self.name} is not written in real time")

    def reader(self, source: Any) -> Reader:
        raise NotImplementedError(f"{self.name} has no toolkit reader")

    def writer(self, sink: Any) -> Writer:
        raise NotImplementedError(f"{self.name} has no toolkit writer")
