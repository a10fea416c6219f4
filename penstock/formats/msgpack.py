"""MessagePack: maps, one after the other in a file, or one in a message."""

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
    spark_ddl,
    under_base,
)
from penstock.formats.lines.messages import VALUE
from penstock.formats.messages import decoded, encoded, rejected
from penstock.formats.paths import local_path
from penstock.formats.rows import Record, Shape
from penstock.formats.unknown import FIELDS, unknown
from penstock.formats.whole_files import bad_file
from penstock.options import Options
from penstock.schema import METADATA_TYPES, Column, Unknown, quoted

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_SAMPLE = 10_000
_BATCH = 10_000
_ABOUT = "\x01about"
"""A name that no partition has."""
_MODES = Literal["fail", "mark", "rejects"]
_Errors = Sequence[str | None]
_Arrays = dict[str, "pa.Array"]


class WriteOptions(Options):
    compression: Literal["none", "gzip"] = Field("none", description="How written files are compressed.")


class MessagePack(Format):
    """Concatenated MessagePack maps; a row each, its keys the columns."""

    name = "msgpack"
    aliases = ("messagepack", "mpk")
    extensions = ("msgpack", "mpk")
    by_spark = False
    in_messages = True
    WriteOptions = WriteOptions

    @property
    def suffix(self) -> str:
        return ".msgpack" + (".gz" if self.options.compression == "gzip" else "")

    def discover(self, spark: SparkSession, paths: list[str]) -> tuple[Column, ...]:
        return _columns(_good(list(islice(self._looked_at(spark, paths), _SAMPLE)), paths), paths[0])

    def sample(self, spark: SparkSession, messages: Sequence[bytes], source: str) -> tuple[Column, ...]:
        looked = [(*record, source) for message in messages for record in _unpacked(message)]
        return _columns(_good(looked, [source]), source)

    def decode(
        self,
        frame: DataFrame,
        columns: tuple[Column, ...],
        request: Any,
        *,
        carried: Sequence[str] = (),
        place: Sequence[str] = (),
    ) -> DataFrame:
        _msgpack()
        return decoded(frame, columns, request, _decoder, carried=carried, place=place)

    def decode_rejects(
        self, frame: DataFrame, columns: tuple[Column, ...], request: Any, *, carried: Sequence[str] = ()
    ) -> DataFrame:
        _msgpack()
        return rejected(frame, columns, request, _decoder, carried=carried)

    def unknown_in_messages(
        self, frame: DataFrame, columns: tuple[Column, ...], place: Sequence[str]
    ) -> tuple[Unknown, ...]:
        _msgpack()
        names = frozenset(c.name for c in columns)
        at = frame.select(*place).schema
        types = [f"{quoted(field.name)} {field.dataType.simpleString()}" for field in at.fields]
        schema = ", ".join([f"{VALUE} BINARY, {FIELDS} ARRAY<STRING>", *types])
        strange = frame.select(VALUE, *place).mapInArrow(_Strange(names, tuple(place)).run, schema)
        return unknown(
            strange, place, lambda some: self.sample(frame.sparkSession, some, "records with new fields")
        )

    def unknown_in_files(
        self, spark: SparkSession, paths: list[str], columns: tuple[Column, ...]
    ) -> tuple[Unknown, ...]:
        from pyspark.sql import functions as f

        files = spark.read.format("binaryFile").load(paths)
        contents = files.select(f.col("content").alias(VALUE), file_path().alias("file"))
        return self.unknown_in_messages(contents, columns, ("file",))

    def encode(self, frame: DataFrame, carried: Sequence[str] = (), *, name: str = "") -> DataFrame:
        _msgpack()
        return encoded(frame, carried, _packer)

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
        task = _Task(Shape.of(used), Shape.of(keys), tuple(sorted(request.metadata)), mode)
        return self._decoded(spark, paths, task, schema, request)

    def rejects(
        self, spark: SparkSession, paths: list[str], columns: tuple[Column, ...], request: Any
    ) -> DataFrame:
        used = request.prune(columns)
        task = _Task(Shape.of(used), Shape.of(()), (), "rejects")
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
        keys = [f.col(quoted(c.name)).cast(c.type).alias(c.name) for c in task.keys.columns]
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


def _good(looked: Sequence[tuple[Any, str | None, str]], paths: list[str]) -> list[dict[Any, Any]]:
    """The records that are maps; bad ones are left to reading, unless there are no others."""
    rows = [row for row, _, _ in looked if isinstance(row, dict)]
    if rows:
        return rows
    for _, error, file in looked:
        if error:
            raise bad_file(file, error)
    raise nothing_to_infer(paths)


def _columns(rows: Sequence[dict[Any, Any]], source: str) -> tuple[Column, ...]:
    """The columns of records, by the types of their values."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import from_arrow_type
    from pyspark.sql.types import StructType

    schema = StructType()
    for name in dict.fromkeys(str(key) for row in rows for key in row):
        try:
            found = pa.array([row.get(name) for row in rows])
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            raise DataError(
                "mixed-types",
                f"the values of '{name}' in {source} are of several types",
                hint="declare the columns, and set on_error for the records that do not fit",
            ) from None
        schema.add(name, from_arrow_type(pa.string() if pa.types.is_null(found.type) else found.type))
    return columns_of(schema)


def _hidden(request: Any, mode: str) -> list[str]:
    fields = ", ".join(f"{name}: {METADATA_TYPES[name]}" for name in sorted(request.metadata))
    return [f"{METADATA} STRUCT<{fields}>" if fields else "", f"{REJECTED} BOOLEAN" if mode == "mark" else ""]


def _msgpack() -> Any:
    try:
        import msgpack
    except ImportError:
        raise SetupError(
            "missing-package", "MessagePack needs the package msgpack", hint="pip install 'penstock[msgpack]'"
        ) from None
    return msgpack


def _records(content: bytes, file: str) -> Iterator[Record]:
    """The records of a file, each with what is wrong with it; after damage nothing more can be read."""
    try:
        data = gzip.decompress(content) if file.endswith(".gz") else content
    except (OSError, EOFError) as failure:
        yield None, f"not a whole gzip file: {failure}"
        return
    yield from _unpacked(data)


def _unpacked(data: bytes) -> Iterator[Record]:
    """Records that stand one after the other."""
    msgpack = _msgpack()
    unpacker = msgpack.Unpacker(raw=False, timestamp=3, strict_map_key=False, max_buffer_size=0)
    unpacker.feed(data)
    while True:
        start = unpacker.tell()
        try:
            record = unpacker.unpack()
        except msgpack.OutOfData:
            if start < len(data):
                yield None, "it ends in the middle of a record"
            return
        except (ValueError, msgpack.UnpackException) as failure:
            reason = f": {failure}" if str(failure) else ""
            yield None, f"not MessagePack from byte {start} on{reason}"
            return
        yield record, None if isinstance(record, dict) else f"expected a map, found {type(record).__name__}"


def _decoder() -> Callable[[bytes], dict[str, Any]]:
    """Reads a message, which is one map."""

    def decode(message: bytes) -> dict[str, Any]:
        found = list(islice(_unpacked(message), 2))
        record, error = found[0]
        if error is not None:
            raise ValueError(error)
        if len(found) > 1:
            raise ValueError("there is more than one record in the message")
        assert isinstance(record, dict)
        return record

    return decode


def _packer() -> Callable[[dict[str, Any]], bytes]:
    """Writes a row as a map."""
    pack: Callable[[Any], bytes] = _msgpack().Packer(use_bin_type=True, default=_plain, datetime=True).pack
    return lambda row: pack({key: _aware(value) for key, value in row.items()})


@dataclass(frozen=True)
class _Task:
    """What a worker does with files."""

    shape: Shape
    keys: Shape
    metadata: tuple[str, ...]
    mode: _MODES

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for file in (row for batch in batches for row in batch.to_pylist()):
            records = _records(file["content"], file[_ABOUT]["path"])
            first = 1
            while chunk := list(islice(records, _BATCH)):
                errors, arrays = self.shape.judge(chunk)
                told = self._rejects if self.mode == "rejects" else self._rows
                yield told(chunk, errors, arrays, first, file)
                first += len(chunk)

    def _rejects(
        self, records: Sequence[Record], errors: _Errors, _: _Arrays, first: int, file: dict[str, Any]
    ) -> pa.RecordBatch:
        import pyarrow as pa

        bad = [number for number, error in enumerate(errors) if error]
        return pa.RecordBatch.from_pydict(
            {
                "payload": pa.array([_payload(records[number]) for number in bad], pa.string()),
                "error": pa.array([errors[number] for number in bad], pa.string()),
                "file": pa.array([file[_ABOUT]["path"]] * len(bad), pa.string()),
                "line": pa.array([first + number for number in bad], pa.int64()),
            }
        )

    def _rows(
        self, records: Sequence[Record], errors: _Errors, arrays: _Arrays, first: int, file: dict[str, Any]
    ) -> pa.RecordBatch:
        import pyarrow as pa

        bad = next((number for number, error in enumerate(errors) if error), None)
        if bad is not None and self.mode == "fail":
            raise BadRecord(_payload(records[bad]), str(errors[bad]), file[_ABOUT]["path"], first + bad)
        rows = len(records)
        arrays = arrays | {
            c.name: pa.array([file[c.name]] * rows, self.keys.types[c.name]) for c in self.keys.columns
        }
        if self.metadata:
            about = [{**file[_ABOUT], "row_number": first + number} for number in range(rows)]
            arrays[METADATA] = pa.array([{name: row[name] for name in self.metadata} for row in about])
        if self.mode == "mark":
            arrays[REJECTED] = pa.array([error is not None for error in errors])
        if not arrays:
            return pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))
        return pa.RecordBatch.from_pydict(arrays)


@dataclass(frozen=True)
class _Strange:
    """Finds records with fields of other names that have values."""

    known: frozenset[str]
    place: tuple[str, ...]

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        pack = _packer()
        for batch in batches:
            values = batch.column(VALUE).cast(pa.binary()).to_pylist()
            files = batch.column("file").to_pylist() if "file" in self.place else [""] * len(values)
            found = [
                (pack(record), names, number)
                for number, (value, file) in enumerate(zip(values, files, strict=True))
                for record, error in (_records(value, file) if value else ())
                if error is None and (names := self._others(record))
            ]
            where = pa.array([number for *_, number in found], pa.int64())
            yield pa.RecordBatch.from_arrays(
                [
                    pa.array([packed for packed, *_ in found], pa.binary()),
                    pa.array([names for _, names, _ in found], pa.list_(pa.string())),
                    *(batch.column(name).take(where) for name in self.place),
                ],
                [VALUE, FIELDS, *self.place],
            )

    def _others(self, record: dict[Any, Any]) -> list[str]:
        return [
            key
            for key, value in record.items()
            if isinstance(key, str) and key and value is not None and key not in self.known
        ]


def _payload(record: Record) -> str | None:
    return None if record[0] is None else repr(record[0])


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
        pack = _packer()
        files: dict[str, _Rolling] = {}
        for row in (row for batch in batches for row in batch.to_pylist(maps_as_pydicts="strict")):
            below = "/".join(f"{quote(k)}={_folder(row.pop(k))}" for k in self.partition_by)
            if below not in files:
                files[below] = _Rolling(os.path.join(self.folder, below), f"part-{part:05d}", self)
            files[below].write(pack(row))
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
