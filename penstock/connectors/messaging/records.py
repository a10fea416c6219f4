"""Messages <-> rows: a message's key, headers and place are hidden columns beside those of its value."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.connectors.base import AS_ROW, PAYLOAD, POSITION, Column, Format, ReadRequest
from penstock.connectors.messaging.options import MessageSink, MessageSource
from penstock.errors import DataError, did_you_mean
from penstock.schema import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression
    from pyspark.sql import DataFrame

HEADERS = "ARRAY<STRUCT<key: STRING, value: BINARY>>"
PARTS = ("_key", "_headers", "_timestamp")
"""Columns of a row that are parts of its message in all systems, beside the value."""
ROW = "_row"
"""The row as JSON, where rows that are refused are to be told and the message does not tell it itself."""
_KEYS = {"string": "STRING", "json": "STRING", "binary": "BINARY", "int": "INT", "long": "BIGINT"}


@dataclass(frozen=True)
class Layout:
    """The columns of a system's messages: `value`, `key`, `headers`, `timestamp`, and where they stand."""

    place: Mapping[str, str]
    """Columns that tell where a message stands, with their types."""

    @property
    def position(self) -> dict[str, str]:
        """What is kept of a record beside its value, so that it can be read again."""
        return {**self.place, "timestamp": "TIMESTAMP", "key": "BINARY", "headers": HEADERS}

    @property
    def columns(self) -> tuple[Column, ...]:
        """Those of a record."""
        return tuple(Column(name, of) for name, of in {"value": "BINARY", **self.position}.items())

    def hidden(self, source: MessageSource) -> tuple[Column, ...]:
        return (
            Column("_key", _KEYS[source.key_format]),
            Column("_headers", HEADERS),
            *(Column(f"_{name}", of) for name, of in self.place.items()),
            Column("_timestamp", "TIMESTAMP"),
        )

    def carried(
        self, frame: DataFrame, source: MessageSource, request: ReadRequest, *, traced: bool = False
    ) -> tuple[DataFrame, list[str]]:
        """The records with the hidden columns that are asked for, and their names; `traced`, two more."""
        from pyspark.sql import functions as f

        made = {c.name: f.col(c.name[1:]) for c in self.hidden(source) if c.name in request.hidden}
        if "_key" in made:
            made["_key"] = _key_of(source)
        if traced:
            made |= {PAYLOAD: f.col("value"), POSITION: f.struct(*self.position)}
        return frame.select("value", *self.place, *(made[n].alias(n) for n in made)), list(made)

    def records_of(self, letters: DataFrame) -> DataFrame:
        """Dead letters as the records that they were."""
        from pyspark.sql import functions as f

        position = f.from_json("position", ", ".join(f"{name} {of}" for name, of in self.position.items()))
        there = letters.select("value", position.alias("at"))
        return there.select("value", *(f.col(f"at.{name}").alias(name) for name in self.position))


def _key_of(source: MessageSource) -> Expression:
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


def messages_of(
    frame: DataFrame,
    sink: MessageSink,
    form: Format,
    others: Mapping[str, Callable[[Expression | None], Expression | None]],
    *,
    name: str,
    tell_rows: bool = False,
) -> DataFrame:
    """A message for each row: `value`, and those of `_key`, `_headers`, `_timestamp` and `others` it has.

    `others` are parts of the system's own, made of the row's column of that name, if any; `name` is that of
    the target. `_row` is the row as JSON, where `tell_rows` asks for it and the message is another.
    """
    from pyspark.sql import functions as f

    there = {c.lower(): c for c in frame.columns}
    own = {part: f.col(quoted(there[part])) if part in there else None for part in others}
    parts = {part: _part(part, frame, sink, there) for part in PARTS}
    parts |= {part: make(own[part]) for part, make in others.items()}
    made = {part: expression for part, expression in parts.items() if expression is not None}
    rest = [quoted(c) for low, c in there.items() if low not in parts]
    if not rest:
        raise DataError("no-value", "the rows have only parts of a message, and no value for it")
    if tell_rows and (form.name != "json" or len(rest) < len(there) or rest == ["`value`"]):
        made[ROW] = f.to_json(f.struct(*map(quoted, there.values())), AS_ROW)
    whole = frame.select(*rest, *(expression.alias(part) for part, expression in made.items()))
    return form.encode(whole, list(made), name=name)


def _part(name: str, frame: DataFrame, sink: MessageSink, there: dict[str, str]) -> Expression | None:
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
    if column is None:
        if sink.timestamp_column:
            column = f.col(quoted(named(sink.timestamp_column, "timestamp_column", there)))
        elif sink.preserve_timestamps:
            raise DataError(
                "missing-column",
                "preserve_timestamps needs the time of each row in a column `_timestamp`",
                hint="add _timestamp to the SELECT, or set timestamp_column",
            )
    return None if column is None else column.cast("timestamp")


def named(name: str, option: str, there: dict[str, str]) -> str:
    """The column that an option names, as it is spelled in the rows."""
    if name.lower() not in there:
        hint = did_you_mean(name, there.values())
        raise DataError("missing-column", f"{option} names a column '{name}' that is not there", hint=hint)
    return there[name.lower()]


def _key(frame: DataFrame, sink: MessageSink, columns: Sequence[str]) -> Expression:
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


def _headers(frame: DataFrame, sink: MessageSink, column: str | None) -> Expression | None:
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
