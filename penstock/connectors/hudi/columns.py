"""Columns of rows -> columns of the table: what Avro can hold, and how a table's columns may change."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from penstock.errors import DataError

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_AVRO: dict[str, Any] = {
    "boolean": "boolean",
    "integer": "int",
    "long": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "binary": "bytes",
    "date": {"type": "int", "logicalType": "date"},
    "timestamp": {"type": "long", "logicalType": "timestamp-micros"},
}
_WIDER = {("integer", "long"), ("integer", "double"), ("float", "double")}
"""Changes of a column's type that lose nothing, and that readers of older files make by themselves."""


def as_avro(schema: StructType) -> dict[str, Any]:
    """The Avro record of rows; every field may be null. Raises for what Avro cannot hold."""
    return _record(schema, "row", "")


def stored_as(schema: StructType) -> StructType:
    """The columns as a table keeps them: short whole numbers as INT, all nullable."""
    from pyspark.sql.types import StructField, StructType

    return StructType([StructField(field.name, _kept(field.dataType)) for field in schema.fields])


def named(names: Sequence[str], columns: StructType) -> tuple[str, ...]:
    """Columns under the names that the table has."""
    own = {field.name.lower(): field.name for field in columns.fields}
    return tuple(own[name.lower()] for name in names)


def evolved(table: StructType, rows: StructType, path: str) -> StructType:
    """The table's columns once it has taken such rows: new ones are added, some types widen."""
    from pyspark.sql.types import StructField, StructType

    coming = {field.name.lower(): field for field in rows.fields}
    fields = []
    for old in table.fields:
        new = coming.pop(old.name.lower(), None)
        kind = old.dataType if new is None else _common(old.dataType, new.dataType)
        if kind is None:
            assert new is not None
            was, now = old.dataType.simpleString().upper(), new.dataType.simpleString().upper()
            raise DataError(
                "column-type",
                f"column '{old.name}' is {was} in {path}, and {now} in the rows",
                hint=f"CAST({old.name} AS {was})",
            )
        fields.append(StructField(old.name, kind))
    return StructType([*fields, *(StructField(f.name, f.dataType) for f in coming.values())])


def _common(table: DataType, rows: DataType) -> DataType | None:
    from pyspark.sql.types import DecimalType

    old, new = _kept(table), _kept(rows)
    if old == new or (new.typeName(), old.typeName()) in _WIDER:
        return old
    if isinstance(old, DecimalType) and isinstance(new, DecimalType):
        whole = old.precision - old.scale >= new.precision - new.scale
        return old if whole and old.scale >= new.scale else None
    return new if (old.typeName(), new.typeName()) in _WIDER else None


def _kept(kind: DataType) -> DataType:
    from pyspark.sql import types as t

    if isinstance(kind, t.ByteType | t.ShortType):
        return t.IntegerType()
    if isinstance(kind, t.StringType):
        return t.StringType()
    if isinstance(kind, t.ArrayType):
        return t.ArrayType(_kept(kind.elementType))
    if isinstance(kind, t.MapType):
        return t.MapType(_kept(kind.keyType), _kept(kind.valueType))
    return stored_as(kind) if isinstance(kind, t.StructType) else kind


def _record(schema: StructType, name: str, place: str) -> dict[str, Any]:
    fields = []
    for field in schema.fields:
        column = f"{place}{field.name}"
        if not _NAME.fullmatch(field.name) or field.name.lower().startswith("_hoodie_"):
            raise DataError(
                "column-name",
                f"a Hudi table cannot have a column '{column}'",
                hint="names are letters, digits and _, and do not begin with _hoodie_; rename it with AS",
            )
        kind = _avro(field.dataType, f"{name}_{field.name}", column)
        # Nested ones have no default: else Parquet may take a list's element for the wrapper around it.
        fields.append({"name": field.name, "type": ["null", kind], **({} if place else {"default": None})})
    return {"type": "record", "name": name, "namespace": "hoodie", "fields": fields}


def _avro(kind: DataType, name: str, column: str) -> Any:
    from pyspark.sql import types as t

    if isinstance(kind, t.DecimalType):
        # As many bytes as the digits need, the way that Spark and Hive write them.
        size = (10**kind.precision).bit_length() // 8 + 1
        sizes = {"precision": kind.precision, "scale": kind.scale, "size": size}
        return {"type": "fixed", "name": name, "logicalType": "decimal", **sizes}
    if isinstance(kind, t.ArrayType):
        return {"type": "array", "items": ["null", _avro(kind.elementType, f"{name}_item", column)]}
    if isinstance(kind, t.MapType) and isinstance(kind.keyType, t.StringType):
        return {"type": "map", "values": ["null", _avro(kind.valueType, f"{name}_value", column)]}
    if isinstance(kind, t.StructType):
        return _record(kind, name, f"{column}.")
    if kind.typeName() not in _AVRO:
        # Hudi has times without a zone, but hudi-rs cannot read a table that has one.
        other = "TIMESTAMP" if kind.typeName() == "timestamp_ntz" else "STRING"
        raise DataError(
            "column-type",
            f"a Hudi table cannot keep column '{column}', which is {kind.simpleString().upper()}",
            hint=f"CAST({column} AS {other}), or leave it out",
        )
    return _AVRO[kind.typeName()]
