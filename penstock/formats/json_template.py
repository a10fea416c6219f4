"""JSON Lines whose lines are all of one shape, as programs write them: cut at the commas, then checked.

The shape is that of one line: its keys in their order, the blanks between them, and which values are in
quotes. A line that has it, and in which nothing needs a closer look, is decoded here; the others are left.
Nothing is assumed: each byte of a decoded line is a byte of the shape, or part of a value that was checked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pv

from penstock.formats.bulk import Mask, decide, either, not_json_number, spans, truth
from penstock.formats.decoding import is_utf8, table_of
from penstock.formats.json_line import members_of
from penstock.formats.kinds import Field

_TRIES = 20
_NO_END = 1 << 30
"""Arrow's binary_slice takes no end for one, but fails on it."""
_WORDS = ("true", "false", "null")


@dataclass(frozen=True)
class Part:
    """What stands between two commas: a key, and a value between a prefix and a suffix."""

    key: str
    prefix: bytes
    suffix: bytes
    quoted: bool
    word: bool
    """Whether the value is `true`, `false` or `null`, and no number."""

    @property
    def null(self) -> bytes:
        """The part when its value is null."""
        if self.quoted:
            return self.prefix[:-1] + b"null" + self.suffix[1:]
        return self.prefix + b"null" + self.suffix


def shape_of(lines: Sequence[bytes]) -> tuple[Part, ...] | None:
    """The shape of the first line that has one."""
    for line in lines:
        shape = _shape(line)
        if shape is not None:
            return shape
    return None


def _shape(line: bytes) -> tuple[Part, ...] | None:
    try:
        text = line.decode("ascii")
        members, end = members_of(text, 0) if text.startswith("{") else ([], 0)
    except (ValueError, StopIteration, RecursionError):
        return None
    keys = {member.key for member in members}
    if not members or len(keys) != len(members) or "\\" in text or text[end:].strip():
        return None
    if text.count(",") != len(members) - 1 or any(isinstance(m.value, (dict, list)) for m in members):
        return None
    parts, start = [], 0
    for member in members:
        comma = text.find(",", member.end)
        stop = comma if comma >= 0 else len(text)
        quoted = isinstance(member.value, str)
        word = member.value is None or isinstance(member.value, bool)
        prefix, suffix = text[start : member.start + quoted], text[member.end - quoted : stop]
        parts.append(Part(member.key, prefix.encode(), suffix.encode(), quoted, word))
        start = stop + 1
    return tuple(parts)


class Template:
    """Decodes chunks in which most lines have the shape of an early one."""

    def __init__(self, fields: Sequence[Field], zone: str) -> None:
        self._fields = fields
        self._zone = zone

    def decode(self, data: bytes) -> tuple[pa.Table, np.ndarray, np.ndarray] | None:
        """The rows of the lines that have the shape, their numbers, and the numbers of the lines left.

        None when the chunk has no shape, or too few lines have it.
        """
        head = data[: 1 << 16].split(b"\n", _TRIES)[:_TRIES]
        shape = shape_of([line.removesuffix(b"\r") for line in head]) if is_utf8(data) else None
        if shape is None:
            return None
        columns, left = _cut(data, len(shape))
        lines = len(columns[0]) + len(left)
        if len(left) * 4 > lines:
            return None
        values, doubtful = self._values(shape, columns, lines - len(left))
        numbers = np.delete(np.arange(lines), left) if len(left) else np.arange(lines)
        table = table_of(self._fields, values, len(numbers))
        if doubtful.any():
            left = np.union1d(left, numbers[doubtful])
            table, numbers = table.filter(pa.array(~doubtful)), numbers[~doubtful]
        return table, numbers, left

    def _values(
        self, shape: tuple[Part, ...], columns: list[pa.BinaryArray], rows: int
    ) -> tuple[list[pa.Array], Mask]:
        """The arrays of the fields, and which rows need a closer look."""
        doubtful = np.zeros(rows, bool)
        wanted = {field.name: field for field in self._fields}
        found: dict[str, pa.Array] = {}
        for part, column in zip(shape, columns, strict=True):
            inside, shaped, nulls = _between(part, column)
            field = wanted.get(part.key)
            if field is None:
                undecided = _undecided_unused(part, inside)
            else:
                found[part.key], undecided = self._decide(part, field, inside)
            if not part.quoted and (part.word or undecided is not None):
                nulls = truth(pc.equal(inside, "null"))
                undecided = None if undecided is None else undecided & ~nulls
            if nulls is not None and field is not None:
                found[part.key] = pc.if_else(pa.array(nulls), None, found[part.key])
                if not field.nullable:
                    undecided = either(undecided, nulls)
            if part.quoted:
                undecided = either(undecided, _needs_reading(inside))
            for mask in (undecided, None if shaped is None else ~shaped):
                if mask is not None:
                    doubtful |= mask
        arrays = []
        for field in self._fields:
            if field.name not in found and not field.nullable:
                doubtful[:] = True
            arrays.append(found[field.name] if field.name in found else pa.nulls(rows, field.kind.arrow()))
        return arrays, doubtful

    def _decide(self, part: Part, field: Field, inside: pa.StringArray) -> tuple[pa.Array, Mask | None]:
        kind = field.kind
        if part.quoted:
            if kind.text or kind.name in ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "DECIMAL"):
                return decide(inside, kind, self._zone)
        elif kind.text:
            # Whatever is not in quotes stands in a text column as it was written.
            array, undecided = decide(inside, kind, self._zone)
            return array, either(undecided, _undecided_unused(part, inside))
        elif kind.name not in ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ"):
            return decide(inside, kind, self._zone, json=True)
        return pa.nulls(len(inside), kind.arrow()), truth(pc.is_valid(inside))


def _cut(data: bytes, width: int) -> tuple[list[pa.BinaryArray], np.ndarray]:
    """The parts between commas of the lines that have `width` of them, and the numbers of the others."""
    others: list[int] = []

    def leave(row: pv.InvalidRow) -> str:
        others.append(row.number - 1)
        return "skip"

    names = [str(i) for i in range(width)]
    table = pv.read_csv(
        pa.BufferReader(data),
        pv.ReadOptions(use_threads=False, column_names=names, block_size=len(data) + 1),
        pv.ParseOptions(quote_char=False, ignore_empty_lines=False, invalid_row_handler=leave),
        pv.ConvertOptions(column_types=dict.fromkeys(names, pa.binary())),
    )
    arrays = [c.chunk(0) if c.num_chunks == 1 else c.combine_chunks() for c in table.columns]
    return arrays, np.array(others, np.int64)


def _between(part: Part, column: pa.BinaryArray) -> tuple[pa.StringArray, Mask | None, Mask | None]:
    """The values of a part as text, which rows have its prefix and suffix (None: all), and which are null."""
    around = len(part.prefix) + len(part.suffix)
    shaped = pc.starts_with(column, part.prefix)
    if part.suffix:
        shaped = pc.and_(shaped, pc.ends_with(column, part.suffix))
    if int(np.diff(np.frombuffer(column.buffers()[1], np.int32)).min(initial=around)) < around:
        shaped = pc.and_(shaped, pc.greater_equal(pc.binary_length(column), around))
    nulls = None
    if part.quoted and not pc.all(shaped).as_py():
        null = pc.equal(column, pa.scalar(part.null))
        column, shaped, nulls = pc.if_else(null, None, column), pc.or_(shaped, null), truth(null)
    inside = pc.binary_slice(column, len(part.prefix), -len(part.suffix) if part.suffix else _NO_END)
    all_shaped = pc.all(shaped).as_py()
    # The chunk is UTF-8, and parts are cut at ASCII only.
    text = pa.StringArray.from_buffers(
        len(inside), *inside.buffers()[1:], inside.buffers()[0], inside.null_count
    )
    return text, None if all_shaped else truth(shaped), nulls


def _needs_reading(inside: pa.StringArray) -> Mask | None:
    """Texts with a quote, a backslash, or what JSON does not take in quotes; None when there are none."""
    data, starts = spans(inside)
    used = data[starts[0] : starts[-1]]
    if not len(used):
        return None
    whole = used.tobytes()
    if used.min() >= 32 and b'"' not in whole and b"\\" not in whole:
        return None
    odd = np.flatnonzero((used < 32) | (used == ord('"')) | (used == ord("\\"))) + starts[0]
    mask = np.zeros(len(inside), bool)
    mask[np.searchsorted(starts, odd, "right") - 1] = True
    return mask


def _undecided_unused(part: Part, inside: pa.StringArray) -> Mask | None:
    """Rows whose value, of a column that is not used, may be no JSON."""
    if part.quoted:
        return None
    if part.word:
        known = pc.is_in(inside, pa.array(_WORDS))
        return None if pc.all(known).as_py() else ~truth(known)
    return not_json_number(inside)
