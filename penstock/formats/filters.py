"""Spark's pushed filters over decoded columns, with Spark's meaning of null, NaN and order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import datasource as spark

from penstock.formats.kinds import Field

Test = Callable[[pa.ChunkedArray], pa.ChunkedArray]
_COMPARISONS: dict[type, Callable[..., Any]] = {
    spark.EqualTo: pc.equal, spark.GreaterThan: pc.greater, spark.GreaterThanOrEqual: pc.greater_equal,
    spark.LessThan: pc.less, spark.LessThanOrEqual: pc.less_equal,
}  # fmt: skip
_PATTERNS: dict[type, Callable[..., Any]] = {
    spark.StringStartsWith: pc.starts_with, spark.StringEndsWith: pc.ends_with,
    spark.StringContains: pc.match_substring,
}  # fmt: skip


class Filters:
    """The filters that were taken; the others stay with Spark."""

    def __init__(self, fields: Sequence[Field]) -> None:
        self._fields = {field.name: (i, field) for i, field in enumerate(fields)}
        self._taken: list[tuple[int, Test]] = []

    def take(self, filter: spark.Filter) -> bool:
        """Takes a filter if it can be applied exactly."""
        inner = filter.child if isinstance(filter, spark.Not) else filter
        path: tuple[str, ...] = getattr(inner, "attribute", ())
        if len(path) != 1 or path[0] not in self._fields:
            return False
        column, field = self._fields[path[0]]
        test = _test(inner, field)
        if test is None:
            return False
        if isinstance(filter, spark.Not):
            self._taken.append((column, lambda array: pc.invert(test(array))))
        else:
            self._taken.append((column, test))
        return True

    def mask(self, columns: Sequence[pa.ChunkedArray]) -> pa.ChunkedArray | None:
        """The rows that pass all filters; None when there are none."""
        mask = None
        for position, test in self._taken:
            passed = test(columns[position])
            mask = passed if mask is None else pc.and_kleene(mask, passed)
        return mask

    def may_pass(self, constants: Mapping[int, pa.Scalar]) -> bool:
        """Whether rows with these values in all of them can pass."""
        return all(
            test(pa.array([constants[position].as_py()], constants[position].type))[0].as_py()
            for position, test in self._taken
            if position in constants
        )


def _test(filter: spark.Filter, field: Field) -> Test | None:
    if isinstance(filter, spark.IsNull):
        return lambda array: pc.is_null(array)
    if isinstance(filter, spark.IsNotNull):
        return lambda array: pc.is_valid(array)
    value: Any = getattr(filter, "value", None)
    found = [_scalar(v, field) for v in (value if isinstance(filter, spark.In) else (value,))]
    scalars = [scalar for scalar in found if scalar is not None]
    if len(scalars) < len(found):
        return None
    if isinstance(filter, spark.In):
        wanted = pa.array([scalar.as_py() for scalar in scalars], field.kind.arrow())
        return lambda array: pc.if_else(pc.is_null(array), None, pc.is_in(array, wanted))
    if isinstance(filter, spark.EqualNullSafe):
        return lambda array: pc.fill_null(pc.equal(array, scalars[0]), False)
    if type(filter) in _PATTERNS and field.kind.text:
        match = _PATTERNS[type(filter)]
        return lambda array: match(array, value)
    if type(filter) not in _COMPARISONS:
        return None
    compare = _COMPARISONS[type(filter)]
    if field.kind.name in ("FLOAT", "DOUBLE") and isinstance(
        filter, (spark.GreaterThan, spark.GreaterThanOrEqual)
    ):
        # To Spark NaN is greater than all numbers.
        return lambda array: pc.or_(compare(array, scalars[0]), pc.is_nan(array))
    return lambda array: compare(array, scalars[0])


def _scalar(value: Any, field: Field) -> pa.Scalar | None:
    """A literal in the column's type; None when it is not exactly that, or its type is left to Spark."""
    kind = field.kind.name
    python = {"BOOLEAN": bool, "FLOAT": float, "DOUBLE": float, "STRING": str, "VARCHAR": str}.get(kind, int)
    if kind in ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "DECIMAL") or value is None:
        return None
    if python is float and isinstance(value, (int, float)) and not isinstance(value, bool):
        value = float(value)
    if type(value) is not python or value != value:
        return None
    try:
        scalar = pa.scalar(value, field.kind.arrow())
    except (pa.ArrowInvalid, OverflowError):
        return None
    return scalar if scalar.as_py() == value else None
