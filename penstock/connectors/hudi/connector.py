"""Hudi tables, COPY_ON_WRITE. Exactly once: a batch is one commit, which keeps the batch's number; one that
runs again is left out in a stream, and takes the place of its earlier commit otherwise.

Spark needs no Hudi for it: rows are written by Hudi's Java client in the driver, slice by slice, and read by
hudi-rs. One process writes to a table at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from penstock.connectors import merging
from penstock.connectors.base import (
    Batch,
    Capabilities,
    Column,
    Format,
    Reader,
    ReadRequest,
    Refused,
)
from penstock.connectors.hudi import reading
from penstock.connectors.hudi.locking import BUSY
from penstock.connectors.hudi.options import Sink, Source
from penstock.connectors.hudi.table import HIDDEN, Table, is_table
from penstock.connectors.places import InPlaces
from penstock.connectors.staging import check_writable
from penstock.connectors.storage import Local
from penstock.connectors.templates import Target
from penstock.errors import DataError, OptionError, PenstockError, did_you_mean
from penstock.options import Value

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Hudi(InPlaces):
    name = "hudi"
    schemes = ("hudi",)
    capabilities = Capabilities(
        bounded=True,
        lookup=True,
        append=True,
        overwrite=True,
        upsert=True,
        delete=True,
        transactional=True,
        create_target=True,
        evolve_schema=True,
    )
    jars = ("org.apache.spark:spark-avro_2.13:4.1.1",)
    private_jars = (
        "org.apache.hudi:hudi-java-client:1.1.1",
        "org.apache.hudi:hudi-spark3.5-bundle_2.13:1.1.1",
    )
    Source = Source
    Sink = Sink

    def hidden(self, source: Any) -> tuple[Column, ...]:
        return HIDDEN

    def reader(self, source: Any) -> Reader:
        return reading.all_rows(source)

    def read(self, spark: SparkSession, source: Any, request: ReadRequest) -> DataFrame:
        return reading.read(spark, source, request)

    def facts(self, spark: SparkSession, source: Any) -> dict[str, Value]:
        files = Table(source.path).files(None)
        return {"files": len(files), "size": sum(one.base_file_size for one in files)}

    def check_target(self, spark: SparkSession, sink: Any) -> None:
        if is_table(sink.path):
            Table(sink.path)
        elif any(not entry.hidden for entry in Local().children(sink.path)):
            hint = "write to an empty folder, or to one that is not there"
            raise DataError("not-a-table", f"{sink.path} holds something else than a Hudi table", hint=hint)
        check_writable(Local(), Target.parse(f"{sink.path}/"))

    def check_rows(self, frame: DataFrame, sink: Any, format: Format | None) -> None:
        from penstock.connectors.hudi.writing import columns_of

        merging.check(frame, sink)
        there = {name.lower() for name in merging.stored(frame, sink)}
        for name in sink.partition_by:
            if name.lower() not in there:
                hint = did_you_mean(name, frame.columns)
                raise OptionError("unknown-column", f"the rows have no column '{name}'", hint=hint)
        columns_of(frame, sink, Table(sink.path) if is_table(sink.path) else None)

    def holds_rows(self, spark: SparkSession, sink: Any) -> bool:
        return not sink.merge_on and is_table(sink.path) and Table(sink.path).holds_rows()

    def is_atomic(self, sink: Any) -> bool:
        return True

    def is_passing(self, failure: Exception) -> bool:
        return isinstance(failure, PenstockError) and failure.code == BUSY

    def explain_failure(self, failure: Exception, options: Any) -> PenstockError | None:
        if not isinstance(options, Sink):
            return None
        if "HoodieKeyException" in str(failure):
            return DataError("null-record-key", f"a row has no value for the record key of {options.path}")
        return merging.explain_failure(failure, options)

    def write(self, frame: DataFrame, sink: Any, batch: Batch) -> Sequence[Refused]:
        from penstock.connectors.hudi.writing import deliver

        return deliver(frame, sink, batch, self.jar_files)
