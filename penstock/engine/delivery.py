"""Batches to sinks: checked before anything is read, read once for all sinks, bad records accounted for."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.connectors import registry as connectors
from penstock.connectors.base import Batch
from penstock.engine import failures
from penstock.engine.build import Built, observed
from penstock.errors import DataError, PenstockError
from penstock.formats import registry as formats
from penstock.plan.nodes import Pipeline, Scan, Write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Delivered:
    """What a batch did."""

    rows: int
    rejected: int
    dead_letters: tuple[str, ...]
    seconds: float


def check_targets(spark: SparkSession, sinks: Sequence[Write]) -> None:
    """Stops before reading when a target cannot be written, or holds rows and nothing says what to do."""
    for sink in sinks:
        with _placed(sink):
            sink.connector.check_target(spark, sink.options)
    # Invariant 4
    for sink in sinks:
        if not (sink.connector.capabilities.append or sink.connector.capabilities.overwrite):
            continue
        if sink.options.mode is None and sink.connector.holds_rows(spark, sink.options):
            raise DataError(
                "target-not-empty",
                f"{sink.label} already holds rows",
                at=sink.at,
                hint="say what to do with them: WITH (mode = 'append') keeps them, 'overwrite' replaces them",
            )


def deliver(
    spark: SparkSession, pipeline: Pipeline, built: Built, id: str, number: int, state: Path
) -> Delivered:
    """Writes one batch to every sink, then accounts for the records that could not be read."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as f

    started = time.monotonic()
    counted = Observation()
    frame = built.frame.observe(counted, f.count(f.lit(1)).alias("rows"))
    now = datetime.now(timezone.utc)
    try:
        if len(pipeline.sinks) > 1:
            frame = frame.persist()
        for position, sink in enumerate(pipeline.sinks):
            batch = Batch(id, f"{position}-{sink.connector.name}", number, now, sink.format)
            _write(frame, sink, batch)
        counts = [(scan, observed(spark, watch)) for scan, watch in built.rejected]
        # Invariant 1: what was rejected is kept before the batch counts as delivered.
        letters = [
            _dead_letters(spark, scan, Batch(id, f"dead_letters-{position}", number, now), state)
            for position, (scan, n) in enumerate(counts)
            if n and scan.options.on_error == "dead_letter"
        ]
    except Exception as failure:
        raise _explained(spark, pipeline, built, failure) from failure
    finally:
        if len(pipeline.sinks) > 1:
            frame.unpersist()
    return Delivered(
        rows=observed(spark, counted),
        rejected=sum(n for _, n in counts),
        dead_letters=tuple(letters),
        seconds=time.monotonic() - started,
    )


def _write(frame: DataFrame, sink: Write, batch: Batch) -> None:
    with _placed(sink):
        sink.connector.write(frame, sink.options, batch)


@contextmanager
def _placed(sink: Write) -> Iterator[None]:
    """Our errors without a place are placed at the sink."""
    try:
        yield
    except PenstockError as failure:
        failure.at = failure.at or sink.at
        raise


def _explained(spark: SparkSession, pipeline: Pipeline, built: Built, failure: Exception) -> PenstockError:
    """Our error for a failed job; for a bad record that Spark met, the record is looked up."""
    if failures.is_malformed(failure):
        for scan in pipeline.root.scans():
            if scan.format is None:
                continue
            first = scan.connector.rejects(spark, scan.options, scan.request).limit(1).collect()
            if first:
                return failures.rejected(first[0].asDict(), scan.at)
    return failures.translate(failure, built.queries)


def _dead_letters(spark: SparkSession, scan: Scan, batch: Batch, state: Path) -> str:
    """Keeps the bad records of a source: payload, error, file, line, source, time."""
    from pyspark.sql import functions as f

    rejects = scan.connector.rejects(spark, scan.options, scan.request)
    letters = rejects.withColumn("source", f.lit(scan.label)).withColumn("time", f.lit(batch.time))
    if scan.dead_letter is not None:
        _write(letters, scan.dead_letter, replace(batch, format=scan.dead_letter.format))
        return scan.dead_letter.label
    folder = (state / "pipelines" / batch.pipeline / "dead_letters").absolute()
    files, (parquet, _) = connectors.by_name("files"), formats.find("parquet")
    assert files.Sink is not None
    options = files.Sink.model_validate({"path": f"{folder}/*.parquet", "mode": "append"})
    files.write(letters, options, replace(batch, format=parquet(parquet.WriteOptions())))
    return str(folder)
