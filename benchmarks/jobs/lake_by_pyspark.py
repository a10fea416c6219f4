"""The jobs on tables by hand in PySpark, as one who knows Delta and Iceberg writes them; from stdin.

Exactly once, as ours are: Delta is told the number of each batch, and Iceberg's sink keeps it by itself.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as f

from benchmarks.data import STREAM_COLUMNS, STREAM_FILTER, STREAM_SELECTED
from benchmarks.jobs.serve import serve

WAREHOUSE = sys.argv.pop(1)
spark = (
    SparkSession.builder.master("local[2]")
    .appName("by hand")
    .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    .config("spark.databricks.delta.snapshotPartitions", "2")
    .config("spark.sql.catalog.lake", "org.apache.iceberg.spark.SparkCatalog")
    .config("spark.sql.catalog.lake.type", "hadoop")
    .config("spark.sql.catalog.lake.warehouse", WAREHOUSE)
    .config("spark.sql.shuffle.partitions", "2")
    .getOrCreate()
)


def merge(changes: DataFrame, target: str, key: str) -> None:
    changes.createOrReplaceTempView("changes")
    changes.sparkSession.sql(f"""
        MERGE INTO delta.`{target}` t USING changes s ON t.{key} = s.{key}
        WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *""")


def latest(changes: DataFrame, key: str, order: str) -> DataFrame:
    """The last change to each key."""
    place = f.row_number().over(Window.partitionBy(key).orderBy(f.col(order).desc()))
    return changes.withColumn("place", place).where("place = 1").drop("place")


def kept(source: str) -> DataFrame:
    broker, topic, rows = source.split("/")
    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", broker)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", rows)
        .load()
    )
    found = records.select(f.from_json(f.col("value").cast("string"), STREAM_COLUMNS).alias("row"))
    return found.select("row.*").where(STREAM_FILTER).select(*STREAM_SELECTED.split(", "))


def run(job: str, source: str, target: str, place: str) -> None:
    if job.startswith("upsert"):
        changes = spark.read.parquet(source)
        merge(changes if job == "upsert_once" else latest(changes, "id", "version"), target, "id")
        return
    rows = kept(source)
    fields = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in rows.schema)
    if job == "kafka_to_iceberg":
        table = f"lake.db.{Path(target).name}"
        spark.sql(f"CREATE TABLE {table} ({fields}) USING iceberg")
        writer = rows.writeStream.option("checkpointLocation", f"{place}/checkpoint")
        writer.trigger(availableNow=True).toTable(table).awaitTermination()
        return
    spark.sql(f"CREATE TABLE delta.`{target}` ({fields}) USING delta")

    def deliver(batch: DataFrame, number: int) -> None:
        batch.sparkSession.conf.set("spark.databricks.delta.write.txnAppId", place)
        batch.sparkSession.conf.set("spark.databricks.delta.write.txnVersion", str(number))
        merge(latest(batch, "user_id", "id"), target, "user_id")

    writer = rows.writeStream.foreachBatch(deliver).option("checkpointLocation", f"{place}/checkpoint")
    writer.trigger(availableNow=True).start().awaitTermination()


serve(run)
spark.stop()
