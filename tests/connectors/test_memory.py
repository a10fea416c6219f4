"""Tables in memory, as Python users see them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone
from typing import TYPE_CHECKING

import pytest

from penstock.connectors import memory
from penstock.connectors.base import Batch, Uri
from penstock.connectors.memory import Memory, Sink, Source
from penstock.errors import DataError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCH = Batch("p", "0", 0, datetime(2024, 1, 1, tzinfo=timezone.utc))


@pytest.fixture(autouse=True)
def empty() -> Iterator[None]:
    memory.clear()
    yield
    memory.clear()


def test_a_uri_names_a_table() -> None:
    assert Memory().settings_of(Uri.parse("memory://orders?mode=append")) == {
        "table": "orders", "mode": "append",
    }  # fmt: skip


def test_what_is_put_is_there() -> None:
    memory.put("t", [{"a": 1}, {"a": None}])
    assert memory.rows("t") == [{"a": 1}, {"a": None}]
    assert memory.table("t").num_rows == 2


def test_a_missing_table_is_told() -> None:
    with pytest.raises(DataError, match="no memory://orders") as caught:
        memory.rows("orders")
    assert caught.value.hint == "nothing was written to memory yet"
    memory.put("orders", [{"a": 1}])
    with pytest.raises(DataError) as caught:
        memory.rows("order")
    assert caught.value.hint == "did you mean 'orders'?"


@pytest.mark.spark
def test_rows_that_do_not_fit_are_refused(spark: SparkSession) -> None:
    from penstock.connectors.base import ReadRequest

    memory.put("t", [{"a": "text"}])
    with pytest.raises(DataError) as caught:
        Memory().write(spark.sql("SELECT 1 AS a"), Sink(table="t", mode="append"), BATCH)
    assert caught.value.code == "schema-mismatch"
    Memory().write(spark.sql("SELECT 1 AS a"), Sink(table="t", mode="overwrite"), BATCH)
    frame = Memory().read(spark, Source(table="t"), ReadRequest())
    assert [tuple(row) for row in frame.collect()] == [(1,)]
