"""Messages for formats, as a connector hands them over."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest

from penstock.formats.base import Format, bad_record
from penstock.schema import Column
from tests.formats.reading import request, rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def messages(spark: SparkSession, *values: str | bytes | None) -> DataFrame:
    """A frame of messages, in one partition, with their offsets."""
    given = [v.encode() if isinstance(v, str) else v for v in values]
    return spark.createDataFrame(list(enumerate(given)), "_offset INT, value BINARY").coalesce(1)


def restored(payload: str | None, encoding: str) -> bytes | None:
    """The bytes that a dead letter was made of."""
    if payload is None:
        return None
    return base64.b64decode(payload) if encoding == "base64" else payload.encode()


def marked(frame: DataFrame) -> list[tuple[Any, ...]]:
    """The good rows, and the offsets of the bad ones, of a frame with `_offset` carried."""
    return [("bad", row._offset) if row._rejected else tuple(row)[:-2] for row in frame.collect()]


def check_poison(
    frame: DataFrame, form: Format, columns: Sequence[Column], bad: dict[int, bytes | None], **more: Any
) -> dict[int, str]:
    """Raises unless just the messages of these offsets are bad, in each way to read; returns their errors."""
    declared = tuple(columns)
    skipping = request(on_error="skip", **more)
    read = form.decode(frame, declared, skipping, carried=["_offset"])
    assert read.columns == [*(c.name for c in declared), "_offset", "_rejected"]
    assert {row._offset for row in read.collect() if row._rejected} == set(bad)
    told = form.decode_rejects(frame, declared, skipping, carried=["_offset"])
    assert told.columns == ["payload", "encoding", "error", "_offset"]
    letters = rows(told)
    assert sorted(offset for *_, offset in letters) == sorted(bad)
    assert {offset: restored(payload, encoding) for payload, encoding, _, offset in letters} == bad
    with pytest.raises(Exception, match="PENSTOCK-BAD-RECORD") as caught:
        form.decode(frame, declared, request(**more), carried=["_offset"], place=["_offset"]).collect()
    record = bad_record(str(caught.value))
    assert record is not None
    assert record["file"] == f"offset {min(bad)}"
    return {offset: error for _, _, error, offset in letters}
