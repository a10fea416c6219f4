"""Messages that Python decodes and encodes one by one, many of them at once to a worker."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from penstock.formats.frames import spark_ddl
from penstock.formats.lines.messages import VALUE
from penstock.formats.records import (
    MESSAGE_REJECTS,
    NOTHING,
    REJECTED,
    BadRecord,
    payload_of,
    place_of,
)
from penstock.formats.rows import Record, Shape
from penstock.schema import Column, quoted

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

Decode = Callable[[bytes], dict[str, Any]]
"""A message's record; raises ValueError with what is wrong."""
Encode = Callable[[dict[str, Any]], bytes]
_ROW = "row"
_Mode = Literal["fail", "mark", "rejects"]


def decoded(
    frame: DataFrame,
    columns: Sequence[Column],
    request: Any,
    opening: Callable[[], Decode],
    *,
    carried: Sequence[str] = (),
    place: Sequence[str] = (),
) -> DataFrame:
    """`Format.decode` by a function that `opening` makes on the worker."""
    mode: _Mode = "fail" if request.on_error == "fail" else "mark"
    used = request.prune(tuple(columns))
    parts = [spark_ddl(used)] if used else []
    parts += _types(frame, carried)
    marks = mode == "mark" or not parts
    task = _Decoding(opening, Shape.of(used), mode, marks, tuple(carried), tuple(place))
    chosen = frame.select(VALUE, *map(quoted, dict.fromkeys((*carried, *place))))
    rows = chosen.mapInArrow(task.run, ", ".join([*parts, f"{REJECTED} BOOLEAN"] if marks else parts))
    return rows.drop(REJECTED) if marks and mode == "fail" else rows


def rejected(
    frame: DataFrame,
    columns: Sequence[Column],
    request: Any,
    opening: Callable[[], Decode],
    *,
    carried: Sequence[str] = (),
) -> DataFrame:
    """`Format.decode_rejects` by the same."""
    shape = Shape.of(request.prune(tuple(columns)))
    task = _Decoding(opening, shape, "rejects", False, tuple(carried), ())
    schema = ", ".join([MESSAGE_REJECTS, *_types(frame, carried)])
    return frame.select(VALUE, *map(quoted, carried)).mapInArrow(task.run, schema)


def encoded(frame: DataFrame, carried: Sequence[str], opening: Callable[[], Encode]) -> DataFrame:
    """`Format.encode` by a function that `opening` makes on the worker."""
    from pyspark.sql import functions as f

    # The row travels as one struct, since mapInArrow does not take names with dots.
    row = f.struct(*(quoted(name) for name in written(frame, carried))).alias(_ROW)
    schema = ", ".join([f"{VALUE} BINARY", *_types(frame, carried)])
    task = _Encoding(opening, tuple(carried))
    return frame.select(row, *map(quoted, carried)).mapInArrow(task.run, schema)


def written(frame: DataFrame, carried: Sequence[str]) -> list[str]:
    """The columns that a message holds."""
    beside = {name.lower() for name in carried}
    return [name for name in frame.columns if name.lower() not in beside]


def _types(frame: DataFrame, names: Sequence[str]) -> list[str]:
    return [f"{quoted(name)} {frame.schema[name].dataType.simpleString()}" for name in names]


@dataclass(frozen=True)
class _Decoding:
    opening: Callable[[], Decode]
    shape: Shape
    mode: _Mode
    marks: bool
    carried: tuple[str, ...]
    place: tuple[str, ...]

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        decode = self.opening()
        for batch in batches:
            messages = batch.column(VALUE).cast(pa.binary()).to_pylist()
            errors, arrays = self.shape.judge([_record(decode, message) for message in messages])
            if self.mode == "rejects":
                yield self._rejects(batch, messages, errors)
            else:
                self._check(batch, messages, errors)
                yield self._rows(batch, errors, arrays)

    def _check(
        self, batch: pa.RecordBatch, messages: Sequence[bytes | None], errors: Sequence[str | None]
    ) -> None:
        if self.mode != "fail":
            return
        for number, error in enumerate(errors):
            if error is not None:
                place = place_of({name: batch.column(name)[number] for name in self.place})
                raise BadRecord(payload_of(messages[number])[0], error, place, None)

    def _rows(
        self, batch: pa.RecordBatch, errors: Sequence[str | None], arrays: dict[str, pa.Array]
    ) -> pa.RecordBatch:
        import pyarrow as pa

        columns = list(arrays.values()) + [batch.column(name) for name in self.carried]
        names = [*arrays, *self.carried]
        if self.marks:
            columns.append(pa.array([error is not None for error in errors], pa.bool_()))
            names.append(REJECTED)
        return pa.RecordBatch.from_arrays(columns, names)

    def _rejects(
        self, batch: pa.RecordBatch, messages: Sequence[bytes | None], errors: Sequence[str | None]
    ) -> pa.RecordBatch:
        import pyarrow as pa

        bad = [number for number, error in enumerate(errors) if error is not None]
        payloads = [payload_of(messages[number]) for number in bad]
        where = pa.array(bad, pa.int64())
        return pa.RecordBatch.from_arrays(
            [
                pa.array([payload for payload, _ in payloads], pa.string()),
                pa.array([encoding for _, encoding in payloads], pa.string()),
                pa.array([errors[number] for number in bad], pa.string()),
                *(batch.column(name).take(where) for name in self.carried),
            ],
            ["payload", "encoding", "error", *self.carried],
        )


def _record(decode: Decode, message: bytes | None) -> Record:
    if message is None:
        return None, None
    if not message:
        return None, NOTHING
    try:
        return decode(message), None
    except ValueError as failure:
        return None, str(failure)


@dataclass(frozen=True)
class _Encoding:
    opening: Callable[[], Encode]
    carried: tuple[str, ...]

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        encode = self.opening()
        for batch in batches:
            rows = batch.column(_ROW).to_pylist(maps_as_pydicts="strict")
            values = pa.array([encode(row) for row in rows], pa.binary())
            carried = [batch.column(name) for name in self.carried]
            yield pa.RecordBatch.from_arrays([values, *carried], [VALUE, *self.carried])
