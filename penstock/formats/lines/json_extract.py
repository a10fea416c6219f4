"""JSON Lines of any shape, by DuckDB: every value that is wanted as its own JSON text, then checked.

DuckDB takes a little more for JSON than Spark does, and the first of doubled keys where Spark takes the
last; the lines where that may matter are left to the reference.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.formats.lines.bulk import Mask, decide, either, truth
from penstock.formats.lines.decoding import lines_of, table_of
from penstock.formats.lines.json_oddities import odd_lines
from penstock.formats.lines.kinds import BITS, Field

_SINGLE_KEYS = """
    SELECT len(keys) = len(list_distinct(keys))
    FROM (SELECT CASE WHEN json_valid(line) THEN json_keys(line) END keys FROM lines)
"""


class Extractor:
    """Decodes lines; its DuckDB is started by the first ones."""

    def __init__(self, fields: Sequence[Field], zone: str) -> None:
        self._fields = fields
        self._zone = zone
        self._connection: Any = None
        pointers = ["/" + f.name.replace("~", "~0").replace("/", "~1") for f in fields] or ["/"]
        quoted = ", ".join("'" + p.replace("'", "''") + "'" for p in pointers)
        self._query = f"SELECT json_extract(line, [{quoted}]) FROM lines"  # noqa: S608 - it is quoted
        self._keys = [f.name.encode() for f in fields]

    def decode(
        self, data: bytes, starts: np.ndarray, numbers: np.ndarray
    ) -> tuple[pa.Table, np.ndarray, np.ndarray]:
        """The rows of these lines, their numbers, and the numbers of the lines that are left."""
        if len(numbers) < len(starts) - 1:
            data = b"".join([data[starts[n] : starts[n + 1]] for n in numbers.tolist()])
            starts = np.concatenate(([0], np.cumsum(np.diff(starts)[numbers])))
        lines = lines_of(data, starts)
        odd, doubled = odd_lines(data, starts, self._keys)
        if (doubled & ~odd).any():
            odd |= self._really_doubled(lines, doubled & ~odd)
        sound = lines.filter(pa.array(~odd)) if odd.any() else lines
        values, unsound = self._values(sound)
        fine = np.flatnonzero(~odd)[~unsound]
        values = (
            values.filter(pa.array(np.repeat(~unsound, max(1, len(self._fields)))))
            if unsound.any()
            else values
        )
        arrays, doubtful = self._columns(values, len(fine))
        table = table_of(self._fields, arrays, len(fine))
        if doubtful.any():
            table, fine = table.filter(pa.array(~doubtful)), fine[~doubtful]
        left = np.ones(len(numbers), bool)
        left[fine] = False
        return table, numbers[fine], numbers[left]

    def _really_doubled(self, lines: pa.StringArray, suspects: Mask) -> Mask:
        """Lines among `suspects` with a key twice in the outer object; and those that are no JSON."""
        some = lines.filter(pa.array(suspects))
        single = self._run(_SINGLE_KEYS, some)
        doubled = suspects.copy()
        doubled[suspects] = ~truth(single)
        return doubled

    def _values(self, lines: pa.StringArray) -> tuple[pa.StringArray, Mask]:
        """The values of all lines one after the other, and which lines are no JSON."""
        from duckdb import Error

        unsound = np.zeros(len(lines), bool)
        try:
            return self._run(self._query, lines), unsound
        except Error:
            valid = self._run("SELECT json_valid(line) FROM lines", lines)
            unsound = ~truth(valid)
        values = self._run(self._query, pc.if_else(pa.array(unsound), "{}", lines))
        return values, unsound

    def _run(self, query: str, lines: pa.StringArray) -> pa.Array:
        if self._connection is None:
            import duckdb

            self._connection = duckdb.connect(config={"threads": 1})
        relation = self._connection.from_arrow(pa.table({"line": lines}))
        column = relation.query("lines", query).to_arrow_table().column(0).combine_chunks()
        return column.flatten() if pa.types.is_list(column.type) else column

    def _columns(self, values: pa.StringArray, rows: int) -> tuple[list[pa.Array], Mask]:
        doubtful = np.zeros(rows, bool)
        arrays = []
        for position, field in enumerate(self._fields):
            texts = values.take(pa.array(np.arange(position, rows * len(self._fields), len(self._fields))))
            null = pc.equal(texts, "null")
            if pc.any(null).as_py():
                texts = pc.if_else(null, None, texts)
            array, undecided = self._decide(field, texts)
            if not field.nullable:
                undecided = either(undecided, truth(pc.is_null(texts)))
            if undecided is not None:
                doubtful |= undecided
            arrays.append(array)
        return arrays, doubtful

    def _decide(self, field: Field, texts: pa.StringArray) -> tuple[pa.Array, Mask | None]:
        kind = field.kind
        if kind.name in BITS or kind.name in ("BOOLEAN", "DOUBLE", "FLOAT"):
            return decide(texts, kind, self._zone, json=True)
        # The others stand in quotes; numbers for them are the reference's.
        quoted = pc.starts_with(texts, '"')
        escaped = pc.match_substring(texts, "\\")
        plain = pc.and_(quoted, pc.invert(escaped))
        inside = pc.if_else(plain, pc.utf8_slice_codeunits(texts, 1, -1), None)
        if kind.text and pc.any(escaped).as_py():
            both = pc.and_(quoted, escaped)
            inside = pc.if_else(both, self._unescaped(pc.if_else(both, texts, None)), inside)
        undecided = truth(pc.is_valid(texts)) & ~truth(pc.is_valid(inside))
        array, more = decide(inside, kind, self._zone)
        return array, either(undecided, more)

    def _unescaped(self, texts: pa.StringArray) -> pa.StringArray:
        return self._run("SELECT json_extract_string(line, '$') FROM lines", texts)
