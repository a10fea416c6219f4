"""Spark's real-time mode, which PySpark 4.1 does not name yet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_EVERY = "5 minutes"
"""How often the position is kept. Rows pass all the time; when it is, they wait for up to half a second."""


def obstacle(spark: SparkSession, tasks: int) -> str | None:
    """Why it cannot be, here and now: each of the source's tasks runs all the time."""
    slots = spark.sparkContext.defaultParallelism
    if tasks <= slots:
        return None
    return f"it needs {tasks} tasks at once, and there is room for {slots}: set master to local[{tasks}]"


def start(writer: DataStreamWriter) -> StreamingQuery:
    spark: Any = writer._spark
    trigger = spark._jvm.org.apache.spark.sql.streaming.Trigger.RealTime(_EVERY)
    writer._jwrite = writer._jwrite.outputMode("update").trigger(trigger)
    return writer.start()
