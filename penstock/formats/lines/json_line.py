"""One line of JSON, exactly: the reference that bulk decoding leaves its doubts to."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from json.decoder import JSONDecodeError, scanstring  # type: ignore[attr-defined]
from typing import Any, NamedTuple

from penstock.formats.lines.kinds import Field, Mismatch, from_json

_SCAN: Callable[[str, int], tuple[Any, int]] = json.JSONDecoder(strict=True).scan_once  # type: ignore[attr-defined]
_BLANK = " \t\r\n"
# Words that Spark takes for numbers and Python does not know.
_WORDS = ("-INF", "+INF", "+Infinity")


class Member(NamedTuple):
    """A key of an object, and where its value stands in the line."""

    key: str
    value: Any
    start: int
    end: int


def decode_line(data: bytes, fields: Sequence[Field], zone: str) -> list[list[Any]]:
    """The rows of a line: one for an object, those of an array of objects, none for a blank line.

    Raises `Mismatch` for a bad record.
    """
    try:
        text = data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as failure:
        raise Mismatch(f"not UTF-8: {failure.reason} at byte {failure.start + 1}") from None
    at = _skip(text, 0)
    if at == len(text):
        return []
    try:
        if text[at] == "{":
            members, end = members_of(text, at)
            rows = [_row(text, members, fields, zone)]
        elif text[at] == "[":
            rows, end = _array(text, at, fields, zone)
        else:
            raise Mismatch(f"expected an object, found {text.strip(_BLANK)[:100]}")
    except (JSONDecodeError, StopIteration, RecursionError, ValueError) as failure:
        raise Mismatch(f"not JSON: {_reason(failure)}") from None
    if _skip(text, end) != len(text):
        raise Mismatch(f"text after the object: {text[end:].strip(_BLANK)[:100]}")
    return rows


def has_others(data: bytes, known: frozenset[str]) -> bool:
    """Whether a line, which is no bad record, may have values under other keys than those that are known."""
    try:
        found = json.loads(data) if data.strip() else []
    except (ValueError, RecursionError):
        return True
    records = found if isinstance(found, list) else [found]
    return any(
        key not in known and value is not None
        for record in records
        if isinstance(record, dict)
        for key, value in record.items()
    )


def _reason(failure: Exception) -> str:
    if isinstance(failure, JSONDecodeError):
        return f"{failure.msg[0].lower()}{failure.msg[1:]} at character {failure.pos + 1}"
    if isinstance(failure, StopIteration):
        return f"no value at character {int(failure.value) + 1}"
    return "nested too deep" if isinstance(failure, RecursionError) else str(failure)


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in _BLANK:
        at += 1
    return at


def members_of(text: str, at: int) -> tuple[list[Member], int]:
    """The members of the object at `at`, and where it ends."""
    members: list[Member] = []
    at = _skip(text, at + 1)
    if text[at : at + 1] == "}":
        return members, at + 1
    while True:
        if text[at : at + 1] != '"':
            raise JSONDecodeError("Expecting a key in double quotes", text, at)
        key, at = scanstring(text, at + 1, True)
        at = _skip(text, at)
        if text[at : at + 1] != ":":
            raise JSONDecodeError("Expecting ':'", text, at)
        start = _skip(text, at + 1)
        value, end = _value(text, start)
        members.append(Member(key, value, start, end))
        at = _skip(text, end)
        if text[at : at + 1] == "}":
            return members, at + 1
        if text[at : at + 1] != ",":
            raise JSONDecodeError("Expecting ',' or '}'", text, at)
        at = _skip(text, at + 1)


def _value(text: str, start: int) -> tuple[Any, int]:
    for word in _WORDS:
        if text.startswith(word, start) and not text.startswith("-Infinity", start):
            return float(word.replace("INF", "inf")), start + len(word)
    return _SCAN(text, start)


def _array(text: str, at: int, fields: Sequence[Field], zone: str) -> tuple[list[list[Any]], int]:
    rows: list[list[Any]] = []
    at = _skip(text, at + 1)
    if text[at : at + 1] == "]":
        return rows, at + 1
    while True:
        if text[at : at + 1] != "{":
            raise Mismatch(f"expected an object in the array, found {text[at : at + 50]}")
        members, end = members_of(text, at)
        rows.append(_row(text, members, fields, zone))
        at = _skip(text, end)
        if text[at : at + 1] == "]":
            return rows, at + 1
        if text[at : at + 1] != ",":
            raise JSONDecodeError("Expecting ',' or ']'", text, at)
        at = _skip(text, at + 1)


def _row(text: str, members: list[Member], fields: Sequence[Field], zone: str) -> list[Any]:
    values: dict[str, list[Member]] = {}
    for member in members:
        values.setdefault(member.key, []).append(member)
    row: list[Any] = []
    for field in fields:
        found = values.get(field.name)
        if found is None:
            if not field.nullable:
                raise field.missing()
            row.append(None)
            continue
        # Each of doubled keys must be right; the last one counts.
        row.append([from_json(field, m.value, text[m.start : m.end], zone) for m in found][-1])
    return row
