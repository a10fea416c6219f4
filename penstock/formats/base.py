"""The format contract: bytes in files <-> columns.

A format is registered by one entry point of the group `penstock.formats`. An instance is a format with
its options bound; it satisfies `penstock.connectors.base.Format` without knowing connectors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.errors import OptionError
from penstock.formats.records import (
    METADATA,
    PAYLOAD_LIMIT,
    REJECTED,
    REJECTS,
    UNKNOWN_MARKER,
    BadRecord,
    UnknownField,
    bad_record,
)
from penstock.options import Options
from penstock.schema import Column, Unknown

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


__all__ = [
    "METADATA", "PAYLOAD_LIMIT", "REJECTED", "REJECTS", "UNKNOWN_MARKER", "BadRecord", "Format",
    "UnknownField", "bad_record",
]  # fmt: skip


class Format:
    """How rows stand in bytes."""

    name: ClassVar[str]
    aliases: ClassVar[tuple[str, ...]] = ()
    """Other names, each of which may imply options (see `implied`)."""
    extensions: ClassVar[tuple[str, ...]] = ()
    """Endings of file names, without the dot."""
    implied: ClassVar[dict[str, dict[str, Any]]] = {}
    """Options that an alias or extension stands for: `{'tsv': {'delimiter': '\\t'}}`."""
    jars: ClassVar[tuple[str, ...]] = ()
    by_spark: ClassVar[bool] = True
    """Whether Spark's own writers write its files, with its committers and in its names."""
    in_messages: ClassVar[bool] = False
    """Whether a message can hold a row of it, so that `sample`, `decode` and `encode` work."""
    ReadOptions: ClassVar[type[Options]] = Options
    WriteOptions: ClassVar[type[Options]] = Options

    def __init__(self, options: Any) -> None:
        self.options = options

    @property
    def suffix(self) -> str:
        """How the names of written files end, compression included: `.csv.gz`."""
        raise NotImplementedError

    @property
    def table_options(self) -> Mapping[str, str] | None:
        """Spark's options of a table over files that are written so; None where it has no such tables."""
        return None

    def discover(self, spark: SparkSession, paths: list[str]) -> tuple[Column, ...]:
        """The columns of these files, found by looking into them."""
        raise NotImplementedError

    def read(
        self, spark: SparkSession, paths: list[str], columns: tuple[Column, ...], request: Any
    ) -> DataFrame:
        """These files as rows of `columns`, less those that the request does not use.

        With `request.partitions`, those columns follow, read from the files' folders `key=value` below
        `request.base` (Spark's `basePath`), so that a filter on them leaves files out.
        With `request.on_error == 'fail'` a bad record raises; otherwise the frame has a last column
        `_rejected`, true for bad records. With `request.metadata` it has a struct `_metadata`.
        """
        raise NotImplementedError

    def rejects(
        self, spark: SparkSession, paths: list[str], columns: tuple[Column, ...], request: Any
    ) -> DataFrame:
        """The records that `read` rejects: payload, error, file, line."""
        raise NotImplementedError

    def unknown_in_files(
        self, spark: SparkSession, paths: list[str], columns: tuple[Column, ...]
    ) -> tuple[Unknown, ...]:
        """The fields of any record in these files that `columns` lack; damaged files are left to reading."""
        return ()

    def write(self, frame: DataFrame, path: str, partition_by: tuple[str, ...] = ()) -> None:
        """Adds files of this format to the folder `path`, which need not be there.

        With `partition_by`, into folders `key=value` below it, as Spark's own writers do. The session's
        `spark.sql.files.maxRecordsPerFile` bounds the rows of a file.
        """
        raise NotImplementedError

    def sample(self, spark: SparkSession, messages: Sequence[bytes], source: str) -> tuple[Column, ...]:
        """The columns of messages, found by looking into these; `source` names where they are from."""
        raise self._not_in_messages()

    def decode(
        self,
        frame: DataFrame,
        columns: tuple[Column, ...],
        request: Any,
        *,
        carried: Sequence[str] = (),
        place: Sequence[str] = (),
    ) -> DataFrame:
        """The rows of the messages in column `value` (bytes), then the columns of `frame` that are `carried`.

        With `on_error` other than `fail` a last column `_rejected` tells which records are bad; else the
        first bad one raises, with what its columns `place` hold. With `request.streaming` nothing but
        expressions of Spark are used.
        """
        raise self._not_in_messages()

    def decode_rejects(
        self, frame: DataFrame, columns: tuple[Column, ...], request: Any, *, carried: Sequence[str] = ()
    ) -> DataFrame:
        """The messages that `decode` rejects: payload, encoding (`text`, `base64`), error, and `carried`."""
        raise self._not_in_messages()

    def meets_unknown(self, columns: tuple[Column, ...], request: Any) -> bool:
        """Whether `decode` raises `UnknownField` for a message with other fields, for a `closed` request."""
        return False

    def unknown_in_messages(
        self, frame: DataFrame, columns: tuple[Column, ...], place: Sequence[str]
    ) -> tuple[Unknown, ...]:
        """The fields of any message in column `value` that `columns` lack; `place` tells where they stand."""
        return ()

    def encode(self, frame: DataFrame, carried: Sequence[str] = (), *, name: str = "") -> DataFrame:
        """A message for each row in column `value`, beside the columns that are `carried`.

        The message holds all other columns. `name` is that of the target, for formats that register schemas.
        """
        raise self._not_in_messages()

    def _not_in_messages(self) -> OptionError:
        return OptionError(
            "format-of-files",
            f"format '{self.name}' is for files, not for messages",
            hint="json, csv, avro, msgpack, text and binary are for both",
        )
