"""How the columns of a table follow those of the rows that come: new ones are added, types become wider."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.errors import DataError
from penstock.schema import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType, StructType

_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
_WHOLE, _REAL = tuple(_DIGITS), ("float", "double")
"""From the narrowest on."""


@dataclass(frozen=True)
class Change:
    """What a table needs, to take rows with other columns."""

    clause: str
    """Of ALTER TABLE."""
    what: str
    """For people."""
    widens: bool = False


def changes(table: StructType, rows: StructType, name: str, above: tuple[str, ...] = ()) -> Iterator[Change]:
    """What the table called `name` needs to take rows of these columns; raises when nothing helps."""
    known = {field.name.lower(): field for field in table.fields}
    for field in rows.fields:
        path = ".".join(map(quoted, (*above, field.name)))
        there = known.get(field.name.lower())
        if there is None:
            kind = type_of(field.dataType)
            yield Change(f"ADD COLUMNS ({path} {kind})", f"column {path} {kind}")
        elif field.dataType.typeName() == there.dataType.typeName() == "struct":
            yield from changes(there.dataType, field.dataType, name, (*above, there.name))  # type: ignore[arg-type]
        elif fits(field.dataType, there.dataType):
            continue
        elif widens(there.dataType, field.dataType):
            kind = type_of(field.dataType)
            yield Change(f"ALTER COLUMN {path} TYPE {kind}", f"type {kind} of {path}", widens=True)
        else:
            raise DataError(
                "column-types",
                f"{name} has {path} as {type_of(there.dataType)}, and the rows have it as"
                f" {type_of(field.dataType)}",
                hint="CAST it, or give it another name",
            )


def type_of(kind: DataType) -> str:
    """A type as SQL has it; a column of which nothing is known but nulls is text."""
    from pyspark.sql.types import NullType

    return (
        "STRING"
        if isinstance(kind, NullType)
        else kind.simpleString().upper()
        if _flat(kind)
        else _deep(kind)
    )


def _flat(kind: DataType) -> bool:
    return kind.typeName() not in ("struct", "array", "map")


def _deep(kind: DataType) -> str:
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(kind, StructType):
        return f"STRUCT<{', '.join(f'{quoted(f.name)}: {type_of(f.dataType)}' for f in kind.fields)}>"
    if isinstance(kind, ArrayType):
        return f"ARRAY<{type_of(kind.elementType)}>"
    assert isinstance(kind, MapType)
    return f"MAP<{type_of(kind.keyType)}, {type_of(kind.valueType)}>"


def fits(given: DataType, wanted: DataType) -> bool:
    """Whether a column of the one type takes all values of the other."""
    from pyspark.sql.types import DecimalType

    if type_of(given) == type_of(wanted) or given.typeName() == "void":
        return True
    small, large = given.simpleString(), wanted.simpleString()
    if isinstance(wanted, DecimalType) and small in _DIGITS:
        return wanted.precision - wanted.scale >= _DIGITS[small]
    if small in _WHOLE and large == "double":
        return small != "bigint"
    return widens(given, wanted) or (large == "string" and small.startswith(("varchar", "char")))


def widens(narrow: DataType, wide: DataType) -> bool:
    """Whether a table's column can become one of a wider type, with all its rows as they are."""
    from pyspark.sql.types import DecimalType

    if isinstance(narrow, DecimalType) and isinstance(wide, DecimalType):
        return narrow.scale == wide.scale and narrow.precision < wide.precision
    small, large = narrow.simpleString(), wide.simpleString()
    return any(small in r and large in r and r.index(small) < r.index(large) for r in (_WHOLE, _REAL))


def fitted(frame: DataFrame, table: StructType, more: Sequence[str] = ()) -> DataFrame:
    """The rows with the columns of a table, by name: those that they lack are null."""
    from pyspark.sql import functions as f

    known = {field.name.lower(): field for field in frame.schema.fields}
    columns = [
        _fitted(f.col(quoted(own.name)), own.dataType, field.dataType).alias(field.name)
        if (own := known.get(field.name.lower())) is not None
        else f.lit(None).cast(field.dataType).alias(field.name)
        for field in table.fields
    ]
    return frame.select(*columns, *more)


def _fitted(value: Expression, given: DataType, wanted: DataType) -> Expression:
    """A value as one of another type; the fields of a struct are found by name, where a cast would count."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import StructType

    if type_of(given) == type_of(wanted):
        return value
    if not isinstance(given, StructType) or not isinstance(wanted, StructType):
        return value.cast(wanted)
    known = {field.name.lower(): field for field in given.fields}
    fields = [
        _fitted(value.getField(own.name), own.dataType, field.dataType).alias(field.name)
        if (own := known.get(field.name.lower())) is not None
        else f.lit(None).cast(field.dataType).alias(field.name)
        for field in wanted.fields
    ]
    return f.when(value.isNotNull(), f.struct(*fields))
