"""JSON Lines of few shapes, as programs write them: found by their quotes, then checked.

The shape of a line is its text without its values: the keys in their order, what stands between them, and
which values are in quotes. Lines that have the shape of one seen before, and in which nothing needs a closer
look, are decoded here, many at once; the others are left. Nothing is assumed: each byte of a decoded line is
a byte of the shape, or of a value that was checked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.formats.lines.bulk import Mask, decide, either, not_json_number, truth
from penstock.formats.lines.decoding import Decoded, is_utf8, table_of
from penstock.formats.lines.json_line import Member, members_of
from penstock.formats.lines.kinds import Field

_QUOTE, _NEWLINE, _BACKSLASH = 34, 10, 92
_FIRST_PRINTABLE = 32
_MOST_SHAPES = 16
_TRIES = 20
"""Lines of a chunk that are looked at for a new shape."""
_WORDS = ("true", "false", "null")
_IN_QUOTES = ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ")

Edges = list[tuple[np.ndarray, np.ndarray]]
"""For each value of a shape, where it begins and where it ends in each line."""


@dataclass(frozen=True)
class Fixed:
    """Text that is the same in all lines of a shape, and where it stands: so far before one of the marks."""

    text: bytes
    mark: int
    before: int


@dataclass(frozen=True)
class Value:
    """What differs: a value between two fixed texts."""

    key: str
    quoted: bool
    word: bool = field(compare=False)
    """Whether it was `true`, `false` or `null`, and no number, where the shape was seen first."""


@dataclass(frozen=True)
class Shape:
    """Fixed texts, and the values between them: one less."""

    fixed: tuple[Fixed, ...]
    values: tuple[Value, ...]
    marks: bytes


class Lines:
    """A chunk of whole lines with the places of their marks: quotes, and all that is not printable."""

    def __init__(self, data: bytes) -> None:
        self.data = data = data if data.endswith(b"\n") else data + b"\n"
        self._bytes = np.frombuffer(data, np.uint8)
        # The quote, number 34, becomes 32; blank and exclamation mark, 32 and 33, become 34 and 35.
        self._marks = np.flatnonzero((self._bytes ^ np.uint8(2)) <= _FIRST_PRINTABLE)
        self._kinds = self._bytes[self._marks]
        self._last = np.flatnonzero(self._kinds == _NEWLINE)
        """Which mark ends each line."""
        self.starts = np.concatenate(([0], self._marks[self._last] + 1))
        """Where each line begins, and where the last one ends."""

    def __len__(self) -> int:
        return len(self._last)

    @cached_property
    def _first(self) -> np.ndarray:
        """Which mark is the first of each line."""
        return np.concatenate(([0], self._last[:-1] + 1))

    @cached_property
    def escaped(self) -> Mask | None:
        """Which lines have a backslash; None when none has."""
        if b"\\" not in self.data:
            return None
        lines = np.zeros(len(self), bool)
        lines[np.searchsorted(self.starts, np.flatnonzero(self._bytes == _BACKSLASH), "right") - 1] = True
        return lines

    def line(self, number: int) -> bytes:
        return self.data[self.starts[number] : self.starts[number + 1]]

    def shaped(self, shape: Shape, numbers: np.ndarray) -> tuple[np.ndarray, Edges]:
        """Those of the lines that have the shape, and where its values begin and end in them."""
        numbers, marks = self._marked_as(shape.marks, numbers)
        places = [marks[:, fixed.mark] - fixed.before for fixed in shape.fixed]
        edges = [
            (place + len(fixed.text), end)
            for fixed, place, end in zip(shape.fixed, places, places[1:], strict=False)
        ]
        fits = places[0] == self.starts[numbers]
        for starts, ends in edges:
            fits &= starts <= ends
        for fixed, place in zip(shape.fixed, places, strict=True):
            # What does not fit may have its places anywhere.
            fits[fits] = self._have(fixed.text, place if fits.all() else place[fits])
        if fits.all():
            return numbers, edges
        return numbers[fits], [(starts[fits], ends[fits]) for starts, ends in edges]

    def _marked_as(self, marks: bytes, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Those of the lines that have these marks, and the places of these in each of them."""
        wanted, width = np.frombuffer(marks, np.uint8), len(marks)
        regular = len(numbers) == len(self) and len(self._marks) == len(self) * width
        if regular and (self._kinds.reshape(-1, width) == wanted).all():
            return numbers, self._marks.reshape(-1, width)
        numbers = numbers[self._last[numbers] - self._first[numbers] == width - 1]
        which = self._first[numbers][:, None] + np.arange(width)
        same = (self._kinds[which] == wanted).all(axis=1)
        return numbers[same], self._marks[which[same]]

    def _have(self, text: bytes, places: np.ndarray) -> Mask:
        """Whether `text` stands at these places."""
        inside = places <= len(self.data) - len(text)
        if not inside.all():
            found = np.zeros(len(places), bool)
            found[inside] = self._have(text, places[inside])
            return found
        windows = np.ndarray((max(0, len(self.data) - len(text) + 1),), f"V{len(text)}", self.data, 0, (1,))
        same = windows[places].view(np.uint8) == np.frombuffer(text * len(places), np.uint8)
        return np.ones(len(places), bool) if same.all() else same.reshape(-1, len(text)).all(axis=1)

    def texts(self, starts: np.ndarray, ends: np.ndarray) -> pa.StringArray:
        """The texts between these places."""
        edges = np.empty(2 * len(starts), np.int32)
        edges[0::2], edges[1::2] = starts, ends
        all_text = pa.StringArray.from_buffers(len(edges) - 1, pa.py_buffer(edges), pa.py_buffer(self.data))
        return all_text.take(pa.array(np.arange(0, len(edges), 2)))


def shape_of(line: bytes) -> Shape | None:
    """The shape of a line, end included; None when it has none that can be used."""
    try:
        text = line.decode("ascii")
        members, end = members_of(text, 0) if text.startswith("{") else ([], 0)
    except (ValueError, StopIteration, RecursionError):
        return None
    keys = {member.key for member in members}
    if not members or len(keys) != len(members) or "\\" in text or text[end:].strip():
        return None
    if any(isinstance(member.value, (dict, list)) for member in members):
        return None
    return Shape(
        tuple(_fixed(line, members)),
        tuple(Value(m.key, _is_quoted(m), m.value is None or isinstance(m.value, bool)) for m in members),
        _marks(line),
    )


def _is_quoted(member: Member) -> bool:
    return isinstance(member.value, str)


def _marks(text: bytes) -> bytes:
    return bytes(byte for byte in text if byte < _FIRST_PRINTABLE or byte == _QUOTE)


def _fixed(line: bytes, members: Sequence[Member]) -> list[Fixed]:
    """The texts before, between and behind the values.

    A place is told by the text's first mark. Behind a value in quotes that is the closing one; else it is in
    the text, since a key or the end of the line follows.
    """
    fixed, start, mark = [], 0, 0
    for member in members:
        text = line[start : member.start + _is_quoted(member)]
        fixed.append(_place(text, mark))
        mark += len(_marks(text))
        start = member.end - _is_quoted(member)
    return [*fixed, _place(line[start:], mark)]


def _place(text: bytes, mark: int) -> Fixed:
    before = next(i for i, byte in enumerate(text) if byte < _FIRST_PRINTABLE or byte == _QUOTE)
    return Fixed(text, mark, before)


class Shapes:
    """Decodes lines by the shapes that it has seen."""

    def __init__(self, fields: Sequence[Field], zone: str, keys: frozenset[str] | None = None) -> None:
        """Lines with values under other `keys` are told as strange."""
        self._fields = fields
        self._zone = zone
        self._keys = keys
        self._known: list[Shape] = []

    def decode(self, lines: Lines, decoded: Decoded) -> np.ndarray:
        """Adds the rows of lines that have a shape, and gives the numbers of the lines that are left."""
        left = np.arange(len(lines))
        if not is_utf8(lines.data):
            return left
        if lines.escaped is not None:
            left = left[~lines.escaped]
        for known in self._known:
            left = self._take(known, lines, left, decoded)
        while (shape := self._learn(lines, left)) is not None:
            left = self._take(shape, lines, left, decoded)
        return left if lines.escaped is None else np.union1d(left, np.flatnonzero(lines.escaped))

    def _learn(self, lines: Lines, left: np.ndarray) -> Shape | None:
        """The first new shape among lines."""
        if len(self._known) == _MOST_SHAPES:
            return None
        for number in left[:_TRIES].tolist():
            shape = shape_of(lines.line(number))
            if shape is not None and shape not in self._known:
                self._known.append(shape)
                return shape
        return None

    def _take(self, shape: Shape, lines: Lines, left: np.ndarray, decoded: Decoded) -> np.ndarray:
        """Decodes those of the lines that have the shape, and gives the others."""
        numbers, edges = lines.shaped(shape, left)
        if not len(numbers):
            return left
        if self._keys is not None and not decoded.strange:
            decoded.strange = self._has_others(shape, lines, edges, self._keys)
        arrays, undecided = self._arrays(shape, lines, edges)
        table = table_of(self._fields, arrays, len(numbers))
        if undecided is not None:
            table, numbers = table.filter(pa.array(~undecided)), numbers[~undecided]
        decoded.parts.append((table, numbers))
        return left[:0] if len(numbers) == len(left) else np.setdiff1d(left, numbers, assume_unique=True)

    def _has_others(self, shape: Shape, lines: Lines, edges: Edges, keys: frozenset[str]) -> bool:
        """Whether lines of a shape have values under other keys."""
        others = [(v, edge) for v, edge in zip(shape.values, edges, strict=True) if v.key not in keys]
        return any(v.quoted or not pc.all(pc.equal(lines.texts(*edge), "null")).as_py() for v, edge in others)

    def _arrays(self, shape: Shape, lines: Lines, edges: Edges) -> tuple[list[pa.Array], Mask | None]:
        """The arrays of the fields, and which rows need a closer look; None when none does."""
        rows = len(edges[0][0])
        found: dict[str, pa.Array] = {}
        undecided: Mask | None = None
        fields = {field.name: field for field in self._fields}
        for value, (starts, ends) in zip(shape.values, edges, strict=True):
            field = fields.get(value.key)
            if field is not None:
                found[value.key], doubts = self._decide(value, field, lines.texts(starts, ends))
                undecided = either(undecided, doubts)
            elif not value.quoted:
                undecided = either(undecided, _may_be_no_json(value, lines.texts(starts, ends)))
        for field in self._fields:
            if field.name not in found:
                found[field.name] = pa.nulls(rows, field.kind.arrow())
                undecided = undecided if field.nullable else np.ones(rows, bool)
        return [found[field.name] for field in self._fields], undecided

    def _decide(self, value: Value, field: Field, texts: pa.StringArray) -> tuple[pa.Array, Mask | None]:
        kind = field.kind
        if value.quoted:
            if kind.text or kind.name in (*_IN_QUOTES, "DECIMAL"):
                return decide(texts, kind, self._zone)
            return _none_of(texts, field)
        if kind.text:
            # Whatever is not in quotes stands in a text column as it was written.
            array, undecided = decide(texts, kind, self._zone)
            undecided = either(undecided, _may_be_no_json(value, texts))
        elif kind.name in _IN_QUOTES:
            array, undecided = _none_of(texts, field)
        else:
            array, undecided = decide(texts, kind, self._zone, json=True)
        if value.word or undecided is not None:
            nulls = pc.equal(texts, "null")
            array = pc.if_else(nulls, None, array)
            if field.nullable and undecided is not None:
                undecided = undecided & ~truth(nulls)
            elif not field.nullable:
                undecided = either(undecided, truth(nulls))
        return array, undecided


def _none_of(texts: pa.StringArray, field: Field) -> tuple[pa.Array, Mask]:
    return pa.nulls(len(texts), field.kind.arrow()), np.ones(len(texts), bool)


def _may_be_no_json(value: Value, texts: pa.StringArray) -> Mask | None:
    """Which of these, that stand without quotes, may be no JSON; None when all are."""
    if value.word and pc.all(pc.is_in(texts, pa.array(_WORDS))).as_py():
        return None
    odd = not_json_number(texts)
    return None if odd is None else odd & ~truth(pc.is_in(texts, pa.array(_WORDS)))
