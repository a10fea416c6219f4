"""MessagePack: maps, one after the other in a file."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timezone
from decimal import Decimal
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

from pydantic import Field

from penstock.errors import DataError, OptionError, SetupError
from penstock.formats.base import METADATA, REJECTED, REJECTS, BadRecord, Format
from penstock.formats.frames import (
    columns_of,
    file_path,
    nothing_to_infer,
    spark_columns,
    spark_ddl,
    text_limit,
    under_base,
)
from penstock.formats.paths import local_path
from penstock.formats.whole_files import bad_file
from penstock.options import Options
from penstock.schema import Column, quoted

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_SAMPLE = 10_000
_BATCH = 10_000
_ABOUT = "\x01about"
"""A name that no partition has."""
_MODES = Literal["fail", "mark", "rejects"]


class WriteOptions(Options):
    compression: Literal["none", "gzip"] = Field("none", description="How written files are compressed.")


class MessagePack(Format):
    """Concatenated MessagePack maps; a row each, its keys the columns."""

    name = "msgpack"
    aliases = ("messagepack", "mpk")
    extensions = ("msgpack", "mpk")
    WriteOptions = WriteOptions

    @property
    def suffix(self) -> str:
        return ".msgpack" + (".gz" if self.options.compression == "gzip" else "")

    def discover(self, spark: SparkSession, paths: list[str]) -> tuple[Column, ...]:
        import pyarrow as pa
        from pyspark.sql.pandas.types import from_arrow_type
        from pyspark.sql.types import StructType

        rows = self._sample(spark, paths)
        names = dict.fromkeys(str(key) for row in rows for key in row)
        schema = StructType()
        for name in names:
            try:
                found = pa.array([row.get(name) for row in rows])
            except (pa.ArrowInvalid, pa.ArrowTypeError):
                raise DataError(
                    "mixed-types",
                    f"the values of '{name}' in {paths[0]} are of several types",
                    hint="declare the columns, and set on_error for the records that do not fit",
                ) from None
            schema.add(name, from_arrow_type(pa.string() if pa.types.is_null(found.type) else found.type))
        return columns_of(schema)

    def _sample(self, spark: SparkSession, paths: list[str]) -> list[dict[str, Any]]:
        """The first records; bad ones are left to `read`, unless there are no others."""
        looked = list(islice(self._looked_at(spark, paths), _SAMPLE))
        rows = [row for row, _, _ in looked if isinstance(row, dict)]
        if rows:
            return rows
        for _, error, file in looked:
            if error:
                raise bad_file(file, error)
        raise nothing_to_infer(paths)

    def _looked_at(self, spark: SparkSession, paths: list[str]) -> Iterator[tuple[Any, str | None, str]]:
        for path in paths:
            files = spark.read.format("binaryFile").option("recursiveFileLookup", True).load(path)
            for row in files.select("content", file_path().alias("file")).toLocalIterator():
                yield from ((*record, row.file) for record in _records(bytes(row.content), row.file))

    def read(
        self, spark: SparkSession, paths: list[str], columns: tuple[Column, ...], request: Any
    ) -> DataFrame:
        mode: _MODES = "fail" if request.on_error == "fail" else "mark"
        used = request.prune(columns)
        keys = request.prune(request.partitions)
        schema = ", ".join(filter(None, [spark_ddl((*used, *keys)), *_hidden(request, mode)]))
        task = _Task(used, keys, _types((*used, *keys)), tuple(sorted(request.metadata)), mode)
        return self._decoded(spark, paths, task, schema, request)

    def rejects(
        self, spark: SparkSession, paths: list[str], columns: tuple[Column, ...], request: Any
    ) -> DataFrame:
        used = request.prune(columns)
        task = _Task(used, (), _types(used), (), "rejects")
        return self._decoded(spark, paths, task, REJECTS, request)

    def _decoded(
        self, spark: SparkSession, paths: list[str], task: _Task, schema: str, request: Any
    ) -> DataFrame:
        from pyspark.sql import functions as f

        files = under_base(spark.read.format("binaryFile"), request).load(paths)
        about = f.struct(
            file_path().alias("path"),
            f.substring_index(file_path(), "/", -1).alias("filename"),
            f.col("_metadata.file_size").alias("size"),
            f.col("_metadata.file_modification_time").alias("modified"),
        )
        keys = [f.col(quoted(c.name)).cast(c.type).alias(c.name) for c in task.keys]
        return files.select(about.alias(_ABOUT), "content", *keys).mapInArrow(task.run, schema)

    def write(self, frame: DataFrame, path: str, partition_by: tuple[str, ...] = ()) -> None:
        _msgpack()
        folder = local_path(path)
        if folder is None:
            raise OptionError(
                "local-format", f"MessagePack files are written to local folders only, not to {path}"
            )
        rows = int(frame.sparkSession.conf.get("spark.sql.files.maxRecordsPerFile") or 0)
        task = _Writing(str(folder), self.suffix, partition_by, rows)
        os.makedirs(folder)
        frame.mapInArrow(task.run, "rows BIGINT").collect()


def _types(used: Sequence[Column]) -> dict[str, pa.DataType]:
    from pyspark.sql.pandas.types import to_arrow_type
    from pyspark.sql.types import DataType

    return {c.name: to_arrow_type(DataType.fromDDL(c.type)) for c in spark_columns(used)}


_FIELDS = {
    "filename": "STRING", "path": "STRING", "size": "BIGINT", "modified": "TIMESTAMP", "row_number": "BIGINT",
}  # fmt: skip


def _hidden(request: Any, mode: str) -> list[str]:
    fields = ", ".join(f"{name}: {_FIELDS[name]}" for name in sorted(request.metadata))
    return [f"{METADATA} STRUCT<{fields}>" if fields else "", f"{REJECTED} BOOLEAN" if mode == "mark" else ""]


def _msgpack() -> Any:
    try:
        import msgpack
    except ImportError:
        raise SetupError(
            "missing-package", "MessagePack needs the package msgpack", hint="pip install 'penstock[msgpack]'"
        ) from None
    return msgpack


def _records(content: bytes, file: str) -> Iterator[tuple[Any, str | None]]:
    """The records of a file, each with what is wrong with it; after damage nothing more can be read."""
    msgpack = _msgpack()
    try:
        data = gzip.decompress(content) if file.endswith(".gz") else content
    except (OSError, EOFError) as failure:
        yield None, f"not a whole gzip file: {failure}"
        return
    unpacker = msgpack.Unpacker(raw=False, timestamp=3, strict_map_key=False, max_buffer_size=0)
    unpacker.feed(data)
    while True:
        start = unpacker.tell()
        try:
            record = unpacker.unpack()
        except msgpack.OutOfData:
            if start < len(data):
                yield None, "the file ends in the middle of a record"
            return
        except (ValueError, msgpack.UnpackException) as failure:
            reason = f": {failure}" if str(failure) else ""
            yield None, f"not MessagePack from byte {start} on{reason}"
            return
        yield record, None if isinstance(record, dict) else f"expected a map, found {type(record).__name__}"


@dataclass(frozen=True)
class _Judged:
    """A record, its number in the file, and what is wrong with it."""

    number: int
    row: Any
    error: str | None

    @property
    def payload(self) -> str | None:
        return None if self.row is None else repr(self.row)


@dataclass(frozen=True)
class _Task:
    """What a worker does with files."""

    used: tuple[Column, ...]
    keys: tuple[Column, ...]
    types: dict[str, pa.DataType]
    metadata: tuple[str, ...]
    mode: _MODES

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for file in (row for batch in batches for row in batch.to_pylist()):
            numbered = enumerate(_records(file["content"], file[_ABOUT]["path"]), 1)
            while chunk := list(islice(numbered, _BATCH)):
                judged = [_Judged(n, row, error or self._wrong(row)) for n, (row, error) in chunk]
                yield self._rejects(judged, file) if self.mode == "rejects" else self._rows(judged, file)

    def _wrong(self, row: dict[str, Any]) -> str | None:
        """What is wrong with a record of the declared columns."""
        import pyarrow as pa

        for column in self.used:
            value = row.get(column.name)
            limit = text_limit(column)
            if value is None and not column.nullable:
                return f"{column.name}: null, but it is NOT NULL"
            try:
                pa.array([value], self.types[column.name])
            except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
                return f"{column.name}: expected {column.type}, found {value!r:.80}"
            if limit is not None and value is not None and len(value) > limit:
                return f"{column.name}: longer than {limit} characters"
        return None

    def _rejects(self, judged: Sequence[_Judged], file: dict[str, Any]) -> pa.RecordBatch:
        import pyarrow as pa

        bad = [record for record in judged if record.error]
        return pa.RecordBatch.from_pydict(
            {
                "payload": pa.array([record.payload for record in bad], pa.string()),
                "error": pa.array([record.error for record in bad], pa.string()),
                "file": pa.array([file[_ABOUT]["path"]] * len(bad), pa.string()),
                "line": pa.array([record.number for record in bad], pa.int64()),
            }
        )

    def _rows(self, judged: Sequence[_Judged], file: dict[str, Any]) -> pa.RecordBatch:
        import pyarrow as pa

        first = next((record for record in judged if record.error), None)
        if first is not None and self.mode == "fail":
            raise BadRecord(first.payload, str(first.error), file[_ABOUT]["path"], first.number)
        arrays = {
            c.name: pa.array([None if r.error else r.row.get(c.name) for r in judged], self.types[c.name])
            for c in self.used
        }
        arrays |= {c.name: pa.array([file[c.name]] * len(judged), self.types[c.name]) for c in self.keys}
        if self.metadata:
            about = [{**file[_ABOUT], "row_number": record.number} for record in judged]
            arrays[METADATA] = pa.array([{name: row[name] for name in self.metadata} for row in about])
        if self.mode == "mark":
            arrays[REJECTED] = pa.array([record.error is not None for record in judged])
        if not arrays:
            return pa.RecordBatch.from_struct_array(pa.array([{}] * len(judged), pa.struct([])))
        return pa.RecordBatch.from_pydict(arrays)


@dataclass(frozen=True)
class _Writing:
    """What a worker does with rows: a file for each partition, or more when they are to be small."""

    folder: str
    suffix: str
    partition_by: tuple[str, ...]
    rows_per_file: int

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        from pyspark import TaskContext

        context = TaskContext.get()
        part = context.partitionId() if context else 0
        pack = _msgpack().Packer(use_bin_type=True, default=_plain, datetime=True).pack
        files: dict[str, _Rolling] = {}
        for row in (row for batch in batches for row in batch.to_pylist()):
            below = "/".join(f"{quote(k)}={_folder(row.pop(k))}" for k in self.partition_by)
            if below not in files:
                files[below] = _Rolling(os.path.join(self.folder, below), f"part-{part:05d}", self)
            files[below].write(pack({key: _aware(value) for key, value in row.items()}))
        for file in files.values():
            file.close()
        yield pa.RecordBatch.from_pydict(
            {"rows": pa.array([sum(f.total for f in files.values())], pa.int64())}
        )


class _Rolling:
    """Files of at most so many rows; a task that runs again writes the same ones."""

    def __init__(self, folder: str, name: str, writing: _Writing) -> None:
        self._folder, self._name, self._writing = folder, name, writing
        self.total = 0
        self._file: Any = None

    def write(self, record: bytes) -> None:
        limit = self._writing.rows_per_file
        if self._file is None or (limit and self.total % limit == 0):
            self.close()
            os.makedirs(self._folder, exist_ok=True)
            number = self.total // limit if limit else 0
            open_file: Callable[..., Any] = gzip.open if self._writing.suffix.endswith(".gz") else open
            self._file = open_file(
                os.path.join(self._folder, f"{self._name}-{number:05d}{self._writing.suffix}"), "wb"
            )
        self._file.write(record)
        self.total += 1

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def _folder(value: Any) -> str:
    return "__HIVE_DEFAULT_PARTITION__" if value is None else quote(str(value), safe=" ")


def _aware(value: Any) -> Any:
    """MessagePack's timestamps are instants, as Spark's are."""
    if isinstance(value, datetime) and value.tzinfo is None:
        return value.replace(tzinfo=timezone.utc)
    if isinstance(value, dict):
        return {key: _aware(inner) for key, inner in value.items()}
    return [_aware(inner) for inner in value] if isinstance(value, list) else value


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal | date):
        return str(value)
    raise TypeError(f"MessagePack has no {type(value).__name__}")
