"""The plain types of columns, and what text stands for which value of them, in Spark's meaning.

This is the reference: exact, one value at a time, with the error in words. Bulk decoding (`bulk.py`) takes
the common spellings out of its hands.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from penstock.formats.lines.instants import parse_date, parse_timestamp
from penstock.schema import Column

if TYPE_CHECKING:
    import pyarrow as pa

_TYPE = re.compile(r"(\w+)\s*(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?")
_SAME = {
    "BYTE": "TINYINT", "SHORT": "SMALLINT", "INTEGER": "INT", "LONG": "BIGINT", "REAL": "FLOAT",
    "DEC": "DECIMAL", "NUMERIC": "DECIMAL", "CHAR": "VARCHAR", "CHARACTER": "VARCHAR",
}  # fmt: skip
BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
_INTEGER = re.compile(r"[+-]?[0-9]+")
_JSON_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)")
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_FLOAT = re.compile(r"[+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?)")
_JSON_FLOATS = {
    "NaN": "nan", "+INF": "inf", "Infinity": "inf", "+Infinity": "inf",
    "-INF": "-inf", "-Infinity": "-inf",
}  # fmt: skip
_WIDE = Context(prec=100)


class Mismatch(Exception):
    """A value that is not of its column's type, or a record that is none; the text tells what is wrong."""


@dataclass(frozen=True)
class Kind:
    """A plain type: its one name, and what stands in its brackets."""

    name: str
    precision: int = 0
    scale: int = 0

    @property
    def text(self) -> bool:
        return self.name in ("STRING", "VARCHAR")

    @property
    def limit(self) -> int | None:
        """How many characters a text may have."""
        return self.precision if self.name == "VARCHAR" else None

    def __str__(self) -> str:
        if self.name == "DECIMAL":
            return f"DECIMAL({self.precision}, {self.scale})"
        return f"VARCHAR({self.precision})" if self.name == "VARCHAR" else self.name

    def arrow(self) -> pa.DataType:
        import pyarrow as pa

        if self.name == "DECIMAL":
            return pa.decimal128(self.precision, self.scale)
        return {
            "BOOLEAN": pa.bool_(), "TINYINT": pa.int8(), "SMALLINT": pa.int16(), "INT": pa.int32(),
            "BIGINT": pa.int64(), "FLOAT": pa.float32(), "DOUBLE": pa.float64(), "STRING": pa.string(),
            "VARCHAR": pa.string(), "DATE": pa.date32(), "TIMESTAMP": pa.timestamp("us", "UTC"),
            "TIMESTAMP_NTZ": pa.timestamp("us"),
        }[self.name]  # fmt: skip


def kind_of(column: Column) -> Kind:
    """The kind of a flat column (`penstock.schema.is_flat`)."""
    match = _TYPE.fullmatch(column.type.strip())
    if match is None:
        raise ValueError(f"{column.type} is not a plain type")
    name = _SAME.get(match[1].upper(), match[1].upper())
    if name == "DECIMAL":
        return Kind(name, int(match[2] or 10), int(match[3] or 0))
    return Kind(name, int(match[2] or 0))


@dataclass(frozen=True)
class Field:
    """A column that is decoded: its name, kind, and whether it may be null."""

    name: str
    kind: Kind
    nullable: bool = True

    @classmethod
    def of(cls, column: Column) -> Field:
        return cls(column.name, kind_of(column), column.nullable)

    def wrong(self, found: str) -> Mismatch:
        return Mismatch(f"{self.name}: expected {self.kind}, found {found[:100]}")

    def missing(self) -> Mismatch:
        return Mismatch(f"{self.name}: null, but it is NOT NULL")

    def too_long(self) -> Mismatch:
        return Mismatch(f"{self.name}: longer than {self.kind.limit} characters")


def from_text(field: Field, text: str, zone: str) -> Any:
    """The value that a text stands for in CSV, in the form that Arrow builds an array of."""
    kind = field.kind
    if kind.text:
        return _checked_text(field, text)
    value = _READERS[kind.name](kind, text, zone)
    if value is None:
        raise field.wrong(f"'{text}'")
    return value


def from_json(field: Field, value: Any, raw: str, zone: str) -> Any:
    """The value that a JSON value stands for; `raw` is its text in the record."""
    kind = field.kind
    if value is None:
        if not field.nullable:
            raise field.missing()
        return None
    if kind.text:
        return _checked_text(field, value if isinstance(value, str) else raw)
    result = None
    if isinstance(value, str):
        if value and kind.name in ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "DECIMAL"):
            result = _READERS[kind.name](kind, value, zone)
        elif kind.name in ("FLOAT", "DOUBLE") and value in _JSON_FLOATS:
            result = float(_JSON_FLOATS[value])
    elif isinstance(value, bool):
        result = value if kind.name == "BOOLEAN" else None
    elif isinstance(value, (int, float)):
        result = _json_number(kind, raw, zone)
    if result is None:
        raise field.wrong(f"'{value}'" if isinstance(value, str) else raw)
    return result


def _json_number(kind: Kind, raw: str, zone: str) -> Any:
    if kind.name in BITS:
        return _integer(kind, raw, zone) if _JSON_INTEGER.fullmatch(raw) else None
    if kind.name in ("FLOAT", "DOUBLE"):
        # A whole number is first read as such, and that has no negative zero.
        return 0.0 if raw == "-0" else float(_JSON_FLOATS.get(raw, raw))
    if kind.name == "DECIMAL":
        return _decimal(kind, raw, zone)
    if kind.name == "TIMESTAMP" and _JSON_INTEGER.fullmatch(raw) and abs(int(raw)) < 2**63 // 1_000_000:
        return int(raw) * 1_000_000
    return None


def _checked_text(field: Field, text: str) -> bytes:
    if field.kind.limit is not None and len(text) > field.kind.limit:
        raise field.too_long()
    # Half of a surrogate pair is no character: Java writes a question mark for it, and so do we.
    return text.encode("utf-8", "replace")


def _integer(kind: Kind, text: str, zone: str) -> int | None:
    if _INTEGER.fullmatch(text) is None or len(text) > 40:
        return None
    value, bound = int(text), 1 << (BITS[kind.name] - 1)
    return value if -bound <= value < bound else None


def _float(kind: Kind, text: str, zone: str) -> float | None:
    if text in ("Inf", "-Inf"):
        return float(text)
    trimmed = text.strip(" \t\r\n\f\x0b\0")
    if _FLOAT.fullmatch(trimmed) is None:
        return None
    return float(trimmed.rstrip("fFdD") if trimmed[-1:] in "fFdD" else trimmed)


def _decimal(kind: Kind, text: str, zone: str) -> Decimal | None:
    if _DECIMAL.fullmatch(text) is None:
        return None
    try:
        value = Decimal(text).quantize(Decimal(1).scaleb(-kind.scale), ROUND_HALF_UP, _WIDE)
    except InvalidOperation:
        return None
    return value if abs(value) < Decimal(10) ** (kind.precision - kind.scale) else None


def _boolean(kind: Kind, text: str, zone: str) -> bool | None:
    return {"true": True, "false": False}.get(text.lower())


def _timestamp(kind: Kind, text: str, zone: str) -> int | None:
    return parse_timestamp(text, None if kind.name == "TIMESTAMP_NTZ" else zone)


def _date(kind: Kind, text: str, zone: str) -> int | None:
    return parse_date(text)


_READERS: dict[str, Callable[[Kind, str, str], Any]] = {
    **dict.fromkeys(BITS, _integer),
    "FLOAT": _float, "DOUBLE": _float, "DECIMAL": _decimal, "BOOLEAN": _boolean,
    "DATE": _date, "TIMESTAMP": _timestamp, "TIMESTAMP_NTZ": _timestamp,
}  # fmt: skip


def build(field: Field, values: list[Any]) -> pa.Array:
    """Values of `from_text` or `from_json` as an array of the field's type."""
    import pyarrow as pa

    kind = field.kind.arrow()
    if field.kind.text:
        return pa.array(values, pa.binary()).cast(kind)
    if pa.types.is_date32(kind):
        return pa.array(values, pa.int32()).cast(kind)
    if pa.types.is_timestamp(kind):
        return pa.array(values, pa.int64()).cast(kind)
    if pa.types.is_float32(kind):
        # A double that is out of range becomes an infinity, as in Java; pa.array would refuse it.
        import numpy as np

        with np.errstate(over="ignore"):
            numbers = np.array([0.0 if v is None else v for v in values], np.float64).astype(np.float32)
        return pa.array(numbers, kind, mask=np.array([v is None for v in values], bool))
    return pa.array(values, kind)
