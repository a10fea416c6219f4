"""Avro schemas <-> columns, for messages."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from penstock.errors import DataError
from penstock.schema import Column, avro_columns

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

_KNOWN = {
    "date", "timestamp-millis", "timestamp-micros", "local-timestamp-millis", "local-timestamp-micros",
    "decimal",
}  # fmt: skip
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLAIN: dict[str, Any] = {
    "boolean": "boolean", "tinyint": "int", "smallint": "int", "int": "int", "bigint": "long",
    "float": "float", "double": "double", "string": "string", "binary": "bytes",
    "date": {"type": "int", "logicalType": "date"},
    "timestamp": {"type": "long", "logicalType": "timestamp-micros"},
    "timestamp_ntz": {"type": "long", "logicalType": "local-timestamp-micros"},
}  # fmt: skip


def plain(schema: Any) -> Any:
    """A schema whose logical types are those that columns know; values of others are left as they stand."""
    if isinstance(schema, list):
        return [plain(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {key: value for key, value in schema.items() if key != "logicalType" or value in _KNOWN}
    for key in ("type", "items", "values"):
        if key in kept:
            kept[key] = plain(kept[key])
    if isinstance(kept.get("fields"), list):
        kept["fields"] = [plain(field) for field in kept["fields"]]
    return kept


def columns_of_schema(schema: Mapping[str, Any], what: str) -> tuple[Column, ...]:
    """The columns that a record schema's values have; any may be missing from a message."""
    try:
        return tuple(Column(c.name, c.type) for c in avro_columns(dict(schema)))
    except ValueError as failure:
        raise DataError(
            "avro-schema", f"{what}: {failure}", hint="declare the columns that you need"
        ) from None


def schema_of(rows: StructType, name: str) -> dict[str, Any]:
    """A record schema for rows; each of its fields may be null, so that later ones may leave it out."""
    return _record(rows, re.sub(r"\W|^(?=\d)", "_", name, flags=re.ASCII) or "row")


def _record(rows: StructType, name: str) -> dict[str, Any]:
    fields = []
    for field in rows.fields:
        if _NAME.fullmatch(field.name) is None:
            raise DataError(
                "avro-name",
                f"Avro has no name '{field.name}' for a column",
                hint="letters, digits and underscores may be in it: SELECT x AS name",
            )
        of = _type(field.dataType, f"{name}_{field.name}")
        fields.append({"name": field.name, "type": ["null", of], "default": None})
    return {"type": "record", "name": name, "fields": fields}


def _type(kind: DataType, name: str) -> Any:
    from pyspark.sql.types import ArrayType, DecimalType, MapType, StringType, StructType

    if isinstance(kind, StructType):
        return _record(kind, name)
    if isinstance(kind, ArrayType):
        return {"type": "array", "items": ["null", _type(kind.elementType, name)]}
    if isinstance(kind, MapType) and isinstance(kind.keyType, StringType):
        return {"type": "map", "values": ["null", _type(kind.valueType, name)]}
    if isinstance(kind, DecimalType):
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    found = _PLAIN.get(kind.simpleString())
    if found is None:
        raise DataError(
            "avro-type",
            f"Avro has no type for {kind.simpleString()}",
            hint="write it as text: CAST(x AS STRING), or to_json(x)",
        )
    return found
