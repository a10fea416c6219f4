"""A batch kept in files until every sink has it, so that it is the same when it runs again.

Rows that come out of a shuffle, a clock or a random number may be others the second time, or stand in other
partitions. A sink that remembers which parts it has must not see that.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.connectors.session_settings import changed
from penstock.engine.state import write_whole

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_MANIFEST = "manifest.json"
_ROWS = "rows"
_ONE_EACH = {
    "spark.sql.files.maxPartitionBytes": str(2**62),
    "spark.sql.files.openCostInBytes": str(2**62),
}
"""Makes each file a partition: none is split, and no two are read together."""


def load(folder: Path) -> dict[str, Any] | None:
    """What was told of a batch that is kept whole; None when there is none."""
    try:
        told: dict[str, Any] = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return told


def save(frame: DataFrame, folder: Path) -> None:
    """Writes the rows; they count once `seal` has run."""
    shutil.rmtree(folder, ignore_errors=True)
    frame.write.parquet(f"file://{folder / _ROWS}")


def seal(folder: Path, about: dict[str, Any]) -> None:
    write_whole(folder / _MANIFEST, json.dumps(about))


@contextmanager
def opened(spark: SparkSession, folder: Path) -> Iterator[DataFrame]:
    """The rows of a sealed batch: partition for partition, and in each row for row, as they were written."""
    with changed(spark, _ONE_EACH):
        yield spark.read.parquet(f"file://{folder / _ROWS}")
