"""The jobs on Kafka by hand in PySpark: `kafka_by_pyspark.py JOB BROKER TOPIC TARGET PLACE`, or from stdin.

The jars of Spark's Kafka source are given by PYSPARK_SUBMIT_ARGS, as files, so that nothing is fetched.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from benchmarks.data import STREAM_COLUMNS, STREAM_FILTER, STREAM_SELECTED
from benchmarks.jobs.serve import serve

spark = SparkSession.builder.master("local[2]").appName("by hand").getOrCreate()


def kept(broker: str, topic: str) -> DataFrame:
    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", broker)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
    )
    rows = records.select(f.from_json(f.col("value").cast("string"), STREAM_COLUMNS).alias("row"))
    return rows.select("row.*").where(STREAM_FILTER).select(*STREAM_SELECTED.split(", "))


def run(job: str, broker: str, topic: str, target: str, place: str) -> None:
    rows = kept(broker, topic)
    if job == "to_kafka":
        messages = rows.select(f.to_json(f.struct("*")).alias("value"))
        writer = messages.writeStream.format("kafka").option("kafka.bootstrap.servers", broker)
        writer = writer.option("topic", target)
    else:
        writer = rows.writeStream.format("parquet").option("path", target)
    writer = writer.option("checkpointLocation", f"{place}/checkpoint").trigger(availableNow=True)
    writer.start().awaitTermination()


serve(run)
spark.stop()
