"""A format on Spark's own readers and writers, so that connectors are tested without our formats."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.connectors.base import Column, ReadRequest
from penstock.schema import ddl

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Native:
    def __init__(self, name: str, suffix: str | None = None, **write_options: str) -> None:
        self.name = name
        self.suffix = suffix or f".{name}"
        self.write_options = write_options

    def discover(self, spark: SparkSession, paths: list[str]) -> tuple[Column, ...]:
        frame = spark.read.format(self.name).option("header", True).load(paths)
        return tuple(Column(f.name, f.dataType.simpleString()) for f in frame.schema.fields)

    def read(
        self, spark: SparkSession, paths: list[str], columns: tuple[Column, ...], request: ReadRequest
    ) -> DataFrame:
        reader = spark.read.format(self.name).option("header", True)
        if request.base is not None:
            reader = reader.option("basePath", request.base)
        frame = reader.schema(ddl((*columns, *request.partitions))).load(paths)
        return frame.select([c.name for c in request.prune((*columns, *request.partitions))])

    def rejects(
        self, spark: SparkSession, paths: list[str], columns: tuple[Column, ...], request: ReadRequest
    ) -> DataFrame:
        return spark.createDataFrame([(path,) for path in paths], "file STRING")

    def write(self, frame: DataFrame, path: str, partition_by: tuple[str, ...] = ()) -> None:
        writer = frame.write.format(self.name).option("header", True).options(**self.write_options)
        writer.partitionBy(*partition_by).save(path)


JSON, CSV, PARQUET = Native("json"), Native("csv"), Native("parquet", ".snappy.parquet")
