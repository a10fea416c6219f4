"""Rows handed on at a steady pace: `rate_limit`."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from penstock.connectors.session_settings import changed
from penstock.schema import quoted

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_STEPS = 10
"""How often in a second rows are handed on."""
_SMALL_BUFFER = {"spark.sql.execution.pandas.udf.buffer.size": "1024"}
"""What a worker's rows are collected in; in Spark's own, rows of seconds would go on in one burst."""


@contextmanager
def paced(frame: DataFrame, rows_a_second: float | None) -> Iterator[DataFrame]:
    """The same rows, through one task that never hands on more than so many in a second."""
    if rows_a_second is None:
        yield frame
        return
    limit = rows_a_second

    def hold_back(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return _held_back(batches, limit)

    from pyspark.sql import functions as f

    # The row travels as one struct, since mapInArrow does not take names with dots.
    rows = frame.coalesce(1).select(f.struct(*(quoted(c) for c in frame.columns)).alias("row"))
    with changed(frame.sparkSession, _SMALL_BUFFER):
        yield rows.mapInArrow(hold_back, rows.schema).select("row.*")


def _held_back(batches: Iterable[pa.RecordBatch], limit: float) -> Iterator[pa.RecordBatch]:
    step = max(1, int(limit / _STEPS))
    due = time.monotonic()
    for batch in batches:
        for start in range(0, batch.num_rows, step):
            some = batch.slice(start, step)
            time.sleep(max(0.0, due - time.monotonic()))
            yield some
            due = max(due, time.monotonic() - 1 / _STEPS) + some.num_rows / limit
