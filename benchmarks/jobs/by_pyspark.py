"""The job by hand in PySpark: `by_pyspark.py KIND INPUT OUTPUT`, or jobs from stdin."""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

from benchmarks.data import COLUMNS


def run(spark: SparkSession, kind: str, source: str, target: str) -> None:
    reader = spark.read.schema(COLUMNS[kind])
    frame = reader.json(source) if kind == "jsonl" else reader.option("header", True).csv(source)
    kept = frame.where("amount > 250 AND event IN ('purchase', 'refund')")
    kept.select("id", "user_id", "event", "amount", "country").write.mode("overwrite").parquet(target)


def main() -> None:
    spark = SparkSession.builder.master("local[*]").appName("by hand").getOrCreate()
    if len(sys.argv) > 1:
        run(spark, *sys.argv[1:])
    else:
        print("ready", flush=True)
        for line in sys.stdin:
            run(spark, *line.split())
            print("done", flush=True)
    spark.stop()


main()
