"""The job by hand in PySpark: `by_pyspark.py KIND INPUT OUTPUT`, or jobs from stdin."""

from __future__ import annotations

from pyspark.sql import SparkSession

from benchmarks.data import COLUMNS
from benchmarks.jobs.serve import serve

spark = SparkSession.builder.master("local[*]").appName("by hand").getOrCreate()


def run(kind: str, source: str, target: str) -> None:
    reader = spark.read.schema(COLUMNS[kind])
    frame = reader.json(source) if kind == "jsonl" else reader.option("header", True).csv(source)
    kept = frame.where("amount > 250 AND event IN ('purchase', 'refund')")
    kept.select("id", "user_id", "event", "amount", "country").write.mode("overwrite").parquet(target)


serve(run)
spark.stop()
