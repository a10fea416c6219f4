"""Chunks of CSV -> rows: by Arrow's reader where quotes stand as they should, else by the reference."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pv

from penstock.formats.lines.bulk import Mask, decide, truth
from penstock.formats.lines.csv_record import Dialect, Layout, Value, decode_record, decode_value, skipped
from penstock.formats.lines.decoding import Bad, Decoded, is_utf8, line_starts, table_of, with_newlines
from penstock.formats.lines.kinds import Field, Mismatch, build

_BLANK = np.zeros(256, bool)
_BLANK[:33] = True
_WRONG = object()


class CsvRows:
    """Decodes chunks of CSV without headers. Records are lines, or what quotes make of them."""

    def __init__(self, fields: Sequence[Field], zone: str, dialect: Dialect) -> None:
        self._fields = fields
        self._zone = zone
        self._dialect = dialect
        self._quote = ord(dialect.quote) if dialect.quote else -1
        self._bulk = len(dialect.delimiter) == 1 and dialect.delimiter.isascii()

    def decode(self, data: bytes, detail: Any) -> Decoded:
        layout = Layout(detail[0], tuple(detail[1]))
        if not self._dialect.multiline:
            data = with_newlines(data)
        raw = np.frombuffer(data, np.uint8)
        quotes = np.flatnonzero(raw == self._quote) if self._has_quotes(data) else np.empty(0, np.int64)
        starts = self._record_starts(data, quotes)
        skip = self._skipped(data, raw, starts)
        irregular = self._irregular(data, raw, starts, quotes) & ~skip
        decoded = Decoded()
        regular = ~(skip | irregular)
        if regular.any():
            irregular |= self._by_arrow(data, starts, regular, layout, decoded)
        self._exactly(data, starts, np.flatnonzero(irregular), layout, decoded)
        if self._dialect.multiline:
            lines = np.concatenate(([0], np.cumsum(raw == ord("\n"))))
            decoded.bad = [
                Bad(b.record, int(lines[starts[b.record]]), b.payload, b.error) for b in decoded.bad
            ]
        return decoded

    def _has_quotes(self, data: bytes) -> bool:
        return self._quote >= 0 and self._dialect.quote.encode() in data

    def _record_starts(self, data: bytes, quotes: np.ndarray) -> np.ndarray:
        starts = line_starts(data)
        if not self._dialect.multiline or not len(quotes):
            return starts
        open_quotes = np.searchsorted(quotes, starts, "left") % 2 == 1
        open_quotes[-1] = False
        records: np.ndarray = starts[~open_quotes]
        return records

    def _skipped(self, data: bytes, raw: np.ndarray, starts: np.ndarray) -> Mask:
        first = raw[starts[:-1]]
        candidate = _BLANK[first]
        if self._dialect.comment:
            candidate |= first == ord(self._dialect.comment)
        skip = np.zeros(len(first), bool)
        for number in np.flatnonzero(candidate).tolist():
            line = data[starts[number] : starts[number + 1]].decode("utf-8", "replace")
            skip[number] = skipped(line, self._dialect)
        return skip

    def _irregular(self, data: bytes, raw: np.ndarray, starts: np.ndarray, quotes: np.ndarray) -> Mask:
        """Records that Arrow and Spark may cut differently: odd quotes, escapes, bytes that are no UTF-8."""
        odd = np.zeros(len(starts) - 1, bool)
        if not self._bulk:
            odd[:] = True
        if len(quotes) and self._bulk:
            self._odd_quotes(raw, starts, quotes, odd)
            escape = self._dialect.escape
            if escape and not self._dialect.doubled and escape.encode() in data:
                _mark(odd, np.flatnonzero(raw == ord(escape)), starts)
        if not is_utf8(data):
            odd |= np.array([not is_utf8(data[i:j]) for i, j in pairwise(starts.tolist())])
        return odd

    def _odd_quotes(self, raw: np.ndarray, starts: np.ndarray, quotes: np.ndarray, odd: Mask) -> None:
        records = np.searchsorted(starts, quotes, "right") - 1
        counts = np.bincount(records, minlength=len(odd))
        odd |= counts % 2 == 1
        firsts = np.cumsum(counts) - counts
        opens = (np.arange(len(quotes)) - firsts[records]) % 2 == 0
        padded = np.concatenate((raw, np.array([ord("\n")], np.uint8)))
        before, after = padded[quotes - 1], padded[quotes + 1]
        delimiter = ord(self._dialect.delimiter)
        edge_before = (before == delimiter) | (quotes == starts[records])
        edge_after = (after == delimiter) | (after == ord("\n")) | (after == ord("\r"))
        if self._dialect.doubled:
            edge_before |= before == self._quote
            edge_after |= after == self._quote
        odd[records[np.where(opens, ~edge_before, ~edge_after)]] = True

    def _by_arrow(
        self, data: bytes, starts: np.ndarray, regular: Mask, layout: Layout, decoded: Decoded
    ) -> Mask:
        """Adds the rows of regular records; gives those that have another number of values."""
        numbers = np.flatnonzero(regular)
        if len(numbers) < len(regular):
            data = b"".join([data[starts[n] : starts[n + 1]] for n in numbers.tolist()])
        table, others = _read(data, layout, self._dialect)
        left = np.zeros(len(regular), bool)
        if others:
            left[numbers[others]] = True
            numbers = np.delete(numbers, others)
        arrays, errors = self._convert(table, layout)
        rows = table_of(self._fields, arrays, len(numbers))
        if errors:
            wrong = np.zeros(len(numbers), bool)
            wrong[list(errors)] = True
            left[numbers[wrong]] = True
            rows, numbers = rows.filter(pa.array(~wrong)), numbers[~wrong]
        if len(numbers):
            decoded.parts.append((rows, numbers))
        return left

    def _convert(self, table: pa.Table, layout: Layout) -> tuple[list[pa.Array], set[int]]:
        """The arrays of the fields, and the rows in which a value is wrong."""
        arrays: list[pa.Array] = []
        errors: set[int] = set()
        for field, position in zip(self._fields, layout.positions, strict=True):
            if position is None:
                arrays.append(pa.nulls(table.num_rows, field.kind.arrow()))
                continue
            texts = table.column(str(position)).combine_chunks()
            if self._dialect.null_value:
                texts = pc.if_else(pc.equal(texts, self._dialect.null_value), None, texts)
            array, undecided = decide(texts, field.kind, self._zone)
            if undecided is not None:
                array = self._closely(field, texts, array, undecided, errors)
            if not field.nullable:
                errors.update(np.flatnonzero(truth(pc.is_null(array))).tolist())
            arrays.append(array)
        return arrays, errors

    def _closely(
        self, field: Field, texts: pa.StringArray, array: pa.Array, undecided: Mask, errors: set[int]
    ) -> pa.Array:
        rows = np.flatnonzero(undecided).tolist()
        values = [self._value(field, text) for text in texts.take(pa.array(rows, pa.int64())).to_pylist()]
        errors.update(row for row, value in zip(rows, values, strict=True) if value is _WRONG)
        values = [None if value is _WRONG else value for value in values]
        return pc.replace_with_mask(array, pa.array(undecided), build(field, values))

    def _value(self, field: Field, text: str) -> Any:
        try:
            return decode_value(field, Value(text, True), self._dialect, self._zone)
        except Mismatch:
            return _WRONG

    def _exactly(
        self, data: bytes, starts: np.ndarray, numbers: np.ndarray, layout: Layout, decoded: Decoded
    ) -> None:
        rows, kept = [], []
        for number in numbers.tolist():
            record = data[starts[number] : starts[number + 1]]
            try:
                rows.append(decode_record(record, self._fields, layout, self._dialect, self._zone))
                kept.append(number)
            except Mismatch as failure:
                decoded.bad.append(Bad.of(number, record, failure))
        decoded.add(self._fields, rows, kept)


def _read(data: bytes, layout: Layout, dialect: Dialect) -> tuple[pa.Table, list[int]]:
    """The used columns as text, and the numbers of records that have another number of values."""
    others: list[int] = []

    def leave(row: pv.InvalidRow) -> str:
        others.append(row.number - 1)
        return "skip"

    names = [str(i) for i in range(layout.width)]
    used = sorted({names[p] for p in layout.positions if p is not None}) or names[:1]
    table = pv.read_csv(
        pa.BufferReader(data),
        pv.ReadOptions(use_threads=False, column_names=names, block_size=len(data) + 1),
        pv.ParseOptions(
            delimiter=dialect.delimiter,
            quote_char=dialect.quote or False,
            double_quote=dialect.doubled,
            newlines_in_values=dialect.multiline,
            ignore_empty_lines=False,
            invalid_row_handler=leave,
        ),
        pv.ConvertOptions(
            include_columns=used,
            column_types=dict.fromkeys(used, pa.string()),
            strings_can_be_null=True,
            null_values=[""],
            quoted_strings_can_be_null=False,
            check_utf8=False,
        ),
    )
    return table, others


def _mark(mask: Mask, positions: np.ndarray, starts: np.ndarray) -> None:
    mask[np.searchsorted(starts, positions, "right") - 1] = True
