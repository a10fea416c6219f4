"""Hudi tables, COPY_ON_WRITE. Exactly once: a batch is one commit, which keeps the batch's number; one that
runs again is left out in a stream, and takes the place of its earlier commit otherwise. One process at a time
writes a table; others wait for it.

`hudi://path` begins in the project's `warehouse`; `hudi+s3://bucket/path`, `hudi+gs://`, `hudi+azure://` and
`hudi+abfss://` stand in stores, and take the options of those. Spark needs no Hudi for it: rows are written
by Hudi's Java client in the driver, slice by slice, and read by hudi-rs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from penstock.connectors import merging
from penstock.connectors import storage as stores
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
from penstock.connectors.hudi.access import access_of
from penstock.connectors.hudi.locking import BUSY
from penstock.connectors.hudi.options import Sink, Source
from penstock.connectors.hudi.table import HIDDEN, Table, find
from penstock.connectors.places import InPlaces, schemes_of
from penstock.connectors.scanned import Scanned
from penstock.connectors.staging import check_writable
from penstock.connectors.storage import root_of
from penstock.connectors.templates import Target
from penstock.errors import DataError, OptionError, PenstockError, SetupError, did_you_mean, said
from penstock.options import Value

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_NO_CREDENTIALS = re.compile(r"Error performing \w+ http://(?:169\.254\.169\.254|metadata)\b")
_UNREACHABLE = re.compile(r"HTTP error: error sending request|HTTP error: request or response body error")
_REDIRECT = re.compile(r"redirect without LOCATION|PermanentRedirect")
"""What hudi-rs says when only the machine's role is left to ask, of a store that does not answer, and of a
bucket in another region."""


class Hudi(InPlaces):
    name = "hudi"
    schemes = schemes_of("hudi")
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

    def is_ordered(self, source: Any) -> bool:
        """Slices of files are read side by side."""
        return False

    def hidden(self, source: Any) -> tuple[Column, ...]:
        return HIDDEN

    def reader(self, source: Any) -> Reader:
        return reading.all_rows(source)

    def read(self, spark: SparkSession, source: Any, request: ReadRequest) -> DataFrame:
        return reading.read(spark, source, request)

    def facts(self, spark: SparkSession, source: Any) -> dict[str, Value]:
        table = Table(source.path, access_of(source))
        files, commits = table.files(None), list(table.commits())
        parts = {one.partition_path for one in files}
        return {
            "files": len(files),
            "size": sum(one.base_file_size for one in files),
            "record key": ", ".join(table.record_key),
            "partitioned by": ", ".join(table.partition_by),
            "partitions": len(parts) if table.partition_by else None,
            "commits": len(commits),
            "newest commits": [f"{c.instant}: {c.operation} at {c.time}" for c in commits[:5]],
        }

    def scanned(self, source: Any, request: ReadRequest) -> Scanned:
        return reading.scanned(source, request)

    def check_target(self, spark: SparkSession, sink: Any) -> None:
        storage = stores.of(spark, sink.path)
        shown = [entry for entry in storage.children(sink.path) if not entry.hidden]
        # Looked for afterwards: another writer may be making the table.
        table = find(sink.path, access_of(sink))
        if shown and table is None:
            hint = "write to an empty folder, or to one that is not there"
            raise DataError("not-a-table", f"{sink.path} holds something else than a Hudi table", hint=hint)
        try:
            check_writable(storage, Target.parse(f"{sink.path}/"))
        except SetupError as failure:
            cause = failure.__cause__
            if cause is None or not stores.is_remote(sink.path):
                raise
            raise cause from cause.__cause__  # the store's own connector explains it

    def check_rows(self, frame: DataFrame, sink: Any, format: Format | None) -> None:
        from penstock.connectors.hudi.writing import columns_of

        merging.check(frame, sink)
        there = {name.lower() for name in merging.stored(frame, sink)}
        for name in sink.partition_by:
            if name.lower() not in there:
                hint = did_you_mean(name, frame.columns)
                raise OptionError("unknown-column", f"the rows have no column '{name}'", hint=hint)
        columns_of(frame, sink, find(sink.path, access_of(sink)))

    def holds_rows(self, spark: SparkSession, sink: Any) -> bool:
        if sink.merge_on:
            return False
        table = find(sink.path, access_of(sink))
        return table is not None and table.holds_rows()

    def is_atomic(self, sink: Any) -> bool:
        return True

    def is_passing(self, failure: Exception) -> bool:
        busy = isinstance(failure, PenstockError) and failure.code == BUSY
        return busy or _UNREACHABLE.search(said(failure)) is not None

    def explain_failure(self, failure: Exception, options: Any) -> PenstockError | None:
        text = said(failure)
        if _NO_CREDENTIALS.search(text):
            hint = "give them as options of the store, or in the environment"
            return SetupError("access-denied", f"no credentials for {root_of(options.path)}", hint=hint)
        if _UNREACHABLE.search(text):
            hint = f"check that {options.endpoint or 'it'} runs and can be reached"
            return SetupError("store-unreachable", f"cannot reach {root_of(options.path)}", hint=hint)
        if _REDIRECT.search(text):
            return SetupError(
                "other-region", f"{root_of(options.path)} is in another region", hint="set `region`"
            )
        if not isinstance(options, Sink):
            return None
        if "HoodieKeyException" in text:
            return DataError("null-record-key", f"a row has no value for the record key of {options.path}")
        return merging.explain_failure(failure, options)

    def write(self, frame: DataFrame, sink: Any, batch: Batch) -> Sequence[Refused]:
        from penstock.connectors.hudi.writing import deliver

        return deliver(frame, sink, batch, self.jar_files)
