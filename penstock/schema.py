"""Columns as they are declared: in a statement, or in a schema file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.errors import DataError


@dataclass(frozen=True)
class Column:
    """A declared column; `type` is a Spark SQL type as it was written."""

    name: str
    type: str
    nullable: bool = True


@dataclass(frozen=True)
class Unknown:
    """A field of records that is not among the columns of their source."""

    column: Column
    """What it would be as a column."""
    place: str
    """Where it was first seen."""


METADATA_TYPES = {
    "filename": "STRING", "path": "STRING", "size": "BIGINT", "modified": "TIMESTAMP", "row_number": "BIGINT",
}  # fmt: skip
"""The fields of `_metadata`."""


def quoted(name: str) -> str:
    """A column's name as Spark takes it, dots included."""
    return "`" + name.replace("`", "``") + "`"


def ddl(columns: Iterable[Column]) -> str:
    """`columns` as Spark reads them."""
    return ", ".join(f"{quoted(c.name)} {c.type}{'' if c.nullable else ' NOT NULL'}" for c in columns)


_AVRO = {
    "boolean": "BOOLEAN", "int": "INT", "long": "BIGINT", "float": "FLOAT", "double": "DOUBLE",
    "bytes": "BINARY", "string": "STRING", "enum": "STRING",
}  # fmt: skip
_AVRO_LOGICAL = {
    "date": "DATE", "timestamp-millis": "TIMESTAMP", "timestamp-micros": "TIMESTAMP",
    "local-timestamp-millis": "TIMESTAMP_NTZ", "local-timestamp-micros": "TIMESTAMP_NTZ",
}  # fmt: skip


def from_avsc(path: str) -> tuple[Column, ...]:
    """The columns of an Avro record schema in a file."""
    try:
        return avro_columns(read_avsc(path))
    except ValueError as failure:
        raise DataError("schema-file", f"schema file {path}: {failure}") from None


def read_avsc(path: str) -> dict[str, Any]:
    """The Avro record schema in a file."""
    try:
        schema = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as failure:
        raise DataError("schema-file", f"cannot read schema file {path}: {failure.strerror}") from None
    except ValueError as failure:
        raise DataError("schema-file", f"schema file {path} is not JSON: {failure}") from None
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise DataError("schema-file", f"schema file {path} does not hold an Avro record")
    return schema


def avro_columns(schema: dict[str, Any]) -> tuple[Column, ...]:
    """The columns of an Avro record schema. Raises ValueError for what columns cannot hold."""
    named: dict[str, Any] = {}
    try:
        return tuple(_avro_column(field, named) for field in schema["fields"])
    except (KeyError, TypeError, ValueError, RecursionError) as failure:
        raise ValueError(f"cannot understand {failure}") from None


def _avro_column(field: dict[str, Any], named: dict[str, Any]) -> Column:
    of, nullable = _avro_type(field["type"], named)
    return Column(field["name"], of, nullable)


def _avro_type(schema: Any, named: dict[str, Any]) -> tuple[str, bool]:
    """Spark's type, and whether null is among its values."""
    if isinstance(schema, list):
        branches = [branch for branch in schema if branch != "null"]
        if len(branches) != 1:
            raise ValueError(f"a union of {len(branches)} types: {json.dumps(schema)}")
        return _avro_type(branches[0], named)[0], len(branches) < len(schema)
    if isinstance(schema, str):
        known = named.get(schema.rpartition(".")[2])
        return (_avro_type(known, named)[0] if known else _AVRO[schema]), False
    kind = schema["type"]
    if schema.get("name"):
        named[schema["name"].rpartition(".")[2]] = schema
    logical = schema.get("logicalType")
    if logical == "decimal":
        return f"DECIMAL({schema['precision']}, {schema.get('scale', 0)})", False
    if logical in _AVRO_LOGICAL:
        return _AVRO_LOGICAL[logical], False
    if kind == "record":
        fields = (_avro_column(f, named) for f in schema["fields"])
        return "STRUCT<" + ", ".join(f"`{f.name}`: {f.type}" for f in fields) + ">", False
    if kind == "array":
        return f"ARRAY<{_avro_type(schema['items'], named)[0]}>", False
    if kind == "map":
        return f"MAP<STRING, {_avro_type(schema['values'], named)[0]}>", False
    if kind == "fixed":
        return "BINARY", False
    return _avro_type(kind, named)[0] if kind not in _AVRO else _AVRO[kind], False


_FLAT = re.compile(
    r"(TINYINT|BYTE|SMALLINT|SHORT|INT|INTEGER|BIGINT|LONG|FLOAT|REAL|DOUBLE|BOOLEAN|STRING|DATE|TIMESTAMP"
    r"|TIMESTAMP_NTZ|(VARCHAR|CHAR|CHARACTER)\s*\(\s*\d+\s*\)|(DECIMAL|DEC|NUMERIC)(\s*\(\s*\d+\s*(,\s*\d+\s*)?\))?)",
    re.IGNORECASE,
)


def is_flat(column: Column) -> bool:
    """Whether a column holds one plain value, not a struct, list or map."""
    return _FLAT.fullmatch(column.type.strip()) is not None
