"""Dead letters: what could not be read or delivered, kept with its error, where it was from, and when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.connectors import registry as connectors
from penstock.connectors.base import Batch, Refused
from penstock.engine.state import State
from penstock.formats import registry as formats
from penstock.plan.nodes import Scan, Write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = (
    "payload STRING, encoding STRING, error STRING, stage STRING, source STRING, position STRING,"
    " time TIMESTAMP"
)
"""`encoding` is `base64` for a payload that is no text, and `row` for a row as a JSON object, where the bytes
of the record are not known; `position` is a JSON object; `stage` says whether a record could not be read
(`read`), the query failed on it (`query`), or a row was refused by a sink (`write`)."""


def of_records(rejects: DataFrame, scan: Scan, batch: Batch, stage: str = "read") -> DataFrame:
    """The letters of records of a source that are rejected."""
    from pyspark.sql import functions as f

    known = {"payload", "encoding", "error"}
    encoding = f.col("encoding") if "encoding" in rejects.columns else f.lit("text")
    if "position" in rejects.columns:
        position = f.col("position")
    else:
        position = f.to_json(f.struct(*(c for c in rejects.columns if c not in known)))
    return rejects.select(
        "payload",
        encoding.alias("encoding"),
        "error",
        f.lit(stage).alias("stage"),
        f.lit(scan.label).alias("source"),
        position.alias("position"),
        f.lit(batch.time).alias("time"),
    )


def of_rows(spark: SparkSession, refused: Sequence[Refused], sink: Write, batch: Batch) -> DataFrame:
    """The letters of rows that a sink refused."""
    rows = [(r.payload, "text", r.error, "write", sink.label, None, batch.time) for r in refused]
    return spark.createDataFrame(rows, COLUMNS)


def store(letters: DataFrame, place: Write | None, batch: Batch, state: State) -> str:
    """Puts letters where the statement says, or into the pipeline's own folder; says where."""
    if place is not None:
        place.connector.write(letters, place.options, replace(batch, format=place.format))
        return place.label
    files, (parquet, _) = connectors.by_name("files"), formats.find("parquet")
    assert files.Sink is not None
    options = files.Sink.model_validate({"path": f"{state.dead_letters}/*.parquet", "mode": "append"})
    files.write(letters, options, replace(batch, format=parquet(parquet.WriteOptions())))
    return str(state.dead_letters)
