"""A split -> Arrow batches as Spark wants them. Runs on workers only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.formats.lines.decoding import Bad, Decoded, with_bad
from penstock.formats.lines.filters import Filters
from penstock.formats.lines.kinds import Field
from penstock.formats.lines.splits import DAMAGED, Chunk, Split, chunks
from penstock.formats.records import METADATA, REJECTED, BadRecord

if TYPE_CHECKING:
    from penstock.formats.lines.tasks import Task

_REJECTS = pa.schema(
    [("payload", pa.string()), ("error", pa.string()), ("file", pa.string()), ("line", pa.int64())]
)
_TIME = pa.timestamp("us", "UTC")


class Decoding:
    """Decodes splits as a task says."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._fields = [Field.of(column) for column in task.columns]
        self._filters = Filters(self._fields, task.conditions)

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        decoder = _decoder(self._task, self._fields)
        dialect = self._task.dialect
        quote = dialect.quote.encode() if dialect and dialect.multiline else b""
        rows = 0
        for chunk in _until_damaged(chunks(split, encoding=self._task.encoding, quote=quote or None)):
            if isinstance(chunk, Chunk):
                batches, rows = self._batches(decoder.decode(chunk.data, split.detail), split, chunk, rows)
            else:
                batches, rows = self._batches(Decoded(bad=[chunk]), split, None, rows)
            yield from batches
            # Else they would stay while the next chunk is read and decoded.
            del chunk, batches

    def _batches(
        self, decoded: Decoded, split: Split, chunk: Chunk | None, before: int
    ) -> tuple[list[pa.RecordBatch], int]:
        """The batches of a chunk, and how many records were read up to its end."""
        if decoded.bad and self._task.mode == "fail":
            first = min(decoded.bad, key=lambda bad: bad.record)
            raise BadRecord(first.payload, first.error, split.path, _line(first, chunk))
        if self._task.mode == "rejects":
            return [_rejects(decoded.bad, split, chunk)] if decoded.bad else [], 0
        table, records = decoded.table(self._fields)
        rejected = None
        if decoded.bad:
            table, _, rejected = with_bad(table, records, decoded.bad)
        total = before + table.num_rows
        numbers = np.arange(before + 1, total + 1) if "row_number" in self._task.metadata else None
        return self._finished(table, split, numbers, rejected), total

    def _finished(
        self, table: pa.Table, split: Split, numbers: np.ndarray | None, rejected: np.ndarray | None
    ) -> list[pa.RecordBatch]:
        rows = table.num_rows
        columns = table.columns[: len(self._fields)]
        mask = self._filters.mask(columns)
        names = [field.name for field in self._fields]
        if self._task.metadata:
            columns.append(_about(split, self._task.metadata, numbers, rows))
            names.append(METADATA)
        if self._task.marks:
            columns.append(pa.array(rejected) if rejected is not None else pa.repeat(pa.scalar(False), rows))
            names.append(REJECTED)
        whole = pa.Table.from_arrays(columns, names)
        if mask is not None:
            if rejected is not None:
                # A bad record is none that a condition leaves out.
                mask = pc.or_kleene(mask, pa.array(rejected))
            whole = whole.filter(mask)
        return [batch for batch in whole.to_batches() if batch.num_rows]


def _until_damaged(items: Iterator[Chunk]) -> Iterator[Chunk | Bad]:
    """The chunks of a file, and one bad record for the rest of it when it is not whole."""
    while True:
        try:
            chunk = next(items, None)
        except (FileNotFoundError, PermissionError):
            raise
        except DAMAGED as failure:
            yield Bad(0, 0, "", f"the file is damaged: {failure}")
            return
        if chunk is None:
            return
        yield chunk
        del chunk


def _decoder(task: Task, fields: list[Field]) -> Any:
    if task.dialect is None:
        from penstock.formats.lines.json_rows import JsonRows

        return JsonRows(fields, task.zone)
    from penstock.formats.lines.csv_rows import CsvRows

    return CsvRows(fields, task.zone, task.dialect)


def _line(bad: Bad, chunk: Chunk | None) -> int | None:
    return None if chunk is None else chunk.lines_before() + bad.line + 1


def _rejects(bads: list[Bad], split: Split, chunk: Chunk | None) -> pa.RecordBatch:
    before = chunk.lines_before() if chunk else None
    rows = [
        {
            "payload": bad.payload,
            "error": bad.error,
            "file": split.path,
            "line": None if before is None else before + bad.line + 1,
        }
        for bad in sorted(bads, key=lambda bad: bad.record)
    ]
    return pa.RecordBatch.from_pylist(rows, _REJECTS)


def _about(split: Split, fields: Sequence[str], numbers: np.ndarray | None, rows: int) -> pa.StructArray:
    constants = {
        "filename": pa.scalar(PurePath(split.path).name),
        "path": pa.scalar(split.path),
        "size": pa.scalar(split.size, pa.int64()),
        "modified": pa.scalar(split.modified, pa.int64()).cast(_TIME),
    }
    arrays = [
        pa.array(numbers, pa.int64()) if name == "row_number" else pa.repeat(constants[name], rows)
        for name in fields
    ]
    return pa.StructArray.from_arrays(arrays, fields)
