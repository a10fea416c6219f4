"""Messages <-> rows: a message's key, headers and place are hidden columns beside those of its value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from penstock.connectors.base import AS_ROW, PAYLOAD, POSITION, Column, Format, ReadRequest
from penstock.connectors.kafka.chunks import ROW
from penstock.connectors.kafka.options import Sink, Source
from penstock.errors import DataError, did_you_mean
from penstock.schema import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression
    from pyspark.sql import DataFrame

HEADERS = "ARRAY<STRUCT<key: STRING, value: BINARY>>"
PLACE = ("topic", "partition", "offset")
_POSITION = {
    "topic": "STRING", "partition": "INT", "offset": "BIGINT", "timestamp": "TIMESTAMP", "key": "BINARY",
    "headers": HEADERS,
}  # fmt: skip
POSITION_FIELDS = tuple(_POSITION)
"""What is kept of a record beside its value, so that it can be read again."""
PARTS = ("_key", "_headers", "_timestamp", "_partition", "_topic")
"""Columns of a row that are parts of its message, beside the value."""
_KEYS = {"string": "STRING", "json": "STRING", "binary": "BINARY", "int": "INT", "long": "BIGINT"}


def hidden(source: Source) -> tuple[Column, ...]:
    return (
        Column("_key", _KEYS[source.key_format]),
        Column("_headers", HEADERS),
        Column("_topic", "STRING"),
        Column("_partition", "INT"),
        Column("_offset", "BIGINT"),
        Column("_timestamp", "TIMESTAMP"),
    )


def carried(
    frame: DataFrame, source: Source, request: ReadRequest, *, traced: bool = False
) -> tuple[DataFrame, list[str]]:
    """The records with those hidden columns that are asked for, and their names; `traced`, with two more."""
    from pyspark.sql import functions as f

    made = {c.name: f.col(c.name[1:]) for c in hidden(source) if c.name in request.hidden}
    if "_key" in made:
        made["_key"] = _key_of(source)
    if traced:
        made |= {PAYLOAD: f.col("value"), POSITION: f.struct(*POSITION_FIELDS)}
    return frame.select("value", *PLACE, *(made[n].alias(n) for n in made)), list(made)


def records_of(letters: DataFrame) -> DataFrame:
    """Dead letters as the records that they were."""
    from pyspark.sql import functions as f

    position = f.from_json("position", ", ".join(f"{name} {of}" for name, of in _POSITION.items()))
    there = letters.select("value", position.alias("at"))
    return there.select("value", *(f.col(f"at.{name}").alias(name) for name in _POSITION))


def _key_of(source: Source) -> Expression:
    from pyspark.sql import functions as f

    key = f.col("key")
    if source.key_format in ("string", "json"):
        return key.cast("string")
    if source.key_format == "binary":
        return key
    bits = 32 if source.key_format == "int" else 64
    number = f.conv(f.hex(key), 16, -10).cast("bigint")
    whole = f.when(number >= 2 ** (bits - 1), number - 2**bits).otherwise(number) if bits == 32 else number
    return f.when(f.length(key) == bits // 8, whole).cast(_KEYS[source.key_format])


def messages_of(frame: DataFrame, sink: Sink, form: Format, *, tell_rows: bool = False) -> DataFrame:
    """A message for each row: `value`, and of `_key`, `_headers`, `_timestamp`, `_partition`, `_topic` those
    that it has; `_row` is the row as JSON, where `tell_rows` asks for it and the message is another."""
    from pyspark.sql import functions as f

    there = {c.lower(): c for c in frame.columns}
    parts = {name: _part(name, frame, sink, there) for name in PARTS}
    made = {name: part for name, part in parts.items() if part is not None}
    rest = [quoted(c) for low, c in there.items() if low not in PARTS]
    if not rest:
        raise DataError("no-value", "the rows have only parts of a message, and no value for it")
    if tell_rows and (form.name != "json" or len(rest) < len(there) or rest == ["`value`"]):
        made[ROW] = f.to_json(f.struct(*map(quoted, there.values())), AS_ROW)
    whole = frame.select(*rest, *(part.alias(name) for name, part in made.items()))
    return form.encode(whole, list(made), name=sink.topic or "")


def _part(name: str, frame: DataFrame, sink: Sink, there: dict[str, str]) -> Expression | None:
    from pyspark.sql import functions as f

    column = f.col(quoted(there[name])) if name in there else None
    if name == "_key" and sink.key:
        if column is not None:
            raise DataError("two-keys", "the rows have a column `_key`, and `key` names another")
        return _key(frame, sink, [named(k, "key", there) for k in sink.key])
    if name == "_key":
        return None if column is None else _key(frame, sink, [there[name]])
    if name == "_headers":
        return _headers(frame, sink, there.get(name))
    if name == "_timestamp" and column is None:
        if sink.timestamp_column:
            column = f.col(quoted(named(sink.timestamp_column, "timestamp_column", there)))
        elif sink.preserve_timestamps:
            raise DataError(
                "missing-column",
                "preserve_timestamps needs the time of each row in a column `_timestamp`",
                hint="add _timestamp to the SELECT, or set timestamp_column",
            )
    types = {"_timestamp": "timestamp", "_partition": "int"}
    if column is None:
        if name == "_topic" and sink.topic is None:
            raise DataError("no-topic", "the sink names no topic, and the rows have no column `_topic`")
        return None
    return f.coalesce(column, f.lit(sink.topic)) if name == "_topic" else column.cast(types[name])


def named(name: str, option: str, there: dict[str, str]) -> str:
    """The column that an option names, as it is spelled in the rows."""
    if name.lower() not in there:
        hint = did_you_mean(name, there.values())
        raise DataError("missing-column", f"{option} names a column '{name}' that is not there", hint=hint)
    return there[name.lower()]


def _key(frame: DataFrame, sink: Sink, columns: Sequence[str]) -> Expression:
    from pyspark.sql import functions as f

    if len(columns) > 1 or (sink.key_format == "json" and columns != ["_key"]):
        return f.to_json(f.struct(*map(quoted, columns)), {"ignoreNullFields": "false"}).cast("binary")
    column = f.col(quoted(columns[0]))
    kind: Any = frame.schema[columns[0]].dataType
    if sink.key_format in ("int", "long"):
        digits = 8 if sink.key_format == "int" else 16
        number = f.hex(column.cast(_KEYS[sink.key_format]).cast("bigint"))
        return f.unhex(f.right(f.lpad(number, 16, "0"), f.lit(digits)))
    if kind.typeName() == "binary":
        return column
    nested = kind.typeName() in ("struct", "map", "array")
    return (f.to_json(column) if nested else column.cast("string")).cast("binary")


def _headers(frame: DataFrame, sink: Sink, column: str | None) -> Expression | None:
    """Those of the sink first: most readers take the last of a name, which is the row's own."""
    from pyspark.sql import functions as f

    fixed = f.array(
        *(f.struct(f.lit(k).alias("key"), f.lit(v.encode()).alias("value")) for k, v in sink.headers.items())
    ).cast(HEADERS)
    if column is None:
        return fixed if sink.headers else None
    own = f.col(quoted(column))
    if frame.schema[column].dataType.typeName() == "map":
        own = f.map_entries(own)
    pair = lambda h: f.struct(h["key"].cast("string").alias("key"), h["value"].cast("binary").alias("value"))  # noqa: E731
    own = f.transform(own, pair).cast(HEADERS)
    return f.concat(fixed, f.coalesce(own, f.array().cast(HEADERS))) if sink.headers else own
