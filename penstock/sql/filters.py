"""What a WHERE says of a relation's rows, as far as it is simple: `amount > 100 AND kind IN ('a', 'b')`.

A source may leave out rows that do not meet it. Spark checks all conditions itself, so what is not understood
for certain is left to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlglot import exp

Filter = tuple[str, str, Any]

_OPERATORS: dict[type[exp.Expr], tuple[str, str]] = {
    exp.EQ: ("=", "="),
    exp.LT: ("<", ">"),
    exp.LTE: ("<=", ">="),
    exp.GT: (">", "<"),
    exp.GTE: (">=", "<="),
}
"""Each with what it is when its sides are exchanged."""


def filters_of(table: exp.Expr, label: str) -> tuple[Filter, ...]:
    """The conditions on a relation that stands alone in the FROM of its SELECT."""
    select = table.parent.parent if isinstance(table.parent, exp.From) else None
    if not isinstance(select, exp.Select) or select.args.get("joins") or select.args.get("laterals"):
        return ()
    where = select.args.get("where")
    if where is None or table.args.get("sample") or table.args.get("joins") or table.args.get("laterals"):
        return ()
    found = (_filter(condition, label.rpartition(".")[2].lower()) for condition in _all_of(where.this))
    return tuple(f for f in found if f is not None)


def _all_of(condition: exp.Expr) -> Iterator[exp.Expr]:
    if isinstance(condition, exp.And):
        yield from _all_of(condition.this)
        yield from _all_of(condition.expression)
    elif isinstance(condition, exp.Paren):
        yield from _all_of(condition.this)
    else:
        yield condition


def _filter(condition: exp.Expr, label: str) -> Filter | None:
    if isinstance(condition, exp.In):
        name = _column(condition.this, label)
        values = [_value(value) for value in condition.expressions]
        return (name, "in", tuple(values)) if name and values and None not in values else None
    if isinstance(condition, exp.Not) and isinstance(condition.this, exp.Is):
        name = _column(condition.this.this, label)
        return (
            (name, "is not null", None) if name and isinstance(condition.this.expression, exp.Null) else None
        )
    operators = _OPERATORS.get(type(condition))
    if operators is None:
        return None
    for operator, one, other in zip(operators, ("this", "expression"), ("expression", "this"), strict=True):
        name, value = _column(condition.args[one], label), _value(condition.args[other])
        if name is not None and value is not None:
            return name, operator, value
    return None


def _column(node: Any, label: str) -> str | None:
    """A column's name, bare or behind its relation's."""
    if not isinstance(node, exp.Column) or node.args.get("db") or node.table.lower() not in ("", label):
        return None
    return node.name if isinstance(node.this, exp.Identifier) else None


def _value(node: Any) -> str | int | float | bool | None:
    """A literal that means the same everywhere."""
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if isinstance(node, exp.Neg):
        value = _value(node.this)
        return -value if isinstance(value, int | float) and not isinstance(value, bool) else None
    if not isinstance(node, exp.Literal):
        return None
    text = str(node.this)
    if node.is_string:
        return text if "\\" not in text and "'" not in text else None
    if text.isdigit():
        return int(text)
    return float(text) if text.replace(".", "", 1).isdigit() else None
