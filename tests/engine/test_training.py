from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.engine.training import work

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
def test_the_work_runs_to_its_end(spark: SparkSession, tmp_path: Path) -> None:
    session = spark.newSession()
    work(session, tmp_path)
    counts = {name: session.read.parquet(str(tmp_path / name)).count() for name in ("json", "csv", "python")}
    assert counts == {"json": 50, "csv": 50, "python": 2}
    assert session.read.csv(str(tmp_path / "joined"), header=True).count() == 50
