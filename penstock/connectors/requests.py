"""What passes between the engine and a connector: what is to be read, in which format, and where it goes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

from penstock.schema import METADATA_TYPES, Column, Unknown

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Offset = int | str
"""A position in a split: anything that JSON keeps as it is, and that `read` understands again."""


class Format(Protocol):
    """What a connector that carries bytes sees of the format its rows are in, options included."""

    name: ClassVar[str]
    by_spark: ClassVar[bool]
    """Whether Spark's own writers write its files, with its committers and in its names."""

    @property
    def table_options(self) -> Mapping[str, str] | None:
        """Spark's options of a table over files that are written so; None where it has no such tables."""

    def discover(self, spark: SparkSession, paths: list[str]) -> tuple[Column, ...]:
        """The columns of these files, found by looking into them."""

    def read(
        self, spark: SparkSession, paths: list[str], columns: tuple[Column, ...], request: ReadRequest
    ) -> DataFrame:
        """These files as rows of `columns`, less those that the request does not use.

        A format on Spark's own file sources adds `request.partitions`, so that filters on them leave files
        out; others leave them to the connector.
        """

    def rejects(
        self, spark: SparkSession, paths: list[str], columns: tuple[Column, ...], request: ReadRequest
    ) -> DataFrame:
        """The records that `read` rejects: payload, error, file, line."""

    def unknown_in_files(
        self, spark: SparkSession, paths: list[str], columns: tuple[Column, ...]
    ) -> tuple[Unknown, ...]:
        """The fields of any record in these files that `columns` lack."""

    def write(self, frame: DataFrame, path: str, partition_by: tuple[str, ...] = ()) -> None:
        """Adds files of this format to the folder `path`, which need not be there.

        With `partition_by`, into folders `key=value` below it, as Spark's own writers do.
        """

    @property
    def suffix(self) -> str:
        """How the names of written files end, compression included: `.csv.gz`."""

    def sample(self, spark: SparkSession, messages: Sequence[bytes], source: str) -> tuple[Column, ...]:
        """The columns of messages, found by looking into these; `source` names where they are from."""

    def decode(
        self,
        frame: DataFrame,
        columns: tuple[Column, ...],
        request: ReadRequest,
        *,
        carried: Sequence[str] = (),
        place: Sequence[str] = (),
    ) -> DataFrame:
        """The rows of the messages in column `value` (bytes), then the columns of `frame` that are `carried`.

        With `on_error` other than `fail` a last column `_rejected` tells which records are bad; else the
        first bad one raises, with what its columns `place` hold.
        """

    def decode_rejects(
        self,
        frame: DataFrame,
        columns: tuple[Column, ...],
        request: ReadRequest,
        *,
        carried: Sequence[str] = (),
    ) -> DataFrame:
        """The messages that `decode` rejects: payload, encoding (`text`, `base64`), error, and `carried`."""

    def meets_unknown(self, columns: tuple[Column, ...], request: ReadRequest) -> bool:
        """Whether `decode` raises `UnknownField` for a message with other fields, for a `closed` request."""

    def unknown_in_messages(
        self, frame: DataFrame, columns: tuple[Column, ...], place: Sequence[str]
    ) -> tuple[Unknown, ...]:
        """The fields of any message in column `value` that `columns` lack; `place` tells where they stand."""

    def encode(self, frame: DataFrame, carried: Sequence[str] = (), *, name: str = "") -> DataFrame:
        """A message for each row in column `value`, beside the columns that are `carried`.

        The message holds all other columns. `name` is that of the target, for formats that register schemas.
        """


REJECTED = "_rejected"
"""A hidden column of a frame that is read with `on_error` other than `fail`: whether the record is bad."""
METADATA = "_metadata"
METADATA_COLUMN = Column(METADATA, f"STRUCT<{', '.join(f'{n}: {t}' for n, t in METADATA_TYPES.items())}>")
"""A hidden column that describes the file of a row; it has the fields that the request names."""
PAYLOAD, POSITION = "_payload", "_position"
"""What `Connector.traced` adds: the bytes of a row's record, and a struct that tells where it stands."""
AS_ROW = {"ignoreNullFields": "false", "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS]XXX",
          "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS]"}  # fmt: skip
"""Spark's options for a row as JSON that is read again: times keep all their digits."""


@dataclass(frozen=True)
class ReadRequest:
    """What a statement wants of a source."""

    columns: tuple[Column, ...] = ()
    """Declared columns; empty when they are to be discovered."""
    optional: frozenset[str] = frozenset()
    """Lower-case names of columns that came later than others: what lacks them has nulls there."""
    strange: tuple[str, ...] = ()
    """Those of `columns` in which no row may have a value; the engine leaves such rows out."""
    closed: bool = False
    """Whether a record with fields that `columns` lack stops the reading, where that `meets_unknown` ones."""
    used: frozenset[str] | None = None
    """Lower-case names that the statement mentions; None when it may use every column."""
    hidden: frozenset[str] = frozenset()
    """Those of the connector's hidden columns that the statement mentions."""
    metadata: frozenset[str] = frozenset()
    """Fields of `_metadata` that the statement mentions, when it is a hidden column of the connector."""
    filters: tuple[tuple[str, str, Any], ...] = ()
    """Conditions (column, operator, value) that each row must meet which the statement is to see, such as
    `('amount', '>', 100)`; operators are = < <= > >=, `in` with a tuple, and `is not null`. Spark checks them
    again: a source may leave the other rows out, and need not."""
    format: Format | None = None
    partitions: tuple[Column, ...] = ()
    """Columns that stand in the names of the files' folders, `key=value`, below `base`."""
    base: str | None = None
    """The folder above them: Spark's `basePath`."""
    on_error: Literal["fail", "skip", "dead_letter"] = "fail"
    records: DataFrame | None = None
    """Records of one batch of `Connector.stream`, to be read in place of the source."""
    streaming: bool = False
    """Whether `records` are a stream themselves: what reads them must stay inside the JVM."""

    def prune(self, columns: tuple[Column, ...]) -> tuple[Column, ...]:
        """Those of `columns` that the statement uses."""
        if self.used is None:
            return columns
        return tuple(c for c in columns if c.name.lower() in self.used)


@dataclass(frozen=True)
class Limits:
    """How much a stream reads at once."""

    start: Literal["earliest", "latest"] = "earliest"
    """Where a new stream begins when the source does not say."""
    since: datetime | None = None
    """When the stream first began; the same time whenever it begins again."""
    rows: int | None = None
    """The most rows of a batch, as far as the source can tell."""
    fill: int | None = None
    """Rows that are worth a batch; fewer wait until `patience` is over."""
    patience: timedelta | None = None
    ends: Literal["never", "in_batches", "at_once"] = "never"
    """Whether it reads only what is there when it begins, for a source that `fixes_its_end`: in batches of
    whatever size, or all of it in one, since no other follows."""


@dataclass(frozen=True)
class Batch:
    """One delivery to one sink: its number and time are the same when it runs again."""

    pipeline: str
    sink: str
    number: int
    time: datetime
    format: Format | None = None
    aside: str | None = None
    """A folder for what a part must keep until the batch is done, such as the rows that were refused."""
    streaming: bool = False
    """Whether others follow."""
    again: bool = True
    """Whether it may have run before, and have left something: not so only where that is certain."""


@dataclass(frozen=True)
class Places:
    """Where a project keeps things."""

    tables: str
    """The folder in which relative paths of tables begin."""
    state: str


@dataclass(frozen=True)
class Access:
    """How Spark reaches what a connector reads or writes."""

    settings: Mapping[str, str] = field(repr=False)
    """Of Spark's session, as Hadoop names them: endpoints, credentials."""
    root: str | None = None
    """The file system's address, `s3://bucket`; None for settings of another kind."""
    place: str | None = None
    """What must be entered with just these settings by all of a statement: the root unless set."""


@dataclass(frozen=True)
class Refused:
    """A row that a target does not take, while it takes others."""

    payload: str
    """The row as a JSON object; in Spark, by `to_json` with `AS_ROW`."""
    error: str


@dataclass(frozen=True)
class Part:
    """A slice of a batch, named by what it holds."""

    batch: Batch
    name: str


@dataclass(frozen=True)
class Split:
    """A slice of a source that is read in order: a partition, a file, a key range."""

    id: str
