"""Records that Python decodes, one map each, -> rows of declared columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from penstock.formats.frames import spark_columns, text_limit
from penstock.schema import Column

if TYPE_CHECKING:
    import pyarrow as pa

Record = tuple[Any, str | None]
"""A record, and what is wrong with it already; None for a message without a value."""


@dataclass(frozen=True)
class Shape:
    """The columns that records are to have."""

    columns: tuple[Column, ...]
    types: dict[str, pa.DataType]

    @classmethod
    def of(cls, columns: Sequence[Column]) -> Shape:
        """Needs Spark, which knows its types; workers are handed the result."""
        from pyspark.sql.pandas.types import to_arrow_type
        from pyspark.sql.types import DataType

        types = {c.name: to_arrow_type(DataType.fromDDL(c.type)) for c in spark_columns(columns)}
        return cls(tuple(columns), types)

    def judge(self, records: Sequence[Record]) -> tuple[list[str | None], dict[str, pa.Array]]:
        """What is wrong with each record, and the columns of all; those of a bad record are null."""
        errors = [error for _, error in records]
        arrays: dict[str, pa.Array] = {}
        for column in self.columns:
            arrays[column.name] = self._column(column, records, errors)
        if any(errors):
            # What was found in a later column leaves the earlier ones of the record empty too.
            arrays = {c.name: self._array(c, self._values(c, records, errors)) for c in self.columns}
        return errors, arrays

    def _column(self, column: Column, records: Sequence[Record], errors: list[str | None]) -> pa.Array:
        import pyarrow as pa

        values = self._values(column, records, errors)
        limit = text_limit(column)
        try:
            array = self._array(column, values)
        except (*_UNFIT, pa.ArrowException):
            array = None
        if array is not None and column.nullable and limit is None:
            return array
        for number, value in enumerate(values):
            errors[number] = errors[number] or self._wrong(column, value, limit)
        return array

    def _wrong(self, column: Column, value: Any, limit: int | None) -> str | None:
        """What is wrong with a value of a column."""
        import pyarrow as pa

        if value is None:
            return None if column.nullable else f"{column.name}: null, but it is NOT NULL"
        try:
            self._array(column, [value])
        except (*_UNFIT, pa.ArrowException):
            return f"{column.name}: expected {column.type}, found {value!r:.80}"
        too_long = limit is not None and len(value) > limit
        return f"{column.name}: longer than {limit} characters" if too_long else None

    def _values(self, column: Column, records: Sequence[Record], errors: Sequence[str | None]) -> list[Any]:
        pairs = zip(records, errors, strict=True)
        return [None if error or row is None else row.get(column.name) for (row, _), error in pairs]

    def _array(self, column: Column, values: Sequence[Any]) -> pa.Array:
        import pyarrow as pa

        kind = self.types[column.name]
        return pa.array([_fitted(value, kind) for value in values] if _is_written(kind) else values, kind)


_UNFIT = (ValueError, TypeError, ArithmeticError, AttributeError)


def _is_written(kind: pa.DataType) -> bool:
    """Whether values of a type may stand there in another form than Arrow takes."""
    import pyarrow as pa

    if pa.types.is_nested(kind):
        return True
    return bool(pa.types.is_date(kind) or pa.types.is_decimal(kind))


def _fitted(value: Any, kind: pa.DataType) -> Any:
    """A value as Arrow takes it: dates and decimals may be written as text."""
    import pyarrow as pa

    if value is None:
        return None
    if isinstance(value, str):
        if pa.types.is_date(kind):
            return date.fromisoformat(value)
        return Decimal(value) if pa.types.is_decimal(kind) else value
    if pa.types.is_list(kind):
        return [_fitted(item, kind.value_type) for item in value]
    if pa.types.is_map(kind):
        return [(_fitted(k, kind.key_type), _fitted(v, kind.item_type)) for k, v in value.items()]
    if pa.types.is_struct(kind):
        return {field.name: _fitted(value.get(field.name), field.type) for field in kind}
    return value
