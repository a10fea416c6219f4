"""Conditions over messages: `amount > 100 and city in ('Ulm', 'Bonn') and not gone is null`.

Python's own parser reads them; words and `=` may be as in SQL. As in SQL, what compares with null is neither
true nor false, and so is what compares values of different kinds; a message is kept where the whole is true.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable
from typing import Any

from penstock.errors import InputError, Place

Value = Callable[[Any], Any]
_TOKEN = re.compile(r"""(?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|(?P<other>[<>!=]=)|(?P<unequal><>)|(?P<equal>=)|(?P<word>[A-Za-z_]\w*)""")  # fmt: skip  # noqa: E501
_WORDS = {"and", "or", "not", "in", "is", "null", "true", "false"}
_CONSTANTS: dict[str, Any] = {
    "null": None,
    "None": None,
    "true": True,
    "True": True,
    "false": False,
    "False": False,
}
_ORDERS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_HINT = "amount > 100 and city in ('Ulm', 'Bonn') and not gone is null"


def condition(text: str) -> Callable[[Any], bool]:
    """Whether a value, as a payload says it, is wanted."""
    return _Reader(text).read()


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._python, self._origins = _as_python(text)

    def read(self) -> Callable[[Any], bool]:
        try:
            tree = ast.parse(self._python, mode="eval")
        except SyntaxError as failure:
            # Where the end is what is wrong, Python tells no place.
            place = failure.offset - 1 if failure.offset and failure.text else len(self._python)
            raise self._wrong("cannot be read", place) from None
        except (ValueError, RecursionError, MemoryError):
            raise self._wrong("cannot be read", 0) from None
        found = self._value(tree.body)
        return lambda value: found(value) is True

    def _value(self, node: ast.expr) -> Value:
        match node:
            case ast.BoolOp(op, parts):
                return _joined(isinstance(op, ast.And), [self._value(part) for part in parts])
            case ast.UnaryOp(ast.Not(), inner):
                return _negated(self._value(inner))
            case ast.UnaryOp(ast.USub(), ast.Constant(int() | float() as number)):
                return lambda _: -number
            case ast.Compare(left, operators, rights):
                return self._compared(left, operators, rights)
            case ast.Constant(str() | int() | float() | None as constant):
                return lambda _: constant
            case ast.Name(name) if name in _CONSTANTS:
                return lambda _: _CONSTANTS[name]
            case ast.Name(name):
                return lambda value: _member(value, name)
            case ast.Attribute(inner, name):
                outer = self._value(inner)
                return lambda value: _member(outer(value), name)
            case ast.Subscript(inner, ast.Constant(str() | int() as place)):
                outer = self._value(inner)
                return lambda value: _member(outer(value), place)
            case ast.Tuple(parts) | ast.List(parts):
                several = [self._value(part) for part in parts]
                return lambda value: [one(value) for one in several]
        raise self._wrong("has something that is no comparison", self._start(node), self._end(node))

    def _compared(self, left: ast.expr, operators: list[ast.cmpop], rights: list[ast.expr]) -> Value:
        values = [self._value(node) for node in (left, *rights)]
        parts = []
        for place, kind in enumerate(operators):
            right = rights[place]
            if isinstance(kind, ast.In | ast.NotIn) and isinstance(right, ast.Constant):
                values[place + 1] = _alone(
                    values[place + 1]
                )  # ('Ulm') is no tuple in Python, but a list in SQL
            if isinstance(kind, ast.Is | ast.IsNot) and not _is_constant(right):
                raise self._wrong(
                    "has 'is' without null, true or false", self._start(right), self._end(right)
                )
            parts.append(_comparison(kind, values[place], values[place + 1]))
        return parts[0] if len(parts) == 1 else _joined(True, parts)

    def _start(self, node: ast.expr) -> int:
        return len(self._python.encode()[: node.col_offset].decode())

    def _end(self, node: ast.expr) -> int:
        return len(self._python.encode()[: node.end_col_offset].decode())

    def _wrong(self, why: str, start: int, end: int | None = None) -> InputError:
        last = len(self._origins) - 1
        begin = self._origins[min(start, last)]
        stop = self._origins[min(end, last)] if end is not None else None
        at = Place.of("where", self._text, begin, stop)
        return InputError("bad-condition", f"the condition {why}", at=at, hint=f"for example: {_HINT}")


def _as_python(text: str) -> tuple[str, list[int]]:
    """The same in Python's words, and where each of its characters came from."""
    python, done = "", 0
    origins: list[int] = []

    def add(piece: str, origin: int, *, same: bool) -> None:
        nonlocal python
        python += piece
        origins.extend(origin + n if same else origin for n in range(len(piece)))

    for found in _TOKEN.finditer(text):
        add(text[done : found.start()].replace("\n", " "), done, same=True)
        piece, same = found[0], found["equal"] is None
        if found["word"] and piece.lower() in _WORDS:
            piece = piece.lower()
        elif found["unequal"]:
            piece = "!="
        elif found["equal"]:
            piece = "=="
        add(piece, found.start(), same=same)
        done = found.end()
    add(text[done:].replace("\n", " "), done, same=True)
    lead = len(python) - len(python.lstrip())
    return python[lead:], [*origins[lead:], len(text)]


def _is_constant(node: ast.expr) -> bool:
    return (isinstance(node, ast.Name) and node.id in _CONSTANTS) or (
        isinstance(node, ast.Constant) and node.value is None
    )


def _alone(value: Value) -> Value:
    return lambda whole: [value(whole)]


def _member(value: Any, name: str | int) -> Any:
    if isinstance(value, dict):
        return value.get(name)
    if isinstance(value, list) and isinstance(name, int) and -len(value) <= name < len(value):
        return value[name]
    return None


def _joined(all_of: bool, parts: list[Value]) -> Value:
    """`and`, or `or`, of three values: one that decides does so whatever the others are."""

    def joined(value: Any) -> bool | None:
        unknown = False
        for part in parts:
            found = part(value)
            if found is (not all_of):
                return found
            unknown |= found is not all_of
        return None if unknown else all_of

    return joined


def _negated(inner: Value) -> Value:
    def negated(value: Any) -> bool | None:
        found = inner(value)
        return not found if isinstance(found, bool) else None

    return negated


def _comparison(kind: ast.cmpop, left: Value, right: Value) -> Value:
    if isinstance(kind, ast.Is):
        return lambda value: left(value) is right(value)
    if isinstance(kind, ast.IsNot):
        return lambda value: left(value) is not right(value)
    if isinstance(kind, ast.In | ast.NotIn):
        return _membership(left, right, wanted=isinstance(kind, ast.In))
    if isinstance(kind, ast.Eq | ast.NotEq):
        return _equality(left, right, wanted=isinstance(kind, ast.Eq))
    compare = _ORDERS[type(kind)]

    def ordered(value: Any) -> bool | None:
        one, other = left(value), right(value)
        if one is None or other is None or isinstance(one, bool) != isinstance(other, bool):
            return None
        try:
            return bool(compare(one, other))
        except TypeError:
            return None

    return ordered


def _equality(left: Value, right: Value, *, wanted: bool) -> Value:
    def equal(value: Any) -> bool | None:
        one, other = left(value), right(value)
        if one is None or other is None:
            return None
        return _same(one, other) is wanted

    return equal


def _membership(left: Value, right: Value, *, wanted: bool) -> Value:
    def among(value: Any) -> bool | None:
        one, several = left(value), right(value)
        if (
            one is None
            or not isinstance(several, list | str)
            or (isinstance(several, str) and not isinstance(one, str))
        ):
            return None
        found = one in several if isinstance(several, str) else any(_same(one, other) for other in several)
        return found is wanted

    return among


def _same(one: Any, other: Any) -> bool:
    """1 is not true, as it is in Python."""
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)
