"""One record of CSV, exactly: the reference that bulk decoding leaves its doubts to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from penstock.formats.lines.kinds import Field, Mismatch, from_text

_BLANK = "".join(map(chr, range(33)))


@dataclass(frozen=True)
class Dialect:
    """How values stand in a line."""

    delimiter: str = ","
    quote: str = '"'
    """Empty when there are no quotes."""
    escape: str = '"'
    """Before a quote within quotes."""
    null_value: str = ""
    comment: str = ""
    multiline: bool = False

    @property
    def doubled(self) -> bool:
        """Whether a quote within quotes is written twice."""
        return self.escape == self.quote


class Value(NamedTuple):
    text: str
    quoted: bool


class Layout(NamedTuple):
    """Where the fields stand in the records of a file."""

    width: int
    positions: tuple[int | None, ...]
    """None for a field that they lack, and that is null then."""


def skipped(text: str, dialect: Dialect) -> bool:
    """Whether a line is none of the data: blank, or a comment."""
    trimmed = text.strip(_BLANK)
    return not trimmed or bool(dialect.comment and trimmed.startswith(dialect.comment))


def split_record(text: str, dialect: Dialect) -> list[Value]:
    """The values of a record, without its line end."""
    values, at = [], 0
    while True:
        if dialect.quote and text.startswith(dialect.quote, at):
            value, at = _quoted(text, at, dialect)
        else:
            end = _end(text, at, dialect)
            value, at = Value(text[at:end], False), end
        values.append(value)
        if at >= len(text):
            return values
        at += len(dialect.delimiter)


def _end(text: str, at: int, dialect: Dialect) -> int:
    end = text.find(dialect.delimiter, at)
    return len(text) if end < 0 else end


def _quoted(text: str, start: int, dialect: Dialect) -> tuple[Value, int]:
    parts, at = [], start + 1
    while True:
        quote = text.find(dialect.quote, at)
        if quote < 0:
            hint = "" if dialect.multiline else "; with multiline = true a value may hold line ends"
            raise Mismatch(f"a quote is not closed{hint}")
        if not dialect.doubled and text[quote - 1] == dialect.escape and quote > at:
            parts.append(text[at : quote - 1] + dialect.quote)
            at = quote + 1
            continue
        if dialect.doubled and text.startswith(dialect.quote, quote + 1):
            parts.append(text[at : quote + 1])
            at = quote + 2
            continue
        behind = quote + 1
        while behind < len(text) and text[behind] in " \t" and text[behind] != dialect.delimiter:
            behind += 1
        if behind == len(text) or text.startswith(dialect.delimiter, behind):
            return Value("".join(parts) + text[at:quote], True), behind
        # A quote in the middle: the value is taken as it stands, quotes and all, up to the delimiter.
        end = _end(text, quote, dialect)
        return Value(text[start:end], False), end


def decode_record(
    data: bytes, fields: Sequence[Field], layout: Layout, dialect: Dialect, zone: str
) -> list[Any]:
    """The row of a record. Raises `Mismatch` for a bad one."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as failure:
        raise Mismatch(f"not UTF-8: {failure.reason} at byte {failure.start + 1}; set encoding") from None
    values = split_record(text.removesuffix("\n").removesuffix("\r"), dialect)
    if len(values) != layout.width:
        raise Mismatch(f"expected {layout.width} values, found {len(values)}")
    return [
        None if position is None else decode_value(field, values[position], dialect, zone)
        for field, position in zip(fields, layout.positions, strict=True)
    ]


def decode_value(field: Field, value: Value, dialect: Dialect, zone: str) -> Any:
    """A value in its column; nothing between delimiters is null, and so is the word for it."""
    nothing = not value.text and not (value.quoted and field.kind.text)
    if nothing or (dialect.null_value and value.text == dialect.null_value):
        if not field.nullable:
            raise field.missing()
        return None
    return from_text(field, value.text, zone)
