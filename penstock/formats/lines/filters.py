"""The conditions of a request over decoded columns, with Spark's meaning of null, NaN and order.

Spark applies the statement's conditions anyway. Leaving rows out before they reach it only saves work, so a
condition that is not understood exactly is none of ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.formats.lines.kinds import Field

Test = Callable[[Any], Any]
_COMPARISONS: dict[str, Callable[..., Any]] = {
    "=": pc.equal, ">": pc.greater, ">=": pc.greater_equal, "<": pc.less, "<=": pc.less_equal,
}  # fmt: skip


class Filters:
    """Conditions (column, operator, value) on fields; all of them must hold."""

    def __init__(self, fields: Sequence[Field], conditions: Iterable[tuple[str, str, Any]]) -> None:
        found = {field.name.lower(): (i, field) for i, field in enumerate(fields)}
        self._tests: list[tuple[int, Test]] = []
        for column, operator, value in conditions:
            position, field = found.get(column.lower(), (-1, None))
            test = _test(field, operator, value) if field else None
            if test is not None:
                self._tests.append((position, test))

    def mask(self, columns: Sequence[Any]) -> Any:
        """The rows that pass; None when all do."""
        mask = None
        for position, test in self._tests:
            passed = test(columns[position])
            mask = passed if mask is None else pc.and_kleene(mask, passed)
        return mask


def _test(field: Field, operator: str, value: Any) -> Test | None:
    if operator == "is not null":
        return lambda array: pc.is_valid(array)
    if operator == "in":
        values = [_exactly(v, field) for v in value]
        if not values or any(v is None for v in values):
            return None
        wanted = pa.array(values, field.kind.arrow())
        return lambda array: pc.is_in(array, wanted)
    exact = _exactly(value, field)
    if exact is None or operator not in _COMPARISONS:
        return None
    compare, scalar = _COMPARISONS[operator], pa.scalar(exact, field.kind.arrow())
    if field.kind.name in ("FLOAT", "DOUBLE") and operator in (">", ">="):
        # To Spark NaN is greater than all numbers.
        return lambda array: pc.or_(compare(array, scalar), pc.is_nan(array))
    return lambda array: compare(array, scalar)


def _exactly(value: Any, field: Field) -> Any:
    """A literal in the column's type; None when it is not exactly that, or its type is left to Spark."""
    kind = field.kind.name
    if kind in ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "DECIMAL"):
        return None
    python = {"BOOLEAN": bool, "FLOAT": float, "DOUBLE": float, "STRING": str, "VARCHAR": str}.get(kind, int)
    if python is float and type(value) is int:
        value = float(value)
    if type(value) is not python or value != value:
        return None
    try:
        return value if pa.scalar(value, field.kind.arrow()).as_py() == value else None
    except (pa.ArrowInvalid, OverflowError):
        return None
