"""What decoders give: rows with their records' numbers, and the records that are bad."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.formats.lines.kinds import Field, build


@dataclass(frozen=True)
class Bad:
    """A record that cannot be read."""

    record: int
    """Its number in the chunk, from 0; blank lines have numbers too."""
    line: int
    """The lines of the chunk before it."""
    payload: str
    error: str

    @classmethod
    def of(cls, record: int, data: bytes, failure: Exception) -> Bad:
        """A line, or what quotes make of lines, that failed."""
        payload = data.rstrip(b"\r\n").decode("utf-8", "replace")
        # Half of a surrogate pair may be quoted in the error.
        return cls(record, record, payload, str(failure).encode("utf-8", "replace").decode())


@dataclass
class Decoded:
    """The rows of a chunk."""

    parts: list[tuple[pa.Table, np.ndarray]] = field(default_factory=list)
    """Tables, each with the number of its rows' records."""
    bad: list[Bad] = field(default_factory=list)
    strange: bool = False
    """Whether a record may have other keys than those that were known, where any were."""

    def add(self, fields: Sequence[Field], rows: Sequence[Sequence[Any]], records: Sequence[int]) -> None:
        """Adds rows that were decoded one by one, and the numbers of their records."""
        if rows:
            columns = zip(*rows, strict=True) if fields else ()
            arrays = [build(field, list(values)) for field, values in zip(fields, columns, strict=True)]
            self.parts.append((table_of(fields, arrays, len(rows)), np.array(records)))

    def table(self, fields: Sequence[Field]) -> tuple[pa.Table, np.ndarray]:
        """All rows in the order of their records, and the records' numbers."""
        if len(self.parts) == 1:
            return self.parts[0]
        if not self.parts:
            return table_of(fields, [pa.nulls(0, f.kind.arrow()) for f in fields], 0), np.empty(0, np.int64)
        table = pa.concat_tables([part for part, _ in self.parts])
        records = np.concatenate([numbers for _, numbers in self.parts])
        order = np.argsort(records, kind="stable")
        return table.take(pa.array(order)), records[order]


def with_bad(
    table: pa.Table, records: np.ndarray, bads: Sequence[Bad]
) -> tuple[pa.Table, np.ndarray, np.ndarray]:
    """The rows with one of nulls for each bad record, in the order of records.

    With the records' numbers, and which rows are bad.
    """
    empty = pa.Table.from_arrays(
        [pa.nulls(len(bads), field.type) for field in table.schema], schema=table.schema
    )
    numbers = np.concatenate((records, np.array([bad.record for bad in bads], np.int64)))
    order = np.argsort(numbers, kind="stable")
    return pa.concat_tables([table, empty]).take(pa.array(order)), numbers[order], order >= len(records)


def schema_of(fields: Sequence[Field]) -> pa.Schema:
    """The Arrow schema of decoded fields. Names are numbers: a field's own may be no good name for Arrow."""
    return pa.schema([(str(i), f.kind.arrow()) for i, f in enumerate(fields)])


def table_of(fields: Sequence[Field], arrays: Sequence[pa.Array], rows: int) -> pa.Table:
    """A table of decoded arrays; with a column of nulls when there are none, so that rows are counted."""
    if fields:
        return pa.Table.from_arrays(list(arrays), schema=schema_of(fields))
    return pa.table({"rows": pa.nulls(rows)})


def line_starts(data: bytes) -> np.ndarray:
    """Where each line begins, and where the last one ends."""
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n")) + 1
    if data and not data.endswith(b"\n"):
        ends = np.append(ends, len(data))
    return np.concatenate(([0], ends))


def with_newlines(data: bytes) -> bytes:
    """`data` with a newline for each carriage return that ends a line alone."""
    if b"\r" not in data:
        return data
    raw = np.frombuffer(data, np.uint8)
    returns = np.flatnonzero(raw == ord("\r"))
    if returns[-1] + 1 < len(raw) and (raw[returns + 1] == ord("\n")).all():
        return data
    return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def lines_of(data: bytes, starts: np.ndarray) -> pa.StringArray:
    """The lines as an array, line ends included, without a copy."""
    offsets = pa.py_buffer(starts.astype(np.int32))
    return pa.StringArray.from_buffers(len(starts) - 1, offsets, pa.py_buffer(data))


def is_utf8(data: bytes) -> bool:
    """Whether these bytes are UTF-8 text."""
    if data.isascii():
        return True
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
