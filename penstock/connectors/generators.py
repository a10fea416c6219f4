"""Columns of made-up values: a value depends on the seed, the column and the row's number, and nothing else.

So any range of rows can be made alone, in any order, and comes out the same.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import OptionError, did_you_mean
from penstock.schema import Column

if TYPE_CHECKING:
    from penstock.connectors.datagen import Generator

Numbers = np.ndarray[Any, np.dtype[Any]]
Maker = Callable[[Numbers], pa.Array]

_INTEGERS = {
    "TINYINT": pa.int8(), "BYTE": pa.int8(), "SMALLINT": pa.int16(), "SHORT": pa.int16(), "INT": pa.int32(),
    "INTEGER": pa.int32(), "BIGINT": pa.int64(), "LONG": pa.int64(),
}  # fmt: skip
_FLOATS = {"FLOAT": pa.float32(), "REAL": pa.float32(), "DOUBLE": pa.float64()}
_TIMES = {
    "TIMESTAMP": pa.timestamp("us", "UTC"), "TIMESTAMP_LTZ": pa.timestamp("us", "UTC"),
    "TIMESTAMP_NTZ": pa.timestamp("us"), "DATE": pa.date32(),
}  # fmt: skip
_TEXTS = ("STRING", "VARCHAR", "CHAR")
_TYPE = re.compile(r"(\w+)\s*(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?")
_DAY = 86_400_000_000
_NAMES = ("Ada", "Alan", "Barbara", "Claude", "Donald", "Edsger", "Frances", "Grace", "Hedy", "Jean", "John",
          "Katherine", "Kurt", "Leslie", "Margaret", "Niklaus", "Radia", "Shafi", "Tim", "Tony")  # fmt: skip
_WORDS = ("amber", "brook", "cedar", "delta", "ember", "fjord", "grove", "harbor", "island", "juniper",
          "kettle", "lagoon", "meadow", "nectar", "orchid", "pebble", "quartz", "river", "sluice",
          "tidal")  # fmt: skip
_TAKES = {
    "sequence": {"start", "step"}, "random": {"min", "max"}, "choice": {"values"}, "string": {"length"},
    "uuid": set[str](), "name": set[str](), "word": set[str](),
}  # fmt: skip


@dataclass(frozen=True)
class _Type:
    name: str
    arrow: pa.DataType
    size: int | None = None
    """The precision of a decimal, the longest length of a text."""
    scale: int = 0

    @property
    def kinds(self) -> tuple[str, ...]:
        if self.name in _TEXTS:
            return ("string", "choice", "uuid", "name", "word")
        return ("random", "choice") if self.name == "BOOLEAN" else ("random", "sequence", "choice")


def maker(column: Column, generator: Generator, seed: int) -> Maker:
    """The function that makes a column's values for rows of these numbers."""
    of = _type_of(column)
    kind = generator.kind or _default_kind(column, of, generator)
    given = generator.model_fields_set - {"kind", "null_ratio"}
    if kind not in of.kinds:
        _refuse(column, "kind", f"'{kind}' makes no {column.type}", f"it can be {', '.join(of.kinds)}")
    for name in sorted(given - _TAKES[kind]):
        _refuse(column, name, f"'{kind}' does not take it", did_you_mean(name, _TAKES[kind]))
    if generator.null_ratio and not column.nullable:
        _refuse(column, "null_ratio", "the column is NOT NULL", None)
    try:
        make = _KINDS[kind](column, of, generator, seed)
    except (ValueError, ArithmeticError, pa.ArrowInvalid) as failure:
        raise OptionError("bad-option", f"fields.{column.name}: {failure}") from None
    return partial(_with_nulls, make, _key(seed, column, "null"), generator.null_ratio)


def _refuse(column: Column, option: str, why: str, hint: str | None) -> None:
    raise OptionError("bad-option", f"option 'fields.{column.name}.{option}' of datagen: {why}", hint=hint)


def _type_of(column: Column) -> _Type:
    match = _TYPE.fullmatch(column.type.strip().upper())
    name = match[1] if match else ""
    if match and name in ("DECIMAL", "DEC", "NUMERIC"):
        size, scale = int(match[2] or 10), int(match[3] or 0)
        return _Type(name, pa.decimal128(size, scale), size, scale)
    arrow = {**_INTEGERS, **_FLOATS, **_TIMES, "BOOLEAN": pa.bool_(), **dict.fromkeys(_TEXTS, pa.string())}
    if not match or name not in arrow:
        raise OptionError("bad-column", f"datagen cannot make column '{column.name}' of type {column.type}")
    return _Type(name, arrow[name], int(match[2]) if match[2] else None)


def _default_kind(column: Column, of: _Type, generator: Generator) -> str:
    if generator.values is not None:
        return "choice"
    told = generator.model_fields_set
    if of.name in _TEXTS:
        return "name" if column.name.lower() == "name" and "length" not in told else "string"
    ordered = column.name.lower() == "id" or of.name.startswith("TIMESTAMP") or told & {"start", "step"}
    return "sequence" if ordered and of.name != "BOOLEAN" and not told & {"min", "max"} else "random"


def _key(seed: int, column: Column, salt: str = "") -> np.uint64:
    digest = hashlib.sha256(f"{seed}\0{column.name.lower()}\0{salt}".encode()).digest()
    return np.uint64(int.from_bytes(digest[:8], "little"))


def _mixed(rows: Numbers, key: np.uint64) -> Numbers:
    """64 random bits for each row: SplitMix64, whose steps wrap around on purpose."""
    bits = rows * np.uint64(0x9E3779B97F4A7C15) + key
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: Numbers = bits ^ (bits >> np.uint64(31))
    return mixed


def _share(rows: Numbers, key: np.uint64) -> Numbers:
    """From 0 up to, and without, 1."""
    share: Numbers = (_mixed(rows, key) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return share


def _with_nulls(make: Maker, key: np.uint64, ratio: float, rows: Numbers) -> pa.Array:
    values = make(rows)
    if not ratio:
        return values
    return pc.if_else(pa.array(_share(rows, key) < ratio), pa.scalar(None, values.type), values)


def _unit(of: _Type, value: Any) -> int:
    """A bound as the whole number that stands for it: cents of a decimal, days, microseconds."""
    if of.name not in _TIMES:
        return int(Decimal(str(value)).scaleb(of.scale).to_integral_value())
    moment = datetime.fromisoformat(str(value).replace("Z", "+00:00"))
    since = (moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)) - datetime(
        1970, 1, 1, tzinfo=timezone.utc
    )
    micros = since.days * _DAY + since.seconds * 1_000_000 + since.microseconds
    return micros // _DAY if of.name == "DATE" else micros


def _from_units(of: _Type, units: Numbers) -> pa.Array:
    if of.name in _TIMES:
        whole = pa.array(units.astype(np.int32 if of.name == "DATE" else np.int64))
        return whole.cast(of.arrow) if of.name == "DATE" else whole.cast(pa.timestamp("us")).cast(of.arrow)
    if pa.types.is_decimal(of.arrow):
        # 128 bits, the low half first; the high half only carries the sign.
        halves = np.stack([units, units >> 63], axis=1).astype("<i8")
        return pa.Array.from_buffers(of.arrow, len(units), [None, pa.py_buffer(halves.tobytes())])
    return pa.array(units).cast(of.arrow)


def _bounds(of: _Type) -> tuple[int, int]:
    """The default bounds, in units."""
    if of.name in _TIMES:
        return _unit(of, "2024-01-01"), _unit(of, "2024-12-31")
    if of.size is not None:
        return 0, min(10 ** (of.size - of.scale), 1000) * 10**of.scale - 1
    return 0, 100 if of.arrow == pa.int8() else 1000


def _random(column: Column, of: _Type, generator: Generator, seed: int) -> Maker:
    key = _key(seed, column)
    if of.name == "BOOLEAN":
        return lambda rows: pa.array(_share(rows, key) < 0.5)
    if of.name in _FLOATS:
        least, most = float(_or(generator.min, 0)), float(_or(generator.max, 1000))
        _check_order(least, most)
        return lambda rows: pa.array(least + _share(rows, key) * (most - least)).cast(of.arrow, safe=False)
    usual = _bounds(of)
    low = usual[0] if generator.min is None else _unit(of, generator.min)
    high = max(usual[1], low) if generator.max is None else _unit(of, generator.max)
    _check_order(low, high)
    if pa.types.is_decimal(of.arrow) and max(abs(low), abs(high)) >= 10 ** (of.size or 0):
        raise ValueError(f"min and max do not fit {column.type}")
    _from_units(of, np.array([low, high]))
    span = np.uint64(high - low + 1)
    return lambda rows: _from_units(of, low + (_mixed(rows, key) % span).astype(np.int64))


def _sequence(column: Column, of: _Type, generator: Generator, seed: int) -> Maker:
    if of.name in _FLOATS:
        begin, add = float(_or(generator.start, 0)), _or(generator.step, 1)
        return lambda rows: pa.array(begin + rows.astype(np.float64) * add).cast(of.arrow, safe=False)
    start = _unit(of, _or(generator.start, "2024-01-01" if of.name in _TIMES else 0))
    if of.name in _TIMES:
        step = int(_or(generator.step, 86_400 if of.name == "DATE" else 1) * 1_000_000)
        step = step // _DAY if of.name == "DATE" else step
    else:
        step = _unit(of, _or(generator.step, 1))
    return lambda rows: _from_units(of, start + rows.astype(np.int64) * step)


def _choice(column: Column, of: _Type, generator: Generator, seed: int) -> Maker:
    if not generator.values:
        raise ValueError("'choice' needs values")
    return _taken(pa.array(generator.values).cast(of.arrow), _key(seed, column))


def _taken(values: pa.Array, key: np.uint64) -> Maker:
    count = np.uint64(len(values))
    return lambda rows: values.take(pa.array((_mixed(rows, key) % count).astype(np.int64)))


def _string(column: Column, of: _Type, generator: Generator, seed: int) -> Maker:
    length = generator.length or min(10, of.size or 10)
    keys = [_key(seed, column, f"letters {i}") for i in range(0, length, 13)]  # 26**13 is below 2**64

    def make(rows: Numbers) -> pa.Array:
        letters = np.empty((len(rows), len(keys) * 13), dtype=np.uint8)
        for block, key in enumerate(keys):
            bits = _mixed(rows, key)
            for place in range(13):
                letters[:, block * 13 + place] = (bits % np.uint64(26)).astype(np.uint8) + ord("a")
                bits = bits // np.uint64(26)
        return _texts(letters[:, :length])

    return make


def _uuid(column: Column, of: _Type, generator: Generator, seed: int) -> Maker:
    keys = [_key(seed, column, half) for half in ("high", "low")]
    digits = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)

    def make(rows: Numbers) -> pa.Array:
        octets = np.stack([_mixed(rows, key) for key in keys], axis=1).astype(">u8").view(np.uint8)
        octets = octets.reshape(len(rows), 16).copy()
        octets[:, 6] = octets[:, 6] & 0x0F | 0x40
        octets[:, 8] = octets[:, 8] & 0x3F | 0x80
        hexed = digits[np.stack([octets >> 4, octets & 15], axis=2).reshape(len(rows), 32)]
        return _texts(np.insert(hexed, [8, 12, 16, 20], ord("-"), axis=1))

    return make


def _texts(letters: Numbers) -> pa.Array:
    """Rows of ASCII codes as strings."""
    count, length = letters.shape
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(length)
    data = np.ascontiguousarray(letters).tobytes()
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets.tobytes()), pa.py_buffer(data))


def _listed(words: tuple[str, ...], column: Column, of: _Type, generator: Generator, seed: int) -> Maker:
    return _taken(pa.array(words), _key(seed, column))


def _or(value: Any, otherwise: Any) -> Any:
    return otherwise if value is None else value


def _check_order(low: float, high: float) -> None:
    if low > high:
        raise ValueError("min is above max")


_KINDS: dict[str, Callable[[Column, _Type, Generator, int], Maker]] = {
    "sequence": _sequence,
    "random": _random,
    "choice": _choice,
    "string": _string,
    "uuid": _uuid,
    "name": partial(_listed, _NAMES),
    "word": partial(_listed, _WORDS),
}
