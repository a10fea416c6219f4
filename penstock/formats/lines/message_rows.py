"""Batches of messages -> batches of rows. Runs on workers only."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.formats.lines.bulk import truth
from penstock.formats.lines.csv_record import Layout, decode_record, skipped
from penstock.formats.lines.csv_rows import CsvRows
from penstock.formats.lines.decoding import Bad, Decoded, with_bad
from penstock.formats.lines.filters import Filters
from penstock.formats.lines.json_line import decode_line, has_others
from penstock.formats.lines.json_rows import JsonRows
from penstock.formats.lines.kinds import Field, Mismatch
from penstock.formats.lines.messages import VALUE
from penstock.formats.records import NOTHING, REJECTED, BadRecord, UnknownField, payload_of, place_of

if TYPE_CHECKING:
    from penstock.formats.lines.messages import MessageTask


class MessageRows:
    """Decodes batches as a task says."""

    def __init__(self, task: MessageTask, marks: bool) -> None:
        self._task = task
        self._marks = marks
        self._fields = [Field.of(column) for column in task.columns]
        self._filters = Filters(self._fields, task.conditions)
        self._layout = Layout(task.width, task.positions)
        self._bulk: Any = (
            JsonRows(self._fields, task.zone, task.known)
            if task.dialect is None
            else CsvRows(self._fields, task.zone, replace(task.dialect, multiline=False))
        )

    def of(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        decoded = self._decoded(batch.column(VALUE).cast(pa.binary()))
        if decoded.strange:
            raise UnknownField
        if self._task.mode == "rejects":
            yield from self._rejects(batch, decoded)
            return
        if decoded.bad and self._task.mode == "fail":
            first = min(decoded.bad, key=lambda bad: bad.record)
            place = place_of({name: batch.column(name)[first.record] for name in self._task.place})
            raise BadRecord(first.payload, first.error, place, None)
        table, records = decoded.table(self._fields)
        rejected = None
        if decoded.bad:
            table, records, rejected = with_bad(table, records, decoded.bad)
        yield from self._finished(batch, table, records, rejected)

    def _finished(
        self, batch: pa.RecordBatch, table: pa.Table, records: np.ndarray, rejected: np.ndarray | None
    ) -> Iterator[pa.RecordBatch]:
        columns = [column.combine_chunks() for column in table.columns[: len(self._fields)]]
        names = [field.name for field in self._fields]
        mask = self._filters.mask(columns)
        where = pa.array(records)
        for name in self._task.carried:
            columns.append(batch.column(name).take(where))
            names.append(name)
        if self._marks:
            columns.append(pa.array(rejected if rejected is not None else np.zeros(len(records), bool)))
            names.append(REJECTED)
        whole = pa.RecordBatch.from_arrays(columns, names)
        if mask is not None:
            # A bad record is none that a condition leaves out.
            whole = whole.filter(mask if rejected is None else pc.or_kleene(mask, pa.array(rejected)))
        if whole.num_rows:
            yield whole

    def _rejects(self, batch: pa.RecordBatch, decoded: Decoded) -> Iterator[pa.RecordBatch]:
        if decoded.bad:
            bad = sorted(decoded.bad, key=lambda bad: bad.record)
            where = pa.array([b.record for b in bad])
            payloads = [payload_of(v) for v in batch.column(VALUE).cast(pa.binary()).take(where).to_pylist()]
            yield pa.RecordBatch.from_arrays(
                [
                    pa.array([payload for payload, _ in payloads], pa.string()),
                    pa.array([encoding for _, encoding in payloads], pa.string()),
                    pa.array([b.error for b in bad], pa.string()),
                    *(batch.column(name).take(where) for name in self._task.carried),
                ],
                ["payload", "encoding", "error", *self._task.carried],
            )

    def _decoded(self, values: pa.BinaryArray) -> Decoded:
        """Rows and bad records by the numbers of their messages."""
        alone = truth(pc.is_null(values)) | (truth(pc.equal(pc.binary_length(values), 0)))
        joined = pc.binary_join_element_wise(pc.fill_null(values, b""), b"\n", b"")
        data = _bytes(joined)
        if data.count(b"\n") != len(values) or b"\r" in data:
            ends = truth(pc.match_substring_regex(values, r"[\r\n]"))
            alone |= ends
            joined = pc.if_else(pa.array(ends), b"\n", joined)
            data = _bytes(joined)
        decoded: Decoded = self._bulk.decode(data, self._layout)
        for number in np.flatnonzero(alone).tolist():
            self._alone(number, values[number].as_py(), decoded)
        self._blank(values, alone, decoded)
        return decoded

    def _alone(self, number: int, value: bytes | None, decoded: Decoded) -> None:
        if value is None:
            rows: list[list[Any]] = [[None] * len(self._fields)]
            missing = next((field for field in self._fields if not field.nullable), None)
            if missing is not None:
                decoded.bad.append(Bad.of(number, b"", missing.missing()))
                return
        else:
            try:
                rows = self._exactly(value)
            except Mismatch as failure:
                decoded.bad.append(Bad.of(number, value, failure))
                return
            if self._task.known is not None and not decoded.strange:
                decoded.strange = has_others(value, self._task.known)
        decoded.add(self._fields, rows, [number] * len(rows))

    def _exactly(self, value: bytes) -> list[list[Any]]:
        dialect = self._task.dialect
        if dialect is None:
            rows = decode_line(value, self._fields, self._task.zone)
            if not rows and not value.strip():
                raise Mismatch(NOTHING)
            return rows
        if skipped(value.decode("utf-8", "replace"), dialect):
            raise Mismatch(NOTHING)
        return [decode_record(value, self._fields, self._layout, dialect, self._task.zone)]

    def _blank(self, values: pa.BinaryArray, alone: np.ndarray, decoded: Decoded) -> None:
        """Messages that bulk decoding took for blank lines, or for comments."""
        seen = alone.copy()
        for _, numbers in decoded.parts:
            seen[numbers] = True
        seen[[bad.record for bad in decoded.bad]] = True
        for number in np.flatnonzero(~seen).tolist():
            value = values[number].as_py()
            if self._task.dialect is not None or not value.strip().startswith(b"["):
                decoded.bad.append(Bad.of(number, value, Mismatch(NOTHING)))


def _bytes(texts: pa.BinaryArray) -> bytes:
    """All of an array's bytes, one text after the other."""
    _, offsets, data = texts.buffers()
    edges = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    return bytes(memoryview(data)[edges[0] : edges[-1]]) if data is not None and len(texts) else b""
