"""Apache Avro: object container files by Spark's own reader and writer; messages of one record each.

A message is plain Avro, or in the wire format of a schema registry: a zero byte, the id of its schema in four
bytes, the record.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from penstock.errors import DataError, OptionError, SetupError
from penstock.formats.avro_schema import columns_of_schema, plain, schema_of
from penstock.formats.columnar import Columnar
from penstock.formats.frames import nothing_to_infer, spark_ddl
from penstock.formats.lines.messages import VALUE
from penstock.formats.messages import decoded, encoded, rejected, written
from penstock.formats.records import BadRecord, place_of
from penstock.formats.schema_registry import Registry, RegistryOptions
from penstock.schema import Column, Unknown, quoted, read_avsc

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_MAGIC = b"\0"
_HEAD = 5


class AvroReadOptions(RegistryOptions):
    schema_file: str | None = Field(
        None, description="The Avro schema (.avsc) of messages; with a registry, the one they are read as."
    )


class AvroWriteOptions(RegistryOptions):
    compression: Literal["snappy", "zstandard", "deflate", "bzip2", "xz", "uncompressed"] = Field(
        "snappy", description="How blocks of files are compressed."
    )
    schema_file: str | None = Field(
        None, description="The Avro schema (.avsc) of written messages; made of the columns unless set."
    )
    subject: str | None = Field(
        None, description="Where the registry keeps the schema; the target's name and `-value` unless set."
    )
    auto_register: bool = Field(
        True, description="Whether a schema that the registry does not have is registered."
    )


class Avro(Columnar):
    """Apache Avro; the header of a file tells its columns."""

    name = "avro"
    extensions = ("avro",)
    jars = ("org.apache.spark:spark-avro_2.13:4.1.1",)
    in_messages = True
    ReadOptions = AvroReadOptions
    WriteOptions = AvroWriteOptions

    def _discovery(self) -> dict[str, Any]:
        return {}

    @property
    def suffix(self) -> str:
        return ".avro"

    def sample(self, spark: SparkSession, messages: Sequence[bytes], source: str) -> tuple[Column, ...]:
        _fastavro()
        if self.options.schema_file is not None:
            path = self.options.schema_file
            return columns_of_schema(read_avsc(path), f"schema file {path}")
        registry = Registry.of(self.options)
        if registry is None or not any(messages):
            raise nothing_to_infer([source])
        registry.check()
        ids = {id for message in messages if (id := _id_of(message)) is not None}
        if not ids:
            raise DataError(
                "wire-format",
                f"the messages of {source} do not begin with the id of a schema",
                hint="leave schema_registry out, and name their schema with schema_file",
            )
        try:
            schema = registry.schema(max(ids))
        except ValueError as failure:
            raise DataError("avro-schema", f"cannot tell the columns of {source}: {failure}") from None
        return columns_of_schema(_expanded(schema), f"schema {max(ids)} of the registry")

    def decode(
        self,
        frame: DataFrame,
        columns: tuple[Column, ...],
        request: Any,
        *,
        carried: Sequence[str] = (),
        place: Sequence[str] = (),
    ) -> DataFrame:
        reading = self._reading(columns)
        return decoded(frame, columns, request, reading.open, carried=carried, place=place)

    def decode_rejects(
        self, frame: DataFrame, columns: tuple[Column, ...], request: Any, *, carried: Sequence[str] = ()
    ) -> DataFrame:
        return rejected(frame, columns, request, self._reading(columns).open, carried=carried)

    def unknown_in_messages(
        self, frame: DataFrame, columns: tuple[Column, ...], place: Sequence[str]
    ) -> tuple[Unknown, ...]:
        """By the schemas that the messages are written with; those of a schema file are settled."""
        from pyspark.sql import functions as f

        registry = Registry.of(self.options)
        if registry is None:
            return ()
        head = f.substring(VALUE, 1, _HEAD).alias("head")
        heads = frame.groupBy(head).agg(f.min(f.struct(*place)).alias("place")).collect()
        known = {c.name for c in columns}
        found: dict[str, Unknown] = {}
        for row in sorted(heads, key=lambda row: row["place"]):
            id = _id_of(bytes(row["head"] or b""))
            for column in self._written(registry, id) if id is not None else ():
                if column.name not in known:
                    found.setdefault(column.name, Unknown(column, place_of(row["place"].asDict())))
        return tuple(found.values())

    def _written(self, registry: Registry, id: int) -> tuple[Column, ...]:
        """The columns of a schema; none when it is not there, which reading tells."""
        try:
            schema = registry.schema(id)
        except ValueError:
            return ()
        return columns_of_schema(_expanded(schema), f"schema {id} of the registry")

    def encode(self, frame: DataFrame, carried: Sequence[str] = (), *, name: str = "") -> DataFrame:
        _fastavro()
        rows = frame.select(*map(quoted, written(frame, carried))).schema
        path = self.options.schema_file
        schema = schema_of(rows, name) if path is None else read_avsc(path)
        if path is not None:
            _refuse_unfit(schema, rows.names, path)
        registry = Registry.of(self.options)
        head = (
            b"" if registry is None else _MAGIC + self._registered(registry, schema, name).to_bytes(4, "big")
        )
        return encoded(frame, carried, _Writing(plain(schema), head).open)

    def _reading(self, columns: tuple[Column, ...]) -> _Reading:
        from pyspark.sql.types import DataType, StructType

        _fastavro()
        registry = Registry.of(self.options)
        path = self.options.schema_file
        given = None if path is None else plain(read_avsc(path))
        if registry is not None:
            registry.check()
            return _Reading(registry, reader=given)
        if given is None:
            rows = DataType.fromDDL(spark_ddl(columns))
            assert isinstance(rows, StructType)
            given = schema_of(rows, "row")
        return _Reading(None, writer=given)

    def _registered(self, registry: Registry, schema: Any, name: str) -> int:
        subject = self.options.subject or (f"{name}-value" if name else None)
        if subject is None:
            raise OptionError("missing-option", "avro needs option 'subject': the target has no name")
        return (registry.register if self.options.auto_register else registry.find)(subject, schema)


@dataclass(frozen=True)
class _Reading:
    """How a worker reads messages."""

    registry: Registry | None
    writer: Any = None
    """The schema that messages are written by, without a registry."""
    reader: Any = None

    def open(self) -> Callable[[bytes], dict[str, Any]]:
        from fastavro import parse_schema, schemaless_reader
        from fastavro.read import SchemaResolutionError

        writer = None if self.writer is None else parse_schema(self.writer)
        reader = None if self.reader is None else parse_schema(self.reader)

        def decode(message: bytes) -> dict[str, Any]:
            schema: Any = writer
            body = io.BytesIO(message)
            if self.registry is not None:
                id = _id_of(message)
                if id is None:
                    raise ValueError("it does not begin with a zero byte and the id of a schema")
                schema = self.registry.schema(id)
                body.seek(_HEAD)
            try:
                record = schemaless_reader(body, schema, reader)
            except (*_DAMAGE, SchemaResolutionError) as failure:
                raise ValueError(
                    f"not Avro of its schema: {str(failure) or type(failure).__name__}"
                ) from None
            if not isinstance(record, dict):
                raise ValueError(f"expected a record, found {type(record).__name__}")
            if body.tell() < len(message):
                raise ValueError(f"{len(message) - body.tell()} bytes follow the record")
            return record

        return decode


_DAMAGE = (
    EOFError, LookupError, ValueError, TypeError, ArithmeticError, AssertionError, MemoryError,
    RecursionError, struct.error,
)  # fmt: skip


@dataclass(frozen=True)
class _Writing:
    """How a worker writes messages."""

    schema: Any
    head: bytes

    def open(self) -> Callable[[dict[str, Any]], bytes]:
        from fastavro import parse_schema, schemaless_writer

        schema = parse_schema(self.schema)

        def encode(row: dict[str, Any]) -> bytes:
            out = io.BytesIO(self.head)
            out.seek(len(self.head))
            try:
                schemaless_writer(out, schema, row)
            except (ValueError, TypeError, ArithmeticError, LookupError, AttributeError) as failure:
                raise BadRecord(repr(row), f"not of the Avro schema: {failure}", "a row", None) from None
            return out.getvalue()

        return encode


def _id_of(message: bytes) -> int | None:
    """The id of a message's schema, if it begins with one."""
    if len(message) < _HEAD or not message.startswith(_MAGIC):
        return None
    return int.from_bytes(message[1:_HEAD], "big")


def _refuse_unfit(schema: dict[str, Any], names: Sequence[str], path: str) -> None:
    """Raises unless the schema has all columns, and no more that must be there."""
    fields = {field["name"]: field for field in schema["fields"]}
    extra = next((name for name in names if name not in fields), None)
    if extra is not None:
        raise DataError("schema-columns", f"schema file {path} has no field '{extra}'")
    missing = next((name for name, f in fields.items() if name not in names and "default" not in f), None)
    if missing is not None:
        raise DataError(
            "schema-columns",
            f"schema file {path} has a field '{missing}' without a default, and no column is named so",
        )


def _expanded(schema: Any) -> Any:
    from fastavro.schema import parse_schema

    return parse_schema(schema, expand=True, _force=True)


def _fastavro() -> None:
    try:
        import fastavro  # noqa: F401
    except ImportError:
        raise SetupError(
            "missing-package",
            "messages of Avro need the package fastavro",
            hint="pip install 'penstock[kafka]'",
        ) from None
