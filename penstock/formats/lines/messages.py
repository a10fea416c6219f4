"""Messages, each with a record of its own, -> rows: what Kafka and its like carry.

Many are decoded at once, as the lines of a chunk. A message that holds line ends is decoded alone; one
without a value gives a row of nulls; one with nothing in it is bad.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from penstock.formats.lines.csv_record import Dialect
from penstock.formats.records import MESSAGE_REJECTS, REJECTED
from penstock.schema import Column, ddl, quoted

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

VALUE = "value"
"""The column of the bytes."""


@dataclass(frozen=True)
class MessageTask:
    """What to decode, and how."""

    columns: tuple[Column, ...]
    mode: Literal["fail", "mark", "rejects"]
    zone: str
    width: int
    """How many values a record of CSV has."""
    positions: tuple[int, ...]
    """Where the columns stand in it."""
    carried: tuple[str, ...] = ()
    """Columns beside the bytes that stay."""
    place: tuple[str, ...] = ()
    """Columns that tell where a message stands."""
    conditions: tuple[tuple[str, str, Any], ...] = ()
    """Rows that do not meet these (column, operator, value) may be left out."""
    dialect: Dialect | None = None
    """Of CSV; None for JSON."""
    known: frozenset[str] | None = None
    """Other keys of JSON than these stop it; None for any keys."""


def read_messages(
    frame: DataFrame,
    columns: Sequence[Column],
    request: Any,
    *,
    carried: Sequence[str] = (),
    place: Sequence[str] = (),
    dialect: Dialect | None = None,
) -> DataFrame:
    """The rows of the messages in `frame`, beside the columns of it that are `carried`.

    Streams too. With `on_error` other than `fail` a last column tells which records are bad; else the first
    bad one raises, with what its columns `place` hold.
    """
    mode: Literal["fail", "mark"] = "fail" if request.on_error == "fail" else "mark"
    return _run(frame, columns, request, carried, place, dialect, mode)


def message_rejects(
    frame: DataFrame,
    columns: Sequence[Column],
    request: Any,
    *,
    carried: Sequence[str] = (),
    dialect: Dialect | None = None,
) -> DataFrame:
    """The bad messages of `frame`: payload, encoding, error, and the columns of it that are `carried`."""
    return _run(frame, columns, request, carried, (), dialect, "rejects")


def _run(
    frame: DataFrame,
    columns: Sequence[Column],
    request: Any,
    carried: Sequence[str],
    place: Sequence[str],
    dialect: Dialect | None,
    mode: Literal["fail", "mark", "rejects"],
) -> DataFrame:
    from penstock.formats.frames import spark_columns

    used = request.prune(tuple(columns))
    task = MessageTask(
        columns=used,
        mode=mode,
        zone=frame.sparkSession.conf.get("spark.sql.session.timeZone") or "UTC",
        width=len(columns),
        positions=tuple(columns.index(column) for column in used),
        carried=tuple(carried),
        place=tuple(place),
        conditions=tuple(request.filters) if mode != "rejects" else (),
        dialect=dialect,
        known=frozenset(column.name for column in columns) if request.closed and mode != "rejects" else None,
    )
    parts = [MESSAGE_REJECTS] if mode == "rejects" else [ddl(spark_columns(used))] if used else []
    parts += [f"{quoted(name)} {frame.schema[name].dataType.simpleString()}" for name in carried]
    marks = mode == "mark" or not parts
    chosen = frame.select(VALUE, *dict.fromkeys((*carried, *place)))

    def decode_messages(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return _decode(task, marks, batches)

    rows = chosen.mapInArrow(decode_messages, ", ".join([*parts, f"{REJECTED} BOOLEAN"] if marks else parts))
    return rows.drop(REJECTED) if marks and mode == "fail" else rows


def _decode(task: MessageTask, marks: bool, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    from penstock.formats.lines import tasks

    tasks.preload()
    from penstock.formats.lines.message_rows import MessageRows

    rows = MessageRows(task, marks)
    for batch in batches:
        yield from rows.of(batch)
